//! Writes reviews to files: the observations log, and a page for each.

use std::{fs, io, path::PathBuf, sync::Arc};

use parking_lot::Mutex;

use super::{Observation, journal::ObservationsLog, pages, private};
use umbra_store::{findings::FindingItem, reviews::Review};

/// A review file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be written: {cause}", path.display())]
pub struct ArtifactError {
    pub(super) path: PathBuf,
    pub(super) cause: io::Error,
}

/// Writer of finished reviews. Writing one again changes nothing.
#[derive(Debug)]
pub struct Artifacts {
    log: PathBuf,
    journal: Mutex<ObservationsLog>,
    /// `None` where pages are switched off.
    pages: Option<PathBuf>,
}

impl Artifacts {
    /// Returns a writer into this log, rotated after so many bytes with so many full files kept, and this folder of
    /// pages, if any.
    pub fn new(log: PathBuf, max_bytes: u64, keep: u32, pages: Option<PathBuf>) -> Self {
        Self { journal: Mutex::new(ObservationsLog::new(log.clone(), max_bytes, keep)), log, pages }
    }

    /// Returns the first of two folders that can be written to; the second, where neither can: the write then fails
    /// with the cause.
    pub fn writable(first: PathBuf, second: PathBuf) -> PathBuf {
        let probe = first.join(format!(".umbra-{}", std::process::id()));
        let tried =
            private::create_dir(&first).and_then(|()| fs::write(&probe, [])).and_then(|()| fs::remove_file(&probe));
        if tried.is_ok() { first } else { second }
    }

    /// Writes the page of one review, unless it exists; returns its path, if pages are written.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn write_page(&self, review: &Review) -> Result<Option<PathBuf>, ArtifactError> {
        let Some(dir) = self.pages.clone() else { return Ok(None) };
        let (folder, review) = (dir.clone(), review.clone());
        let written = tokio::task::spawn_blocking(move || {
            private::create_dir(&folder)?;
            pages::write(&folder, &review)
        });
        let written = written.await.unwrap_or_else(|_| Err(io::Error::other("the writer has failed")));
        written.map(Some).map_err(|cause| ArtifactError { path: dir, cause })
    }

    /// Writes finished reviews with their findings, and findings of looks with the versions of their shadows, off the
    /// threads that serve requests. Looks have no pages.
    ///
    /// # Errors
    /// A file cannot be written: some may be. Write them all again.
    pub async fn write(
        self: &Arc<Self>,
        reviews: &[Review],
        looks: &[(FindingItem, String)],
    ) -> Result<(), ArtifactError> {
        let (artifacts, reviews, looks) = (Arc::clone(self), reviews.to_vec(), looks.to_vec());
        let written = tokio::task::spawn_blocking(move || artifacts.write_blocking(reviews, looks)).await;
        let lost = |_| ArtifactError { path: self.log.clone(), cause: io::Error::other("the writer has failed") };
        written.map_err(lost)?
    }

    fn write_blocking(&self, reviews: Vec<Review>, looks: Vec<(FindingItem, String)>) -> Result<(), ArtifactError> {
        if let Some(dir) = &self.pages {
            let fault = |cause| ArtifactError { path: dir.clone(), cause };
            private::create_dir(dir).map_err(fault)?;
            reviews.iter().try_for_each(|review| pages::write(dir, review).map(drop)).map_err(fault)?;
        }
        let looks = Observation::of_looks(looks);
        let observations: Vec<Observation> = reviews.into_iter().map(Into::into).chain(looks).collect();
        let mut journal = self.journal.lock();
        journal.append(&observations).map_err(|cause| ArtifactError { path: self.log.clone(), cause })
    }
}
