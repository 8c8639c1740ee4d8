//! Checkpoints of the audit on the disk: the key that signs them, and the file that they are appended to. Whoever can
//! change the database alone can change neither.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use ring::{rand::SystemRandom, signature::Ed25519KeyPair};

use super::seal::Checkpoint;
use crate::domain::audit::AuditSeal;

/// The file of checkpoints, in the audit's folder.
pub const FILE: &str = "checkpoints.jsonl";
/// The key, in the audit's folder: PKCS #8, readable by us alone.
const KEY: &str = "checkpoint-key";

/// Signs checkpoints and appends them.
#[derive(Debug)]
pub struct Signer {
    key: Ed25519KeyPair,
    path: PathBuf,
    /// The newest block that a checkpoint of ours is for.
    newest: i64,
}

impl Signer {
    /// With the key of this folder; the first time it makes one.
    ///
    /// # Errors
    /// The folder cannot be written, or the key in it is none.
    pub fn open(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let key = key(&dir.join(KEY))?;
        let path = dir.join(FILE);
        let newest = read(&path)?.iter().map(|checkpoint| checkpoint.block).max().unwrap_or(0);
        Ok(Self { key, path, newest })
    }

    /// Appends a checkpoint of this block, durably, unless there is one.
    ///
    /// # Errors
    /// The file cannot be written: a part of the line may be there.
    pub fn append(&mut self, seal: &AuditSeal, at: Timestamp) -> io::Result<()> {
        if seal.block <= self.newest {
            return Ok(());
        }
        let checkpoint = Checkpoint::sign(&self.key, seal.block, seal.last, &seal.hash, at);
        let mut line = serde_json::to_vec(&checkpoint)?;
        line.push(b'\n');
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.write_all(&line)?;
        file.sync_data()?;
        self.newest = seal.block;
        Ok(())
    }
}

/// The checkpoints of a file; of one that is missing, none. A line that a crash has torn is left out.
///
/// # Errors
/// The file cannot be read, or a line in it is no checkpoint.
pub fn read(path: &Path) -> io::Result<Vec<Checkpoint>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read?,
    };
    let mut checkpoints = Vec::new();
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        match serde_json::from_str(line) {
            Ok(checkpoint) => checkpoints.push(checkpoint),
            Err(_) if line.trim().is_empty() || !line.ends_with('\n') => {}
            Err(error) => {
                let what = format!("{}:{number}: this line is no checkpoint ({error})", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
    }
    Ok(checkpoints)
}

fn key(path: &Path) -> io::Result<Ed25519KeyPair> {
    let unusable = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()));
    match fs::read(path) {
        Ok(bytes) => return Ed25519KeyPair::from_pkcs8(&bytes).map_err(|_| unusable("this is no Ed25519 key")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| unusable("no key can be made"))?;
    // Whole or not at all: a torn key would be none.
    let draft = path.with_extension("new");
    drop(fs::remove_file(&draft));
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&draft)?;
    file.write_all(document.as_ref())?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    if let Some(dir) = path.parent() {
        File::open(dir)?.sync_all()?;
    }
    Ed25519KeyPair::from_pkcs8(document.as_ref()).map_err(|_| unusable("this is no Ed25519 key"))
}
