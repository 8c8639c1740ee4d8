//! Wrong usage of the command line: the message says what is wrong and what to do, and nothing is left behind.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that meets an error fails; `PATH` is its own"
)]

use std::{
    fs::{self, File},
    net::TcpListener,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Schema, Umbra, database};

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_umbra"));
    command.args(args).env_clear().envs(
        ["PATH", "UMBRA_PG_BIN"]
            .map(|name| (name, std::env::var_os(name)))
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    command
}

/// Returns exit code and standard error.
fn said(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.output().unwrap();
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
fn status_doctor_list_and_revoke_create_no_database() {
    let parent = TempDir::new().unwrap();
    let missing = parent.path().join("missing");
    let empty = parent.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let id = "key_0197a3c1d2e47f00a1b2c3d4e5f60718";
    let commands: [&[&str]; 4] = [&["status"], &["doctor"], &["keys", "list"], &["keys", "revoke", id]];
    let refused = |dir: &Path| {
        for args in commands {
            let (code, text) = said(command(args).arg("--data-dir").arg(dir));
            assert_eq!(code, Some(1), "{args:?}: {text}");
            assert!(text.contains(&format!("no installation in {}: start `umbra serve`", dir.display())), "{text}");
        }
    };
    refused(&missing);
    refused(&empty);
    assert!(!missing.exists());
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
    let (code, text) = said(command(&["keys", "create", "--name", "k", "--scope", "read", "--data-dir"]).arg(&missing));
    assert!(
        code == Some(0) && text.contains(missing.to_str().unwrap()),
        "a key has to be stored, and it is told where: {text}"
    );
    let (code, text) = said(command(&["keys", "list", "--data-dir"]).arg(&missing));
    assert_eq!(code, Some(0), "{text}");
}

#[tokio::test]
async fn unusable_database_is_reported_with_the_reason() {
    let refused = |url: &str| {
        let (code, text) = said(&mut command(&["status", "--database-url", url]));
        assert_eq!(code, Some(1), "{text}");
        text
    };
    let text = refused("mysql://umbra:secret-word@127.0.0.1/umbra");
    assert!(text.contains("not the URL of a Postgres") && !text.contains("secret-word"), "{text}");
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = refused(&format!("postgres://umbra@127.0.0.1:{port}/umbra"));
    assert!(text.contains(&format!("reached at 127.0.0.1:{port}")) && text.contains("refused"), "{text}");
    drop(Schema::fresh().await);
    let address: Value =
        serde_json::from_slice(&fs::read(database::data_dir().join("postgres.json")).unwrap()).unwrap();
    let socket = address["socket_dir"].as_str().unwrap().replace('/', "%2F");
    for (role, name, words) in
        [("nobody_here", "umbra", "role \"nobody_here\" does not exist"), ("umbra", "none", "database \"none\"")]
    {
        let text = refused(&format!("postgres://{role}@localhost/{name}?host={socket}"));
        assert!(text.contains(words) && text.contains("check user, password and database name"), "{text}");
    }
}

#[test]
fn data_directory_that_is_a_file_is_reported_once() {
    let parent = TempDir::new().unwrap();
    let file = parent.path().join("file");
    fs::write(&file, "").unwrap();
    let (code, text) = said(command(&["serve", "--bind", "localhost:0", "--data-dir"]).arg(&file));
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(text.matches("File exists").count(), 1, "{text}");
}

#[test]
fn meaningless_options_are_refused_with_a_remedy() {
    for (args, words) in [
        (&["serve", "--bind", "example.com:80"] as &[&str], "localhost:7817"),
        (&["completions", "bash", "--json"], "leave --json out"),
    ] {
        let (code, text) = said(&mut command(args));
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn shadows_option_takes_a_pipe_and_refuses_a_directory() {
    let folder = TempDir::new().unwrap();
    let (code, text) = said(command(&["check", "--shadows"]).arg(folder.path()));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("not a regular file"), "{text}");
    let file = folder.path().join("f.yaml");
    fs::write(&file, umbra_config::EXAMPLE_SHADOWS).unwrap();
    let (piped, mut pipe) = std::io::pipe().unwrap();
    let writer = std::thread::spawn(move || std::io::copy(&mut File::open(file).unwrap(), &mut pipe));
    let (code, text) = said(command(&["check", "--shadows", "/dev/stdin"]).stdin(piped));
    writer.join().unwrap().unwrap();
    assert_eq!(code, Some(0), "{text}");
}

const MODELS: &str = "models:
  house: {provider: openai, name: a, base_url: 'http://10.0.0.7:8000/v1'}
  all:
    provider: openai
    name: b
    base_url: http://0.0.0.0:8000/v1
  cloud: {provider: gemini, name: c, base_url: 'http://169.254.169.254'}
  listed: {provider: openai, name: d, base_url: 'http://10.0.0.8:8000/v1'}
outbound: {allow: [10.0.0.8]}
";

#[test]
fn forbidden_base_urls_are_faults_with_file_and_position() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("umbra.yaml");
    fs::write(&file, MODELS).unwrap();
    let data = folder.path().join("data");
    for command_line in [&["check"] as &[&str], &["serve", "--bind", "127.0.0.1:0", "--data-dir"]] {
        let mut checked = command(command_line);
        if command_line.len() > 1 {
            checked.arg(&data);
        }
        let (code, text) = said(checked.arg("--config").arg(&file));
        assert_eq!(code, Some(1), "{text}");
        let places: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(file.to_str()?)).collect();
        assert_eq!(places.len(), 3, "{text}");
        assert!(places[0].starts_with(":2:48: models.house.base_url: "), "{text}");
        assert!(places[1].starts_with(":6:15: models.all.base_url: "), "{text}");
        assert!(places[2].starts_with(":7:48: models.cloud.base_url: "), "{text}");
        assert!(text.contains("              ^") && text.contains("list `10.0.0.7` in outbound.allow"), "{text}");
        assert!(text.contains("write 127.0.0.1") && !text.contains("list `0.0.0.0`"), "{text}");
        assert_eq!(text.matches("10.0.0.7 is a private address").count(), 1, "{text}");
        assert!(!data.exists(), "no database is made");
    }
    let output = command(&["check", "--json", "--config"]).arg(&file).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["faults"].as_array().map(Vec::len), Some(3), "{report}");
    assert_eq!((&report["faults"][1]["line"], &report["faults"][1]["column"]), (&6.into(), &15.into()));
}

#[test]
fn check_finds_settings_that_serve_would_refuse() {
    let folder = TempDir::new().unwrap();
    let short = folder.path().join("key");
    fs::write(&short, "umbra_sk_short").unwrap();
    let (code, text) = said(command(&["check"]).env("ANTHROPIC_API_KEY", "sk-ant\nsecond-line"));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("ANTHROPIC_API_KEY:1:1: ") && !text.contains("second-line"), "{text}");
    let (code, text) = said(command(&["check"]).env("UMBRA__AUTH__BOOTSTRAP_ADMIN_KEY_FILE", &short));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("/key:1:1: auth.bootstrap_admin_key_file: ") && text.contains("umbra keys create"), "{text}");
    let (code, text) = said(command(&["check"]).env("UMBRA__QUEUE__HEARTBEAT", "20s"));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("heartbeat < fence_after < dead_after"), "{text}");
    // A command that is no check reports the same to tools.
    let output = command(&["status", "--json"]).env("UMBRA__QUEUE__HEARTBEAT", "20s").output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["faults"].as_array().map(Vec::len), Some(1), "{report}");
}

#[test]
fn sidecar_rules_are_checked_against_the_tools_file() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("sidecar.yaml");
    let tools = folder.path().join("tools.yaml");
    fs::write(&tools, umbra_config::EXAMPLE_TOOLS).unwrap();
    let check = |text: &str| {
        fs::write(&file, text).unwrap();
        said(command(&["check", "--tools"]).arg(&tools).env("UMBRA__SIDECAR__PATH", &file))
    };
    let (code, text) = check(umbra_config::EXAMPLE_SIDECAR);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = check(
        "policies:\n  - {name: large-refunds, when: amount > 1, verdict: ask}\n\
         documents:\n  - {name: d, document: ../todo, needs: exists, verdict: block}\n\
         models:\n  - {name: m, shadow: nobody, verdict: block}\n",
    );
    assert_eq!(code, Some(1), "{text}");
    let places: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(file.to_str()?)).collect();
    let expected = [
        ":2:12: policies[0].name: the name \"large-refunds\" occurs twice",
        ":2:33: policies[0].when: ",
        ":4:25: documents[0].document: ",
        ":6:23: models[0].shadow: shadow \"nobody\" not found",
    ];
    assert_eq!(places.len(), expected.len(), "{text}");
    assert!(places.iter().zip(expected).all(|(place, begins)| place.starts_with(begins)), "{text}");
}

#[test]
fn a_rule_in_words_needs_a_shadow_with_criteria_and_a_model() {
    let folder = TempDir::new().unwrap();
    let (file, shadows) = (folder.path().join("sidecar.yaml"), folder.path().join("shadows.yaml"));
    fs::write(&file, "models:\n  - {name: no-promises, shadow: promises, verdict: block}\n").unwrap();
    let check = |criteria: &str, key: Option<&str>| {
        let shadow = format!(
            "shadow_agents:\n  - {{name: promises, model: haiku, mode: review, {criteria}\
             watch: [{{agent: nobody, triggers: [task_complete]}}]}}\n"
        );
        fs::write(&shadows, shadow).unwrap();
        let mut command = command(&["check", "--shadows"]);
        command.arg(&shadows).env("UMBRA__SIDECAR__PATH", &file).env_remove("ANTHROPIC_API_KEY");
        said(command.envs(key.map(|key| ("ANTHROPIC_API_KEY", key))))
    };
    let words = "criteria: It promises no money., ";
    for (criteria, key, code, line) in [
        ("", Some("sk-1"), 1, "the shadow promises has no criteria"),
        (words, None, 1, "the shadow promises has no model to judge with: "),
        (words, Some("sk-1"), 0, ""),
    ] {
        let (ended, text) = check(criteria, key);
        assert!(ended == Some(code) && text.contains(line), "{criteria} {key:?}: {text}");
    }
}

#[tokio::test]
async fn health_command_reports_ready_down_and_silent_servers() {
    let mut umbra = Umbra::with().go().await;
    let base = umbra.base.clone();
    for args in [vec!["health", "--url", &base], vec!["health", "--live", "--url", &base, "--json"]] {
        let well = umbra.cli(&args, None);
        assert_eq!(well.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&well.stderr));
    }
    for url in ["https://localhost", "localhost:1", "http://localhost/readyz"] {
        assert_eq!(umbra.cli(&["health", "--url", url], None).status.code(), Some(2), "{url}");
    }
    // Without a URL it asks the address of the settings, where no server listens.
    std::fs::write(umbra.file("umbra.yaml"), "server: {bind: '127.0.0.1:1'}\n").unwrap();
    let nobody = umbra.cli(&["health"], None);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("http://127.0.0.1:1/readyz"));
    umbra.stop();
    assert_eq!(umbra.cli(&["health", "--url", &base], None).status.code(), Some(1));
    // A server that accepts and does not answer is not well.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let slow = umbra.cli(&["health", "--url", &url, "--timeout", "200ms"], None);
    assert_eq!(slow.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&slow.stderr).contains("did not answer within"));
    std::fs::remove_file(umbra.file("umbra.yaml")).unwrap();
}

const ONE: &str =
    "shadow_agents: [{name: NAME, model: checks, mode: review, watch: [{agent: '*', triggers: [error]}]}]\n";

#[test]
fn shadows_file_in_a_default_place_is_found_and_named() {
    let dir = TempDir::new().unwrap();
    let check = || {
        let output = command(&["check"]).current_dir(dir.path()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(check().contains("the built-in example would be in force"));
    fs::write(dir.path().join("shadow-agents.yaml"), ONE.replace("NAME", "beside")).unwrap();
    assert!(check().contains("shadow-agents.yaml: no faults") && check().contains("beside"), "{}", check());
    fs::create_dir(dir.path().join("config")).unwrap();
    fs::write(dir.path().join("config/shadow-agents.yaml"), ONE.replace("NAME", "usual")).unwrap();
    assert!(check().contains("config/shadow-agents.yaml: no faults") && check().contains("usual"), "{}", check());
}

#[test]
fn umbra_config_variable_names_the_settings_file() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("umbra.yaml");
    fs::write(&file, "server: {bind: 127.0.0.1:70000}\n").unwrap();
    let (code, text) = said(command(&["check"]).env("UMBRA_CONFIG", &file));
    assert_eq!(code, Some(1));
    assert!(text.contains("umbra.yaml:1:"), "{text}");
}

#[test]
fn status_needs_no_webhook_secret_and_check_does() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("umbra.yaml");
    let webhook = "webhooks: [{url: 'http://127.0.0.1:9/x', secret_env: UMBRA_WEBHOOK_SECRET}]\n";
    fs::write(&file, format!("storage: {{data_dir: {}}}\n{webhook}", dir.path().join("data").display())).unwrap();
    let config = || file.to_str().unwrap().to_owned();
    let (_, text) = said(&mut command(&["status", "--config", &config()]));
    assert!(text.contains("no installation") && !text.contains("UMBRA_WEBHOOK_SECRET"), "{text}");
    let (code, text) = said(&mut command(&["check", "--config", &config()]));
    assert!(code == Some(1) && text.contains("the variable UMBRA_WEBHOOK_SECRET is not set"), "{text}");
    // A variable that only a settings file names is no fault where that file is not given.
    let (code, text) = said(command(&["health"]).env("UMBRA_WEBHOOK_SECRET", "x"));
    assert!(code == Some(1) && !text.contains("no setting has this name"), "{text}");
    let (code, text) = said(command(&["check"]).current_dir(dir.path()).env("UMBRA_BOUNDARY_EXECUTION", "shadow"));
    assert!(code == Some(1) && text.contains("did you mean UMBRA__BOUNDARY__EXECUTION?"), "{text}");
}

#[test]
fn open_bind_without_keys_is_refused_before_a_database_exists() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let (code, text) = said(command(&["serve", "--bind", "0.0.0.0:0", "--data-dir"]).arg(&data));
    assert!(code == Some(1) && text.contains("umbra keys create"), "{text}");
    assert!(!data.exists());
}

#[test]
fn model_without_prices_is_refused_unless_costly_is_allowed() {
    let dir = TempDir::new().unwrap();
    let check = |base_url: &str, more: &str| {
        let settings = format!("models: {{unp: {{provider: openai, name: big, base_url: '{base_url}'}}}}\n");
        fs::write(dir.path().join("umbra.yaml"), settings).unwrap();
        let shadows = format!(
            "shadow_agents: [{{name: a, model: unp, mode: review, watch: [{{agent: '*', triggers: [error]}}], \
             cost_control: {{{more}}}}}]\n"
        );
        fs::write(dir.path().join("shadow-agents.yaml"), shadows).unwrap();
        said(command(&["check", "--config", "umbra.yaml"]).current_dir(dir.path()))
    };
    let (code, text) = check("https://llm.example.com/v1", "");
    assert!(code == Some(1) && text.contains("models.unp.input_usd_per_mtok"), "{text}");
    assert_eq!(check("https://llm.example.com/v1", "allow_costly_model: true").0, Some(0));
    // A model on this machine costs nothing, so a cap in money can be kept.
    let (code, text) = check("http://127.0.0.1:11434/v1", "max_usd_per_day: 1");
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn terminal_output_is_coloured_unless_no_color_is_set() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("shadow-agents.yaml"), ONE.replace("NAME", "ok")).unwrap();
    // `script` runs a command on a terminal of its own.
    let shown = |no_color: &str| {
        let umbra = format!("{} check", env!("CARGO_BIN_EXE_umbra"));
        let output = Command::new("script")
            .args(["--quiet", "--return", "--command", &umbra, "/dev/null"])
            .env("NO_COLOR", no_color)
            .current_dir(dir.path())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(shown("").contains("\u{1b}["), "{}", shown(""));
    assert!(!shown("1").contains("\u{1b}["), "{}", shown("1"));
}
