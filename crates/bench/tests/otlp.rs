//! `umbra-bench otlp` as a user runs it, on a Postgres of its own: exports in, figures out, and each call filed once.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that meets an error fails; `PATH` is its own"
)]

use std::process::{Command, Output};

use serde_json::Value;

/// Runs the bench, without any setting but those given. The service is the `umbra` beside it, which a build of the
/// workspace makes.
fn otlp(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_umbra-bench"));
    command.arg("otlp").args(args).env_clear();
    let kept = ["PATH", "HOME", "UMBRA_PG_BIN"].into_iter();
    command.envs(kept.filter_map(|name| Some((name, std::env::var_os(name)?)))).output().unwrap()
}

#[test]
fn replayed_exports_are_accepted_and_each_call_is_filed() {
    let output = otlp(&["--seconds", "1", "--connections", "1", "--json"]);
    let complaints = String::from_utf8_lossy(&output.stderr);
    // A call that is missing or filed twice is a failure of the bench itself.
    assert!(output.status.success(), "{complaints}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [umbra] = report["receivers"].as_array().unwrap().as_slice() else { panic!("{report}") };
    for figure in ["records_per_s", "exports_per_s", "p50_ms", "p99_ms"] {
        assert!(umbra[figure].as_f64().unwrap() > 0.0, "{figure}: {report}");
    }
    assert_eq!((umbra["refused"].as_u64(), umbra["rejected"].as_u64()), (Some(0), Some(0)), "{report}");
    assert!(umbra["filed"]["events"].as_u64() > Some(100), "{report}");
}

#[test]
fn folder_without_captures_and_a_pid_without_a_peer_are_refused() {
    let folder = tempfile::TempDir::new().unwrap();
    let empty = otlp(&["--captures", folder.path().to_str().unwrap()]);
    assert_eq!(empty.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&empty.stderr).contains("has no captures"));
    assert_eq!(otlp(&["--peer-pid", "1"]).status.code(), Some(2));
}
