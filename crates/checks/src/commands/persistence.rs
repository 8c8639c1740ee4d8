//! Commands that stay behind: they make something run again later, or let someone in. In: one call. Out: what it leaves,
//! and where. Places are known by name: schedules, services, files that a login reads, keys.

use super::Sight;
use umbra_analysis::shell::Call;
use umbra_domain::Severity::{Critical, Info, Warning};

/// Files that a call writes by name: `tee`, `cp`, `mv`, `install`, `ln`.
pub(super) fn writes_operand(call: &Call) -> impl Iterator<Item = &str> {
    let all = matches!(call.program.as_str(), "tee" | "sponge" | "add-content" | "set-content" | "out-file");
    let last = matches!(call.program.as_str(), "cp" | "mv" | "install" | "ln" | "rsync");
    let edits = matches!(call.program.as_str(), "sed" | "perl") && call.has('i', "in-place");
    let count = call.operands().count();
    call.operands()
        .enumerate()
        .filter(move |(at, _)| all || last && count > 1 && at + 1 == count || edits && at + 1 == count)
        .map(|(_, path)| path)
}

/// What the call leaves behind.
pub(super) fn look(call: &Call, sights: &mut Vec<Sight>) {
    const PLACES: [&str; 35] = [
        "authorized_keys",
        "/etc/cron",
        "/var/spool/cron",
        "/etc/systemd/system",
        "/lib/systemd/system",
        ".config/systemd/user",
        "/etc/init.d",
        "/etc/rc.local",
        "/etc/profile",
        ".bashrc",
        ".bash_profile",
        ".zshrc",
        ".zprofile",
        "~/.profile",
        "$HOME/.profile",
        ".config/autostart",
        "LaunchAgents",
        "LaunchDaemons",
        "config.fish",
        ".bash_login",
        ".bash_logout",
        ".zshenv",
        ".zlogin",
        ".xprofile",
        ".xinitrc",
        ".ssh/rc",
        "/etc/update-motd.d",
        "/etc/udev/rules.d",
        "/etc/environment",
        "/etc/anacrontab",
        "/etc/bash.bashrc",
        "/etc/modules-load.d",
        "Start Menu\\Programs\\Startup",
        "/etc/xdg/autostart",
        ".git/hooks/",
    ];
    let place = call
        .writes
        .iter()
        .map(|to| to.text.as_str())
        .chain(writes_operand(call))
        .find(|path| PLACES.iter().any(|place| path.contains(place)));
    let schedules = match call.program.as_str() {
        "crontab" => {
            !(call.has('l', "")
                || call.has('r', "")
                || call.has('e', "")
                || call.args.is_empty() && call.given.is_none())
        }
        "systemctl" => call.operands().any(|word| word == "enable"),
        "launchctl" => call.operands().any(|word| matches!(word, "load" | "bootstrap")),
        "schtasks" => call.args.iter().any(|arg| arg.text.eq_ignore_ascii_case("/create")),
        "update-rc.d" | "chkconfig" | "at" | "batch" => !call.has('l', "list"),
        "ssh-copy-id" | "register-scheduledtask" | "new-service" | "new-scheduledtask" => true,
        "systemd-run" => call.args.iter().any(|arg| arg.text.starts_with("--on-")),
        "sc" => call.says("create"),
        "reg" => {
            call.says_any(&["add"])
                && call.args.iter().any(|arg| arg.raw.to_ascii_lowercase().contains("currentversion\\run"))
        }
        "new-itemproperty" | "set-itemproperty" => {
            call.args.iter().any(|arg| arg.raw.to_ascii_lowercase().contains("currentversion\\run"))
        }
        "git" => call.says("core.hooksPath") && call.says("config"),
        _ => false,
    };
    if call.program == "crontab" && call.has('r', "") {
        let what = format!("`{}` removes every job of a user's crontab.", call.shown());
        sights.push(Sight::new("schedule_removal", Warning, what));
    }
    if place.is_some() || schedules {
        let what = place.map_or_else(|| call.shown(), |place| format!("{} → {place}", call.program));
        let severity = match place {
            // Whoever has the key logs in.
            Some(place) if place.contains("authorized_keys") => Critical,
            Some(place) if names_rc(place) && only_eases(call) => Info,
            _ => Warning,
        };
        sights.push(Sight::new(
            "persistence",
            severity,
            format!("`{what}` makes something run again later, or lets someone in."),
        ));
    }
}

/// Whether a path is what a person's shell reads when it starts.
fn names_rc(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    matches!(name, ".bashrc" | ".zshrc" | ".bash_profile" | ".zprofile" | ".profile" | "config.fish" | ".bash_aliases")
}

/// Whether all that is written are aliases and settings that start no program: `alias ll='ls -l'`, `export EDITOR=vim`.
fn only_eases(call: &Call) -> bool {
    const STARTS: [&str; 16] = [
        "curl",
        "wget",
        "nc ",
        "/dev/tcp",
        "base64",
        "eval",
        "LD_PRELOAD",
        "LD_LIBRARY",
        "PROMPT_COMMAND",
        "BASH_ENV",
        "python",
        "perl",
        "|",
        "`",
        "sudo=",
        "/tmp",
    ];
    let said: Vec<&str> = match call.program.as_str() {
        "echo" | "printf" => {
            call.args.iter().map(|arg| arg.text.as_str()).filter(|arg| !arg.starts_with('-')).collect()
        }
        "cat" | "tee" => call.given.iter().map(String::as_str).collect(),
        _ => return false,
    };
    let said = said.join(" ");
    let eases = |line: &str| {
        let taken = ["alias sudo", "alias ssh", "alias su="].iter().any(|start| line.starts_with(start));
        (line.starts_with("alias ") || line.starts_with("export ") || line.starts_with('#'))
            && !taken
            && !STARTS.iter().any(|part| line.contains(part))
            && (!line.contains("$(") || line.starts_with("export PATH"))
    };
    let mut lines = said.split(['\n', ';']).map(str::trim).filter(|line| !line.is_empty()).peekable();
    lines.peek().is_some() && lines.all(eases)
}
