//! Commands that stay behind: they make something run again later, or let someone in. In: one call. Out: what it leaves,
//! and where. Places are known by name: schedules, services, files that a login reads, keys.

use super::{Sight, call::Call};
use crate::domain::Severity::Warning;

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
        "crontab" => !(call.has('l', "") || call.has('r', "") || call.args.is_empty() && call.given.is_none()),
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
        sights.push(Sight::new(
            "persistence",
            Warning,
            format!("`{what}` makes something run again later, or lets someone in."),
        ));
    }
}
