//! Looks through what only starts other commands: `sudo`, `env`, `xargs`, `bash -c`, `ssh host`, `find -exec` and the
//! like. In: a pipeline. Out: the calls that do the work, and scripts that stand within and have to be read as well.

use std::ops::Range;

use super::shell::{Command, Pipeline, Word};

/// One program that is run, with its arguments, after its wrappers were taken away.
#[derive(Debug, Clone, Default)]
pub(super) struct Call {
    /// The program's name in lower case, without directory and `.exe`.
    pub(super) program: String,
    /// Its arguments.
    pub(super) args: Vec<Word>,
    /// Files that its output is sent to.
    pub(super) writes: Vec<Word>,
    /// What a here-document or here-string, or an `echo` before the pipe, gives it to read.
    pub(super) given: Option<String>,
    /// The wrapper that raises its rights.
    pub(super) raised_by: Option<String>,
    /// The name ends in `.exe`.
    pub(super) is_exe: bool,
    /// Where it stands in the script.
    pub(super) span: Range<usize>,
}

impl Call {
    /// Whether a short option (in a cluster such as `-rf`) or a long one is given.
    pub(super) fn has(&self, short: char, long: &str) -> bool {
        self.args.iter().map(|arg| arg.text.as_str()).take_while(|arg| *arg != "--").any(|arg| {
            match arg.strip_prefix("--") {
                Some(name) => {
                    !long.is_empty()
                        && (name == long || name.strip_prefix(long).is_some_and(|rest| rest.starts_with('=')))
                }
                None => arg.len() > 1 && arg.starts_with('-') && arg.contains(short),
            }
        })
    }

    /// Whether a long option is given.
    pub(super) fn has_long(&self, long: &str) -> bool {
        self.args.iter().filter_map(|arg| arg.text.strip_prefix("--")).any(|name| name == long)
    }

    /// Whether an argument is exactly this.
    pub(super) fn says(&self, word: &str) -> bool {
        self.args.iter().any(|arg| arg.text == word)
    }

    /// The arguments that are no options.
    pub(super) fn operands(&self) -> impl Iterator<Item = &str> {
        let mut all = false;
        self.args.iter().map(|arg| arg.text.as_str()).filter(move |arg| {
            if *arg == "--" && !all {
                all = true;
                return false;
            }
            all || !arg.starts_with('-')
        })
    }

    /// The call as it was written, shortened for a description.
    pub(super) fn shown(&self) -> String {
        let mut shown = self.program.clone();
        for arg in &self.args {
            shown.push(' ');
            shown.push_str(&arg.raw);
        }
        if shown.chars().count() > 80 {
            shown = shown.chars().take(79).chain(['…']).collect();
        }
        shown.replace(['\n', '\r'], " ")
    }
}

/// What a pipeline runs.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    /// Its calls, in order.
    pub(super) calls: Vec<Call>,
    /// Shell text within it: of `bash -c`, of a here-document, of `ssh host …`.
    pub(super) scripts: Vec<String>,
    /// Code in another language that an interpreter is given.
    pub(super) code: Vec<String>,
}

/// Shells that read commands.
pub(super) fn is_shell(program: &str) -> bool {
    matches!(program, "sh" | "bash" | "zsh" | "dash" | "ksh" | "ash" | "fish" | "rbash" | "mksh" | "csh" | "tcsh")
}

/// Interpreters whose code is looked at, with the option that hands it over.
fn code_option(program: &str) -> Option<&'static str> {
    match program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
        "python" | "pypy" => Some("-c"),
        "node" | "nodejs" | "deno" | "bun" | "perl" | "ruby" | "lua" | "luajit" | "jrunscript" | "julia"
        | "rscript" | "tclsh" => Some("-e"),
        "php" => Some("-r"),
        "awk" | "gawk" | "mawk" => Some(""),
        _ => None,
    }
}

/// Resolves each command of a pipeline.
pub(super) fn resolve(pipeline: Pipeline) -> Resolved {
    let mut resolved = Resolved::default();
    let mut printed: Option<String> = None;
    for mut command in pipeline {
        if command.given.is_none() {
            command.given = printed.take();
        }
        printed = printed_by(&command);
        unwrap(command, None, &mut resolved, 0);
    }
    resolved
}

/// What `echo` or `printf` gives to the next command.
fn printed_by(command: &Command) -> Option<String> {
    let (program, args) = command.words.split_first()?;
    if !matches!(program.text.as_str(), "echo" | "printf") {
        return None;
    }
    let words: Vec<&str> =
        args.iter().map(|arg| arg.text.as_str()).filter(|arg| !matches!(*arg, "-e" | "-n" | "-ne" | "-en")).collect();
    Some(words.join(" "))
}

/// How many levels of wrappers are taken away.
const MOST_WRAPPERS: usize = 12;

fn unwrap(mut command: Command, mut raised_by: Option<String>, resolved: &mut Resolved, depth: usize) {
    for _ in 0..MOST_WRAPPERS {
        while command.words.first().is_some_and(|word| is_assignment(&word.text)) && command.words.len() > 1 {
            command.words.remove(0);
        }
        let Some(first) = command.words.first() else { return };
        let (program, is_exe) = name_of(first);
        let Some(skip) = wrapped_at(&program, &command.words) else {
            return finish(command, &program, is_exe, raised_by, resolved, depth);
        };
        if matches!(&*program, "sudo" | "doas" | "pkexec" | "run0" | "gosu") {
            raised_by.get_or_insert(program.clone());
            if skip >= command.words.len() {
                return finish(command, &program, is_exe, raised_by, resolved, depth);
            }
        } else if skip >= command.words.len() {
            return finish(command, &program, is_exe, raised_by, resolved, depth);
        }
        command.words.drain(..skip);
    }
}

/// Reads scripts within the call, then keeps it.
fn finish(
    command: Command,
    program: &str,
    is_exe: bool,
    raised_by: Option<String>,
    resolved: &mut Resolved,
    depth: usize,
) {
    let mut args = command.words;
    args.drain(..args.len().min(1));
    let call = Call {
        program: program.to_owned(),
        args,
        writes: command.writes,
        given: command.given,
        raised_by,
        is_exe,
        span: command.span,
    };
    let texts: Vec<&str> = call.args.iter().map(|arg| arg.text.as_str()).collect();
    if is_shell(program) || program == "su" {
        let inline = texts
            .iter()
            .position(|arg| arg.len() > 1 && arg.starts_with('-') && !arg.starts_with("--") && arg.ends_with('c'));
        match inline.and_then(|at| texts.get(at + 1)) {
            Some(script) => resolved.scripts.push((*script).to_owned()),
            None if call.operands().next().is_none_or(|first| first == "/dev/stdin") => {
                resolved.scripts.extend(call.given.clone());
            }
            None => {}
        }
    } else if let Some(option) = code_option(program) {
        let code = if option.is_empty() {
            call.operands().next()
        } else {
            texts.iter().position(|arg| *arg == option || *arg == "--eval").and_then(|at| texts.get(at + 1)).copied()
        };
        resolved.code.extend(code.map(str::to_owned).or_else(|| call.given.clone()));
    }
    match program {
        "eval" => resolved.scripts.push(texts.join(" ")),
        "trap" | "watch" => resolved.scripts.extend(call.operands().next().map(str::to_owned)),
        "cmd" => {
            let at = texts.iter().position(|arg| arg.eq_ignore_ascii_case("/c") || arg.eq_ignore_ascii_case("/k"));
            resolved.scripts.extend(at.map(|at| texts.get(at + 1..).unwrap_or_default().join(" ")));
        }
        "ssh" => {
            let skip = after_options(&call.args, "bcDEeFIiJLlmOopQRSWw") + 1;
            let remote = texts.get(skip..).unwrap_or_default().join(" ");
            resolved.scripts.extend(if remote.is_empty() { call.given.clone() } else { Some(remote) });
        }
        "docker" | "podman" | "nerdctl" | "kubectl" | "oc" | "lxc" => inside_container(&call, resolved, depth),
        "find" => found_by(&call, resolved, depth),
        _ => {}
    }
    resolved.calls.push(call);
}

fn inside_container(call: &Call, resolved: &mut Resolved, depth: usize) {
    let Some(verb) = call.args.iter().position(|arg| matches!(arg.text.as_str(), "exec" | "run" | "compose")) else {
        return;
    };
    let tail = call.args.get(verb + 1..).unwrap_or_default();
    let skip = match tail.iter().position(|arg| arg.text == "--") {
        Some(dashes) => dashes + 1,
        None => after_options(tail, "euwvpnlcm") + 1,
    };
    nested(call, tail.get(skip..).unwrap_or_default(), resolved, depth);
}

fn found_by(call: &Call, resolved: &mut Resolved, depth: usize) {
    let mut rest = call.args.as_slice();
    while let Some(at) =
        rest.iter().position(|arg| matches!(arg.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir"))
    {
        let tail = rest.get(at + 1..).unwrap_or_default();
        let end = tail.iter().position(|arg| matches!(arg.text.as_str(), ";" | "+" | "\\;")).unwrap_or(tail.len());
        // What `{}` stands for lies under the directories that find was given.
        let root = call.operands().next().unwrap_or(".");
        let words: Vec<Word> = tail
            .iter()
            .take(end)
            .map(|word| {
                if word.text == "{}" {
                    Word::plain(&format!("{}/found-by-find", root.trim_end_matches('/')))
                } else {
                    word.clone()
                }
            })
            .collect();
        nested(call, &words, resolved, depth);
        rest = tail.get(end..).unwrap_or_default();
    }
}

fn nested(call: &Call, words: &[Word], resolved: &mut Resolved, depth: usize) {
    if !words.is_empty() && depth < MOST_WRAPPERS {
        let command = Command { words: words.to_vec(), span: call.span.clone(), ..Command::default() };
        unwrap(command, call.raised_by.clone(), resolved, depth + 1);
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
}

/// A program's name, and whether it was written with `.exe`.
fn name_of(word: &Word) -> (String, bool) {
    let written = if word.raw.contains(":\\") || word.raw.starts_with("\\\\") {
        word.raw.trim_matches(['"', '\''])
    } else {
        &word.text
    };
    let base = written.rsplit(['/', '\\']).next().unwrap_or(written).to_ascii_lowercase();
    match base.strip_suffix(".exe") {
        Some(stem) => (stem.to_owned(), true),
        None => (base, false),
    }
}

/// Where the wrapped command begins, if the program is a wrapper.
fn wrapped_at(program: &str, words: &[Word]) -> Option<usize> {
    let args = words.get(1..).unwrap_or_default();
    let assignments = |from: usize| {
        from + args.get(from..).unwrap_or_default().iter().take_while(|arg| is_assignment(&arg.text)).count()
    };
    let first = args.first().map_or("", |arg| arg.text.as_str());
    let skip = match program {
        "sudo" | "doas" | "pkexec" | "run0" | "gosu" => assignments(after_options(args, "ugprtTCDRUh")),
        "env" => assignments(after_options(args, "uCS")),
        "command" if matches!(first, "-v" | "-V") => return None,
        "nohup" | "setsid" | "time" | "command" | "builtin" | "unbuffer" | "chronic" | "busybox" | "toybox"
        | "caffeinate" => after_options(args, "fo"),
        "exec" => after_options(args, "a"),
        "nice" | "ionice" | "chrt" | "taskset" => after_options(args, "ncpt"),
        "stdbuf" => after_options(args, "ioe"),
        "strace" | "ltrace" => after_options(args, "eopus"),
        "timeout" | "gtimeout" => after_options(args, "ks") + 1,
        "chroot" | "flock" => after_options(args, "w") + 1,
        "xargs" | "parallel" => after_options(args, "InPLdaEsj"),
        "uv" | "poetry" | "pipenv" if first == "run" => 1,
        _ => return None,
    };
    Some(skip + 1)
}

/// How many leading arguments are options; `with_value` lists the short ones that take the next argument.
fn after_options(args: &[Word], with_value: &str) -> usize {
    let mut at = 0;
    while let Some(arg) =
        args.get(at).map(|word| word.text.as_str()).filter(|arg| arg.starts_with('-') && arg.len() > 1)
    {
        at += 1;
        if arg == "--" {
            break;
        }
        let takes = !arg.starts_with("--") && arg.len() == 2 && arg.ends_with(|c| with_value.contains(c));
        let long = matches!(
            arg,
            "--user"
                | "--group"
                | "--env"
                | "--workdir"
                | "--name"
                | "--volume"
                | "--namespace"
                | "--container"
                | "--max-args"
        );
        at += usize::from(takes || long);
    }
    at
}
