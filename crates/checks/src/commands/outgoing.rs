//! Commands that read credentials and send them away. In: a pipeline's calls and its text. Out: what leaves, and how.
//! Credential files are known by name, sending programs by their options.

use super::Detection;
use crate::word_lists;
use umbra_analysis::shell::{
    ProgramCall, Purpose, Word, purpose,
    targets::{PathKind, classify, is_credential_file, names_credential},
};
use umbra_domain::Severity::{self, Critical, Warning};

/// Adds credentials that the pipeline reads or sends.
pub(super) fn detect_sent_credentials(calls: &[ProgramCall], sights: &mut Vec<Detection>) {
    // A shell opens these where it redirects, `tee >(cat >/dev/tcp/host/1)` included; in an argument they are words.
    let to_host = |text: &str| text.contains("/dev/tcp/") || text.contains("/dev/udp/");
    let socket = calls.iter().any(|call| {
        call.writes.iter().chain(&call.reads).any(|to| to_host(&to.text))
            || call.args.iter().chain(&call.writes).any(|to| to.raw.starts_with(">(") && to_host(&to.raw))
    });
    let sender = calls.iter().find(|call| socket || sends(call));
    if let Some(sender) = sender {
        let by = if sender.program.is_empty() { "a redirection" } else { &format!("`{}`", sender.program) };
        if let Some(what) = calls.iter().find_map(|call| secret(call, calls.len())) {
            let what = format!("Reads credentials ({what}) and sends them to another host with {by}.");
            sights.push(Detection::new("exfiltration", Critical, what));
            return;
        }
        if let Some(what) = calls.iter().find_map(private) {
            let what = format!("Sends {what} to another host with {by}.");
            sights.push(Detection::new("exfiltration", Warning, what));
        }
    }
    if let Some(connection) = calls.iter().find(|call| matches!(call.program.as_str(), "nc" | "ncat" | "netcat"))
        && (!connection.reads.is_empty() || calls.iter().any(|call| word_lists::lists("readers", &call.program)))
        && !connection.operands().any(|host| matches!(host, "localhost" | "127.0.0.1" | "::1"))
    {
        let what = format!("Sends the content of a file to another host with `{}`.", connection.shown());
        sights.push(Detection::new("exfiltration", Warning, what));
    }
    for (severity, what) in calls.iter().filter_map(serves) {
        sights.push(Detection::new("exfiltration", severity, what));
    }
    for call in calls {
        if let Some(what) = reads_credentials(call) {
            sights.push(Detection::new("reads_credentials", Warning, format!("`{}` {what}.", call.shown())));
            return;
        }
    }
}

/// Returns the credentials that a call reads, by their place.
fn secret(call: &ProgramCall, calls: usize) -> Option<&str> {
    let environment = |program: &str| matches!(program, "env" | "printenv");
    if environment(&call.program) && call.args.is_empty() && calls > 1
        || call.program == "security" && reads_credentials(call).is_some()
        || calls > 1 && reads_secret_store(call)
    {
        return Some(&call.program);
    }
    // A key that a program logs in with is not sent.
    let own_key = matches!(call.program.as_str(), "ssh" | "scp" | "sftp" | "rsync");
    let mut before = "";
    for arg in call.args.iter().chain(&call.reads) {
        let key = own_key && matches!(before, "-i" | "-F" | "-e") || arg.text.starts_with("ssh -i");
        // An argument that authenticates the caller, or is excluded, is not sent.
        let proves = matches!(
            before,
            "--cert" | "--key" | "--cacert" | "-E" | "--netrc-file" | "--config" | "--exclude" | "--env-file"
        );
        if !key
            && !proves
            && !arg.text.starts_with("--exclude")
            && (is_credential_file(&arg.raw) || is_credential_file(&arg.text) || names_credential(&arg.text))
        {
            return Some(&arg.raw);
        }
        if arg.runs.iter().any(|program| environment(program)) {
            return Some("the environment");
        }
        before = &arg.text;
    }
    None
}

/// True if a call asks a secret store for a secret.
fn reads_secret_store(call: &ProgramCall) -> bool {
    let cluster = matches!(call.program.as_str(), "kubectl" | "oc") && reads_credentials(call).is_some();
    cluster || purpose(call) == Some(Purpose::ReadsSecret)
}

/// Returns the private directory that a call serves to any client: keys, a home, a whole system.
fn serves(call: &ProgramCall) -> Option<(Severity, String)> {
    let texts: Vec<&str> = call.args.iter().map(|arg| arg.text.as_str()).collect();
    let web = call.program.starts_with("python")
        && texts.windows(2).any(|pair| matches!(pair, ["-m", "http.server" | "SimpleHTTPServer"]))
        || matches!(call.program.as_str(), "http-server" | "serve")
        || call.program == "php" && texts.contains(&"-S");
    if !web {
        return None;
    }
    let named = texts.windows(2).find_map(|pair| match pair {
        ["-d" | "--directory" | "-t", dir] => Some(*dir),
        _ => None,
    });
    let dir = named.or_else(|| call.dir.as_ref().map(|(dir, _)| dir.as_str()))?;
    let bare = dir.trim_end_matches('/');
    if [".ssh", ".aws", ".kube", ".gnupg", ".docker"].iter().any(|name| bare.ends_with(name))
        || is_credential_file(bare)
    {
        return Some((Critical, format!("Serves credentials (`{dir}`) to any client.")));
    }
    let whole = matches!(classify(dir), PathKind::Home | PathKind::System)
        && !dir.starts_with("/srv")
        && !dir.starts_with("/var/www");
    whole.then(|| (Warning, format!("Serves all of `{dir}` to any client.")))
}

/// Returns the private data, short of credentials, that a call reads.
fn private(call: &ProgramCall) -> Option<String> {
    let whole = |path: &str| matches!(classify(path), PathKind::Home | PathKind::System) && !path.starts_with("/dev/");
    match call.program.as_str() {
        "tar" | "zip" | "7z" | "scp" | "rsync" => {
            let operands: Vec<&str> = call.operands().collect();
            let last = usize::from(matches!(call.program.as_str(), "scp" | "rsync"));
            let from = operands.get(..operands.len().saturating_sub(last)).unwrap_or_default();
            from.iter().find(|path| !path.contains(':') && whole(path)).map(|path| format!("all of `{path}`"))
        }
        "pg_dump" | "pg_dumpall" | "mysqldump" | "mongodump" | "sqlite3" => {
            Some(format!("data from `{}`", call.program))
        }
        // To another store, or without an identity.
        "aws" => {
            let elsewhere = call.args.windows(2).any(|pair| {
                matches!(pair, [option, url] if option.text == "--endpoint-url" && !url.text.contains("localhost") && !url.text.contains("127.0.0.1"))
            });
            let unsigned =
                call.has_long("no-sign-request") && call.operands().last().is_some_and(|to| to.starts_with("s3://"));
            (call.operands().next() == Some("s3") && (elsewhere || unsigned))
                .then(|| format!("the files that `{}` copies", call.shown()))
        }
        _ => {
            let named = |text: &str| {
                ["/etc/passwd", "/etc/hosts", "/var/log/", "_history"].iter().any(|place| text.contains(place))
            };
            // `ssh` runs its command on the other host.
            let own = if call.program == "ssh" { &[][..] } else { call.args.as_slice() };
            let all = || own.iter().chain(&call.reads);
            let local = matches!(call.program.as_str(), "dig" | "nslookup" | "host" | "ping" | "curl" | "wget");
            let told = |program: &str| {
                matches!(program, "whoami" | "hostname" | "id" | "uname" | "ifconfig" | "ip" | "base64" | "xxd")
            };
            all().find(|arg| named(&arg.text) || named(&arg.raw)).map(|arg| format!("`{}`", arg.raw)).or_else(|| {
                let web = matches!(call.program.as_str(), "curl" | "wget");
                let place = |arg: &&Word| !web || arg.text.contains("://");
                let arg = all().filter(place).find(|arg| local && arg.runs.iter().any(|program| told(program)))?;
                Some(format!("the command output in `{}`", arg.raw))
            })
        }
    }
}

/// Returns how a call reads credentials.
fn reads_credentials(call: &ProgramCall) -> Option<&'static str> {
    let operands: Vec<&str> = call.operands().collect();
    let says = |word: &str| operands.contains(&word);
    let starts = |start: &str| call.args.iter().any(|arg| arg.text.starts_with(start));
    let edits = call.program == "sed" && call.has('i', "in-place");
    let reader = word_lists::lists("readers", &call.program) && !edits;
    // The target of a copy is written, and a pattern is not read.
    let copies = matches!(call.program.as_str(), "cp") && operands.len() > 1;
    let searches = matches!(
        call.program.as_str(),
        "grep" | "egrep" | "fgrep" | "zgrep" | "rg" | "ag" | "ack" | "sed" | "awk" | "gawk" | "mawk" | "jq" | "yq"
    );
    let pattern = searches && !(starts("-e") || starts("-f") || starts("--regexp") || starts("--file"));
    let from = usize::from(pattern)..operands.len() - usize::from(copies);
    let from = operands.get(from).unwrap_or_default();
    let file = |path: &str| {
        let path = path.strip_prefix("if=").unwrap_or(path);
        is_credential_file(path) || names_credential(path)
    };
    if reader && (from.iter().any(|path| file(path)) || call.reads.iter().any(|path| file(&path.text))) {
        return Some("reads a file that holds credentials");
    }
    let found = match call.program.as_str() {
        "security" => {
            says("dump-keychain") || says("export") || starts("find-") && (call.has('w', "") || call.has('g', ""))
        }
        "kubectl" | "oc" => {
            let prints = call.args.iter().any(|arg| matches!(arg.text.as_str(), "yaml" | "json" | "-oyaml" | "-ojson"))
                || starts("--output=")
                || starts("-o=");
            says("get")
                && operands.iter().any(|word| matches!(*word, "secret" | "secrets") || word.starts_with("secret/"))
                && prints
        }
        _ => false,
    };
    found.then_some("reads stored credentials")
}

/// True if the call sends data to another host.
fn sends(call: &ProgramCall) -> bool {
    let texts = || call.args.iter().map(|arg| arg.text.as_str());
    match call.program.as_str() {
        "curl" => {
            let body = texts().any(|arg| {
                arg.starts_with("-d")
                    || arg.starts_with("--data")
                    || arg.starts_with("-F")
                    || arg.starts_with("--form")
                    || arg.starts_with("-T")
                    || arg == "--upload-file"
                    || arg == "--json"
            });
            let inline = call.args.iter().any(|arg| !arg.runs.is_empty());
            let put = texts().any(|arg| matches!(arg, "PUT" | "POST"));
            (body || inline || put) && !is_local(call)
        }
        "http" | "xh" | "iwr" | "irm" | "invoke-webrequest" | "invoke-restmethod" | "nslookup.exe" => {
            let body = texts().any(|arg| {
                arg.contains('@') || matches!(arg.to_ascii_lowercase().as_str(), "-body" | "-infile" | "post")
            });
            body && !is_local(call)
        }
        "wget" => {
            !is_local(call)
                && (texts().any(|arg| arg.starts_with("--post") || arg.starts_with("--body"))
                    || call.args.iter().any(|arg| !arg.runs.is_empty()))
        }
        "nc" | "ncat" | "netcat" | "socat" | "telnet" | "ftp" | "sftp" | "tftp" | "mail" | "mailx" | "sendmail"
        | "mutt" | "ssh" | "croc" | "wormhole" | "transfer" | "ffsend" => true,
        "scp" | "rsync" => call.operands().last().is_some_and(|to| to.contains(':')),
        "dig" | "nslookup" | "host" | "ping" => call.args.iter().any(|arg| !arg.runs.is_empty()),
        "aws" | "gsutil" | "rclone" | "s3cmd" => {
            call.operands().any(|word| matches!(word, "cp" | "mv" | "sync" | "copy" | "put"))
        }
        "gh" | "glab" => call.operands().any(|word| matches!(word, "gist" | "snippet")),
        "openssl" => call.has_argument("s_client"),
        "az" | "gcloud" => call.operands().any(|word| matches!(word, "upload" | "cp")),
        _ => false,
    }
}

fn is_local(call: &ProgramCall) -> bool {
    let local = ["://localhost", "://127.0.0.1", "://[::1]"];
    call.args.iter().any(|arg| local.iter().any(|host| arg.text.contains(host)))
}
