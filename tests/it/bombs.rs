//! Small files that expand: `umbra check` refuses each within two seconds of processor time and 128 MiB.
//!
//! The bounds are limits of the child process, which the system enforces: no clock is read here, and other load of the
//! machine does not matter. They are the promised ones, with room for a debug build.

#![expect(clippy::unwrap_used, reason = "a test that meets an error fails")]

use std::{
    fmt::Write,
    path::Path,
    process::{Command, Output},
};

/// Writable memory of a harmless file, in KiB: it takes less than 8 MiB.
const BASELINE: usize = 16 * 1024;
/// Writable memory of a bomb above that, in KiB.
const ABOVE: usize = 128 * 1024;
/// Seconds of processor time; the promise is one in a release build.
const SECONDS: usize = 2;

/// Runs `umbra check` on a shadows file, within these limits.
fn check(file: &Path, kib: usize) -> Output {
    let limited = format!("ulimit -d {kib} && ulimit -t {SECONDS} && exec timeout 60 \"$0\" check --shadows \"$1\"");
    let mut command = Command::new("sh");
    // One thread and one arena: memory reserved for each core is not measured.
    command.env_clear().envs([("PATH", "/usr/bin:/bin"), ("TOKIO_WORKER_THREADS", "1"), ("MALLOC_ARENA_MAX", "1")]);
    command.args(["-c", &limited, env!("CARGO_BIN_EXE_umbra")]).arg(file);
    command.output().unwrap()
}

fn bombs() -> Vec<(&'static str, String, &'static str)> {
    let mut laughs = "a: &a [lol,lol,lol,lol,lol,lol,lol,lol,lol]\n".to_owned();
    for (from, to) in ('a'..'j').zip('b'..='j') {
        writeln!(laughs, "{to}: &{to} [{}]", [format!("*{from}").as_str(); 9].join(",")).unwrap();
    }
    let scalar = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(200_000), vec!["*a"; 20_000].join(","));
    // The worst that passes the length of a text: 16,000 bytes, replayed.
    let replay = format!("a: &a [{}]\nb: [{}]\n", vec!["x".repeat(16_000); 100].join(","), vec!["*a"; 900].join(","));
    let many = format!("a: &a x\nb: [{}]\n", vec!["*a"; 5_000].join(","));
    let anchors = (0..2_000).fold(String::new(), |text, n| text + &format!("k{n}: &a{n} x\n"));
    let nodes = format!("[{}]", vec!["1"; 300_000].join(","));
    let deep = format!("a: {}{}\n", "[".repeat(10_000), "]".repeat(10_000));
    let blocks = (0..200).fold(String::new(), |text, depth| text + &format!("{}a:\n", " ".repeat(depth)));
    let long = "x: ".to_owned() + &"y".repeat(3 * 1024 * 1024);
    let merges = format!("a: &a {{k: v}}\nb:\n{}", "  <<: *a\n".repeat(5_000));
    vec![
        ("billion laughs", laughs, "aliases stand for more than 4096 nodes"),
        ("20,000 aliases of 200 KB", scalar, "at most 16384 are read"),
        ("replayed texts", replay, "with the values of its aliases, have more than 2097152 bytes"),
        ("aliases", many, "more than 1000 aliases"),
        ("anchors", anchors, "more than 1000 anchors"),
        ("nodes", nodes, "more than 100000 values"),
        ("flow depth", deep, "more than 32 deep"),
        ("block depth", blocks, "more than 32 deep"),
        ("bytes", long, "more than 2097152 bytes"),
        ("merges", merges, "more than 1000 merge keys"),
    ]
}

#[test]
fn expanding_files_are_refused_within_memory_and_cpu_limits() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.yaml");
    std::fs::write(&file, umbra_config::EXAMPLE_SHADOWS).unwrap();
    let harmless = check(&file, BASELINE);
    assert!(harmless.status.success(), "{}: {}", harmless.status, String::from_utf8_lossy(&harmless.stderr));
    for (name, bomb, words) in bombs() {
        std::fs::write(&file, bomb).unwrap();
        let refused = check(&file, BASELINE + ABOVE);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{name}: {}: {said}", refused.status);
        assert!(said.contains(words) && said.ends_with("\n1 fault\n"), "{name}: {said}");
        assert!(said.len() < 1_000, "{name}: a fault does not repeat the bomb");
    }
}
