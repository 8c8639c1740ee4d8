//! Commands that raise rights, change accounts and guards, or stay behind to run again. In: one call. Out: what it
//! changes. Files are known by their places, as a command names them.

use super::{Sight, resolve::Call};
use crate::domain::Severity::{Critical, Warning};

/// What the call changes.
pub(super) fn look(call: &Call, sights: &mut Vec<Sight>) {
    rights(call, sights);
    persistence(call, sights);
}

fn rights(call: &Call, sights: &mut Vec<Sight>) {
    if let Some(wrapper) = &call.raised_by {
        let shown = if call.program == *wrapper { call.shown() } else { format!("{wrapper} {}", call.shown()) };
        sights.push(Sight::new(
            "privilege",
            Warning,
            format!("`{shown}` runs with another user's rights, usually root's."),
        ));
    }
    let to_sudoers = call.writes.iter().map(|to| to.text.as_str()).chain(writes_operand(call)).any(|path| {
        path.starts_with("/etc/sudoers") || matches!(path, "/etc/passwd" | "/etc/shadow" | "/etc/ld.so.preload")
    });
    if to_sudoers {
        sights.push(Sight::new(
            "account_change",
            Critical,
            format!("`{}` writes to a file that says who may do what.", call.shown()),
        ));
    }
    let changes = matches!(
        call.program.as_str(),
        "visudo"
            | "usermod"
            | "useradd"
            | "adduser"
            | "userdel"
            | "deluser"
            | "groupadd"
            | "gpasswd"
            | "passwd"
            | "chpasswd"
            | "setcap"
            | "setenforce"
            | "insmod"
            | "modprobe"
            | "rmmod"
            | "nsenter"
    ) || call.program == "su"
        || matches!(call.program.as_str(), "iptables" | "ip6tables" | "nft")
            && (call.has('F', "flush") || call.says("flush"))
        || call.program == "ufw" && (call.says("disable") || call.says("reset"))
        || call.program == "sysctl" && call.has('w', "write")
        || call.program == "net"
            && call.operands().any(|word| matches!(word, "user" | "localgroup"))
            && call.args.iter().any(|arg| arg.text.eq_ignore_ascii_case("/add"));
    let asks = call.has_long("help") || call.has_long("version") || call.program == "passwd" && call.has('S', "status");
    if changes && !asks {
        sights.push(Sight::new(
            "privilege",
            Warning,
            format!("`{}` changes accounts, rights or the system's guards.", call.shown()),
        ));
    }
    let open_container = matches!(call.program.as_str(), "docker" | "podman")
        && call.operands().next() == Some("run")
        && call.args.iter().any(|arg| {
            arg.text == "--privileged"
                || arg.text.starts_with("/:/")
                || arg.text.contains("docker.sock")
                || arg.text == "--pid=host"
        });
    if open_container {
        sights.push(Sight::new(
            "privilege",
            Warning,
            format!("`{}` gives a container the host's rights.", call.shown()),
        ));
    }
}

/// Files that a call writes by name: `tee`, `cp`, `mv`, `install`, `ln`.
fn writes_operand(call: &Call) -> impl Iterator<Item = &str> {
    let all = matches!(call.program.as_str(), "tee" | "sponge");
    let last = matches!(call.program.as_str(), "cp" | "mv" | "install" | "ln" | "rsync");
    let edits = matches!(call.program.as_str(), "sed" | "perl") && call.has('i', "in-place");
    let count = call.operands().count();
    call.operands()
        .enumerate()
        .filter(move |(at, _)| all || last && count > 1 && at + 1 == count || edits && at + 1 == count)
        .map(|(_, path)| path)
}

fn persistence(call: &Call, sights: &mut Vec<Sight>) {
    const PLACES: [&str; 19] = [
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
    ];
    let place = call
        .writes
        .iter()
        .map(|to| to.text.as_str())
        .chain(writes_operand(call))
        .find(|path| PLACES.iter().any(|place| path.contains(place)));
    let schedules = match call.program.as_str() {
        "crontab" => !(call.has('l', "") || call.args.is_empty() && call.given.is_none()),
        "systemctl" => call.operands().any(|word| word == "enable"),
        "launchctl" => call.operands().any(|word| matches!(word, "load" | "bootstrap")),
        "schtasks" => call.args.iter().any(|arg| arg.text.eq_ignore_ascii_case("/create")),
        "update-rc.d" | "chkconfig" | "at" | "batch" => !call.has('l', "list"),
        "ssh-copy-id" => true,
        _ => false,
    };
    if place.is_some() || schedules {
        let what = place.map_or_else(|| call.shown(), |place| format!("{} → {place}", call.program));
        sights.push(Sight::new(
            "persistence",
            Warning,
            format!("`{what}` makes something run again later, or lets someone in."),
        ));
    }
}
