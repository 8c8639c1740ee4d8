//! What a judge said of each text, a JSON line each, so that a run that was ended goes on where it stood. In: a file.
//! Out: what it holds for the same text, model and shadow; appended: what is new.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::Path,
};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::domain::{Assessment, Category, NanoUsd, Severity};

/// What was said of one text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Reply {
    /// Of which text, model and shadow: see `judge`.
    pub key: String,
    /// The row.
    pub id: String,
    pub assessment: Assessment,
    pub score: Option<u8>,
    pub recommendation: String,
    pub findings: Vec<Found>,
    pub notes: Vec<String>,
    /// Why the model gave no opinion; such a row is asked again.
    pub failure: Option<String>,
    pub calls: i16,
    pub tokens: u64,
    /// In nano-dollars.
    pub cost: NanoUsd,
    /// Milliseconds in calls.
    pub ms: u64,
}

/// A finding, as far as it is worth reading again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Found {
    pub severity: Severity,
    pub category: Category,
    pub rule: String,
    pub description: String,
    pub verified: bool,
}

/// The file.
#[derive(Debug)]
pub(super) struct Replies(File);

impl Replies {
    /// Opens or makes a file; answers what it holds, by key, the last line of a key first of all.
    ///
    /// # Errors
    /// It cannot be written, or a line is no reply: the file is another's, and stays as it is. A last line that breaks
    /// off is taken away, since its run was ended while it wrote.
    pub fn open(path: &Path) -> anyhow::Result<(Self, HashMap<String, Reply>)> {
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .with_context(|| format!("{} cannot be written", path.display()))?;
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(|| format!("{} cannot be read", path.display()))?;
        let mut known = HashMap::new();
        let mut whole = 0;
        for (number, line) in text.split_inclusive('\n').enumerate() {
            match serde_json::from_str::<Reply>(line) {
                Ok(reply) if line.ends_with('\n') => {
                    known.insert(reply.key.clone(), reply);
                }
                Err(error) if line.ends_with('\n') => {
                    bail!("{}:{}: no reply of an earlier run: {error}", path.display(), number + 1);
                }
                _ => break,
            }
            whole += line.len();
        }
        if whole < text.len() {
            file.set_len(whole as u64)?;
            file.seek(SeekFrom::End(0))?;
        }
        Ok((Self(file), known))
    }

    /// Adds a line.
    pub fn add(&mut self, reply: &Reply) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(reply)?;
        line.push(b'\n');
        self.0.write_all(&line).context("the file of replies cannot be written")
    }
}
