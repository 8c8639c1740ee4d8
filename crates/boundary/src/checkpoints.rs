//! Checkpoints of the audit on disk: the signing key, and the file that they are appended to. Access to the database
//! alone is not enough to change either.

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use ring::{
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair},
};

use super::{
    row_mac::RowKey,
    row_signature::{named, stamp},
    seal::Checkpoint,
};
use umbra_domain::audit::{AuditFolder, AuditSeal, AuditSigner};

/// Name of the file of checkpoints, in the audit's folder.
pub const FILE: &str = "checkpoints.jsonl";
/// Name of the key file, in the audit's folder: PKCS #8, readable by our user alone.
pub const KEY: &str = "checkpoint-key";

/// Signer of checkpoints, which appends them to their file.
#[derive(Debug)]
pub struct Signer {
    key: Ed25519KeyPair,
    path: std::path::PathBuf,
    /// Newest block that has a checkpoint by our key.
    newest: i64,
    /// Last row from before rows were signed.
    unsigned: i64,
}

impl Signer {
    /// Opens the signer with the key of this folder, which is made the first time. `noted` holds each folder's newest
    /// block as recorded in the database: checkpoints that are gone from our file are missed by it. `unsigned` is the
    /// last unsigned row, used where the file does not say.
    ///
    /// # Errors
    /// The folder cannot be written, or its key is invalid.
    pub fn open(dir: &Path, noted: &[AuditFolder], unsigned: i64) -> io::Result<Self> {
        let key = key(dir)?;
        let path = dir.join(FILE);
        let signed = read(&path)?;
        cut_torn(&path)?;
        let public = key.public_key().as_ref();
        let mut ours: Vec<&Checkpoint> = signed.iter().filter(|checkpoint| checkpoint.key() == public).collect();
        ours.sort_by_key(|checkpoint| std::cmp::Reverse(checkpoint.block));
        // One is added each second: only the newest is worth the time.
        let newest = ours.into_iter().find(|checkpoint| checkpoint.is_genuine()).map(|checkpoint| checkpoint.block);
        let noted = noted.iter().filter(|folder| folder.key == public).map(|folder| folder.block);
        let newest = noted.chain(newest).max().unwrap_or(0);
        let unsigned = signed.iter().filter_map(|checkpoint| checkpoint.unsigned).min().unwrap_or(unsigned);
        Ok(Self { key, path, newest, unsigned })
    }

    /// Public key of the signer.
    pub fn public_key(&self) -> &[u8] {
        self.key.public_key().as_ref()
    }

    /// Appends a checkpoint of this block, durably, unless there is one. Returns true if it did.
    ///
    /// # Errors
    /// The file cannot be written: a part of the line may be there.
    pub fn append(&mut self, seal: &AuditSeal, at: Timestamp) -> io::Result<bool> {
        if seal.block <= self.newest {
            return Ok(false);
        }
        let checkpoint = Checkpoint::sign(&self.key, seal, at, (self.newest, self.unsigned));
        let mut line = serde_json::to_vec(&checkpoint)?;
        line.push(b'\n');
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.write_all(&line)?;
        file.sync_data()?;
        self.newest = seal.block;
        Ok(true)
    }
}

/// Returns the signer of rows by the key of this folder, which is made the first time.
///
/// # Errors
/// The folder cannot be written, or its key is invalid.
pub fn signer(dir: &Path) -> io::Result<AuditSigner> {
    let key = key(dir)?;
    Ok(Arc::new(move |rows| stamp(&key, rows)))
}

/// Returns the key of the rows' MACs, from the key of this folder, which is made the first time.
///
/// # Errors
/// The folder cannot be written, or its key is invalid.
pub fn row_key(dir: &Path) -> io::Result<RowKey> {
    key(dir)?;
    existing_row_key(dir)?.ok_or_else(|| io::Error::other(format!("{}: the key no longer exists", dir.display())))
}

/// Like [`row_key`], but `None` where there is no key.
///
/// # Errors
/// The key cannot be read.
pub fn existing_row_key(dir: &Path) -> io::Result<Option<RowKey>> {
    Ok(content(&dir.join(KEY))?.map(|key| RowKey::of(&key)))
}

/// Public key of this folder; `None` where it has no key.
///
/// # Errors
/// The key cannot be read, or is invalid.
pub fn public_key(dir: &Path) -> io::Result<Option<Vec<u8>>> {
    Ok(existing(&dir.join(KEY))?.map(|key| key.public_key().as_ref().to_vec()))
}

/// Checkpoints that are missing from a folder: those that later ones refer to, and the end of the file as recorded in
/// the database.
#[derive(Debug, Default)]
pub struct CheckpointGaps {
    /// Faults.
    pub faults: Vec<String>,
    /// Notes that are no faults.
    pub warnings: Vec<String>,
}

impl CheckpointGaps {
    /// Finds missing checkpoints of the folder with this key. Signatures are not checked here. `elsewhere` is the
    /// newest block among checkpoints from other places: what those vouch for is only a warning.
    pub fn from(path: &Path, own: &[Checkpoint], key: Option<&[u8]>, noted: &[AuditFolder], elsewhere: i64) -> Self {
        let mut missing = Self::default();
        let path = path.display();
        let here: HashSet<(&str, i64)> = own.iter().map(|one| (one.public_key.as_str(), one.block)).collect();
        // Two servers of one folder may sign one block, each at a time of its own.
        let mut signatures = HashSet::new();
        for doubled in own.iter().filter(|one| !signatures.insert(one.signature.as_str())) {
            missing.faults.push(format!("{path}: the checkpoint of block {} occurs twice", doubled.block));
        }
        if let Some(key) = key
            && !own.is_empty()
            && own.iter().all(|one| one.key() != key)
        {
            missing.faults.push(format!(
                "{path} has no checkpoint by the key beside it ({}): {KEY} has replaced another key; restore that key, \
                 or if the change was intended, start the server, which then signs with the new key",
                named(key)
            ));
        }
        for checkpoint in own {
            let previous = checkpoint.previous.unwrap_or(0);
            if previous > 0 && !here.contains(&(checkpoint.public_key.as_str(), previous)) {
                missing.tell(
                    previous <= elsewhere,
                    format!(
                        "{path}: the checkpoint of block {previous} is missing, which the checkpoint of block {} \
                         followed: restore the file from a copy, or give the copy by --checkpoint",
                        checkpoint.block
                    ),
                );
            }
        }
        for folder in noted.iter().filter(|folder| folder.block > 0) {
            let name = STANDARD.encode(&folder.key);
            let theirs = own.iter().filter(|checkpoint| checkpoint.public_key == name);
            let newest = theirs.map(|checkpoint| checkpoint.block).max();
            let here = newest.is_some() || key == Some(&folder.key);
            let newest = newest.unwrap_or(0);
            if here && newest < folder.block {
                missing.tell(
                    folder.block <= elsewhere,
                    format!(
                        "{path} ends with block {newest}, but block {} was signed in it: the end of the file is \
                         missing; restore the file from a copy, or give the copy by --checkpoint",
                        folder.block
                    ),
                );
            } else if !here && folder.block > elsewhere {
                missing.warnings.push(format!(
                    "another server (key {}) signed up to block {}: give its checkpoints.jsonl by --checkpoint to \
                     compare its checkpoints as well",
                    named(&folder.key),
                    folder.block
                ));
            }
        }
        missing
    }

    fn tell(&mut self, known: bool, what: String) {
        if known { self.warnings.push(what) } else { self.faults.push(what) }
    }
}

/// Reads the checkpoints of a file; none if it is missing. A line torn by a crash is skipped.
///
/// # Errors
/// The file cannot be read, or a line in it is no checkpoint.
pub fn read(path: &Path) -> io::Result<Vec<Checkpoint>> {
    let mut checkpoints = Vec::new();
    let bytes = content(path)?.unwrap_or_default();
    for (line, number) in bytes.split_inclusive(|byte| *byte == b'\n').zip(1..) {
        match serde_json::from_slice(line) {
            Ok(checkpoint) => checkpoints.push(checkpoint),
            Err(_) if line.trim_ascii().is_empty() || !line.ends_with(b"\n") => {}
            Err(error) => {
                let what = format!("{}:{number}: this line is not a checkpoint ({error})", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
    }
    Ok(checkpoints)
}

/// Cuts off a last line torn by a crash: the next one would be torn with it.
fn cut_torn(path: &Path) -> io::Result<()> {
    let bytes = content(path)?.unwrap_or_default();
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if whole < bytes.len() {
        OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
    }
    Ok(())
}

/// Reads the key of a folder; makes one where there is none.
fn key(dir: &Path) -> io::Result<Ed25519KeyPair> {
    fs::create_dir_all(dir)?;
    let path = dir.join(KEY);
    if let Some(key) = existing(&path)? {
        return Ok(key);
    }
    let none = || io::Error::other(format!("{}: the key cannot be created", path.display()));
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| none())?;
    // Written whole or not at all: a torn key would be invalid. And only once: of two processes, the second takes the
    // first one's.
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).map_err(|_| none())?;
    let draft = path.with_extension(named(pair.public_key().as_ref()));
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&draft)?;
    file.write_all(document.as_ref())?;
    file.sync_all()?;
    let made = fs::hard_link(&draft, &path);
    fs::remove_file(&draft)?;
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => File::open(dir)?.sync_all()?,
    }
    existing(&path)?.ok_or_else(none)
}

/// Content of a file; none if it is missing.
fn content(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

fn existing(path: &Path) -> io::Result<Option<Ed25519KeyPair>> {
    let Some(bytes) = content(path)? else { return Ok(None) };
    let none =
        |_| io::Error::new(io::ErrorKind::InvalidData, format!("{}: this is not an Ed25519 key", path.display()));
    Ed25519KeyPair::from_pkcs8(&bytes).map(Some).map_err(none)
}
