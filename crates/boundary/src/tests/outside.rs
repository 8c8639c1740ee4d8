//! Tests of the audit outside the database: files are compared line by line, checkpoints with each other and the
//! database.

use std::{
    fs,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};

use super::tampering::{key, record};
use crate::{
    checkpoints::{self, CheckpointGaps, FILE, Signer},
    file_check::FileCheck,
    journal::{Journal, erase},
    record_json::line,
    seal::Checkpoint,
};
use umbra_domain::audit::{AuditFolder, AuditRecord, AuditSeal};

const ROWS: i64 = 24;

/// Rows, and a folder with their files.
fn written(random: &mut StdRng) -> (Vec<AuditRecord>, tempfile::TempDir) {
    let records: Vec<AuditRecord> = (1..=ROWS).map(|seq| record(seq, random)).collect();
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(dir.path(), 2_000).unwrap().unwrap();
    journal.append(&records.iter().map(|record| (record.row.seq, line(record))).collect::<Vec<_>>()).unwrap();
    (records, dir)
}

/// Faults and warnings of the files of a folder.
fn compared(dir: &Path, others: &[PathBuf], moved: i64, records: &[AuditRecord]) -> (Vec<String>, Vec<String>) {
    noted(dir, others, moved, records, ROWS)
}

/// The same if the database recorded `written` as the last row in the files.
fn noted(
    dir: &Path,
    others: &[PathBuf],
    moved: i64,
    records: &[AuditRecord],
    written: i64,
) -> (Vec<String>, Vec<String>) {
    let mut lines = FileCheck::open(dir, others, moved).unwrap();
    let mut faults = Vec::new();
    for record in records {
        faults.extend(lines.compare(record).unwrap().map(|(_, what)| what));
    }
    let (_, more, warnings) = lines.finish(written).unwrap();
    faults.extend(more.into_iter().map(|(_, what)| what));
    (faults, warnings)
}

/// The files of an audit, in order.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    files.sort_by_key(|path| (path.file_name().unwrap() == "audit.jsonl", path.clone()));
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn lines_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// Edits one of the files in a way open to an attacker who can write to the folder.
fn edit(files: &mut Vec<(PathBuf, Vec<u8>)>, random: &mut StdRng) -> &'static str {
    let any = random.random_range(0..files.len());
    let mut lines = lines_of(&files[any].1);
    let at = random.random_range(0..lines.len());
    let how = match random.random_range(0..12) {
        0 => {
            let byte = random.random_range(0..lines[at].len());
            lines[at][byte] ^= 1;
            "a byte was changed"
        }
        1 => {
            lines.remove(at);
            "a line was removed"
        }
        2 => {
            lines.insert(at, lines[at].clone());
            "a line was doubled"
        }
        3 => {
            let twice = [&b"{\"agent\":\"somebody-else\","[..], &lines[at][1..]].concat();
            lines[at] = twice;
            "a member was put before ours"
        }
        4 => {
            lines.truncate(at);
            "a file was cut at a line"
        }
        5 => {
            let text = lines.concat();
            let cut = random.random_range(0..text.len());
            lines = vec![text[..cut].to_vec()];
            "a file was cut"
        }
        6 => {
            lines.clear();
            "a file was emptied"
        }
        7 => {
            lines.insert(at, b"nothing of ours\n".to_vec());
            "a line was put between"
        }
        8 if lines.len() > 1 => {
            let before = lines.clone();
            while lines == before {
                lines.shuffle(random);
            }
            "lines changed places"
        }
        9 => {
            files.remove(any);
            return "a file was removed";
        }
        10 => {
            let other = (any + 1) % files.len();
            let (ours, theirs) = (files[any].1.clone(), files[other].1.clone());
            (files[any].1, files[other].1) = (theirs, ours);
            return "two files changed places";
        }
        _ => {
            let mut random = StdRng::seed_from_u64(random.random());
            let forged = line(&record(ROWS + 1, &mut random)).to_string();
            let (_, last) = files.last_mut().unwrap();
            last.extend(format!("{forged}\n").into_bytes());
            return "a line was forged at the end";
        }
    };
    files[any].1 = lines.concat();
    how
}

#[test]
fn two_thousand_edits_of_the_files_are_found() {
    let mut random = StdRng::seed_from_u64(7817);
    let (records, dir) = written(&mut random);
    assert_eq!(compared(dir.path(), &[], 0, &records), (Vec::new(), Vec::new()));
    let honest = files(dir.path());
    assert!(honest.len() > 3, "{} files", honest.len());
    for n in 0..2_000 {
        let mut edited = honest.clone();
        let how = edit(&mut edited, &mut random);
        for (path, _) in &honest {
            fs::remove_file(path).unwrap_or_default();
        }
        for (path, bytes) in &edited {
            fs::write(path, bytes).unwrap();
        }
        let (faults, _) = compared(dir.path(), &[], 0, &records);
        assert!(!faults.is_empty(), "{n}: {how}: not found");
        assert!(faults.iter().all(|what| what.contains("row") || what.contains("line")), "{faults:?}");
    }
}

#[test]
fn torn_lines_and_unwritten_rows_are_warnings_not_faults() {
    let mut random = StdRng::seed_from_u64(1);
    let (records, dir) = written(&mut random);
    let path = dir.path().join("audit.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() - 5]).unwrap();
    let (faults, warnings) = noted(dir.path(), &[], 0, &records, ROWS - 1);
    assert!(faults.is_empty() && warnings.len() == 2, "{faults:?} {warnings:?}");
    assert!(warnings[0].contains("audit.jsonl:") && warnings[0].contains("incomplete"), "{warnings:?}");
    assert!(warnings[1].contains("rows 24 to 24 are not in the files yet"), "{warnings:?}");
    // Rows that the database recorded as written were there.
    let (faults, _) = compared(dir.path(), &[], 0, &records);
    assert!(faults.len() == 1 && faults[0].contains("missing at the end of the files"), "{faults:?}");
    // A server writes them again, even if it was running while the file was cut or taken.
    let mut journal = Journal::open(dir.path(), 2_000).unwrap().unwrap();
    for harm in [&text[..text.len() - 5], "", &text[..=text.find('\n').unwrap()]] {
        let last = journal.last().unwrap();
        let rest = records.iter().filter(|record| record.row.seq > last);
        journal.append(&rest.map(|record| (record.row.seq, line(record))).collect::<Vec<_>>()).unwrap();
        assert_eq!(compared(dir.path(), &[], 0, &records), (Vec::new(), Vec::new()));
        fs::write(&path, harm).unwrap();
    }
    fs::remove_file(&path).unwrap();
    let last = journal.last().unwrap();
    let rest = records.iter().filter(|record| record.row.seq > last);
    journal.append(&rest.map(|record| (record.row.seq, line(record))).collect::<Vec<_>>()).unwrap();
    assert_eq!(compared(dir.path(), &[], 0, &records), (Vec::new(), Vec::new()));
}

#[test]
fn moved_files_pass_if_their_folder_or_last_row_is_given() {
    let mut random = StdRng::seed_from_u64(2);
    let (records, dir) = written(&mut random);
    let elsewhere = tempfile::tempdir().unwrap();
    let (first, _) = files(dir.path()).remove(0);
    let name = first.file_name().unwrap().to_str().unwrap().to_owned();
    let last: i64 = name["audit-".len()..name.len() - ".jsonl".len()].parse().unwrap();
    fs::rename(&first, elsewhere.path().join(&name)).unwrap();
    let (faults, _) = compared(dir.path(), &[], 0, &records);
    assert!(faults.len() == 1 && faults[0].contains("--files"), "{faults:?}");
    assert_eq!(compared(dir.path(), &[elsewhere.path().to_owned()], 0, &records), (Vec::new(), Vec::new()));
    assert_eq!(compared(dir.path(), &[], last, &records), (Vec::new(), Vec::new()));
    assert!(!compared(dir.path(), &[], last - 1, &records).0.is_empty());
}

#[test]
fn erased_payloads_still_in_files_are_a_warning() {
    let mut random = StdRng::seed_from_u64(3);
    let (mut records, dir) = written(&mut random);
    for record in records.iter_mut().filter(|record| record.row.agent.as_deref() == Some("agent-1")) {
        record.payload = None;
    }
    let (faults, warnings) = compared(dir.path(), &[], 0, &records);
    assert!(faults.is_empty() && warnings.len() == 1 && warnings[0].contains("umbra erase"), "{faults:?} {warnings:?}");
    erase(dir.path(), "agent-1", false).unwrap();
    assert_eq!(compared(dir.path(), &[], 0, &records), (Vec::new(), Vec::new()));
    // An erasure in the files alone is a change.
    erase(dir.path(), "agent-2", false).unwrap();
    assert!(!compared(dir.path(), &[], 0, &records).0.is_empty());
}

fn seal(block: i64) -> AuditSeal {
    AuditSeal { block, first: block, last: block, hash: vec![7; 32] }
}

/// Checkpoints missing from a file, if the database recorded block `told`.
fn missing(dir: &Path, key: &[u8], told: i64, elsewhere: i64) -> CheckpointGaps {
    let path = dir.join(FILE);
    let noted = [AuditFolder { key: key.to_vec(), block: told, written: 0 }];
    CheckpointGaps::from(&path, &checkpoints::read(&path).unwrap(), Some(key), &noted, elsewhere)
}

#[test]
fn every_subset_of_removed_checkpoints_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut signer = Signer::open(dir.path(), &[], 0).unwrap();
    for block in [1, 2, 4, 5, 9] {
        assert!(signer.append(&seal(block), Timestamp::UNIX_EPOCH).unwrap());
    }
    let key = signer.public_key().to_vec();
    let path = dir.path().join(FILE);
    let text = fs::read_to_string(&path).unwrap();
    let clean = missing(dir.path(), &key, 9, 0);
    assert!(clean.faults.is_empty() && clean.warnings.is_empty(), "{clean:?}");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for kept in 0..(1_u32 << lines.len()) - 1 {
        let some: String =
            lines.iter().zip(0..).filter(|(_, at)| (kept >> at) & 1 == 1).map(|(line, _)| *line).collect();
        fs::write(&path, &some).unwrap();
        let found = missing(dir.path(), &key, 9, 0);
        assert!(!found.faults.is_empty(), "{kept:b}: not found");
        // Checkpoints that are known from elsewhere are only a warning.
        let found = missing(dir.path(), &key, 9, 9);
        assert!(found.faults.is_empty() && !found.warnings.is_empty(), "{kept:b}: {found:?}");
        // A server that goes on does not fill the gap.
        let noted = [AuditFolder { key: key.clone(), block: 9, written: 0 }];
        let mut signer = Signer::open(dir.path(), &noted, 0).unwrap();
        assert!(!signer.append(&seal(9), Timestamp::UNIX_EPOCH).unwrap());
        assert!(signer.append(&seal(10), Timestamp::UNIX_EPOCH).unwrap());
        assert!(!missing(dir.path(), &key, 10, 0).faults.is_empty(), "{kept:b}: not found later");
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(missing(dir.path(), &key, 9, 0).faults.len(), 1);
    // Checkpoints of another server are only reported as not here.
    let other = missing(dir.path(), &[7; 32], 0, 0);
    assert!(other.faults.is_empty() && other.warnings.is_empty(), "{other:?}");
    let noted = [AuditFolder { key: vec![7; 32], block: 3, written: 0 }];
    let other = CheckpointGaps::from(&path, &[], Some(&key), &noted, 0);
    assert!(other.faults.is_empty() && other.warnings[0].contains("another server"), "{other:?}");
}

#[test]
fn torn_checkpoint_is_dropped_and_parallel_signers_share_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let keys: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let one = || Signer::open(dir.path(), &[], 0).unwrap().public_key().to_vec();
        let all: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(keys.iter().all(|key| *key == keys[0]));
    assert_eq!(checkpoints::public_key(dir.path()).unwrap().as_ref(), Some(&keys[0]));
    let path = dir.path().join(FILE);
    let mut signer = Signer::open(dir.path(), &[], 0).unwrap();
    signer.append(&seal(1), Timestamp::UNIX_EPOCH).unwrap();
    fs::write(&path, format!("{}{{\"bloc", fs::read_to_string(&path).unwrap())).unwrap();
    let mut signer = Signer::open(dir.path(), &[], 0).unwrap();
    signer.append(&seal(2), Timestamp::UNIX_EPOCH).unwrap();
    let blocks: Vec<i64> = checkpoints::read(&path).unwrap().iter().map(|one| one.block).collect();
    assert_eq!(blocks, [1, 2]);
}

#[test]
fn checkpoint_without_links_is_read_and_needs_a_valid_signature() {
    let pair: Ed25519KeyPair = key();
    let new = Checkpoint::sign(&pair, &seal(1), Timestamp::UNIX_EPOCH, (0, 0));
    assert!(new.is_genuine() && new.key() == pair.public_key().as_ref());
    let old = r#"{"block":1,"seq":3,"hash":"00","at":"1970-01-01T00:00:00Z","public_key":"AAAA","signature":"AAAA"}"#;
    let old: Checkpoint = serde_json::from_str(old).unwrap();
    assert!((old.previous, old.unsigned) == (None, None) && !old.is_genuine());
}
