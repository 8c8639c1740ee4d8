//! `umbra-bench fidelity` as a user runs it: contracts in, branches out. It needs no database.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that meets an error fails; `PATH` is its own"
)]

use std::{fs, path::Path, process::Command};

use serde_json::Value;
use tempfile::TempDir;

/// Exit code, standard output and standard error of the command in a folder, without any setting but those given.
fn fidelity(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_umbra-bench"));
    command.arg("fidelity").args(args).current_dir(folder).env_clear();
    let output = command.envs(std::env::var_os("PATH").map(|path| ("PATH", path))).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn json_report(folder: &Path, args: &[&str]) -> Value {
    let (code, answer, complaints) = fidelity(folder, &[args, &["--json"]].concat());
    assert_eq!(code, Some(0), "{complaints}");
    serde_json::from_str(&answer).unwrap()
}

#[test]
fn contract_stubs_match_the_service_more_than_null_answers() {
    let folder = TempDir::new().unwrap();
    let report = json_report(folder.path(), &[]);
    let (null, contracts) = (&report["null"], &report["contracts"]);
    assert!(contracts["n"].as_u64() >= Some(300) && report["domains"].as_array().map(Vec::len) == Some(6), "{report}");
    // Bounds of the claim in docs/quality.md; the report lists the differences.
    assert!(contracts["share"].as_f64() >= Some(0.94), "{report}");
    assert!(null["share"].as_f64() < Some(0.8), "{report}");
    // Each difference is reported, branch for branch.
    let differed = contracts["n"].as_u64().zip(contracts["equal"].as_u64()).map(|(n, equal)| n - equal);
    assert_eq!(report["differed"].as_array().map(|all| all.len() as u64), differed);
    let (code, table, _) = fidelity(folder.path(), &["--markdown"]);
    assert!(code == Some(0) && table.contains("| all | "), "{table}");
    // A file without contracts for these tools: no call that changes something runs, and the agent gets errors.
    fs::write(folder.path().join("none.yaml"), "tools: []").unwrap();
    let without = json_report(folder.path(), &["--tools", "none.yaml"]);
    assert!(without["contracts"]["share"].as_f64() < contracts["share"].as_f64(), "{without}");
}
