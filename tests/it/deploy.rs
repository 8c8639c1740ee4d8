//! Shipped files match the binary: metrics, settings, versions, commands.
#![expect(clippy::expect_used, clippy::disallowed_methods, reason = "a test may panic; UMBRA_UPDATE is its own")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use clap::{
    Parser,
    error::{ContextKind, ContextValue, ErrorKind},
};
use serde_json::{Value, json};
use umbra::{cli::Cli, telemetry::metric};
use umbra_config::{DEFAULT_SETTINGS, Environment, Settings};

use crate::documents::wrapped;
use crate::support::{
    Umbra,
    judge::verdict,
    model_server::{Answer, ModelServer},
};

fn read(path: &str) -> String {
    fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)).expect(path)
}

/// Returns every word of a text that looks like a metric's name.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("umbra_")).map(ToOwned::to_owned).collect()
}

/// Returns the declared name of a metric, without the suffixes that Prometheus adds to a histogram's.
fn declared(name: &str) -> Option<&'static str> {
    let whole = |name: &str| metric::ALL.iter().map(|(known, _)| *known).find(|known| *known == name);
    let part = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
    whole(name).or_else(|| part.filter(|part| part.ends_with("_seconds")).and_then(whole))
}

/// Collects every expression of the board.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("expr").and_then(Value::as_str).map(ToOwned::to_owned));
            map.values().for_each(|value| expressions(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

#[test]
fn alert_rules_and_dashboard_name_only_known_metrics() {
    let rules = read("deploy/prometheus/umbra.rules.yml");
    let board: Value = serde_json::from_str(&read("deploy/grafana/umbra.json")).expect("JSON");
    let mut shown = Vec::new();
    expressions(&board, &mut shown);
    assert!(shown.len() > 20, "{}", shown.len());
    let shown = metrics_in(&shown.join("\n"));
    for name in metrics_in(&rules).iter().chain(&shown) {
        assert!(declared(name).is_some(), "{name} is no metric of telemetry/metric.rs");
    }
}

#[test]
fn the_manual_lists_every_metric() {
    let (begin, end) = ("<!-- metrics -->\n", "<!-- /metrics -->");
    let manual = read("docs/operations.md");
    let mut rows = String::new();
    for (name, meaning) in metric::ALL {
        wrapped(&mut rows, &format!("- `{name}`: {meaning}"), "  ");
    }
    let (before, rest) = manual.split_once(begin).expect("the table");
    let (listed, after) = rest.split_once(end).expect("its end");
    if std::env::var_os("UMBRA_UPDATE").is_some() {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md");
        fs::write(path, format!("{before}{begin}{rows}{end}{after}")).expect("it is written");
    } else {
        assert_eq!(listed, rows, "UMBRA_UPDATE=1 cargo test --test it deploy writes it");
    }
}

/// Returns the label names by which expressions select or group, with their metrics' names.
fn labels_in(expression: &str) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for (at, _) in expression.match_indices("umbra_") {
        let rest = &expression[at..];
        let name: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let Some(selector) = rest[name.len()..].strip_prefix('{').and_then(|rest| rest.split('}').next()) else {
            continue;
        };
        for matcher in selector.split(',') {
            let label = matcher.split(['=', '!']).next().unwrap_or_default().trim();
            found.insert((name.clone(), label.to_owned()));
        }
    }
    found
}

#[tokio::test]
async fn alert_rules_and_dashboard_use_only_exported_labels() {
    let model = ModelServer::start(|seen| Answer::Json(verdict(seen, "FLAG", 1, &json!([])))).await;
    let settings = format!(
        "models:\n  judge: {{provider: openai, name: j, base_url: '{}', input_usd_per_mtok: 1, output_usd_per_mtok: 1}}\n",
        model.openai_url()
    );
    let shadows =
        "shadow_agents:\n  - {name: one, model: judge, mode: review, watch: [{agent: '*', triggers: [error]}]}\n";
    let umbra = Umbra::with().shadows(shadows).settings(&settings).go().await;
    for _ in 0..2 {
        let output = "```sh\nrm -rf / --no-preserve-root\n```";
        umbra.event(&json!({"agent": "a", "triggers": ["error"], "output": output})).await;
    }
    umbra.drain().await;
    let exported = umbra.send(reqwest::Method::GET, "/metrics", &[], None).await.text;
    let board: Value = serde_json::from_str(&read("deploy/grafana/umbra.json")).expect("JSON");
    let mut all = vec![read("deploy/prometheus/umbra.rules.yml")];
    expressions(&board, &mut all);
    let mut checked = 0;
    for (name, label) in all.iter().flat_map(|text| labels_in(text)) {
        // Labels that Prometheus adds by itself, and metrics without a value here, are left out.
        let lines: Vec<&str> = exported.lines().filter(|line| line.starts_with(&format!("{name}{{"))).collect();
        if label == "instance" || lines.is_empty() {
            continue;
        }
        checked += 1;
        assert!(
            lines.iter().all(|line| line.contains(&format!("{label}=\""))),
            "{name} has no label {label}: {lines:?}"
        );
    }
    assert!(checked > 10, "{checked}");
}

/// Returns the command lines of a document, and true for those that are to be typed as they are.
fn shown(path: &str, text: &str) -> Vec<(String, bool)> {
    let is_page = Path::new(path).extension().is_some_and(|end| end == "md");
    let (mut block, mut found) = (None, Vec::new());
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), block) {
            (Some(language), None) => block = Some(language),
            (Some(_), Some(_)) => block = None,
            (None, Some("sh" | "ini" | "")) => found.push((line.to_owned(), true)),
            (None, Some(_)) => {}
            (None, None) if !is_page && line.starts_with("#   ") => found.push((line.replacen('#', "", 1), true)),
            (None, None) => {
                let spans = line.split('`').skip(1).step_by(2).filter(|span| span.starts_with("umbra "));
                found.extend(spans.map(|span| (span.to_owned(), false)));
            }
        }
    }
    found
}

/// Returns the arguments of our program, once for each command of a line that runs it and each word that names
/// alternatives.
fn arguments(line: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for command in line.split(" #").next().unwrap_or_default().split(" | ") {
        let words: Vec<&str> = command.split_whitespace().take_while(|word| !word.starts_with(['<', '>'])).collect();
        let is_ours = |at: &usize| words[*at] == "umbra" || words[*at].ends_with("/umbra");
        let own = if words.starts_with(&["cargo", "run"]) {
            words.iter().position(|word| *word == "--")
        } else {
            // `docker compose exec umbra umbra ...`: the service, then the program.
            (0..words.len()).filter(is_ours).find(|at| words.get(at + 1) != Some(&"umbra"))
        };
        let Some(given) = own.map(|at| &words[at + 1..]).filter(|given| !given.is_empty()) else { continue };
        let most = given.iter().map(|word| word.split('|').count()).max().unwrap_or(1);
        let pick = |word: &str, n: usize| word.split('|').nth(n).unwrap_or(word).trim_matches(['"', '\'']).to_owned();
        found.extend((0..most).map(|n| given.iter().map(|word| pick(word, n)).collect()));
    }
    found
}

/// Returns the reason why our program refuses these arguments. A mention in a sentence may leave some out, and name
/// others (`FILE`).
fn refusal(arguments: &[String], is_typed: bool) -> Option<String> {
    let error = Cli::try_parse_from(["umbra".to_owned()].iter().chain(arguments)).err()?;
    let is_short = matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    let is_name = matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value))
        if value.chars().all(|c| c.is_ascii_uppercase()));
    (is_typed || !(is_short || is_name)).then(|| error.to_string())
}

#[test]
fn commands_in_documents_are_accepted_by_the_parser() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = [".", "docs", "config"].iter().flat_map(|folder| fs::read_dir(root.join(folder)).expect(folder));
    let names = files
        .map(|file| file.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|end| ["md", "yml", "yaml"].iter().any(|known| end == *known)));
    let (mut taken, mut faults) = (0, Vec::new());
    for path in names {
        let name = path.display().to_string();
        for (line, is_typed) in shown(&name, &fs::read_to_string(&path).expect("it is read")) {
            for arguments in arguments(&line) {
                taken += 1;
                faults.extend(refusal(&arguments, is_typed).map(|why| format!("{name}: {line}\n{why}")));
                // A machine that runs containers has neither our program nor the service's database.
                if is_typed && name.contains("compose") && !line.contains("docker compose exec") {
                    faults.push(format!("{name}: {line}\nit would run beside the container, on a database of its own"));
                }
            }
        }
    }
    assert!(taken > 40 && faults.is_empty(), "{taken} commands\n{}", faults.join("\n"));
}

#[test]
fn unknown_command_in_a_document_is_detected() {
    let page = "`umbra keys make` and `umbra chek`, `umbra completions SHELL`, `umbra keys create`, `umbra completions bash|fsh`\n\
                ```sh\ncargo run -- serv\numbra keys create --name a   # umbra nothing\n\
                docker compose exec -T umbra umbra status --jsn > x\ndocker compose kill umbra\n```\n";
    let refused = shown("a.md", page).into_iter().flat_map(|(line, is_typed)| {
        arguments(&line).into_iter().filter_map(move |given| refusal(&given, is_typed).map(|_| given.join(" ")))
    });
    let expected = ["keys make", "chek", "completions fsh", "serv", "keys create --name a", "status --jsn"];
    assert_eq!(refused.collect::<Vec<_>>(), expected);
}

#[test]
fn container_files_set_only_known_settings() {
    let (dockerfile, compose) = (read("Dockerfile"), read("docker-compose.yml"));
    let mut found = 0;
    let both = format!("{dockerfile}\n{compose}");
    for name in both.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| w.starts_with("UMBRA__")) {
        found += 1;
        // The value does not matter: an unknown setting is the fault that counts.
        let env: Environment = [(name.to_owned(), "x".to_owned())].into_iter().collect();
        if let Err(report) = Settings::parse("umbra.default.yaml", DEFAULT_SETTINGS, &env, &|_, _| Ok(())) {
            assert!(!report.to_string().contains("unknown key"), "{report}");
        }
    }
    assert!(found >= 6, "{found}");
    let (_, rust) = dockerfile.split_once("FROM rust:").expect("a build stage");
    assert!(rust.starts_with(env!("CARGO_PKG_RUST_VERSION")), "the Dockerfile builds with another Rust");
    for path in compose.lines().filter_map(|line| line.trim().strip_prefix("- ./")?.split(':').next()) {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(path).exists(), "{path} is not there");
    }
}
