//! Erases an agent's or a task's data from files: pages are removed, lines of the log are overwritten in place.
//!
//! A line keeps its length, so a server that appends to the same file, or rotates it, is not disturbed.

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{
    ArtifactError,
    journal::{HEAD, rotated},
    pages,
};
use umbra_domain::ReviewId;

/// Places where review files may lie.
#[derive(Debug, Clone)]
pub struct Places {
    /// Folders of pages; missing ones count as empty.
    pub pages: Vec<PathBuf>,
    /// Path of the current log.
    pub log: PathBuf,
    /// Most rotated files of the log beside it.
    pub keep: u32,
}

/// Data to erase, by the agent, task or review that a file names.
#[derive(Debug, Clone, Default)]
pub struct ErasureTarget {
    /// Agent whose data is erased.
    pub agent: Option<String>,
    /// Task whose data is erased.
    pub task_id: Option<String>,
    /// Reviews whose data is erased.
    pub reviews: HashSet<ReviewId>,
}

/// Counts of erased data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct ErasedFiles {
    /// Pages of reviews.
    pub pages: u64,
    /// Lines of the observations log.
    pub log_lines: u64,
}

/// Review or look that a page's metadata or a line of the log names.
#[derive(Deserialize)]
pub(super) struct FileMetadata {
    pub(super) review_id: Option<ReviewId>,
    #[serde(default)]
    watched_agent: Option<String>,
    #[serde(default)]
    task_id: Option<String>,
    /// True if [`blank`] has erased the line.
    #[serde(default)]
    erased: bool,
}

impl ErasureTarget {
    fn covers(&self, named: &FileMetadata) -> bool {
        let same = |wanted: &Option<String>, said: &Option<String>| wanted.is_some() && wanted == said;
        let meant = same(&self.agent, &named.watched_agent)
            || same(&self.task_id, &named.task_id)
            || named.review_id.is_some_and(|review| self.reviews.contains(&review));
        meant && !named.erased
    }
}

/// Erases files, or only counts them. A repeated call continues an interrupted one.
///
/// # Errors
/// A file cannot be read, removed or written.
pub async fn erase_files(
    places: Places,
    unwanted: ErasureTarget,
    count_only: bool,
) -> Result<ErasedFiles, ArtifactError> {
    let log = places.log.clone();
    let erased = tokio::task::spawn_blocking(move || erase(&places, &unwanted, count_only)).await;
    erased.map_err(|_| ArtifactError {
        path: log,
        cause: io::Error::other("the contents could not be erased from the files"),
    })?
}

fn erase(places: &Places, unwanted: &ErasureTarget, count_only: bool) -> Result<ErasedFiles, ArtifactError> {
    let mut erased = ErasedFiles::default();
    for dir in &places.pages {
        let fault = |cause| ArtifactError { path: dir.clone(), cause };
        erased.pages += erase_pages(dir, unwanted, count_only).map_err(fault)?;
    }
    // From the newest on: a file that is rotated meanwhile is read again, and none is missed.
    for n in 0..=places.keep {
        let path = if n == 0 { places.log.clone() } else { rotated(&places.log, n) };
        erased.log_lines += blank_lines(&path, unwanted, count_only).map_err(|cause| ArtifactError { path, cause })?;
    }
    Ok(erased)
}

fn erase_pages(dir: &Path, unwanted: &ErasureTarget, count_only: bool) -> io::Result<u64> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut erased = 0;
    for entry in entries {
        let path = entry?.path();
        let ours = path.extension().is_some_and(|extension| extension == "md");
        if ours && pages::named(&path).is_some_and(|named| unwanted.covers(&named)) {
            erased += 1;
            if !count_only {
                fs::remove_file(&path)?;
            }
        }
    }
    Ok(erased)
}

fn blank_lines(path: &Path, unwanted: &ErasureTarget, count_only: bool) -> io::Result<u64> {
    let file = match OpenOptions::new().read(true).write(!count_only).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        opened => opened?,
    };
    let (mut reader, mut at, mut line, mut blanked) = (BufReader::new(&file), 0, Vec::new(), 0);
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let review = match serde_json::from_slice::<FileMetadata>(text) {
            Ok(named) => unwanted.covers(&named).then_some(named.review_id),
            // A line torn by a full disk exists in full elsewhere, and its owner is unknown.
            Err(_) => (text.starts_with(HEAD)).then_some(None),
        };
        if let Some(review) = review {
            if !count_only {
                blank(&file, at, text.len(), review)?;
            }
            blanked += 1;
        }
        at += read as u64;
    }
    if blanked > 0 && !count_only {
        file.sync_data()?;
    }
    Ok(blanked)
}

/// Overwrites a line with a marker of the same length.
fn blank(file: &File, at: u64, length: usize, review: Option<ReviewId>) -> io::Result<()> {
    let review = review.map(|review| format!(", \"review_id\": \"{review}\"")).unwrap_or_default();
    let said = format!("{{\"erased\": true{review}");
    let room = length.saturating_sub(1);
    let said = if said.len() <= room { said.as_str() } else { "{" };
    file.write_all_at(format!("{said:<room$}}}").as_bytes(), at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn erased_log_lines_keep_their_length_and_others_stay() {
        let dir = tempfile::tempdir().expect("a folder");
        let log = dir.path().join("observations.jsonl");
        let line = |n: u32, agent: &str, task: &str| {
            let id = ReviewId(uuid::Uuid::from_u128(n.into()));
            format!(
                "{{\"watched_agent\":\"{agent}\",\"secret\":\"kanarienvogel\",\"review_id\":\"{id}\",\"task_id\":\"{task}\"}}\n"
            )
        };
        let (first, second) = (
            line(1, "a", "t") + &line(2, "b", "t"),
            line(3, "a", "u") + "torn {\n{\"shadow\":\"s\",\"quote\":\"kanarienvogel\n" + &line(4, "b", "v"),
        );
        fs::write(rotated(&log, 1), &first).expect("a file");
        fs::write(&log, &second).expect("a file");
        let places = Places { pages: vec![dir.path().join("missing")], log: log.clone(), keep: 3 };
        let reviews = HashSet::from([ReviewId(uuid::Uuid::from_u128(4))]);
        let unwanted = ErasureTarget { agent: Some("a".into()), task_id: None, reviews };
        let counted = erase_files(places.clone(), unwanted.clone(), true).await.expect("it counts");
        assert_eq!((counted.log_lines, fs::read_to_string(&log).expect("the log")), (4, second.clone()));
        let erased = erase_files(places.clone(), unwanted.clone(), false).await.expect("it erases");
        assert_eq!(erased, counted);
        let (old, new) = (fs::read_to_string(rotated(&log, 1)), fs::read_to_string(&log));
        let (old, new) = (old.expect("the older log"), new.expect("the log"));
        assert_eq!((old.len(), new.len()), (first.len(), second.len()), "whoever appends is not disturbed");
        assert!(old.ends_with(&line(2, "b", "t")) && old.matches("kanarienvogel").count() == 1, "{old}");
        assert!(!new.contains("kanarienvogel") && new.contains("torn {"), "{new}");
        let left: serde_json::Value = serde_json::from_str(old.lines().next().unwrap_or_default()).expect("JSON");
        assert_eq!(left["erased"], true);
        assert_eq!(erase_files(places, unwanted, false).await.expect("it looks"), ErasedFiles::default());
    }
}
