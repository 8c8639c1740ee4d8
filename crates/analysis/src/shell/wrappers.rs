//! Table of programs that only start other commands: where the started command begins, and which of their options hold
//! a command as text. In: a program and its arguments. Out: indices of arguments, or texts.

use super::{
    call::ProgramCall,
    parse::{LONGEST_SCRIPT, Word},
    resolve::is_shell,
};

/// Wrapper, its short options that take the next argument, and the number of operands before the command.
const WRAPPERS: &[(&str, &str, usize)] = &[
    ("sudo doas pkexec run0 gosu", "ugprtTCDRUh", 0),
    ("su-exec", "", 1),
    ("env", "uCS", 0),
    (
        "nohup setsid builtin unbuffer chronic busybox toybox caffeinate rlwrap fakeroot setarch linux32 linux64 coproc",
        "",
        0,
    ),
    ("time", "fo", 0),
    ("command", "", 0),
    ("exec", "a", 0),
    ("nice ionice chrt taskset cpulimit numactl prlimit setpriv", "ncptlNm", 0),
    ("stdbuf", "ioe", 0),
    ("strace ltrace valgrind perf", "eopus", 0),
    ("timeout gtimeout", "ks", 1),
    ("chroot", "", 1),
    ("flock", "wE", 1),
    ("unshare nsenter firejail bwrap proot systemd-inhibit dbus-run-session xvfb-run ssh-agent", "tSGRw", 0),
    ("runuser", "ugGsw", 0),
    ("systemd-run", "pu", 0),
    ("faketime", "f", 1),
    ("proxychains proxychains4 torsocks torify tsocks", "f", 0),
    ("xargs gxargs parallel", "InPLdaEsjS", 0),
    ("npx bunx pnpx uvx pipx", "pc", 0),
    ("start start-process saps call wsl", "", 0),
];

/// Programs that start a command behind a verb such as `run` or `exec`, after `--` where there is one.
const RUNNERS: &str = " uv poetry pipenv rye hatch pdm bundle conda mamba micromamba mise asdf npm pnpm yarn bun direnv doppler \
                       op infisical chamber aws-vault dotenv envchain teller heroku fly flyctl railway ";

/// True for wrappers that raise rights.
pub(super) fn raises(program: &str) -> bool {
    matches!(program, "sudo" | "doas" | "pkexec" | "run0" | "gosu")
}

/// True if the program fetches the package that it starts.
pub(super) fn fetches(program: &str) -> bool {
    matches!(program, "npx" | "bunx" | "pnpx" | "uvx" | "pipx")
}

/// True if the program passes each line of its input to the command as an argument.
pub(super) fn feeds(program: &str) -> bool {
    matches!(program, "xargs" | "gxargs" | "parallel")
}

/// Returns the index of the command that a wrapper starts; `None` for a program that is no wrapper.
pub(super) fn command_at(program: &str, words: &[Word]) -> Option<usize> {
    let args = words.get(1..).unwrap_or_default();
    let first = args.first().map_or("", |arg| arg.text.as_str());
    if program == "command" && matches!(first, "-v" | "-V") {
        return None;
    }
    if RUNNERS.contains(&format!(" {program} ")) {
        let verb =
            args.iter().take(3).position(|arg| matches!(arg.text.as_str(), "run" | "exec" | "dlx" | "x" | "--"))?;
        // `npm run` names a script of the project.
        let scripts = matches!(program, "npm" | "pnpm" | "yarn" | "bun") && args.get(verb)?.text == "run";
        let tail = args.get(verb + 1..).unwrap_or_default();
        let dashes = tail.iter().take(8).position(|arg| arg.text == "--").map(|at| at + 1);
        let operands = usize::from(matches!(program, "direnv" | "chamber" | "aws-vault" | "envchain"));
        let skip = dashes.unwrap_or_else(|| after_options(tail, "nepac") + operands);
        return (!scripts).then_some(verb + 2 + skip);
    }
    let (_, with_value, operands) = WRAPPERS.iter().find(|(names, ..)| names.split(' ').any(|name| name == program))?;
    let mut at = after_options(args, with_value) + operands;
    let rest = |at: usize| args.get(at).map_or("", |arg| arg.text.as_str());
    // `sudo A=1 rm`, `taskset 0x1 rm`, `pipx run x`, `setarch x86_64 -R rm`.
    while is_assignment(rest(at))
        || matches!(program, "nice" | "ionice" | "chrt" | "taskset")
            && rest(at).starts_with(|c: char| c.is_ascii_digit())
        || program == "pipx" && rest(at) == "run"
        || program == "start" && rest(at).starts_with('/') && rest(at).len() < 6
    {
        at += 1;
    }
    Some(at + 1)
}

pub(super) fn is_assignment(word: &str) -> bool {
    word.split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
}

/// Long options that take the next argument.
const VALUED: &str = "\
    --user --group --env --workdir --name --volume --namespace --container --max-args --chdir --unset --signal \
    --kill-after --target --max-procs --delimiter --host --env-file --network --entrypoint";

/// Returns the number of leading arguments that are options. `with_value` lists short options that take the next
/// argument.
pub(super) fn after_options(args: &[Word], with_value: &str) -> usize {
    let mut at = 0;
    while let Some(arg) =
        args.get(at).map(|word| word.text.as_str()).filter(|arg| arg.starts_with('-') && arg.len() > 1)
    {
        at += 1;
        if arg == "--" {
            break;
        }
        // In `-Eu root` the last letter takes the value.
        let letters =
            arg.get(1..).filter(|letters| letters.len() <= 4 && letters.bytes().all(|b| b.is_ascii_alphanumeric()));
        let takes = letters.is_some_and(|letters| letters.find(|c| with_value.contains(c)) == Some(letters.len() - 1));
        let long = VALUED.split(' ').any(|option| option == arg);
        at += usize::from(takes || long);
    }
    at
}

/// Program, and its option whose value is a command. After an option that ends in `=`, the value is in the same
/// argument.
const TEXT_OPTIONS: &[(&str, &str)] = &[
    ("su", "-c"),
    ("su", "--command"),
    ("su", "--command="),
    ("runuser", "-c"),
    ("flock", "-c"),
    ("script", "-c"),
    ("env", "-S"),
    ("env", "--split-string"),
    ("env", "--split-string="),
    ("xterm", "-e"),
    ("konsole", "-e"),
    ("gnome-terminal", "-e"),
    ("vagrant", "-c"),
    ("gcloud", "--command"),
    ("gcloud", "--command="),
    ("fly", "-C"),
    ("flyctl", "-C"),
    ("ansible", "-a"),
    ("ansible", "--args"),
    ("nix-shell", "--run"),
    ("nix-shell", "--command"),
    ("vi", "-c"),
    ("vim", "-c"),
    ("nvim", "-c"),
    ("ex", "-c"),
    ("git", "--exec"),
    ("git", "-x"),
    ("git", "--tree-filter"),
    ("git", "--index-filter"),
    ("git", "--upload-pack="),
    ("rsync", "-e"),
    ("rsync", "--rsh="),
    ("tar", "--checkpoint-action=exec="),
    ("tar", "--to-command="),
    ("tar", "--use-compress-program="),
    ("tar", "-I"),
    ("zip", "-TT"),
    ("tmux", "-d"),
    ("npx", "-c"),
    ("ssh", "-oProxyCommand="),
    ("systemd-run", "-c"),
];

/// Returns the commands that a call holds as text, beside those of shells and hosts.
pub(super) fn texts(call: &ProgramCall) -> Vec<String> {
    let texts: Vec<&str> = call.args.iter().map(|arg| arg.text.as_str()).collect();
    let mut found = Vec::new();
    let clusters = matches!(call.program.as_str(), "su" | "script" | "runuser" | "flock");
    for (_, option) in TEXT_OPTIONS.iter().filter(|(program, _)| *program == call.program) {
        for (at, text) in texts.iter().enumerate() {
            if option.ends_with('=') || option.len() == 2 && text.len() > 2 && matches!(call.program.as_str(), "env") {
                found.extend(text.strip_prefix(option).map(str::to_owned));
            } else if text == option || clusters && is_cluster(text, option) {
                found.extend(texts.get(at + 1).map(|value| (*value).to_owned()));
            }
        }
    }
    let operands: Vec<&str> = call.operands().collect();
    let all = |from: usize| operands.get(from..).map(|words| words.join(" "));
    match (call.program.as_str(), operands.first().copied().unwrap_or_default()) {
        ("eval", _) => found.push(texts.join(" ")),
        ("trap", command) => found.push(command.to_owned()),
        ("expect", _) => {
            let code = texts.iter().position(|text| *text == "-c").and_then(|at| texts.get(at + 1));
            found.extend(
                code.into_iter()
                    .flat_map(|code| code.split([';', '\n']))
                    .filter_map(|line| line.trim_start().strip_prefix("spawn ").map(str::to_owned)),
            );
        }
        ("fd" | "fdfind", _) => {
            let at = texts.iter().position(|text| matches!(*text, "-x" | "-X" | "--exec" | "--exec-batch"));
            found.extend(at.and_then(|at| texts.get(at + 1..)).map(|words| format!("{} ./*", words.join(" "))));
        }
        ("watch" | "entr", _) => found.extend(behind_options(call, "nqis")),
        ("pssh" | "parallel-ssh" | "pdsh" | "clush" | "dsh" | "mssh", _) => {
            found.extend(behind_options(call, "hHlpoetwxgfbF"));
        }
        ("salt" | "salt-ssh" | "salt-call", _) => {
            let at =
                texts.iter().position(|text| matches!(*text, "cmd.run" | "cmd.shell" | "cmd.run_all" | "cmd.script"));
            found.extend(at.and_then(|at| texts.get(at + 1..)).map(|words| words.join(" ")));
        }
        ("make" | "gmake", _) if texts.windows(2).any(|pair| pair == ["-f", "-"]) || texts.contains(&"-f-") => {
            found.extend(call.given.as_deref().map(recipes));
        }
        ("git", "submodule") if operands.get(1) == Some(&"foreach") => found.extend(all(2)),
        ("git", "bisect") if operands.get(1) == Some(&"run") => found.extend(all(2)),
        ("tmux", "new" | "new-session" | "new-window" | "neww" | "split-window" | "send-keys" | "send")
        | ("screen", "-dmS" | "-dm") => found.extend(operands.iter().skip(1).map(|word| (*word).to_owned())),
        ("screen", _) if call.has('m', "") => found.extend(all(0)),
        ("at" | "batch", _) => found.extend(call.given.clone()),
        ("crontab", _) => found.extend(call.given.as_deref().map(without_times)),
        ("heroku" | "railway", "run") => found.extend(all(1)),
        ("osascript", _) => found.extend(texts.iter().filter_map(|text| {
            let command = text.split_once("do shell script \"")?.1;
            command.split('"').next().map(str::to_owned)
        })),
        ("powershell" | "pwsh", _) => {
            let at = texts.iter().position(|text| {
                let option = text.to_ascii_lowercase();
                option.len() > 1
                    && matches!(option.split_at_checked(1), Some(("-" | "/", name)) if "command".starts_with(name))
            });
            found.extend(at.and_then(|at| texts.get(at + 1..)).map(|words| words.join(" ")));
        }
        ("cmd", _) => {
            let at = texts.iter().position(|arg| matches!(arg.to_ascii_lowercase().as_str(), "/c" | "/k" | "/r"));
            found.extend(at.map(|at| texts.get(at + 1..).unwrap_or_default().join(" ")));
        }
        ("sed" | "gsed", script) => {
            let command = script.trim_start_matches(|c: char| c.is_ascii_digit() || c == '$').strip_prefix("e ");
            found.extend(command.map(str::to_owned));
            // `s/x/rm -rf \/srv/e` runs the replacement.
            let mut parts = script.strip_prefix("s/").map(|rest| rest.replace("\\/", "\u{1f}")).unwrap_or_default();
            parts = parts.split_once('/').map_or_else(String::new, |(_, rest)| rest.to_owned());
            let runs = parts.rsplit_once('/').filter(|(_, flags)| flags.contains('e'));
            found.extend(runs.map(|(command, _)| command.replace('\u{1f}', "/")));
        }
        _ => {}
    }
    // `git -c alias.x='!rm -rf ~' x`, `ssh -o ProxyCommand='…'`, `vim -c ':!…'`.
    for text in &texts {
        let value = match call.program.as_str() {
            "git" if text.starts_with("alias.") || text.starts_with("core.") => {
                text.split_once('=').map(|(_, value)| value)
            }
            "ssh" | "scp" | "sftp" => text.strip_prefix("ProxyCommand=").or_else(|| text.strip_prefix("LocalCommand=")),
            _ => None,
        };
        found.extend(value.map(str::to_owned));
    }
    for text in &mut found {
        *text = text.trim_start_matches([':', '!']).to_owned();
    }
    found
}

/// Returns the arguments behind a call's own options as one text. `with_value` lists short options that take the next
/// argument.
fn behind_options(call: &ProgramCall, with_value: &str) -> Option<String> {
    let words = call.args.get(after_options(&call.args, with_value)..)?;
    Some(words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" "))
}

/// Returns the commands of a makefile: lines behind a tab, and the text after a rule's semicolon.
fn recipes(makefile: &str) -> String {
    let command = |line: &str| {
        let recipe =
            line.strip_prefix('\t').or_else(|| line.split_once(':')?.1.split_once(';').map(|(_, rest)| rest))?;
        Some(recipe.trim_start_matches([' ', '@', '-', '+']).to_owned())
    };
    makefile.lines().filter_map(command).collect::<Vec<String>>().join("\n")
}

/// True if a cluster of short options ends with this one: `-qc` with `-c`.
fn is_cluster(text: &str, option: &str) -> bool {
    let letters = text.strip_prefix('-').unwrap_or_default();
    (2..5).contains(&letters.len())
        && !letters.starts_with('-')
        && option.strip_prefix('-').is_some_and(|last| letters.ends_with(last))
}

/// Returns the commands of a crontab's lines.
fn without_times(table: &str) -> String {
    let command = |line: &str| {
        let line = line.trim_start();
        let fields = if line.starts_with('@') { 1 } else { 5 };
        (0..fields)
            .try_fold(line, |rest, _| rest.split_once([' ', '\t']).map(|(_, rest)| rest.trim_start()))?
            .to_owned()
            .into()
    };
    table.lines().filter_map(command).collect::<Vec<String>>().join("\n")
}

/// Returns the command of a shell's `-c`, and the arguments that it refers to as `$0`, `$1` and so on.
pub(super) fn inline(call: &ProgramCall) -> Option<(&str, &[Word])> {
    if !is_shell(&call.program) {
        return None;
    }
    let is_option = |arg: &Word| {
        arg.text.len() > 1 && arg.text.starts_with('-') && !arg.text.starts_with("--") && arg.text.ends_with('c')
    };
    let at = call.args.iter().position(is_option)? + 1;
    // `bash -c -- …`, `bash -c -e …`
    let options = call.args.get(at..)?.iter().take_while(|arg| arg.text.starts_with('-')).count();
    let script = call.args.get(at + options)?;
    Some((&script.text, call.args.get(at + options + 1..).unwrap_or_default()))
}

/// Replaces `$1`, `$@` and the like by arguments in a function's body or the command of `bash -c`. `first` is the
/// number of the first argument: 1 for a function, 0 for `bash -c`.
pub fn with_arguments(body: &str, args: &[Word], first: usize) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let all = args.iter().skip(1 - first.min(1)).map(|arg| quoted(&arg.text)).collect::<Vec<_>>().join(" ");
    let mut out = String::with_capacity(body.len());
    let mut rest = body;
    let mut inside = false;
    while let Some(at) = rest.find('$').filter(|_| out.len() < LONGEST_SCRIPT) {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        inside ^= before.matches('"').count() % 2 == 1;
        let after = after.get(1..).unwrap_or_default();
        let bare = after.strip_prefix('{').unwrap_or(after);
        let length = 1 + 2 * (after.len() - bare.len());
        let sign = bare.as_bytes().first().copied().unwrap_or_default();
        let whole = length == 1 || bare.as_bytes().get(1) == Some(&b'}');
        let number = usize::from(sign.wrapping_sub(b'0'));
        let in_quotes = out.ends_with('"') && after.as_bytes().get(length) == Some(&b'"');
        let value = match sign {
            b'@' | b'*' if whole && in_quotes => {
                out.pop();
                inside = !inside;
                rest = after.get(length + 1..).unwrap_or_default();
                out.push_str(&all);
                continue;
            }
            b'@' | b'*' if whole => Some(all.clone()),
            b'0'..=b'9' if whole && number >= first => args
                .get(number - first)
                .map(|arg| if inside { arg.text.replace('"', "\\\"") } else { quoted(&arg.text) }),
            _ => None,
        };
        if let Some(value) = value {
            out.push_str(&value);
            rest = after.get(length..).unwrap_or_default();
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}
