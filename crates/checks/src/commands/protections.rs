//! Commands that take a guard away (firewall, audit, mandatory access control, virus scanner, certificates) or the
//! record of what was done. In: one call. Out: what no longer protects, or is no longer told.

use super::Sight;
use umbra_analysis::shell::{Call, targets::is_history};
use umbra_domain::Severity::{Critical, Warning};

/// Services and processes that guard a host, or tell what happens on it.
const GUARDS: [&str; 26] = [
    "apparmor",
    "auditd",
    "clamav",
    "clamd",
    "crowdstrike",
    "falcon",
    "fail2ban",
    "firewalld",
    "iptables",
    "mpssvc",
    "nftables",
    "osqueryd",
    "ossec",
    "rsyslog",
    "sentinel",
    "suricata",
    "sysmon",
    "syslog",
    "ufw",
    "wazuh",
    "windefend",
    "mdatp",
    "wdfilter",
    "eventlog",
    "journald",
    "snoopy",
];

/// What the call takes away.
pub(super) fn look(call: &Call, sights: &mut Vec<Sight>) {
    if weakens(call) {
        let what = format!("`{}` takes away what protects the machine.", call.shown());
        sights.push(Sight::new("protection_disabled", Warning, what));
    }
    if removes_traces(call) {
        let what = format!("`{}` removes the record of what was done.", call.shown());
        sights.push(Sight::new("trace_removal", Warning, what));
    }
    let recovery = match call.program.as_str() {
        "tmutil" => call.operands().any(|verb| matches!(verb, "disable" | "delete" | "deletelocalsnapshots")),
        "snapper" | "timeshift" => call.says("delete") || call.says("--delete") || call.says("--delete-all"),
        _ => false,
    };
    if recovery {
        let what = format!("`{}` removes backups or the way to recover.", call.shown());
        sights.push(Sight::new("backup_destruction", Critical, what));
    }
}

fn is_guard(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    GUARDS.iter().any(|guard| word.starts_with(guard))
}

fn weakens(call: &Call) -> bool {
    let first = call.operands().next().unwrap_or_default();
    let guard = || call.operands().any(is_guard);
    let says = |words: &[&str]| call.says_any(words);
    match call.program.as_str() {
        "iptables" | "ip6tables" => {
            call.has('F', "flush") || call.has('X', "") || call.has('P', "policy") && says(&["ACCEPT"])
        }
        "nft" => says(&["flush"]) || first == "delete",
        "ufw" => says(&["disable", "reset"]) || says(&["default"]) && says(&["allow"]),
        "firewall-cmd" => call.args.iter().any(|arg| arg.text.starts_with("--remove") || arg.text == "--panic-off"),
        "setenforce" => says(&["0", "permissive"]),
        "systemctl" => matches!(first, "stop" | "disable" | "mask" | "kill") && guard(),
        "service" | "rc-service" => says(&["stop"]) && guard(),
        "sc" => matches!(first, "stop" | "delete" | "config") && guard(),
        "net" => first == "stop" && guard(),
        "kill" | "pkill" | "killall" | "taskkill" | "stop-process" | "stop-service" | "set-service" => guard(),
        "aa-teardown" | "aa-disable" | "aa-complain" | "add-mppreference" => true,
        "apparmor_parser" => call.has('R', "remove"),
        "auditctl" => call.has('D', "") || call.has('e', "") && says(&["0"]),
        "csrutil" => first == "disable",
        "spctl" => says(&["--master-disable", "--global-disable"]),
        "sysctl" => call.args.iter().any(|arg| {
            let off = arg.text.ends_with("=0");
            off && ["randomize_va_space", "kptr_restrict", "yama", "dmesg_restrict"].iter().any(|name| arg.text.contains(name))
        }),
        "set-mppreference" => call.args.iter().any(|arg| {
            let name = arg.text.to_ascii_lowercase();
            name.starts_with("-disable") || name.starts_with("-exclusion")
        }),
        "netsh" => says(&["advfirewall", "firewall"]) && says(&["off", "disable", "delete", "reset"]),
        "set-netfirewallprofile" => says(&["false", "$false"]),
        "git" => call.args.windows(2).any(|pair| {
            matches!(pair, [name, value] if name.text.eq_ignore_ascii_case("http.sslverify") && value.text == "false")
        }),
        "npm" | "yarn" | "pnpm" => says(&["strict-ssl"]) && says(&["false"]),
        "export" | "set" | "setx" => call.args.iter().any(|arg| {
            matches!(arg.text.as_str(), "NODE_TLS_REJECT_UNAUTHORIZED=0" | "PYTHONHTTPSVERIFY=0" | "GIT_SSL_NO_VERIFY=1" | "GIT_SSL_NO_VERIFY=true")
        }),
        _ => false,
    }
}

/// Whether the call empties or stops a record: a shell's history, a journal, an audit log.
fn removes_traces(call: &Call) -> bool {
    let begins = |starts: &[&str]| call.args.iter().any(|arg| starts.iter().any(|start| arg.text.starts_with(start)));
    match call.program.as_str() {
        "history" => call.has('c', "") || call.has('d', ""),
        "unset" | "export" => begins(&["HISTFILE", "HISTSIZE=0", "HISTFILESIZE=0", "HISTCONTROL=ignorespace"]),
        "set" => call.says("+o") && call.says("history"),
        "journalctl" => begins(&["--vacuum", "--rotate"]),
        "wevtutil" => call.operands().any(|word| word == "cl" || word == "clear-log"),
        "clear-eventlog" | "remove-eventlog" | "clear-history" => true,
        "rm" | "shred" | "unlink" | "truncate" | "ln" | "cp" | "mv" | "tee" => {
            call.operands().any(is_history)
                || matches!(call.program.as_str(), "shred" | "truncate")
                    && call.operands().any(|path| path.starts_with("/var/log/"))
        }
        program if program.starts_with("histfile=") || program.starts_with("histsize=0") => true,
        _ => false,
    }
}
