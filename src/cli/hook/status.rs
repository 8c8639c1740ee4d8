//! `umbra hook status`: for each host the installed hooks, and what the server has heard of them.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    install::{HostSettings, SettingsScope, on_path},
    settings_file, trust,
};
use crate::cli::{
    CommandFailure, GlobalOptions, answer, answer_json, complain,
    remote::{Server, distance},
    table,
};
use umbra_hooks::{HOSTS, HookMode};

/// Most folders above this one in which settings are looked for.
const FOLDERS: usize = 16;

/// Settings of hosts that switch hooks off, with the value that does.
const SWITCHES: [(&str, bool); 5] = [
    ("/disableAllHooks", true),
    ("/hooksDisabled", true),
    ("/hooks/hooksDisabled", true),
    ("/hooksConfig/enabled", false),
    ("/tools/enableHooks", false),
];

/// Shows the hooks of all hosts.
pub(super) async fn run(global: &GlobalOptions, server: &Server) -> Result<(), CommandFailure> {
    let server = server.or(installed_url());
    let heard = match server.remote(global) {
        Ok(remote) => remote.get("v1/hooks", &Vec::new()).await,
        Err(failure) => Err(failure),
    };
    let heard = heard.unwrap_or_else(|failure| {
        let why =
            if let CommandFailure::Error(error) = failure { format!("{error:#}") } else { "wrong address".to_owned() };
        complain(&format!("umbra: what the server has heard is not known: {why}"));
        json!({"items": []})
    });
    let items = heard["items"].as_array().cloned().unwrap_or_default();
    let mut rows = Vec::new();
    for host in &HOSTS {
        let places =
            [SettingsScope::User, SettingsScope::Project].into_iter().filter_map(|scope| HostSettings::of(host, scope));
        let installed: Vec<Value> = places.filter_map(|place| told(&place)).collect();
        let of_host: Vec<&Value> = items.iter().filter(|item| item["host"] == host.name).collect();
        if installed.is_empty() && of_host.is_empty() {
            continue;
        }
        let undecided: i64 = of_host.iter().filter_map(|item| item["undecided"].as_i64()).sum();
        rows.push(json!({"host": host.name, "installed": installed, "heard": of_host, "undecided": undecided,
            "unseen": host.unseen}));
    }
    if global.json {
        return answer_json(&json!({"hosts": rows}));
    }
    if rows.is_empty() {
        answer("No hooks of Umbra. Install them: umbra hook install claude-code");
        return Ok(());
    }
    let mut shown = table::new(&["host", "hooks", "state", "last event", "calls", "undecided"]);
    for row in &rows {
        let places = row["installed"].as_array().cloned().unwrap_or_default();
        let seen = row["heard"].as_array().and_then(|heard| heard.first()).cloned().unwrap_or_default();
        let files: Vec<&str> = places.iter().filter_map(|place| place["file"].as_str()).collect();
        let states: Vec<&str> = places.iter().filter_map(|place| place["state"].as_str()).collect();
        let calls: i64 = row["heard"].as_array().into_iter().flatten().filter_map(|item| item["calls"].as_i64()).sum();
        shown.add_row([
            row["host"].as_str().unwrap_or_default().to_owned(),
            if files.is_empty() { "none here".to_owned() } else { files.join("\n") },
            states.join("\n"),
            distance(&seen["seen_at"]),
            calls.to_string(),
            row["undecided"].to_string(),
        ]);
    }
    answer(&shown.to_string());
    for row in &rows {
        let name = row["host"].as_str().unwrap_or_default();
        let is_installed = row["installed"].as_array().is_some_and(|places| !places.is_empty());
        if row["undecided"].as_i64().unwrap_or_default() > 0 {
            answer(&format!("{name}: calls that ran without a decision: {}", row["undecided"]));
        }
        let heard = row["heard"].as_array().into_iter().flatten();
        for shown in heard.filter_map(|item| item["shown_host"].as_str()) {
            answer(&format!("{name}: {shown} runs these hooks too"));
        }
        for note in row["unseen"].as_array().into_iter().flatten().filter_map(Value::as_str).filter(|_| is_installed) {
            answer(&format!("{name}: {note}"));
        }
    }
    Ok(())
}

/// Returns the address that a hook in the settings of a user goes to.
fn installed_url() -> Option<String> {
    let places = HOSTS.iter().filter_map(|host| HostSettings::of(host, SettingsScope::User));
    let mut lines = places.flat_map(|place| place.installed());
    let url = |(_, line): (String, String)| {
        let after = line.split("--url ").nth(1).or_else(|| line.split(r#""url":""#).nth(1))?;
        after.split([' ', '"', '\'']).find(|word| !word.is_empty()).map(ToOwned::to_owned)
    };
    lines.find_map(url)
}

/// Returns what is installed at a place; `None` if nothing is.
fn told(place: &HostSettings) -> Option<Value> {
    if let Some(file) = place.replacement() {
        let state = format!("OFF: the host reads {} in place of our entries: install again", file.display());
        return Some(json!({"file": place.path.display().to_string(), "mode": null, "state": state}));
    }
    let installed = place.installed();
    let (_, line) = installed
        .iter()
        .find(|(event, _)| umbra_hooks::event::kind_of(event) == Some(umbra_hooks::EventKind::Call))
        .or(installed.first())?;
    let mode =
        if line.contains("--mode enforce") || line.contains(r#""mode":"enforce""#) { "enforce" } else { "observe" };
    let mut states = vec![mode.to_owned()];
    states.extend(switched_off(place).map(|why| format!("OFF: {why}")));
    states.extend(place.faults(HookMode::parse(mode).unwrap_or_default()).map(|fault| format!("BROKEN: {fault}")));
    if place.host.name == "codex" && on_path("codex").is_none() {
        states.push("trust unknown: codex is not on the path".to_owned());
    } else if place.host.name == "codex" {
        match trust::is_trusted(&place.path) {
            Ok(true) => states.push("trusted".to_owned()),
            Ok(false) => {
                states.push("NOT trusted: codex skips them; enter /hooks in codex, or install again".to_owned());
            }
            Err(error) => states.push(format!("trust unknown ({error:#})")),
        }
    }
    Some(json!({"file": place.path.display().to_string(), "mode": mode, "state": states.join(", ")}))
}

/// Returns the setting that switches the host's hooks off, in any file that it reads from here.
pub(super) fn switched_off(place: &HostSettings) -> Option<String> {
    let near = ["settings.json", "settings.local.json", "hooks.json"].map(|name| place.path.with_file_name(name));
    let (_, folder) = place.installation.folder;
    // Hosts read the settings of the whole project, from its root down to here.
    let here = std::env::current_dir().unwrap_or_default();
    let above: Vec<PathBuf> = here
        .ancestors()
        .take(FOLDERS)
        .flat_map(|above| {
            ["settings.json", "settings.local.json", "hooks.json"].map(|name| above.join(folder).join(name))
        })
        .collect();
    near.into_iter().chain(above).find_map(|file| {
        let settings = settings_file::value(&settings_file::read(&file).ok().flatten()?)?;
        let switch = SWITCHES.iter().find(|(switch, off)| settings.pointer(switch) == Some(&Value::Bool(*off)))?;
        Some(format!("{} in {}", switch.0.trim_start_matches('/').replace('/', "."), file.display()))
    })
}
