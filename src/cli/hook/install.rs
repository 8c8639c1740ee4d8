//! `umbra hook install` and `uninstall`: our entries in the settings of a host, and the proof that they work.

use std::{
    env, fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, anyhow, bail, ensure};
use clap::{Args, ValueEnum, builder::PossibleValuesParser};
use serde_json::{Value, json};

use super::{
    plugin,
    settings_file::{self, Wanted},
    status, trust,
};
use crate::{
    cli::{CommandFailure, answer},
    ingest::{self, Limits},
};
use umbra_hooks::{
    EventKind, HOSTS, HookMode, Host,
    event::kind_of,
    host,
    installation::{Installation, SettingsForm, is_ours},
};

use crate::flows::hooks::CANARY;

/// Scope of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SettingsScope {
    /// All work of this user.
    User,
    /// The project in this folder.
    Project,
}

/// Host and place of an installation.
#[derive(Debug, Clone, Args)]
pub(super) struct HostSelection {
    /// Coding agent.
    #[arg(value_name = "HOST", value_parser = PossibleValuesParser::new(HOSTS.map(|host| host.name)))]
    host: String,
    /// Settings that are changed: those of the user, or of the project in this folder.
    #[arg(long, value_enum, default_value = "user")]
    scope: SettingsScope,
}

/// Options of `umbra hook install`.
#[derive(Debug, Clone, Args)]
pub(super) struct InstallOptions {
    #[command(flatten)]
    target: HostSelection,
    #[command(flatten)]
    hook: HookFlags,
    /// Install even though no server answers, and prove nothing.
    #[arg(long)]
    offline: bool,
}

/// Words of the installed command.
#[derive(Debug, Clone, Args)]
pub(super) struct HookFlags {
    /// `observe`: copy events, stop nothing; `enforce`: no call without a decision.
    #[arg(long, value_name = "MODE", default_value = "observe", value_parser = PossibleValuesParser::new(["observe", "enforce"]))]
    pub mode: String,
    /// Address of the server, written into the hook; without it the hook goes by `UMBRA_URL`, else to this machine.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Name of the agent, written into the hook; without it the hook goes by `UMBRA_AGENT`, else the host's name.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
}

impl HookFlags {
    pub fn mode(&self) -> HookMode {
        HookMode::parse(&self.mode).unwrap_or_default()
    }
}

/// Settings of a host, in which our hooks are or will be.
pub(super) struct HostSettings {
    pub host: &'static Host,
    pub installation: Installation,
    pub path: PathBuf,
}

impl HostSettings {
    /// Returns the place of a host's settings; `None` if the host has no settings of that scope.
    pub fn of(host: &'static Host, scope: SettingsScope) -> Option<Self> {
        let mut installation = Installation::of(host);
        let path: PathBuf = match scope {
            SettingsScope::Project => env::current_dir().ok()?.join(installation.project?),
            SettingsScope::User => {
                let (variable, below) = installation.folder;
                let named = variable.and_then(super::variable);
                let folder = named.map_or_else(|| Some(home()?.join(below)), |folder| Some(PathBuf::from(folder)))?;
                folder.join(installation.user)
            }
        };
        let path = match installation.replaced_by.map(|name| path.with_file_name(name)).filter(|path| path.exists()) {
            Some(path) => {
                installation.form = SettingsForm::GroupsAtTop;
                path
            }
            None => path,
        };
        Some(Self { host, installation, path })
    }

    /// Returns the file whose entries take the place of ours, which are in the ordinary file.
    pub fn replacement(&self) -> Option<&Path> {
        let ordinary = Self {
            installation: Installation::of(self.host),
            path: self.path.with_file_name(Installation::of(self.host).user),
            host: self.host,
        };
        let is_replaced = self.path != ordinary.path && self.installed().is_empty();
        (is_replaced && !ordinary.installed().is_empty()).then_some(&self.path)
    }

    /// True if an entry of the settings is ours.
    pub fn owns(&self, entry: &Value) -> bool {
        commands(entry).is_some_and(|commands| commands.iter().all(|command| is_ours(command, self.host)))
    }

    /// Returns the commands of ours that are installed here, with their events.
    pub fn installed(&self) -> Vec<(String, String)> {
        match self.installation.form {
            SettingsForm::Scripts => {
                let script = |event: &&str| {
                    let text = fs::read_to_string(self.path.join(event)).ok()?;
                    is_ours(&text, self.host).then(|| ((*event).to_owned(), text))
                };
                self.installation.events.iter().filter_map(script).collect()
            }
            SettingsForm::Plugin => {
                let text = fs::read_to_string(&self.path).ok().filter(|text| plugin::is_ours(text));
                text.map(|text| vec![("plugin".to_owned(), text)]).unwrap_or_default()
            }
            _ => {
                let text = settings_file::read(&self.path).ok().flatten().unwrap_or_default();
                let entries = settings_file::entries(&text, self.installation.form, &|entry| self.owns(entry));
                let of = |(event, entry): (String, Value)| Some((event, commands(&entry)?.first()?.clone()));
                entries.into_iter().filter_map(of).collect()
            }
        }
    }

    /// Returns what keeps the installed hooks from guarding: an entry that is gone or changed, a program that is gone.
    pub fn faults(&self, mode: HookMode) -> Option<String> {
        if matches!(self.installation.form, SettingsForm::Scripts | SettingsForm::Plugin) {
            return None;
        }
        let text = settings_file::read(&self.path).ok().flatten()?;
        let entries = settings_file::entries(&text, self.installation.form, &|entry| self.owns(entry));
        self.installation.events.iter().find_map(|event| {
            let Some((_, entry)) = entries.iter().find(|(name, _)| name == event) else {
                return Some(format!("the entry of {event} is gone: install again"));
            };
            let line = commands(entry)?.first()?.clone();
            let start = line.split(&format!(" {} --event", self.host.name)).next()?;
            let start = start.strip_suffix(" hook").unwrap_or(start);
            let program = start.rsplit(' ').next()?.trim_matches('\'').to_owned();
            let is_closed =
                mode == HookMode::Observe || kind_of(event) != Some(EventKind::Call) || line.ends_with("exit 2; }");
            let is_whole = *entry == self.installation.entry(event, &line, mode) && is_closed;
            let is_program = fs::metadata(&program).is_ok_and(|file| file.is_file() && file.len() > 0);
            match (is_whole, program.contains(' ') || is_program) {
                (true, true) => None,
                (false, _) => Some(format!("the entry of {event} was changed: install again")),
                (_, false) => Some(format!("the program {program} is gone or empty: install again")),
            }
        })
    }

    fn shown(&self) -> String {
        self.path.display().to_string()
    }
}

/// Returns the shell lines of an entry.
fn commands(entry: &Value) -> Option<Vec<String>> {
    let of = |handler: &Value| {
        let line = ["command", "bash"].iter().find_map(|name| handler.get(*name)?.as_str())?;
        Some(line.to_owned())
    };
    match entry.get("hooks").and_then(Value::as_array) {
        Some(handlers) if !handlers.is_empty() => handlers.iter().map(of).collect(),
        _ => of(entry).map(|line| vec![line]),
    }
}

fn home() -> Option<PathBuf> {
    super::variable("HOME").map(PathBuf::from)
}

/// Installs the hooks of a host.
pub(super) fn install(options: &InstallOptions) -> Result<(), CommandFailure> {
    let place = place(&options.target)?;
    let (host, mode) = (place.host, options.hook.mode());
    refuse_second_scope(&place, options.target.scope)?;
    let program = program()?;
    // By its path: the environment of the agent is not that of its user.
    let timeout = ["timeout", "gtimeout"].into_iter().find_map(on_path).map(|path| quoted(&path.display().to_string()));
    let timeout = timeout.as_deref();
    let agent = options.hook.agent.clone().or_else(|| super::variable("UMBRA_AGENT"));
    let agent = Some(agent.unwrap_or_else(|| host.name.to_owned()));
    let hook = HookFlags { url: Some(server(&options.hook)?), agent, mode: options.hook.mode.clone() };
    if !options.offline {
        expect_server(&hook)?;
    }
    let line = |event: &str| place.installation.line(event, &hook_words(&program, host, event, &hook), mode, timeout);
    let changed = match place.installation.form {
        SettingsForm::Scripts => write_scripts(&place, &line)?,
        SettingsForm::Plugin => write_plugin(&place, &hook)?,
        _ => write_entries(&place, mode, &line)?,
    };
    answer(&format!(
        "{}: hooks in {} ({}{})",
        host.title,
        place.shown(),
        mode.as_str(),
        if changed { "" } else { ", as they were" }
    ));
    if host.name == "codex" {
        trust::trust(&place.path, mode)?;
    }
    let call = place.installation.events.iter().find(|event| kind_of(event) == Some(EventKind::Call));
    if let Some(event) = call.filter(|_| !options.offline) {
        answer(&prove(&line(event), event, mode)?);
    }
    for limit in limits(host, mode, timeout) {
        answer(&format!("note: {limit}"));
    }
    if let Some(why) = status::switched_off(&place) {
        answer(&format!("note: the host runs no hooks: {why}"));
    }
    if place.installation.form == SettingsForm::Plugin {
        answer("Not proved: the plugin runs in the agent. After a session, look at umbra hook status");
    }
    let scope = if options.target.scope == SettingsScope::Project { " --scope project" } else { "" };
    answer(&format!("Undo: umbra hook uninstall {}{scope}", host.name));
    Ok(())
}

/// Takes our entries out of the settings of a host.
pub(super) fn uninstall(target: &HostSelection) -> Result<(), CommandFailure> {
    let place = place(target)?;
    if place.installed().is_empty() {
        answer(&format!("{}: no hooks of Umbra in {}", place.host.title, place.shown()));
        return Ok(());
    }
    match place.installation.form {
        SettingsForm::Scripts => {
            for (event, _) in place.installed() {
                let path = place.path.join(event);
                fs::remove_file(&path).with_context(|| format!("{} cannot be removed", path.display()))?;
            }
        }
        SettingsForm::Plugin => {
            fs::remove_file(&place.path).with_context(|| format!("{} cannot be removed", place.shown()))?;
        }
        _ => remove_entries(&place)?,
    }
    answer(&format!("{}: the hooks of Umbra are out of {}", place.host.title, place.shown()));
    Ok(())
}

fn place(target: &HostSelection) -> Result<HostSettings, CommandFailure> {
    let host = host(&target.host).context("unknown host")?;
    HostSettings::of(host, target.scope).ok_or_else(|| {
        CommandFailure::Usage(format!(
            "{}: the folder of its settings is unknown: set HOME, or give --scope project",
            host.title
        ))
    })
}

/// Refuses an installation beside another: each event would come twice.
fn refuse_second_scope(place: &HostSettings, scope: SettingsScope) -> anyhow::Result<()> {
    let other = if scope == SettingsScope::User { SettingsScope::Project } else { SettingsScope::User };
    match HostSettings::of(place.host, other).filter(|other| other.path != place.path && !other.installed().is_empty())
    {
        Some(other) => bail!(
            "the hooks are in {} already, and each event would come twice: take them out first (umbra hook uninstall {} \
             --scope {})",
            other.shown(),
            place.host.name,
            if scope == SettingsScope::User { "project" } else { "user" }
        ),
        None => Ok(()),
    }
}

/// Returns the words that start a hook: the small program beside this one, or this one.
fn program() -> anyhow::Result<String> {
    let program = env::current_exe().context("the path of this program is unknown")?;
    let program = fs::canonicalize(&program).unwrap_or(program);
    let small = program.with_file_name("umbra-hook");
    let is_there = small.is_file();
    let path = quoted(&if is_there { small } else { program }.display().to_string());
    Ok(if is_there { path } else { format!("{path} hook") })
}

pub(super) fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&super::variable("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Refuses to install where no server answers.
fn expect_server(hook: &HookFlags) -> anyhow::Result<()> {
    let url = server(hook)?;
    let answered = ureq::get(format!("{}/livez", url.trim_end_matches('/'))).call();
    answered.map(drop).map_err(|error| {
        anyhow!(
            "no server answers at {url} ({error}): start it (umbra serve), name another by --url, or give --offline"
        )
    })
}

/// Returns the address that the hook will ask. It is written into the hook, so that nothing in the environment of the
/// agent can lead the hook elsewhere.
pub(super) fn server(hook: &HookFlags) -> anyhow::Result<String> {
    let named = hook.url.clone().or_else(|| super::variable("UMBRA_URL"));
    let url = named.unwrap_or_else(|| umbra_shim::DEFAULT_URL.to_owned());
    ensure!(
        umbra_shim::is_near_or_private(&url),
        "{url} is neither on this machine nor https: payloads hold contents of files, so they go nowhere else"
    );
    Ok(url.trim_end_matches('/').to_owned())
}

/// Returns the words that run the hook.
fn hook_words(program: &str, host: &Host, event: &str, hook: &HookFlags) -> String {
    let given = [("--url", &hook.url), ("--agent", &hook.agent)].into_iter();
    let given = given.filter_map(|(name, value)| Some(format!(" {name} {}", quoted(value.as_ref()?))));
    format!("{program} {} --event {event} --mode {}{}", host.name, hook.mode, given.collect::<String>())
}

/// Quotes a word for a shell, if it needs that.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@%+=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Writes the entries of all events; returns false if they were there.
fn write_entries(place: &HostSettings, mode: HookMode, line: &dyn Fn(&str) -> String) -> anyhow::Result<bool> {
    let (path, installation) = (&place.path, &place.installation);
    let before = settings_file::read(path)?;
    let wanted: Vec<Wanted> = installation
        .events
        .iter()
        .map(|event| ((*event).to_owned(), installation.entry(event, &line(event), mode)))
        .collect();
    let text = before.as_deref().unwrap_or_default();
    if installation.is_strict && !text.trim().is_empty() {
        expect_strict(place, text)?;
    }
    let after = settings_file::with_entries(text, installation.form, &wanted, &|entry| place.owns(entry))
        .with_context(|| format!("{} cannot be changed", place.shown()))?;
    if before.as_deref() == Some(&*after) {
        return Ok(false);
    }
    let is_first = place.installed().is_empty();
    settings_file::write(path, &after)?;
    if let Some(before) = before.filter(|_| is_first) {
        settings_file::keep_copy(path, &before)?;
    }
    Ok(true)
}

/// Refuses a file that its host would ignore whole, with its hooks: JSON with comments, or with a name twice.
fn expect_strict(place: &HostSettings, text: &str) -> anyhow::Result<()> {
    let limits = Limits { depth: 100, nodes: text.len(), ..Limits::default() };
    let Some(fault) = ingest::hook_payload(text.as_bytes(), &limits).err().and_then(|faults| faults.into_iter().next())
    else {
        return Ok(());
    };
    let (file, title) = (place.shown(), place.host.title);
    bail!("{file}: {} {}. {title} ignores such a file whole, and its hooks: mend it first", fault.pointer, fault.detail)
}

/// Takes the entries out; gives the copy back if nothing else has changed.
fn remove_entries(place: &HostSettings) -> anyhow::Result<()> {
    let owns = |entry: &Value| place.owns(entry);
    let text = settings_file::read(&place.path)?.unwrap_or_default();
    let copy = settings_file::copy_of(&place.path);
    let kept = settings_file::read(&copy)?;
    let (form, told) = (place.installation.form, || format!("{} cannot be changed", place.shown()));
    let removed = settings_file::without_entries(&text, form, &owns).with_context(told)?;
    let ours: Vec<Wanted> = settings_file::entries(&text, form, &owns);
    let gives = |kept: &str| settings_file::with_entries(kept, form, &ours, &owns).is_ok_and(|again| again == text);
    let is_only_ours =
        |text: &str| settings_file::value(text).is_some_and(|left| left == json!({}) || left == json!({"version": 1}));
    match kept {
        // Nothing else has changed since the install.
        Some(kept) if gives(&kept) => settings_file::write(&place.path, &kept)?,
        None if is_only_ours(&removed) => {
            // The file was made for our entries.
            fs::remove_file(&place.path).with_context(|| format!("{} cannot be removed", place.shown()))?;
        }
        _ => settings_file::write(&place.path, &removed)?,
    }
    drop(fs::remove_file(copy));
    Ok(())
}

fn write_scripts(place: &HostSettings, line: &dyn Fn(&str) -> String) -> anyhow::Result<bool> {
    let mut changed = false;
    for event in place.installation.events {
        let path = place.path.join(event);
        let text = format!("#!/bin/sh\n{}\n", line(event));
        let refusal = "is another program's hook, and there can be only one: call both from a script of yours";
        if write_own(&path, &text, |before| is_ours(before, place.host), refusal)? {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
            changed = true;
        }
    }
    Ok(changed)
}

fn write_plugin(place: &HostSettings, hook: &HookFlags) -> anyhow::Result<bool> {
    let text = plugin::text(place.host, hook)?;
    write_own(&place.path, &text, plugin::is_ours, "is not Umbra's: move it away first")
}

/// Writes a file that is ours as a whole; returns false if it was there.
fn write_own(path: &Path, text: &str, is_ours: impl Fn(&str) -> bool, refusal: &str) -> anyhow::Result<bool> {
    let before = settings_file::read(path)?;
    if before.as_deref() == Some(text) {
        return Ok(false);
    }
    ensure!(before.is_none_or(|before| is_ours(&before)), "{} {refusal}", path.display());
    settings_file::write(path, text)?;
    Ok(true)
}

/// Runs the installed line with the call of a canary, as the host would, and tells what came back.
fn prove(line: &str, event: &str, mode: HookMode) -> anyhow::Result<String> {
    let id = format!("canary-{}", std::process::id());
    let payload = json!({"hook_event_name": event, "session_id": "umbra-canary", "tool_name": CANARY, "tool_input": {},
        "tool_use_id": id});
    let mut child = Command::new("sh")
        .args(["-c", line])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("no shell runs the hook")?;
    if let Some(mut stdin) = child.stdin.take() {
        drop(stdin.write_all(payload.to_string().as_bytes()));
    }
    let output = child.wait_with_output().context("the hook does not end")?;
    let said = String::from_utf8_lossy(&output.stdout);
    match (mode, said.contains("canary denied"), said.contains("canary stored")) {
        (HookMode::Enforce, true, _) => {
            let id = said.split("(dec_").nth(1).and_then(|rest| rest.split(')').next()).unwrap_or_default();
            Ok(format!("Proved: a canary's call was denied (dec_{id})"))
        }
        (HookMode::Observe, _, true) => Ok("Proved: a canary's event was stored".to_owned()),
        _ => Err(anyhow!(
            "the hooks are installed, but the canary came back with this answer: {:?} {}",
            said.trim(),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// Returns what the hooks of a host cannot do.
fn limits(host: &Host, mode: HookMode, timeout: Option<&str>) -> impl Iterator<Item = &'static str> {
    let needs_timeout = mode == HookMode::Enforce && Installation::of(host).form != SettingsForm::Plugin;
    let without = "no `timeout` program was found: a frozen hook lets the call run once the host's own time is over";
    (needs_timeout && timeout.is_none()).then_some(without).into_iter().chain(host.unseen.iter().copied())
}
