//! Reads labelled texts from `NAME*.jsonl` files or folders of them. A row that cannot be read is a fault with its
//! place and reason.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow, bail};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// Text that is known to be bad or benign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LabelledText {
    /// Unique in its set; the place in the file where the file gives none.
    pub id: String,
    pub text: String,
    pub bad: bool,
    /// Origin of the text; empty if unknown.
    pub source: String,
}

/// Event, labelled with its triggers.
#[derive(Debug)]
pub(super) struct LabelledEvent {
    pub id: String,
    /// Event as a client would post it.
    pub event: Box<RawValue>,
    /// For each trigger, true if the event shows it.
    pub labels: BTreeMap<String, bool>,
    pub source: String,
    /// File and line, for faults of the event.
    pub place: String,
}

/// Returns the files of each set. The name of a set is a file's name up to its first dot, so `secrets.dev.jsonl` and
/// `secrets.extra.jsonl` are one set.
pub(super) fn files(paths: &[PathBuf]) -> anyhow::Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut sets: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in paths {
        let mut found = Vec::new();
        let about = fs::metadata(path).with_context(|| format!("{} cannot be read", path.display()))?;
        if about.is_dir() {
            for entry in fs::read_dir(path).with_context(|| format!("{} cannot be read", path.display()))? {
                found.push(entry?.path());
            }
            found.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
            if found.is_empty() {
                bail!("{}: no file ends in .jsonl: a set is a file NAME.jsonl of labelled rows", path.display());
            }
            found.sort();
        } else {
            found.push(path.clone());
        }
        for file in found {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let name = name.split('.').next().unwrap_or_default().to_owned();
            sets.entry(name).or_default().push(file);
        }
    }
    Ok(sets)
}

/// Reads the rows `{"text": …, "label": 0 or 1}` of a file.
pub(super) fn rows(path: &Path) -> anyhow::Result<Vec<LabelledText>> {
    #[derive(Deserialize)]
    struct Line {
        id: Option<String>,
        text: String,
        label: Value,
        #[serde(default)]
        source: Option<String>,
    }
    lines(path, |place, line: Line| {
        let bad = label(&line.label).with_context(|| format!("{place}: label"))?;
        let (id, source) = (line.id.unwrap_or_else(|| place.to_owned()), line.source.unwrap_or_default());
        Ok(LabelledText { id, text: line.text, bad, source })
    })
}

/// Reads the rows `{"event": {…}, "labels": {"TRIGGER": 0 or 1, …}}` of a file.
pub(super) fn events(path: &Path) -> anyhow::Result<Vec<LabelledEvent>> {
    #[derive(Deserialize)]
    struct Line {
        id: Option<String>,
        event: Box<RawValue>,
        labels: BTreeMap<String, Value>,
        #[serde(default)]
        source: Option<String>,
    }
    lines(path, |place, line: Line| {
        let labels = line
            .labels
            .iter()
            .map(|(name, value)| Ok((name.clone(), label(value).with_context(|| format!("{place}: labels.{name}"))?)));
        Ok(LabelledEvent {
            labels: labels.collect::<anyhow::Result<_>>()?,
            id: line.id.unwrap_or_else(|| place.to_owned()),
            event: line.event,
            source: line.source.unwrap_or_default(),
            place: place.to_owned(),
        })
    })
}

fn label(value: &Value) -> anyhow::Result<bool> {
    match value {
        Value::Bool(bad) => Ok(*bad),
        _ if value.as_u64() == Some(0) => Ok(false),
        _ if value.as_u64() == Some(1) => Ok(true),
        other => Err(anyhow!("{other} is not 1 (bad) or 0 (benign)")),
    }
}

/// Samples so many rows, from each source and label in proportion, in the order of the file.
pub(super) fn drawn(rows: Vec<LabelledText>, limit: usize, seed: u64) -> Vec<LabelledText> {
    let total = rows.len();
    if limit >= total {
        return rows;
    }
    let mut strata: BTreeMap<(String, bool), Vec<usize>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        strata.entry((row.source.clone(), row.bad)).or_default().push(at);
    }
    // Whole shares first, then one more where the remainder is largest.
    let mut shares: Vec<(usize, usize, Vec<usize>)> =
        strata.into_values().map(|of| (of.len() * limit / total, of.len() * limit % total, of)).collect();
    shares.sort_by_key(|(_, rest, _)| std::cmp::Reverse(*rest));
    let mut missing = limit.saturating_sub(shares.iter().map(|(whole, ..)| whole).sum());
    let mut chosen = Vec::with_capacity(limit);
    for (whole, _, mut of) in shares {
        let more = usize::from(missing > 0);
        missing -= more;
        of.sort_by_key(|at| {
            let text = rows.get(*at).map_or("", |row| row.text.as_str());
            *blake3::hash(format!("{seed} {at} {text}").as_bytes()).as_bytes()
        });
        chosen.extend(of.into_iter().take(whole + more));
    }
    chosen.sort_unstable();
    let mut chosen = chosen.into_iter().peekable();
    rows.into_iter().enumerate().filter_map(|(at, row)| chosen.next_if_eq(&at).map(|_| row)).collect()
}

/// Reads each line that is not blank, with its place.
pub(super) fn lines<L: serde::de::DeserializeOwned, R>(
    path: &Path,
    mut read: impl FnMut(&str, L) -> anyhow::Result<R>,
) -> anyhow::Result<Vec<R>> {
    let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = format!("{}:{}", path.display(), number + 1);
        // serde sees one line only, so it always names line 1.
        let line = serde_json::from_str(line)
            .map_err(|error| anyhow!("{place}: {}", error.to_string().replace("at line 1 ", "at ")))?;
        rows.push(read(&place, line)?);
    }
    if rows.is_empty() {
        bail!("{}: the set has no rows", path.display());
    }
    Ok(rows)
}
