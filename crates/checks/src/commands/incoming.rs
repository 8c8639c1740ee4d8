//! Commands that download code and run it unseen, and commands that give a shell to another host. In: a pipeline's
//! calls. Out: findings. Data is followed from one command to the next, and a downloaded file to the command that runs
//! it.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::Detection;
use crate::word_lists;
use umbra_analysis::shell::{ProgramCall, is_shell};
use umbra_domain::Severity::{Critical, Warning};

/// True for calls that undo an encoding.
fn decodes(call: &ProgramCall) -> bool {
    match call.program.as_str() {
        "base64" | "base32" => call.has('d', "decode") || call.has('D', ""),
        "xxd" => call.has('r', "revert"),
        "openssl" => call.has('d', "") && call.operands().any(|word| matches!(word, "enc" | "base64")),
        "rev" | "tr" | "gunzip" | "zcat" => true,
        _ => false,
    }
}

/// True if the program is a shell or interpreter that runs its standard input.
fn runs_input(call: &ProgramCall) -> bool {
    let mut operands = call.operands();
    if is_shell(&call.program) {
        let inline = call
            .args
            .iter()
            .any(|arg| arg.text.starts_with('-') && !arg.text.starts_with("--") && arg.text.ends_with('c'));
        return !inline
            && (call.has('s', "") || operands.next().is_none_or(|first| matches!(first, "/dev/stdin" | "-")));
    }
    match call.program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
        "python" | "perl" | "ruby" | "node" | "php" | "lua" | "pypy" | "nodejs" | "osascript" | "powershell"
        | "pwsh" | "tclsh" | "bun" | "deno" => {
            let inline = call.args.iter().any(|arg| {
                arg.text.starts_with('-')
                    && !arg.text.starts_with("--")
                    && arg.text.ends_with(['c', 'e', 'n', 'r', 'm'])
                    && arg.text != "-"
            });
            !inline && operands.next().is_none_or(|first| matches!(first, "-" | "/dev/stdin" | "run"))
                || call
                    .args
                    .windows(2)
                    .any(|pair| matches!(pair, [option, value] if option.text.starts_with("-c") && value.text == "-"))
        }
        "source" | "." => call.args.iter().any(|arg| arg.text == "/dev/stdin"),
        "at" | "batch" | "iex" | "invoke-expression" => true,
        _ => false,
    }
}

/// Adds downloads and remote shells of one pipeline. `downloaded` remembers the files that earlier calls saved.
pub(super) fn detect_downloaded_code(calls: &[ProgramCall], downloaded: &mut Vec<String>, sights: &mut Vec<Detection>) {
    incoming(calls, downloaded, sights);
    for call in calls {
        remote_code(call, sights);
    }
    reverse_shell(calls, sights);
}

fn incoming(calls: &[ProgramCall], downloaded: &mut Vec<String>, sights: &mut Vec<Detection>) {
    for (at, call) in calls.iter().enumerate() {
        let before = calls.get(..at).unwrap_or_default();
        let runs = || call.args.iter().chain(&call.reads).flat_map(|arg| &arg.runs).chain(&call.runs);
        let given = runs().any(|program| word_lists::lists("fetchers", base(program)));
        let evaluates = is_shell(&call.program) || word_lists::lists("evaluators", &call.program);
        // `curl … | xargs -0 bash -c`
        let handed = is_shell(&call.program)
            && call.args.last().is_some_and(|arg| arg.text.starts_with('-') && arg.text.ends_with('c'))
            && before.iter().any(|earlier| word_lists::lists("fetchers", &earlier.program));
        let named = handed
            || call.program.is_empty() && call.runs.iter().any(|program| word_lists::lists("fetchers", base(program)));
        if runs_input(call) && before.iter().any(|earlier| word_lists::lists("fetchers", &earlier.program))
            || evaluates && given
            || named
        {
            let what = format!("Downloads a script and pipes it to {} without inspection.", shell_name(call));
            sights.push(Detection::new("download_and_run", Critical, what));
        } else if runs_input(call) && before.iter().any(decodes)
            || evaluates && runs().any(|program| matches!(base(program), "base64" | "xxd" | "base32"))
        {
            let what = format!("Decodes a script and pipes it to `{}` without inspection.", call.program);
            sights.push(Detection::new("decoded_and_run", Critical, what));
        }
        let named = |name: &str| named_in(downloaded, name);
        let run = is_shell(&call.program)
            || matches!(call.program.as_str(), "python" | "python3" | "source" | "." | "perl" | "ruby" | "node");
        if run && call.operands().next().is_some_and(named)
            || named(&call.program) && !word_lists::lists("fetchers", &call.program)
        {
            let does = "runs a file that was just downloaded, without inspection.";
            sights.push(Detection::of(call, "download_and_run", Critical, does));
        }
        if word_lists::lists("fetchers", &call.program) {
            downloaded.extend(saved_as(call));
        }
        // `curl … | tee x.sh`
        if call.program == "tee" && before.iter().any(|earlier| word_lists::lists("fetchers", &earlier.program)) {
            downloaded.extend(call.operands().map(|name| name.trim_start_matches("./").to_lowercase()));
        }
        if matches!(call.program.as_str(), "mv" | "cp")
            && call.operands().next().is_some_and(|from| named_in(downloaded, from))
        {
            downloaded.extend(call.operands().last().map(str::to_lowercase));
        }
    }
}

/// Adds code that a package manager or a cluster fetches from an address instead of its registry and runs, and code
/// that is passed in encoded form.
fn remote_code(call: &ProgramCall, sights: &mut Vec<Detection>) {
    let texts = || call.args.iter().map(|arg| arg.text.as_str());
    let verb = call.operands().next().unwrap_or_default();
    let by_url = |text: &str| {
        let url = ["https://", "http://", "git+", "github:", "git://"].iter().any(|start| text.contains(start));
        url && !["://localhost", "://127.0.0.1", "://pypi.org/", "://registry.npmjs.org"]
            .iter()
            .any(|own| text.contains(own))
    };
    let module = call.program.starts_with("python") && call.has_argument("pip");
    let installs = match call.program.as_str() {
        "pip" | "pip3" | "pipx" | "uv" => call.operands().any(|word| matches!(word, "install" | "run")),
        "npm" | "pnpm" | "yarn" | "bun" => matches!(verb, "install" | "i" | "add" | "exec" | "dlx" | "x"),
        "npx" | "bunx" | "pnpx" | "uvx" => true,
        "kubectl" | "oc" => matches!(verb, "apply" | "create" | "replace"),
        "cargo" | "gem" | "go" => matches!(verb, "install" | "run"),
        "helm" => matches!(verb, "install" | "upgrade"),
        _ => module && call.has_argument("install"),
    };
    // An option names another registry than the usual one.
    let insecure = texts().zip(texts().skip(1)).any(|(option, value)| {
        matches!(option, "--index-url" | "-i" | "--extra-index-url" | "--registry") && value.starts_with("http://")
    }) || texts().any(|arg| arg.starts_with("--trusted-host") || arg.contains("index-url=http://"));
    // The arguments after the package of `go run` belong to its program.
    let most = if call.program == "go" { 2 } else { usize::MAX };
    let from = call.operands().take(most).find(|word| by_url(word));
    let local = insecure && texts().any(|arg| arg.contains("://localhost") || arg.contains("://127.0.0.1"));
    if installs && (from.is_some() || insecure && !local) {
        let does = "installs or runs code from a URL or an insecure registry.";
        sights.push(Detection::of(call, "remote_code", Warning, does));
    }
    let encoded = matches!(call.program.as_str(), "powershell" | "pwsh")
        && texts().any(|arg| {
            let lower = arg.to_ascii_lowercase();
            lower == "-ec" || lower.len() > 1 && "-encodedcommand".starts_with(&lower)
        });
    if encoded {
        let does = "runs an encoded command, which hides its content.";
        sights.push(Detection::of(call, "decoded_and_run", Warning, does));
    }
}

fn named_in(downloaded: &[String], name: &str) -> bool {
    let name = name.trim_start_matches("./").to_lowercase();
    let base = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    downloaded.iter().any(|file| *file == name || !name.contains('/') && base(file) == name)
}

fn shell_name(call: &ProgramCall) -> String {
    if call.program.is_empty() { "the shell".to_owned() } else { format!("`{}`", call.program) }
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Returns the names under which a download is saved.
fn saved_as(call: &ProgramCall) -> Vec<String> {
    let texts: Vec<&str> = call.args.iter().map(|arg| arg.text.as_str()).collect();
    let given = texts.windows(2).filter_map(|pair| match pair {
        ["-o" | "--output" | "-OutFile", name] => Some(*name),
        ["-O" | "--output-document", name] if call.program == "wget" => Some(*name),
        _ => None,
    });
    // Directory of a download whose name is that of the URL.
    let dir = texts.windows(2).find_map(|pair| match pair {
        ["-P" | "--directory-prefix" | "--output-dir", dir] => Some(format!("{}/", dir.trim_end_matches('/'))),
        _ => None,
    });
    let mut names: Vec<String> = given
        .chain(call.writes.iter().map(|to| to.text.as_str()))
        .map(|name| name.trim_start_matches("./").to_lowercase())
        .collect();
    if names.is_empty() && (call.program == "wget" || call.has('O', "remote-name")) {
        names.extend(
            texts
                .iter()
                .filter(|arg| arg.contains("://"))
                .filter_map(|url| url.rsplit('/').next())
                .map(|name| (dir.clone().unwrap_or_default() + name).to_lowercase()),
        );
    }
    names.retain(|name| !name.is_empty() && !matches!(name.as_str(), "-" | "/dev/null" | "/dev/stdout"));
    names
}

fn reverse_shell(calls: &[ProgramCall], sights: &mut Vec<Detection>) {
    for call in calls {
        let all = || call.args.iter().map(|arg| arg.text.as_str());
        let nets = match call.program.as_str() {
            "nc" | "ncat" | "netcat" | "nc.traditional" => {
                call.has('e', "exec") || call.has('c', "sh-exec") || all().any(|arg| arg == "--lua-exec")
            }
            "socat" => all().any(|arg| {
                let lower = arg.to_ascii_lowercase();
                lower.contains("exec:") || lower.contains("system:")
            }),
            "socket" | "bash" | "sh"
                if call.reads.iter().chain(&call.writes).any(|file| file.text.starts_with("/dev/tcp/")) =>
            {
                true
            }
            "socket" => all().any(|arg| arg.contains("/bin/")),
            _ => false,
        };
        let piped = is_shell(&call.program)
            && calls.len() > 1
            && calls.iter().any(|other| {
                matches!(other.program.as_str(), "nc" | "ncat" | "netcat" | "telnet")
                    || other.program == "openssl" && other.has_argument("s_client")
            });
        if nets || piped {
            let does = "gives the other end of a network connection a shell.";
            sights.push(Detection::of(call, "reverse_shell", Critical, does));
        }
    }
}

/// True if a text, in any language, connects a socket with a shell.
pub(super) fn connects_shell(text: &str) -> bool {
    static SOCKETS: LazyLock<Option<AhoCorasick>> =
        LazyLock::new(|| AhoCorasick::new(word_lists::lines("opens_socket")).ok());
    let shell = || {
        word_lists::lines("starts_shell").any(|word| text.contains(word))
            // A descriptor beyond the standard three: `<&5`.
            || text.as_bytes().windows(3).any(|bytes| matches!(bytes, [b'<' | b'>', b'&', b'3'..=b'9']))
    };
    SOCKETS.as_ref().is_some_and(|sockets| sockets.is_match(text)) && shell()
}
