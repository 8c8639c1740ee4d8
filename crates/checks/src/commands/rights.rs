//! Commands that run with another user's rights. In: one call. Out: the detection, milder for everyday work.

use super::Detection;
use umbra_analysis::shell::{ProgramCall, targets::is_credential_file};
use umbra_domain::Severity::{Info, Warning};

/// Adds a call that runs with another user's rights.
pub(super) fn detect_raised_rights(call: &ProgramCall, sights: &mut Vec<Detection>) {
    if let Some(wrapper) = &call.raised_by {
        let shown = if call.program == *wrapper { call.shown() } else { format!("{wrapper} {}", call.shown()) };
        // Reading, and installing from the system's own sources, is everyday work.
        let first = call.operands().next().unwrap_or_default();
        let everyday = match call.program.as_str() {
            "journalctl" | "dmesg" | "lsof" | "ss" | "netstat" | "df" | "du" | "ls" | "lsblk" | "blkid" | "ps"
            | "top" | "htop" | "id" | "whoami" | "uname" | "uptime" | "free" | "stat" | "file" | "which" | "wc"
            | "ncdu" | "iotop" | "iftop" | "dmidecode" | "lshw" | "lspci" | "lsusb" | "lsmod" | "vmstat" | "iostat"
            | "true" => true,
            "cat" | "less" | "more" | "head" | "tail" | "grep" | "zgrep" => {
                call.writes.is_empty() && !call.args.iter().any(|arg| is_credential_file(&arg.text))
            }
            "systemctl" => {
                matches!(first, "status" | "restart" | "reload" | "start" | "show" | "cat" | "daemon-reload")
                    || first.starts_with("is-")
                    || first.starts_with("list-")
            }
            "service" => matches!(call.operands().nth(1), Some("status" | "restart" | "reload" | "start")),
            "docker" | "podman" => matches!(
                first,
                "ps" | "logs"
                    | "images"
                    | "inspect"
                    | "stats"
                    | "version"
                    | "info"
                    | "top"
                    | "port"
                    | "diff"
                    | "history"
            ),
            "nginx" | "apachectl" | "sshd" | "haproxy" => {
                call.args.len() == 1 && call.says_any(&["-t", "-T", "configtest"])
            }
            "ip" => !call.says_any(&["add", "del", "delete", "set", "flush", "replace", "change", "down", "up"]),
            "iptables" | "ip6tables" | "nft" => call.has('L', "list") || call.has('S', "list-rules") || first == "list",
            "ufw" | "fail2ban-client" | "certbot" => matches!(first, "status" | "certificates" | "ping"),
            "fdisk" | "parted" | "crontab" => call.has('l', "list"),
            "visudo" => call.has('c', "check"),
            "apt" | "apt-get" | "dnf" | "yum" | "apk" => {
                matches!(call.operands().next(), Some("install" | "update" | "upgrade" | "search"))
                    && !call.operands().skip(1).any(|name| name.contains('/'))
            }
            program => program == wrapper.as_str() && (call.has_argument("-l") || call.has_argument("-v")),
        };
        sights.push(Detection::new(
            "privilege",
            if everyday { Info } else { Warning },
            format!("`{shown}` runs with another user's rights, usually root's."),
        ));
    }
}
