//! `umbra hook status`: for each host the installed hooks, and what the server has heard of them.

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

/// Files in which hosts have such settings.
const FILES: [&str; 3] = ["settings.json", "settings.local.json", "hooks.json"];

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
        Ok(remote) => remote.get("v1/hooks", &()).await,
        Err(failure) => Err(failure),
    };
    let heard = heard.unwrap_or_else(|failure| {
        let why =
            if let CommandFailure::Error(error) = failure { format!("{error:#}") } else { "wrong address".to_owned() };
        complain(&format!("umbra: what the server has heard is not known: {why}"));
        json!({"items": []})
    });
    let items = heard["items"].as_array().cloned().unwrap_or_default();
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    let mut shown = table::new(&["host", "hooks", "state", "last event", "calls", "undecided"]);
    for host in &HOSTS {
        let (name, unseen) = (host.name, host.unseen);
        let scopes = [SettingsScope::User, SettingsScope::Project].into_iter();
        let places = scopes.filter_map(|scope| HostSettings::of(host, scope));
        let installed: Vec<Value> = places.filter_map(|place| told(&place)).collect();
        let heard: Vec<&Value> = items.iter().filter(|item| item["host"] == name).collect();
        if installed.is_empty() && heard.is_empty() {
            continue;
        }
        let sum = |part: &str| heard.iter().filter_map(|item| item[part].as_i64()).sum::<i64>();
        let (calls, undecided) = (sum("calls"), sum("undecided"));
        let column =
            |part: &str| installed.iter().filter_map(|place| place[part].as_str()).collect::<Vec<_>>().join("\n");
        let files = if installed.is_empty() { "none here".to_owned() } else { column("file") };
        let last = heard.first().map_or("-".to_owned(), |item| distance(&item["seen_at"]));
        shown.add_row([name.to_owned(), files, column("state"), last, calls.to_string(), undecided.to_string()]);
        if undecided > 0 {
            notes.push(format!("{name}: calls that ran without a decision: {undecided}"));
        }
        let others = heard.iter().filter_map(|item| item["shown_host"].as_str());
        notes.extend(others.map(|other| format!("{name}: {other} runs these hooks too")));
        if !installed.is_empty() {
            notes.extend(unseen.iter().map(|note| format!("{name}: {note}")));
        }
        rows.push(json!({"host": name, "installed": installed, "heard": heard, "undecided": undecided,
            "unseen": unseen}));
    }
    if global.json {
        return answer_json(&json!({"hosts": rows}));
    }
    if rows.is_empty() {
        answer("No hooks of Umbra. Install them: umbra hook install claude-code");
        return Ok(());
    }
    answer(&shown.to_string());
    for note in notes {
        answer(&note);
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
    let near = FILES.map(|name| place.path.with_file_name(name));
    let (_, folder) = place.installation.folder;
    // Hosts read the settings of the whole project, from its root down to here.
    let here = std::env::current_dir().unwrap_or_default();
    let above = here.ancestors().take(FOLDERS).map(|above| above.join(folder));
    let above = above.flat_map(|folder| FILES.map(|name| folder.join(name)));
    near.into_iter().chain(above).find_map(|file| {
        let settings = settings_file::value(&settings_file::read(&file).ok().flatten()?)?;
        let switch = SWITCHES.iter().find(|(switch, off)| settings.pointer(switch) == Some(&Value::Bool(*off)))?;
        Some(format!("{} in {}", switch.0.trim_start_matches('/').replace('/', "."), file.display()))
    })
}
