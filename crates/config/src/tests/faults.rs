//! Tests of the form of faults: the first line is a contract for tools, and secrets stay out.

use serde_json::json;

use super::super::{Environment, Settings, fault::quoted};
use umbra_domain::nearest::nearest;

fn report(text: &str) -> super::Report {
    Settings::parse("conf/umbra.yaml", text, &Environment::default(), &|_, _| Ok(())).unwrap_err()
}

#[test]
fn a_fault_shows_file_line_column_key_snippet_and_help() {
    let shown = report("server:\n  bind: 127.0.0.1:7817\n  header_timeout: 5 s\n").to_string();
    let expected = "conf/umbra.yaml:3:19: server.header_timeout: \"5 s\" is not a duration
    3 |   header_timeout: 5 s
      |                   ^
      = write 100ms to 10m as a number with ms, s, m, h or d: 500ms, 30s, 2h, 1d";
    assert_eq!(shown, expected);
}

#[test]
fn json_report_has_place_key_and_help_of_each_fault() {
    let json = json!(report("server:\n  hearder_timeout: 5s\n"));
    let fault = &json["faults"][0];
    assert_eq!(fault["file"], "conf/umbra.yaml");
    assert_eq!((&fault["line"], &fault["column"]), (&2.into(), &3.into()));
    assert_eq!(fault["level"], "fault");
    assert_eq!(fault["key"], "server");
    assert_eq!(fault["help"], "did you mean `header_timeout`?");
    assert_eq!(json["warnings"], json!([]));
}

#[test]
fn faults_never_repeat_secrets() {
    let cases = [
        "database:\n  url: mysql://app:hunter2@db/x\n",
        "database:\n  url: [hunter2]\n",
        "database: {url: \"postgres://app:hunter2@db/x\", max_connections: 0}\n",
        "database:\n  urll: postgres://app:hunter2@db/x\n",
        "models:\n  m: {provider: openai, name: x, api_key_env: sk-hunter2}\n",
        "models:\n  m:\n    provider: openai\n    name: x\n    api_key: sk-hunter2\n",
        "models:\n  m: {provider: openai, name: x, base_url: \"https://u:hunter2@h/\"}\n",
        "database:\n  url: postgres://app:hunter2@db/x\n  url: y\n",
        "database: {url: postgres://app:hunter2@db/x, [\n",
    ];
    for text in cases {
        let report = report(text);
        let shown = format!("{report}{}{report:?}", json!(report));
        assert!(!shown.contains("hunter2"), "{text}\n{shown}");
        assert!(!report.faults.is_empty());
    }
}

#[test]
fn control_characters_of_files_are_not_printed() {
    let shown = report("\"\\e[31mred\\u202e\": 1\nserver:\n  bind: \"a\\e]0;x\\a\"\n").to_string();
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
    assert!(!shown.contains('\u{202e}'));
    assert_eq!(quoted(&"x".repeat(500)).chars().count(), 63);
}

#[test]
fn long_lines_are_cut_around_the_column() {
    let text = format!("server: {{allowed_hosts: [{}], bind: nowhere}}\n", vec!["host.example"; 60].join(", "));
    let shown = report(&text).to_string();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[1].chars().count() < 140 && lines[1].contains("nowhere"), "{shown}");
    let caret = lines[2].find('^').unwrap();
    assert!(lines[1][caret..].starts_with("nowhere"), "{shown}");
}

#[test]
fn near_words_are_suggested_and_far_ones_are_not() {
    let known = ["max_reviews_per_day", "cooldown", "sample", "time_zone"];
    for (word, meant) in [
        ("cooldwon", Some("cooldown")),
        ("Cool-Down", Some("cooldown")),
        ("timezone", Some("time_zone")),
        ("reviews_per_day", Some("max_reviews_per_day")),
        ("sampel", Some("sample")),
        ("budget", None),
        ("", None),
    ] {
        assert_eq!(nearest(word, known), meant, "{word}");
    }
}
