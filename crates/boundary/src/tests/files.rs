//! Tests of the audit's files: no line is lost or doubled, whatever happens between two writes.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    checkpoints::{self, Signer},
    journal::{Journal, erase},
};
use umbra_domain::audit::AuditSeal;

fn line(seq: i64, agent: &str) -> (i64, Value) {
    (seq, json!({"seq": seq, "agent": agent, "args": {"to": "a@example.com"}, "args_sha256": "0".repeat(64)}))
}

/// Row numbers of all lines, in the order of the files.
fn numbers(dir: &Path) -> Vec<i64> {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    // The current file comes after the numbered ones.
    files.sort_by_key(|path| (path.file_name().unwrap() == "audit.jsonl", path.clone()));
    let lines = |path: &std::path::PathBuf| {
        fs::read_to_string(path).unwrap().lines().map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    files
        .iter()
        .flat_map(lines)
        .map(|line| serde_json::from_str::<Value>(&line).unwrap()["seq"].as_i64().unwrap())
        .collect()
}

#[test]
fn rotation_and_crashes_lose_no_line() {
    let dir = tempfile::tempdir().unwrap();
    let mut next = 1;
    for round in 0..40 {
        let mut journal = Journal::open(dir.path(), 600).unwrap().unwrap();
        assert!(Journal::open(dir.path(), 600).unwrap().is_none(), "two write to one folder");
        assert_eq!(journal.last().unwrap() + 1, next, "round {round}");
        let lines: Vec<_> = (next..next + 1 + round % 5).map(|seq| line(seq, "a")).collect();
        journal.append(&lines).unwrap();
        next += 1 + round % 5;
        drop(journal);
        // A crash tears the last line: it is written again.
        if round % 3 == 0 {
            let path = dir.path().join("audit.jsonl");
            let text = fs::read_to_string(&path).unwrap();
            let torn = &text[..text.len() - 7];
            fs::write(&path, torn).unwrap();
            next -= 1;
        }
    }
    let mut journal = Journal::open(dir.path(), 600).unwrap().unwrap();
    assert_eq!(journal.last().unwrap() + 1, next);
    journal.append(&[]).unwrap();
    assert_eq!(numbers(dir.path()), (1..next).collect::<Vec<_>>());
    let full =
        fs::read_dir(dir.path()).unwrap().filter(|entry| entry.as_ref().unwrap().metadata().unwrap().len() > 600);
    assert_eq!(full.count(), 0, "a file is larger than it may be");
}

#[test]
fn erasure_removes_an_agents_payloads_and_keeps_lines() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(dir.path(), 400).unwrap().unwrap();
    let lines: Vec<_> = (1..=9).map(|seq| line(seq, if seq % 3 == 0 { "gone" } else { "stays" })).collect();
    journal.append(&lines).unwrap();
    assert_eq!(erase(dir.path(), "gone", true).unwrap(), 3);
    assert_eq!(erase(dir.path(), "gone", false).unwrap(), 3);
    assert_eq!(erase(dir.path(), "gone", false).unwrap(), 0, "done twice");
    // A process that writes on is not disturbed.
    journal.append(&[line(10, "stays")]).unwrap();
    assert_eq!(numbers(dir.path()), (1..=10).collect::<Vec<_>>());
    let said: String =
        fs::read_dir(dir.path()).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    assert_eq!(said.matches("a@example.com").count(), 7);
    assert_eq!(said.matches("\"erased\":true").count(), 3);
}

#[test]
fn checkpoint_key_is_private_and_signs_each_block_once() {
    let dir = tempfile::tempdir().unwrap();
    let seal = |block| AuditSeal { block, first: block, last: block, hash: vec![7; 32] };
    for _ in 0..2 {
        // Opened anew, the signer goes on with the same key.
        let mut signer = Signer::open(dir.path(), &[], 0).unwrap();
        for block in [1, 2, 2, 1, 3] {
            signer.append(&seal(block), Timestamp::UNIX_EPOCH).unwrap();
        }
    }
    let mode = fs::metadata(dir.path().join("checkpoint-key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let path = dir.path().join(checkpoints::FILE);
    let signed = checkpoints::read(&path).unwrap();
    assert_eq!(signed.iter().map(|checkpoint| checkpoint.block).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(signed.iter().all(|checkpoint| checkpoint.is_genuine() && checkpoint.public_key == signed[0].public_key));
    // A torn line is skipped, a wrong one is a fault.
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}{{\"blo")).unwrap();
    assert_eq!(checkpoints::read(&path).unwrap().len(), 3);
    fs::write(&path, format!("nothing\n{text}")).unwrap();
    assert!(checkpoints::read(&path).unwrap_err().to_string().contains(":1: this line is not a checkpoint"));
}
