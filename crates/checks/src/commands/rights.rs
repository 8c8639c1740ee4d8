//! Commands that raise rights, or change accounts and who may do what. In: one call. Out: what it changes. Files are
//! known by their places, as a command names them.

use super::{Sight, persistence::writes_operand};
use umbra_analysis::shell::{Call, targets::is_credential_file};
use umbra_domain::Severity::{Critical, Info, Warning};

/// What the call changes.
pub(super) fn look(call: &Call, sights: &mut Vec<Sight>) {
    raised(call, sights);
    let to_sudoers = call.writes.iter().map(|to| to.text.as_str()).chain(writes_operand(call)).any(|path| {
        path.starts_with("/etc/sudoers")
            || path.starts_with("/etc/pam.d/")
            || matches!(
                path,
                "/etc/passwd" | "/etc/shadow" | "/etc/group" | "/etc/gshadow" | "/etc/ld.so.preload" | "/etc/doas.conf"
            )
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
            | "chage"
            | "vipw"
            | "newusers"
            | "new-localuser"
            | "add-localgroupmember"
            | "runas"
            | "set-executionpolicy"
            | "insmod"
            | "modprobe"
            | "rmmod"
            | "nsenter"
    ) || call.program == "su"
        || call.program == "dscl"
            && call.args.iter().any(|arg| matches!(arg.text.as_str(), "-create" | "-append" | "-passwd"))
        || call.program == "start-process" && call.says_any(&["runas"])
        || call.program == "chattr" && call.args.iter().any(|arg| arg.text == "-i" || arg.text == "+i")
        || call.program == "capsh"
            && call.args.iter().any(|arg| arg.text.starts_with("--uid=0") || arg.text.starts_with("--gid=0"))
        || call.program == "sysctl" && call.has('w', "write")
        || call.program == "net"
            && call.operands().any(|word| matches!(word, "user" | "localgroup"))
            && call.args.iter().any(|arg| arg.text.eq_ignore_ascii_case("/add"));
    let mode = call.args.windows(2).find_map(|pair| match pair {
        [option, mode] if option.text == "-m" => Some(mode.text.as_str()),
        _ => None,
    });
    if call.program == "install" && mode.is_some_and(|mode| mode.len() == 4 && mode.starts_with(['4', '2', '6'])) {
        let what = format!("`{}` lets a program run with its owner's rights.", call.shown());
        sights.push(Sight::new("setuid", Warning, what));
    }
    let asks = call.has_long("help") || call.has_long("version") || call.program == "passwd" && call.has('S', "status");
    // A second root under another name.
    let root = matches!(call.program.as_str(), "useradd" | "adduser" | "usermod")
        && (call.args.windows(2).any(|pair| {
            matches!(pair, [option, id] if matches!(option.text.as_str(), "-u" | "--uid" | "-ou") && id.text == "0")
        }) || call.says_any(&["-u0", "--uid=0", "-ou0"]));
    if changes && !asks {
        sights.push(Sight::new(
            "privilege",
            if root { Critical } else { Warning },
            format!("`{}` changes accounts, rights or the system's guards.", call.shown()),
        ));
    }
    let open_container = matches!(call.program.as_str(), "docker" | "podman" | "nerdctl")
        && call.operands().take(3).any(|word| matches!(word, "run" | "create" | "exec"))
        && (call.args.iter().any(|arg| opens_host(&arg.text))
            || call.args.windows(2).any(|pair| {
                matches!(pair, [name, value] if matches!(name.text.as_str(), "--pid" | "--userns" | "--ipc" | "--uts") && value.text == "host"
                    || name.text == "--cap-add" && opens_host(&format!("--cap-add={}", value.text)))
            }));
    if open_container {
        sights.push(Sight::new(
            "privilege",
            if takes_host(call) { Critical } else { Warning },
            format!("`{}` gives a container the host's rights.", call.shown()),
        ));
    }
}

/// What runs with another user's rights.
fn raised(call: &Call, sights: &mut Vec<Sight>) {
    if let Some(wrapper) = &call.raised_by {
        let shown = if call.program == *wrapper { call.shown() } else { format!("{wrapper} {}", call.shown()) };
        // To look, and to install what the system's own sources hold, is everyday work.
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
            program => program == wrapper.as_str() && (call.says("-l") || call.says("-v")),
        };
        sights.push(Sight::new(
            "privilege",
            if everyday { Info } else { Warning },
            format!("`{shown}` runs with another user's rights, usually root's."),
        ));
    }
}

/// Whether a container is given the host's whole file system and the means to become its root.
fn takes_host(call: &Call) -> bool {
    let says = |words: &[&str]| call.args.iter().any(|arg| words.contains(&arg.text.as_str()));
    let root = call.args.iter().map(|arg| arg.text.as_str()).any(|option| {
        let bound = option.trim_start_matches("-v").trim_start_matches("--volume=");
        bound.starts_with("/:") && !bound.ends_with(":ro")
            || ["source=/,", "src=/,"].iter().any(|part| option.contains(part))
    });
    let enters = says(&["chroot", "nsenter", "/usr/sbin/chroot", "/usr/bin/nsenter"]);
    root && (enters || says(&["--privileged", "--privileged=true"])) || enters && says(&["--privileged", "--pid=host"])
}

/// Whether an option of a container's run gives it what belongs to the host.
fn opens_host(option: &str) -> bool {
    let bound = option.trim_start_matches("-v").trim_start_matches("--volume=");
    let root = ["source=/,", "src=/,"].iter().any(|part| option.contains(part));
    let places = ["/:", "/etc:", "/root:", "/proc:", "/sys:", "/boot:", "/dev:"];
    let adds = option.strip_prefix("--cap-add=").is_some_and(|cap| {
        matches!(
            cap.trim_start_matches("CAP_"),
            "ALL" | "SYS_ADMIN" | "SYS_PTRACE" | "SYS_MODULE" | "DAC_READ_SEARCH" | "SYS_RAWIO"
        )
    });
    let whole = matches!(
        option,
        "--privileged" | "--privileged=true" | "--pid=host" | "--userns=host" | "--ipc=host" | "seccomp=unconfined"
    ) || option.ends_with("seccomp=unconfined")
        || option.starts_with("--device=/dev/sd")
        || option.starts_with("--device=/dev/nvme");
    whole || adds || root || option.contains("docker.sock") || places.iter().any(|place| bound.starts_with(place))
}
