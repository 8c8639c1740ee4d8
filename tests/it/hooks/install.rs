//! `umbra hook install` and `uninstall`: what was in the settings stays, byte for byte, and the hooks prove themselves.

#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test that meets an error fails; `PATH` is its own"
)]

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::Umbra;

/// Home of a user, with the settings of a host.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(TempDir::new().expect("a folder"))
    }

    fn with(file: &str, text: &str) -> Self {
        let home = Self::new();
        home.write(file, text);
        home
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap_or_default()
    }

    /// Runs `umbra hook` in this home.
    fn hook(&self, url: &str, arguments: &[&str]) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(env!("CARGO_BIN_EXE_umbra"));
        command.arg("hook").args(arguments).current_dir(self.0.path()).env_clear();
        command.env("HOME", self.0.path()).env("PATH", path).env("UMBRA_URL", url).output().expect("umbra")
    }

    /// Runs `umbra hook` without a server; returns its output if it succeeds.
    fn offline(&self, arguments: &[&str]) -> String {
        let done = self.hook("http://127.0.0.1:1", arguments);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// Names of all files below this home.
    fn files(&self) -> Vec<String> {
        fn below(folder: &Path, found: &mut Vec<String>) {
            for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
                if entry.is_dir() { below(&entry, found) } else { found.push(entry.display().to_string()) }
            }
        }
        let mut found = Vec::new();
        below(self.0.path(), &mut found);
        found.sort();
        found
    }
}

const CLAUDE: &str = ".claude/settings.json";
const GEMINI: &str = ".gemini/settings.json";

/// Settings of a user who has hooks, comments and habits of its own.
const OWN: &str = r#"{
    // My model.
    "model": "opus",
	"hooks": {
        "PreToolUse": [
            { "matcher": "Bash", "hooks": [{ "type": "command", "command": "my-guard --strict" }] } // mine
        ],
        "Notification": []
    }, /* the end */
    "env": { "A":"1" }
}
"#;

#[test]
fn settings_keep_every_byte_through_install_and_uninstall() {
    let plain = OWN.lines().filter(|line| !line.contains("// My")).collect::<Vec<_>>().join("\n");
    let plain = plain.replace(" // mine", "").replace(" /* the end */", "");
    let odd = [r#"{"hooks": {}, "a": 1}"#, r#"{"hooks": {"PreToolUse": []}}"#, "{}", "{\n}\n", "", "\u{feff}{}"];
    let mut cases: Vec<(&str, &str, String)> = vec![
        ("gemini-cli", GEMINI, OWN.to_owned()),
        ("gemini-cli", GEMINI, OWN.replace('\n', "\r\n")),
        ("gemini-cli", GEMINI, r#"{"hooks": {/* mine */}, /* x */ "k": 1}"#.to_owned()),
        ("claude-code", CLAUDE, plain),
        ("cursor", ".cursor/hooks.json", r#"{"hooks": {"stop": []}}"#.to_owned()),
    ];
    cases.extend(odd.map(|text| ("claude-code", CLAUDE, text.to_owned())));
    for (host, file, text) in cases {
        let home = Home::with(file, &text);
        home.offline(&["install", host, "--offline", "--mode", "enforce"]);
        let installed = home.read(file);
        for words in ["/* mine */", "// mine", "// My model.", "my-guard --strict"] {
            assert!(!text.contains(words) || installed.contains(words), "{words} is not in\n{installed}");
        }
        assert_eq!(installed.contains("\r\n"), text.contains("\r\n"));
        assert!(installed.matches("--mode enforce").count() >= 6, "{installed}");
        assert_eq!(installed.contains(r#""onFailure": "block""#), host == "claude-code", "{installed}");
        let again = home.offline(&["install", host, "--offline", "--mode", "enforce"]);
        assert!(again.contains("as they were"), "{again}");
        assert_eq!(home.read(file), installed, "a second time changes nothing");
        home.offline(&["uninstall", host]);
        assert_eq!(home.read(file), text);
        assert_eq!(home.files(), [home.path(file).display().to_string()], "nothing is left behind");
    }
}

#[test]
fn copy_of_the_settings_is_as_private_as_they_are() {
    let home = Home::with(CLAUDE, r#"{"env": {"KEY": "secret"}}"#);
    fs::set_permissions(home.path(CLAUDE), fs::Permissions::from_mode(0o600)).expect("permissions");
    home.offline(&["install", "claude-code", "--offline"]);
    for file in home.files() {
        let mode = fs::metadata(&file).expect("a file").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{file}");
    }
}

#[test]
fn change_of_the_user_after_the_install_survives_the_uninstall() {
    let home = Home::with(GEMINI, OWN);
    home.offline(&["install", "gemini-cli", "--offline"]);
    let changed = home.read(GEMINI).replace(r#""model": "opus""#, r#""model": "haiku""#);
    home.write(GEMINI, &changed);
    home.offline(&["uninstall", "gemini-cli"]);
    let left = home.read(GEMINI);
    assert!(
        left.contains(r#""model": "haiku""#) && left.contains("my-guard --strict") && left.contains("// mine"),
        "{left}"
    );
    assert!(!left.contains("umbra"), "{left}");
}

#[test]
fn status_tells_of_hooks_that_cannot_guard() {
    let home = Home::new();
    home.offline(&["install", "claude-code", "--offline", "--mode", "enforce"]);
    let whole = home.read(CLAUDE);
    let state = |home: &Home| {
        let told = home.hook("http://127.0.0.1:1", &["status"]);
        String::from_utf8_lossy(&told.stdout).into_owned()
    };
    assert!(!state(&home).contains("BROKEN") && !state(&home).contains("OFF"), "{}", state(&home));
    for (from, to, words) in [
        ("exit 2; }", "exit 0; }", "the entry of PreToolUse was changed"),
        (r#""matcher": "*""#, r#""matcher": "Read""#, "the entry of PreToolUse was changed"),
        (r#""onFailure": "block""#, r#""onFailure": "allow""#, "the entry of PreToolUse was changed"),
        ("PreToolUse\"", "PreToolUseX\"", "the entry of PreToolUse is gone"),
        ("/umbra-hook claude-code", "/umbra-gone-hook claude-code", "is gone or empty: install again"),
    ] {
        home.write(CLAUDE, &whole.replace(from, to));
        assert!(state(&home).contains(words), "{from}: {}", state(&home));
    }
    home.write(CLAUDE, &whole);
    home.write(".claude/settings.local.json", r#"{"disableAllHooks": true}"#);
    assert!(state(&home).contains("OFF: disableAllHooks"), "{}", state(&home));
}

#[test]
fn other_mode_replaces_the_hooks_and_leaves_one_of_each() {
    let home = Home::new();
    home.offline(&["install", "claude-code", "--offline"]);
    home.offline(&["install", "claude-code", "--offline", "--mode", "enforce"]);
    let installed = home.read(CLAUDE);
    assert!(!installed.contains("--mode observe"), "{installed}");
    assert_eq!(installed.matches("--event PreToolUse ").count(), 1, "{installed}");
    home.offline(&["uninstall", "claude-code"]);
    assert_eq!(home.files(), Vec::<String>::new(), "a file that was made for the hooks goes with them");
}

#[test]
fn link_stays_a_link_and_a_read_only_file_is_not_touched() {
    let home = Home::with("dotfiles/gemini.json", OWN);
    fs::create_dir_all(home.path(".gemini")).expect("a folder");
    symlink(home.path("dotfiles/gemini.json"), home.path(GEMINI)).expect("a link");
    home.offline(&["install", "gemini-cli", "--offline"]);
    assert!(fs::symlink_metadata(home.path(GEMINI)).is_ok_and(|known| known.is_symlink()));
    assert!(home.read("dotfiles/gemini.json").contains("--event SessionEnd"));
    home.offline(&["uninstall", "gemini-cli"]);
    assert_eq!(home.read("dotfiles/gemini.json"), OWN);

    let home = Home::with(GEMINI, OWN);
    fs::set_permissions(home.path(GEMINI), fs::Permissions::from_mode(0o444)).expect("permissions");
    let refused = home.hook("http://127.0.0.1:1", &["install", "gemini-cli", "--offline"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("read-only; nothing was changed"), "{said}");
    assert_eq!((home.read(GEMINI), home.files().len()), (OWN.to_owned(), 1));
}

#[test]
fn settings_that_are_not_what_they_should_be_are_refused_with_the_reason() {
    for (text, words) in [
        ("{ nonsense", "ignores such a file whole"),
        ("{\n  // a comment\n}", "ignores such a file whole"),
        (r#"{"a": 1, "a": 2}"#, "ignores such a file whole"),
        ("[]", "expected an object"),
        (r#"{"hooks": 7}"#, "`hooks` is not an object"),
        (r#"{"hooks": {"Stop": {}}}"#, "`hooks.Stop` is not a list"),
    ] {
        let home = Home::with(CLAUDE, text);
        let refused = home.hook("http://127.0.0.1:1", &["install", "claude-code", "--offline"]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(words) && said.contains("settings.json"), "{text}: {said}");
        assert_eq!((home.read(CLAUDE), home.files().len()), (text.to_owned(), 1), "nothing was changed");
    }
}

#[test]
fn each_host_is_installed_and_taken_out_again() {
    for host in
        ["claude-code", "codex", "gemini-cli", "qwen-code", "copilot", "droid", "cursor", "cline", "opencode", "pi"]
    {
        let home = Home::new();
        let done = home.hook("http://127.0.0.1:1", &["install", host, "--offline", "--mode", "enforce"]);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        // Codex is not on the path, so nobody can tell it to trust the hooks.
        let (is_closed, is_codex) = (done.status.success(), host == "codex");
        assert!(is_closed != is_codex && said.contains("guard nothing yet") == is_codex, "{host}: {said}");
        let files = home.files();
        assert!(!files.is_empty(), "{host}: {said}");
        for file in &files {
            let text = fs::read_to_string(file).expect("text");
            assert!(text.contains("enforce"), "{host}: {text}");
            if Path::new(file).extension().is_some_and(|end| end == "json") {
                serde_json::from_str::<Value>(&text).expect(host);
            }
        }
        home.offline(&["uninstall", host]);
        assert_eq!(home.files(), Vec::<String>::new(), "{host}");
    }
}

#[test]
fn without_a_server_nothing_is_installed_and_a_second_scope_is_refused() {
    let home = Home::new();
    let refused = home.hook("http://127.0.0.1:1", &["install", "claude-code"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("umbra serve") && said.contains("--offline"), "{said}");
    assert_eq!(home.files(), Vec::<String>::new());
    let project = home.path("work");
    fs::create_dir_all(&project).expect("a folder");
    home.offline(&["install", "gemini-cli", "--offline"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_umbra"));
    command
        .args(["hook", "install", "gemini-cli", "--offline", "--scope", "project"])
        .current_dir(&project)
        .env_clear();
    let refused = command.env("HOME", home.0.path()).output().expect("umbra");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("come twice") && said.contains("--scope user"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn canary_proves_the_installed_line_and_status_tells_of_it() {
    let umbra = Umbra::with().go().await;
    let home = Home::new();
    for (host, mode, words) in [
        ("claude-code", "enforce", "a canary's call was denied (dec_"),
        ("gemini-cli", "enforce", "a canary's call was denied (dec_"),
        ("cline", "enforce", "a canary's call was denied (dec_"),
        ("qwen-code", "observe", "a canary's event was stored"),
    ] {
        let done = home.hook(&umbra.base, &["install", host, "--mode", mode]);
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(
            done.status.success() && said.contains(words),
            "{host}: {said} {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
    let status = home.hook(&umbra.base, &["status"]);
    let told = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    for words in ["claude-code", "gemini-cli", "cline", "qwen-code", "observe", "enforce"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(!told.contains("codex"), "{told}");
    assert_eq!(umbra.get("/v1/events").await["items"].as_array().map(Vec::len), Some(0), "a canary counts nowhere");
}
