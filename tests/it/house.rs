//! The rules of ARCHITECTURE.md that a compiler does not know: who may import whom, what is done in which place, how
//! large a file may be, and that migrations are only ever added. In: the text of the repository. Out: one line per
//! fault, with its file, its line, the rule, and what to do. It compiles and runs nothing of the service.

mod scan;

use std::{collections::BTreeMap, fs, io, path::Path};

use scan::{is_word, paths, split};

/// The nouns, and what every part may stand on.
const GROUND: &[&str] = &["domain", "clock", "config", "telemetry", "store", "checks", "policy", "llm"];
/// The rooms, in the order in which a fact walks through them.
const ROOMS: &[&str] = &[
    "ingest",
    "watch",
    "budget",
    "queue",
    "review",
    "findings",
    "breaker",
    "reflexion",
    "briefing",
    "webhooks",
    "workspace",
];
const WINGS: &[&str] = &["boundary", "sidecar"];
const PIPELINE: &[&str] = &["pipeline"];
const WINDOWS: &[&str] = &["api", "mcp", "dashboard"];
const FRAME: &[&str] = &["cli", "app", "lifecycle", "main", "lib"];

/// What a top-level module may import, and the rule in words; `None` is a module that the plan does not have.
fn importable(module: &str) -> Option<(Vec<&'static str>, &'static str)> {
    let below_windows = [GROUND, ROOMS, WINGS, PIPELINE];
    let (lists, rule): (Vec<&[&str]>, _) = match module {
        "domain" => (vec![], "domain imports nothing of ours"),
        _ if GROUND.contains(&module) => (vec![&["domain", "clock"]], "the ground imports only domain and clock"),
        _ if ROOMS.contains(&module) || WINGS.contains(&module) => {
            (vec![GROUND], "a room or wing imports the ground, never another room; let pipeline join them")
        }
        "pipeline" => (vec![GROUND, ROOMS, WINGS], "pipeline imports rooms, wings and the ground"),
        "api" => ([&below_windows[..], &[&["lifecycle"]]].concat(), "api imports pipeline and below, and lifecycle"),
        _ if WINDOWS.contains(&module) => (below_windows.to_vec(), "a window imports pipeline and below, no window"),
        "cli" => (
            [&below_windows[..], &[&["app", "lifecycle"]]].concat(),
            "cli imports pipeline and below, app and lifecycle",
        ),
        "app" => ([&below_windows[..], &[WINDOWS, &["lifecycle"]]].concat(), "app imports everything but cli"),
        "lifecycle" => ([&below_windows[..], &[WINDOWS]].concat(), "lifecycle imports everything but cli and app"),
        "main" | "lib" => ([&below_windows[..], &[WINDOWS, FRAME]].concat(), "main imports anything"),
        _ => return None,
    };
    Some((lists.concat(), rule))
}

/// What is used in one place only: a path, where (the beginning of a file's path, or `/` and a part of it), and
/// what others do instead.
const PLACES: &[(&str, &[&str], &str)] = &[
    ("sqlx", &["src/store/"], "write the query in store and call it"),
    ("sqlx_core", &["src/store/"], "write the query in store and call it"),
    ("jiff_sqlx", &["src/store/"], "write the query in store and call it"),
    ("axum", &["src/api/", "src/dashboard/"], "keep HTTP in api; hand plain values down"),
    ("hyper", &["src/api/"], "keep HTTP in api; hand plain values down"),
    ("hyper_util", &["src/api/"], "keep HTTP in api; hand plain values down"),
    ("tower", &["src/api/"], "keep HTTP in api; hand plain values down"),
    ("reqwest", &["src/llm/", "src/mcp/", "/webhook"], "requests go out through llm, mcp or the webhook sender"),
    (
        "nix",
        &["src/store/postgres", "src/lifecycle", "src/mcp/upstream/child"],
        "signals belong to lifecycle, processes to those who start them",
    ),
    ("rustix", &["src/workspace/"], "folders that others write to are entered through workspace"),
    ("anyhow", &["src/cli/", "src/app", "src/main.rs"], "define a thiserror enum beside the operation"),
    ("Timestamp::now", &["src/clock.rs"], "take a clock::Clock"),
    ("Zoned::now", &["src/clock.rs"], "take a clock::Clock"),
    ("SystemTime::now", &["src/clock.rs"], "take a clock::Clock"),
    // Pure functions of that module are anyone's: see `PURE`.
    ("std::env", &["src/config/", "src/cli/", "src/main.rs"], "make it a setting of config"),
];

/// Paths below those of `PLACES` that may be used anywhere.
const PURE: &[&str] = &["std::env::split_paths", "std::env::join_paths", "std::env::consts"];

/// Names that say nothing of what is inside.
const EMPTY_NAMES: &[&str] =
    &["util", "utils", "common", "core", "types", "helper", "helpers", "manager", "managers", "misc"];

/// Words of SQL that read a clock which tests cannot set.
const SQL_CLOCKS: &[&str] =
    &["now()", "transaction_timestamp()", "current_timestamp", "current_date", "current_time", "localtimestamp"];

const MOST_LINES: usize = 600;
const MEDIAN_LINES: usize = 180;

/// Every fault of a tree: file path to text.
fn faults(tree: &BTreeMap<String, String>) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in tree {
        let source = Source::new(path, text);
        source.check_form(&mut faults);
        source.check_clock_of_sql(&mut faults);
        if !source.is_test() {
            source.check_imports(&mut faults);
            source.check_places(&mut faults);
        }
    }
    let mut lines: Vec<_> =
        tree.iter().filter(|(path, _)| is_rust(path)).map(|(_, text)| text.lines().count()).collect();
    lines.sort_unstable();
    let median = lines.get(lines.len() / 2).copied().unwrap_or_default();
    if median >= MEDIAN_LINES {
        faults.push(format!(
            "src:1: the median file has {median} lines, at most {MEDIAN_LINES} are wanted; split the large ones"
        ));
    }
    faults
}

/// One file, with its comments and its string literals told apart from its code.
struct Source<'a> {
    path: &'a str,
    text: &'a str,
    /// The text with comments and literals blanked.
    code: String,
    /// The text with everything but literals blanked; of a file of SQL, everything but comments.
    literals: String,
    /// The paths that the code names, with their lines.
    paths: Vec<(usize, Vec<String>)>,
}

impl<'a> Source<'a> {
    fn new(path: &'a str, text: &'a str) -> Self {
        let (code, literals) = if is_rust(path) { split(text) } else { (String::new(), without_sql_comments(text)) };
        let paths = paths(&code);
        Self { path, text, code, literals, paths }
    }

    /// The top-level module that the file belongs to.
    fn module(&self) -> &'a str {
        let below = self.path.strip_prefix("src/").unwrap_or(self.path);
        below.split('/').next().unwrap_or(below).trim_end_matches(".rs")
    }

    fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs")
    }

    /// Modules between the crate's root and the file's content: 1 for `src/clock.rs` and `src/api/mod.rs`.
    fn depth(&self) -> usize {
        let is_face = ["/mod.rs", "src/lib.rs", "src/main.rs"].iter().any(|end| self.path.ends_with(end));
        self.path.matches('/').count() - usize::from(is_face)
    }

    fn fault(&self, line: usize, message: &str) -> String {
        format!("{}:{line}: {message}", self.path)
    }

    fn check_form(&self, faults: &mut Vec<String>) {
        if !is_rust(self.path) {
            return;
        }
        if importable(self.module()).is_none() {
            faults.push(self.fault(1, "the plan has no such module; put the file into a room, or add the room to ARCHITECTURE.md and to this test"));
        }
        if let Some(name) = self.path.trim_end_matches(".rs").split('/').find(|part| EMPTY_NAMES.contains(part)) {
            faults.push(self.fault(1, &format!("`{name}` says nothing; name the file for what is in it")));
        }
        if !self.text.starts_with("//!") {
            faults.push(self.fault(1, "a file opens with `//!`; say what it does, takes and gives"));
        }
        let lines = self.text.lines().count();
        if lines > MOST_LINES {
            faults.push(
                self.fault(lines, &format!("{lines} lines, at most {MOST_LINES}; the file is two things: split it")),
            );
        }
        for (needle, instead) in [
            ("#[allow", "use #[expect(.., reason = \"..\")], which says when it is no longer needed"),
            ("#![allow", "use #[expect(.., reason = \"..\")], which says when it is no longer needed"),
            ("todo!", "finish it or leave it out"),
            ("unimplemented!", "finish it or leave it out"),
        ] {
            for line in lines_with(&self.code, |line| line.contains(needle)) {
                faults.push(self.fault(line, &format!("`{needle}` does not occur here; {instead}")));
            }
        }
    }

    fn check_clock_of_sql(&self, faults: &mut Vec<String>) {
        if is_rust(self.path) && self.module() != "store" {
            return;
        }
        let sql = self.literals.to_lowercase().replace(" (", "(");
        for clock in SQL_CLOCKS {
            for line in lines_with(&sql, |line| has_word(line, clock)) {
                let message = format!("SQL reads `{clock}`; call our function clock(), which tests can set");
                faults.push(self.fault(line, &message));
            }
        }
    }

    fn check_imports(&self, faults: &mut Vec<String>) {
        let module = self.module();
        let Some((allowed, rule)) = importable(module) else { return };
        for (line, path) in &self.paths {
            let supers = path.iter().take_while(|part| *part == "super").count();
            let target = match path.first().map(String::as_str) {
                Some("crate" | "umbra") => path.get(1),
                Some("super") if supers >= self.depth() => path.get(supers),
                _ => None,
            };
            let Some(target) = target.filter(|target| importable(target).is_some() && target.as_str() != module) else {
                continue;
            };
            if !allowed.contains(&target.as_str()) {
                faults.push(self.fault(*line, &format!("{module} imports {target}, but {rule}")));
            }
        }
    }

    fn check_places(&self, faults: &mut Vec<String>) {
        for (what, places, instead) in PLACES {
            let here = |place: &&str| {
                if place.starts_with('/') { self.path.contains(*place) } else { self.path.starts_with(*place) }
            };
            if places.iter().any(here) {
                continue;
            }
            let wanted: Vec<_> = what.split("::").collect();
            let names_it = |path: &[String]| match wanted.len() {
                1 => path.first().map(String::as_str) == Some(*what),
                length => path.windows(length).any(|parts| parts == wanted),
            };
            let is_pure = |path: &[String]| PURE.iter().any(|pure| path.join("::").starts_with(pure));
            for (line, _) in self.paths.iter().filter(|(_, path)| names_it(path) && !is_pure(path)) {
                faults.push(self.fault(*line, &format!("`{what}` is used only in {}; {instead}", places.join(", "))));
            }
        }
    }
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

/// Numbers, from 1, of the lines that a test holds for.
fn lines_with(text: &str, holds: impl Fn(&str) -> bool) -> Vec<usize> {
    text.lines().zip(1..).filter(|(line, _)| holds(line)).map(|(_, number)| number).collect()
}

/// Whether a word occurs that is not a part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(start, _)| {
        let (before, after) = (&text[..start], &text[start + word.len()..]);
        !before.ends_with(is_word) && (word.ends_with(')') || !after.starts_with(is_word))
    })
}

fn without_sql_comments(text: &str) -> String {
    text.lines().map(|line| line.split("--").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// What differs between the migrations and the list of their sums, `SUM  NAME` a line.
fn migration_faults(sums: &BTreeMap<String, String>, listed: &str) -> Vec<String> {
    let listed: BTreeMap<_, _> =
        listed.lines().filter_map(|line| line.split_once("  ").map(|(sum, name)| (name, sum))).collect();
    let mut faults = Vec::new();
    for (name, sum) in sums {
        match listed.get(name.as_str()) {
            None => faults.push(format!("migrations/{name}:1: not in checksums.txt; run UMBRA_UPDATE=1 cargo test")),
            Some(known) if known != sum => faults
                .push(format!("migrations/{name}:1: a migration that was released does not change; add another one")),
            Some(_) => {}
        }
    }
    let lost = listed.keys().filter(|name| !sums.contains_key(**name));
    faults.extend(
        lost.map(|name| format!("migrations/{name}:1: listed in checksums.txt but gone; migrations are only added")),
    );
    faults
}

/// The files with these endings below a directory of the repository.
fn load(below: &str, endings: &[&str]) -> io::Result<BTreeMap<String, String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = BTreeMap::new();
    let mut waiting = vec![root.join(below)];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            if path.is_dir() {
                waiting.push(path);
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                files.insert(name, fs::read_to_string(path)?);
            }
        }
    }
    Ok(files)
}

fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults of the house:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn the_house_keeps_its_rules() {
    let mut tree = load("src", &[".rs", ".sql"]).expect("src can be read");
    tree.extend(load("migrations", &[".sql"]).expect("migrations can be read"));
    assert!(tree.contains_key("src/lib.rs"), "the test looks at the wrong directory");
    assert_none(&faults(&tree));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "whether to rewrite the list is said by the environment")]
fn migrations_are_only_added() {
    let files = load("migrations", &[".sql"]).expect("migrations can be read");
    let name = |path: &str| path.trim_start_matches("migrations/").to_owned();
    let sum = |text: &str| blake3::hash(text.as_bytes()).to_hex().to_string();
    let sums: BTreeMap<_, _> = files.iter().map(|(path, text)| (name(path), sum(text))).collect();
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/checksums.txt");
    if std::env::var_os("UMBRA_UPDATE").is_some() {
        let lines: Vec<_> = sums.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
        fs::write(&list, lines.concat()).expect("the list can be written");
    }
    assert_none(&migration_faults(&sums, &fs::read_to_string(list).unwrap_or_default()));
}

/// Name and version of each package of a lock file.
fn locked<'a>(lock: &'a str) -> Vec<(&'a str, &'a str)> {
    let entries = lock.split("[[package]]\nname = \"").skip(1);
    let entry = |entry: &'a str| {
        let (name, rest) = entry.split_once('"')?;
        let (version, _) = rest.strip_prefix("\nversion = \"")?.split_once('"')?;
        Some((name, version))
    };
    entries.filter_map(entry).collect()
}

#[test]
fn what_is_fuzzed_is_built_as_the_service_is() {
    let read = |name: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect(name);
    let (manifest, service) = (read("fuzz/Cargo.toml"), read("Cargo.toml"));
    let own = |line: &&str| line.contains(" = ") && !line.starts_with("libfuzzer-sys") && !service.contains(*line);
    let listed = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let other: Vec<_> = listed.take_while(|line| !line.starts_with('[')).filter(own).collect();
    assert!(other.is_empty(), "fuzz/Cargo.toml: as in Cargo.toml these lines should be: {other:?}");
    let (lock, service) = (read("fuzz/Cargo.lock"), read("Cargo.lock"));
    let service = locked(&service);
    let differs = |(name, version): &(&str, &str)| {
        service.iter().any(|(other, _)| other == name) && !service.contains(&(*name, *version))
    };
    let drifted: Vec<_> = locked(&lock).into_iter().filter(differs).collect();
    assert!(
        drifted.is_empty(),
        "fuzz/Cargo.lock differs from Cargo.lock in {drifted:?}: cp Cargo.lock fuzz/ && (cd fuzz && cargo fetch)"
    );
}

/// A tree of files, each with the opening line it needs.
fn tree(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(path, text)| ((*path).to_owned(), format!("//! x\n{text}"))).collect()
}

#[test]
fn planted_faults_are_found() {
    let planted = [
        ("src/domain/event.rs", "use crate::clock::Clock;", 2, "domain imports clock"),
        ("src/clock.rs", "fn f() { crate::store::x() }", 2, "clock imports store"),
        ("src/store/mod.rs", "use crate::{domain::Event,\n  clock, telemetry::Log};", 3, "store imports telemetry"),
        ("src/ingest/mod.rs", "use crate::watch;", 2, "ingest imports watch"),
        ("src/ingest/native.rs", "fn f() -> super::super::budget::Meter {}", 2, "ingest imports budget"),
        ("src/boundary/gate.rs", "use crate::sidecar::Session;", 2, "boundary imports sidecar"),
        ("src/pipeline/tick.rs", "use crate::{lifecycle::Tasks};", 2, "pipeline imports lifecycle"),
        ("src/api/events.rs", "use crate::mcp::Proxy;", 2, "api imports mcp"),
        ("src/mcp/mod.rs", "use crate::lifecycle::Tasks;", 2, "mcp imports lifecycle"),
        ("src/api/mod.rs", "use crate::app::App;", 2, "api imports app"),
        ("src/lifecycle.rs", "use crate::app::App;", 2, "lifecycle imports app"),
        ("src/app.rs", "use crate::cli;", 2, "app imports cli"),
        ("src/watch/mod.rs", "let x = umbra::queue::f();", 2, "watch imports queue"),
        ("src/api/events.rs", "async fn f(pool: &sqlx::PgPool) {}", 2, "`sqlx` is used only in src/store/"),
        ("src/findings/mod.rs", "use sqlx as sql;", 2, "`sqlx` is used only"),
        ("src/review/mod.rs", "use axum::Json;", 2, "`axum` is used only"),
        ("src/checks/mod.rs", "use ::reqwest::Client;", 2, "`reqwest` is used only"),
        ("src/app.rs", "use hyper_util::rt::TokioIo;", 2, "`hyper_util` is used only"),
        ("src/store/meter.rs", "nix::unistd::fork();", 2, "`nix` is used only"),
        ("src/queue/mod.rs", "let t = jiff::Timestamp::now();", 2, "take a clock::Clock"),
        ("src/llm/mod.rs", "use std::{fmt, env};", 2, "`std::env` is used only"),
        ("src/policy/mod.rs", "fn f() -> anyhow::Result<()> {}", 2, "`anyhow` is used only"),
        ("src/engine/mod.rs", "", 1, "no such module"),
        ("src/api/utils.rs", "", 1, "`utils` says nothing"),
        ("src/api/page.rs", "#[allow(dead_code)] fn f() {}", 2, "`#[allow` does not occur"),
        ("src/api/page.rs", "\nfn f() { todo!() }", 3, "`todo!` does not occur"),
        ("src/store/key.rs", "const Q: &str = \"\nselect Now ()\";", 3, "SQL reads `now()`"),
        ("src/store/key.rs", "query(r#\"select current_timestamp\"#)", 2, "SQL reads `current_timestamp`"),
        ("migrations/0001.sql", "create table t (at timestamptz default now());", 2, "SQL reads `now()`"),
        ("src/api/large.rs", &"\n".repeat(600), 601, "601 lines, at most 600"),
    ];
    for (path, text, line, message) in planted {
        // Small files beside it keep the median low.
        let found = faults(&tree(&[(path, text), ("src/api/a.rs", ""), ("src/api/b.rs", "")]));
        assert_eq!(found.len(), 1, "{path}: {text}: {found:?}");
        assert!(
            found[0].starts_with(&format!("{path}:{line}: ")) && found[0].contains(message),
            "{message}: {found:?}"
        );
    }
    let bare = BTreeMap::from([("src/main.rs".to_owned(), "fn main() {}".to_owned())]);
    assert!(faults(&bare)[0].contains("opens with `//!`"));
    let long = "\n".repeat(200);
    assert!(
        faults(&tree(&[("src/app.rs", &long), ("src/api/mod.rs", &long)]))[0].contains("median file has 201 lines")
    );
}

#[test]
fn what_is_allowed_is_no_fault() {
    let clean = tree(&[
        ("src/lib.rs", "pub mod domain;\npub mod app;"),
        ("src/main.rs", "fn main() { umbra::cli::run(std::env::args()) }"),
        ("src/app.rs", "use crate::{api, dashboard, lifecycle::Tasks, pipeline::{accept, work}, store::Store};"),
        (
            "src/cli/serve.rs",
            "use crate::{app::App, lifecycle, clock};\nfn f() -> anyhow::Result<()> { std::env::args() }",
        ),
        (
            "src/api/mod.rs",
            "use axum::Json;\nuse crate::{lifecycle::Tasks, store, pipeline, ingest};\nuse tower::Service;",
        ),
        (
            "src/store/mod.rs",
            "use sqlx::PgPool;\nfn f(clock: &Clock) { clock.now(); query(\"select clock(), known()\") }",
        ),
        ("src/store/postgres/mod.rs", "use nix::unistd;\nlet dirs = std::env::split_paths(&path);"),
        ("src/findings/webhook.rs", "use reqwest::Client;"),
        ("src/ingest/mod.rs", "use crate::domain::Event;\nmod native;\nuse super::ingest::native;"),
        ("src/ingest/native.rs", "use super::Incoming;\nuse std::time::Instant;\nlet env = Instant::now();"),
        ("src/ingest/tests.rs", "use crate::store::x;\nlet t = jiff::Timestamp::now();"),
        (
            "src/watch/mod.rs",
            "// use crate::budget;\n/* sqlx::x /* axum::y */ todo!() */\nlet s = \"crate::queue::x \\\" todo!()\";",
        ),
        ("src/review/mod.rs", "let r = r#\"sqlx::x \" axum::y\"#; let c = '\"'; fn f<'a>(x: &'a str) {} // now()"),
        ("src/budget/mod.rs", "let tower = 1; let q = \"select now()\"; b\"sqlx::q\"; env!(\"X\");"),
        ("migrations/0001.sql", "-- now() is refused here\nselect clock_timestamp();"),
    ]);
    assert_none(&faults(&clean));
}

#[test]
fn a_changed_a_new_and_a_lost_migration_are_found() {
    let sums =
        |names: &[(&str, &str)]| names.iter().map(|(name, sum)| ((*name).to_owned(), (*sum).to_owned())).collect();
    let listed = "aa  0001.sql\nbb  0002.sql\n";
    assert_none(&migration_faults(&sums(&[("0001.sql", "aa"), ("0002.sql", "bb")]), listed));
    let found = migration_faults(&sums(&[("0001.sql", "ax"), ("0003.sql", "cc")]), listed);
    let expected = ["0001.sql:1: a migration that was released", "0003.sql:1: not in", "0002.sql:1: listed"];
    assert!(found.len() == 3 && found.iter().zip(expected).all(|(fault, part)| fault.contains(part)), "{found:?}");
}
