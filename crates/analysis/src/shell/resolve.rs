//! Resolver of wrappers, which only start other commands: `sudo`, `env`, `xargs`, `bash -c`, `ssh host`, `find -exec`
//! and the like. In: a pipeline. Out: the calls that do the work, and the scripts within them, which have to be read as
//! well. `wrappers` holds the table of such programs.

use super::{
    call::{FOUND, PipedArguments, ProgramCall, shown},
    parse::{LONGEST_SCRIPT, Pipeline, ShellCommand, Word},
    printed,
    targets::matches,
    wrappers::{after_options, command_at, feeds, fetches, inline, is_assignment, raises, texts, with_arguments},
};

/// Script or code within a command.
#[derive(Debug)]
pub struct NestedScript {
    /// Source text.
    pub text: String,
    /// Program or command that runs the text, for a description.
    pub by: String,
}

/// Calls of a pipeline, and the scripts within them.
#[derive(Debug, Default)]
pub struct Resolved {
    /// Calls, in order.
    pub calls: Vec<ProgramCall>,
    /// Shell text within the pipeline: of `bash -c`, of a here-document, of `ssh host …`.
    pub scripts: Vec<NestedScript>,
    /// Code in another language that is given to an interpreter.
    pub code: Vec<NestedScript>,
    /// True if a command has more wrappers than are removed.
    pub deep: bool,
}

/// True if the program is a shell that reads commands.
pub fn is_shell(program: &str) -> bool {
    matches!(program, "sh" | "bash" | "zsh" | "dash" | "ksh" | "ash" | "fish" | "rbash" | "mksh" | "csh" | "tcsh")
}

/// Returns the file that a call runs, as a program or as a shell's script.
pub fn file_run(call: &ProgramCall) -> Option<&str> {
    if is_shell(&call.program) || matches!(call.program.as_str(), "source" | ".") {
        return call.operands().next();
    }
    (!call.program.is_empty()).then_some(&call.program)
}

/// Returns an interpreter's option for inline code, for interpreters whose code is read.
fn code_option(program: &str) -> Option<&'static str> {
    match program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
        "python" | "pypy" | "ipython" | "expect" => Some("-c"),
        "node" | "nodejs" | "deno" | "bun" | "perl" | "ruby" | "lua" | "luajit" | "jrunscript" | "julia"
        | "rscript" | "tclsh" | "elixir" | "groovy" | "scala" => Some("-e"),
        "php" => Some("-r"),
        "awk" | "gawk" | "mawk" | "nawk" => Some(""),
        _ => None,
    }
}

/// Removes the wrappers of each command of a pipeline.
pub fn resolve(pipeline: Pipeline) -> Resolved {
    let mut resolved = Resolved::default();
    let mut printed: Option<String> = None;
    let mut fed: Option<PipedArguments> = None;
    for mut command in pipeline {
        let output = printed::next(&command, printed.as_deref());
        if command.given.is_none() {
            command.given = printed.take();
        }
        let names = names(&command, fed.take(), output.as_deref());
        let state = State { fed: names.0, ..State::default() };
        printed = output;
        fed = Some(names.1);
        unwrap(command, state, &mut resolved, 0);
    }
    resolved
}

/// Tests and options of `find` that leave out no file by its name or age.
const UNFILTERED: &str = "type not print print0 depth xdev mount mindepth maxdepth L H P";

/// Returns the names that the command before passes on, and those that this command passes on in turn.
fn names(
    command: &ShellCommand,
    before: Option<PipedArguments>,
    output: Option<&str>,
) -> (Option<PipedArguments>, PipedArguments) {
    let (program, args) =
        command.words.split_first().map_or(("", &[][..]), |(first, args)| (first.text.as_str(), args));
    let shown = shown("", program, args, 60);
    let first = args.iter().map(|arg| arg.text.as_str()).find(|arg| !arg.starts_with('-'));
    let next = match program.to_ascii_lowercase().as_str() {
        "find" | "fd" => {
            let filters = |(at, arg): (usize, &Word)| {
                !is_denied(args, at)
                    && arg.text.strip_prefix('-').is_some_and(|test| !UNFILTERED.split(' ').any(|one| one == test))
            };
            let root = if program == "fd" { "." } else { first.unwrap_or(".") };
            // Every file found has this name.
            let name = args.windows(2).find_map(|pair| match pair {
                [option, name] if option.text == "-name" && !name.text.contains(['*', '?']) => Some(name.text.as_str()),
                _ => None,
            });
            let words = name.map(|name| format!("{}/{name}", root.trim_end_matches('/'))).into_iter().collect();
            PipedArguments {
                shown,
                words,
                root: Some(root.to_owned()),
                filtered: args.iter().enumerate().any(filters) || program == "fd",
            }
        }
        "ls" | "dir" | "gci" | "get-childitem" => {
            PipedArguments { shown, words: Vec::new(), root: Some(first.unwrap_or(".").to_owned()), filtered: false }
        }
        "git" | "du" | "locate" => {
            PipedArguments { shown, words: Vec::new(), root: Some(".".to_owned()), filtered: true }
        }
        "sort" | "uniq" | "tee" | "tr" | "sed" | "rev" | "cut" | "foreach-object" | "%" if before.is_some() => {
            before.clone().unwrap_or_default()
        }
        "grep" | "egrep" | "head" | "tail" | "awk" | "where-object" | "?" | "select-object" if before.is_some() => {
            PipedArguments { filtered: true, ..before.clone().unwrap_or_default() }
        }
        _ => {
            let words = output.unwrap_or_default().split_whitespace().take(64).map(str::to_owned).collect();
            PipedArguments { shown, words, root: None, filtered: false }
        }
    };
    (before, next)
}

/// True if the test of `find` at an index is negated: all files but a few count as all files.
pub fn is_denied(args: &[Word], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|at| args.get(at)).map_or("", |arg| arg.text.as_str());
    matches!(before, "!" | "-not" | "\\!")
}

/// Most levels of wrappers that are removed.
const MOST_WRAPPERS: usize = 12;

/// Context of a command: its wrappers and the names passed to it.
#[derive(Debug, Clone, Default)]
struct State {
    raised_by: Option<String>,
    via: Option<String>,
    fed: Option<PipedArguments>,
    /// True if a wrapper passes the names of `fed` on.
    passes_arguments: bool,
}

fn unwrap(mut command: ShellCommand, mut state: State, resolved: &mut Resolved, depth: usize) {
    for _ in 0..MOST_WRAPPERS {
        let settings = command.words.iter().take_while(|word| is_assignment(&word.text)).count();
        command.words.drain(..settings.min(command.words.len().saturating_sub(1)));
        let Some(first) = command.words.first() else {
            // `> FILE` alone empties the file.
            if !command.writes.is_empty() {
                finish(command, "", false, state, resolved, depth);
            }
            return;
        };
        let (program, is_exe) = name_of(first);
        let skip = command_at(&program, &command.words);
        // `npx https://…` starts a package without a name.
        let by_url = |skip: usize| {
            let name = command.words.get(skip).map_or("", |word| word.text.as_str());
            ["://", "git+", "github:"].iter().any(|sign| name.contains(sign)) && fetches(&program)
        };
        let Some(skip) = skip.filter(|skip| *skip < command.words.len() && !by_url(*skip)) else {
            if raises(&program) {
                state.raised_by.get_or_insert(program.clone());
            }
            return finish(command, &program, is_exe, state, resolved, depth);
        };
        if raises(&program) {
            state.raised_by.get_or_insert(program.clone());
        }
        let options = ProgramCall {
            program: program.clone(),
            args: command.words.get(1..skip).unwrap_or_default().to_vec(),
            ..ProgramCall::default()
        };
        resolved.scripts.extend(texts(&options).into_iter().map(|mut text| {
            // `env -S 'rm -rf' /` continues with the following words.
            for word in command.words.get(skip..).unwrap_or_default() {
                text.push(' ');
                text.push_str(&word.raw);
            }
            NestedScript { text, by: program.clone() }
        }));
        command.words.drain(..skip);
        // `flock FILE -c '…'`
        if command.words.first().is_some_and(|word| word.text == "-c") {
            command.words.insert(0, Word::plain("sh"));
        }
        // A command that starts later is kept as a call of its own.
        if options.args.iter().any(|arg| arg.text.starts_with("--on-")) {
            resolved.calls.push(ProgramCall { span: command.span.clone(), ..options.clone() });
        }
        if program == "parallel" {
            in_parallel(&mut command.words);
        }
        if feeds(&program) {
            hand_over(&options, &mut command.words, &mut state);
        }
    }
    resolved.deep = true;
}

/// Inserts the names from the command before where `xargs` inserts them.
fn hand_over(xargs: &ProgramCall, words: &mut Vec<Word>, state: &mut State) {
    let Some(fed) = &state.fed else { return };
    state.passes_arguments = true;
    let mut replaced = false;
    let known = fed.words.first().cloned().or_else(|| fed.root.as_deref().map(found_under));
    // In a script nothing else says that the name may be any of them.
    let any = fed.words.first().cloned().unwrap_or_else(|| match fed.root.as_deref() {
        Some(root) if !fed.filtered => format!("{}/*", root.trim_end_matches('/')),
        Some(root) => found_under(root),
        None => "$each/*".to_owned(),
    });
    {
        let sign = placeholder(xargs).to_owned();
        let short = |word: &&mut Word| word.text.len() * any.len() <= LONGEST_SCRIPT;
        for word in words.iter_mut().filter(|word| word.text.contains(&sign) && !sign.is_empty()).filter(short) {
            let whole = word.text == sign;
            if whole && known.is_none() {
                continue;
            }
            word.text = word.text.replace(&sign, known.as_ref().filter(|_| whole).unwrap_or(&any));
            if whole {
                FOUND.clone_into(&mut word.raw);
            }
            replaced = true;
        }
    }
    if !replaced && fed.words.is_empty() {
        words.extend(known.map(|name| Word { text: name, raw: FOUND.to_owned(), runs: Vec::new() }));
    } else if !replaced {
        words.extend(fed.words.iter().map(|word| Word::plain(word)));
    }
    // Names that are known by their words are no longer a guess.
    if !fed.words.is_empty() {
        state.passes_arguments = false;
    }
}

/// Returns the placeholder that `xargs` and the like replace by each name: `-I %`, `-I%`, `--replace=%`.
fn placeholder(xargs: &ProgramCall) -> &str {
    let mut args = xargs.args.iter().map(|arg| arg.text.as_str());
    while let Some(arg) = args.next() {
        match arg {
            "-I" | "-J" => return args.next().unwrap_or("{}"),
            _ => {}
        }
        let attached = ["-I", "-J", "--replace="].iter().find_map(|option| arg.strip_prefix(option));
        if let Some(sign) = attached.filter(|sign| !sign.is_empty()) {
            return sign;
        }
    }
    "{}"
}

/// Rewrites the command of `parallel`, which is often one text, with the names behind `:::` in it.
fn in_parallel(words: &mut Vec<Word>) {
    if let Some(at) = words.iter().position(|word| matches!(word.text.as_str(), ":::" | ":::+")) {
        let names: Vec<Word> = words.drain(at..).skip(1).collect();
        let all = names.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
        let placed = |word: &&mut Word| word.text.contains("{}") && word.text.len() * all.len() <= LONGEST_SCRIPT;
        let mut replaced = false;
        for word in words.iter_mut().filter(placed) {
            word.text = word.text.replace("{}", &all);
            replaced = true;
        }
        if !replaced {
            words.extend(names);
        }
    }
    if words.first().is_some_and(|word| word.text.contains(' ')) {
        let text = words.drain(..).map(|word| word.text).collect::<Vec<_>>().join(" ");
        words.extend(["sh", "-c", &text].map(Word::plain));
    }
}

/// Returns a path below a directory that was searched.
fn found_under(root: &str) -> String {
    format!("{}/found-by-find", root.trim_end_matches('/'))
}

/// Collects scripts within the call, then keeps the call.
fn finish(command: ShellCommand, program: &str, is_exe: bool, state: State, resolved: &mut Resolved, depth: usize) {
    let mut args = command.words;
    let runs = args.first().map(|first| first.runs.clone()).unwrap_or_default();
    args.drain(..args.len().min(1));
    let piped = matches!(program, "remove-item" | "ri" | "del" | "erase" | "rd")
        && args.iter().all(|arg| arg.text.starts_with('-'));
    let call = ProgramCall {
        program: program.to_owned(),
        args,
        writes: command.writes,
        reads: command.reads,
        given: command.given,
        raised_by: state.raised_by,
        via: state.via,
        fed: state.fed.filter(|fed| state.passes_arguments || piped && fed.root.is_some()),
        runs,
        is_exe,
        dir: None,
        span: command.span,
    };
    let push = |scripts: &mut Vec<NestedScript>, text: String, by: &str| {
        scripts.push(NestedScript { text, by: by.to_owned() });
    };
    if let Some((script, rest)) = inline(&call) {
        push(&mut resolved.scripts, with_arguments(script, rest, 0), &format!("{program} -c"));
    } else if program == "su" || raises(program) || is_shell(program) && reads_script(&call) {
        resolved
            .scripts
            .extend(call.given.iter().map(|given| NestedScript { text: given.clone(), by: program.to_owned() }));
    } else if let Some(option) = code_option(program) {
        code_of(&call, option, resolved);
    }
    for text in texts(&call) {
        push(&mut resolved.scripts, text, program);
    }
    match program {
        "ssh" | "dbclient" | "mosh" => {
            let host = after_options(&call.args, "bcDEeFIiJLlmOopQRSWw");
            let by = format!("ssh {}", call.args.get(host).map_or("", |host| host.raw.as_str()));
            let remote: Vec<&str> = call.args.iter().skip(host + 1).map(|arg| arg.text.as_str()).collect();
            let reads = remote.first().is_none_or(|first| {
                let name = first.split(' ').next().unwrap_or_default();
                is_shell(name.rsplit('/').next().unwrap_or_default())
            });
            if let Some(given) = call.given.clone().filter(|_| reads) {
                push(&mut resolved.scripts, given, &by);
            }
            if !remote.is_empty() {
                push(&mut resolved.scripts, remote.join(" "), &by);
            }
        }
        "docker" | "podman" | "nerdctl" | "kubectl" | "oc" | "lxc" | "incus" | "docker-compose" | "microk8s"
        | "crictl" => {
            inside_container(&call, resolved, depth);
        }
        "find" => found_by(&call, resolved, depth),
        _ => {}
    }
    resolved.calls.push(call);
}

/// True if a shell reads its commands from its input.
fn reads_script(call: &ProgramCall) -> bool {
    call.operands().next().is_none_or(|first| first == "/dev/stdin" || call.has('s', ""))
}

/// Collects code that an interpreter receives by an option or on its input.
fn code_of(call: &ProgramCall, option: &str, resolved: &mut Resolved) {
    let texts = || call.args.iter().map(|arg| arg.text.as_str());
    let code = if option.is_empty() {
        call.operands().find(|word| word.contains(['{', '(']))
    } else {
        let is_option = |arg: &str| {
            let cluster = option == "-e" && arg.starts_with('-') && !arg.starts_with("--") && arg.ends_with(['e', 'E']);
            arg == option || cluster || matches!(arg, "--eval" | "eval" | "-p" | "--print")
        };
        let after = texts().position(is_option).and_then(|at| texts().nth(at + 1));
        after.or_else(|| texts().find_map(|arg| arg.strip_prefix(option).filter(|code| code.contains(['(', ' ']))))
    };
    let reads = call.operands().next().is_none_or(|first| first == "-");
    let code = code.map(str::to_owned).or_else(|| call.given.clone().filter(|_| reads));
    resolved.code.extend(code.map(|text| NestedScript { text, by: call.program.clone() }));
}

fn inside_container(call: &ProgramCall, resolved: &mut Resolved, depth: usize) {
    let verb = call.args.iter().position(|arg| matches!(arg.text.as_str(), "exec" | "run"));
    let Some(verb) = verb else { return };
    let tail = call.args.get(verb + 1..).unwrap_or_default();
    let skip = match tail.iter().position(|arg| arg.text == "--") {
        Some(dashes) => dashes + 1,
        None => after_options(tail, "euwvpnlcm") + 1,
    };
    let by = shown("", &call.program, call.args.get(..verb + 1 + skip.min(tail.len())).unwrap_or_default(), 60);
    nested(call, tail.get(skip..).unwrap_or_default(), State { via: Some(by), ..State::default() }, resolved, depth);
}

fn found_by(call: &ProgramCall, resolved: &mut Resolved, depth: usize) {
    let command = ShellCommand {
        words: std::iter::once(Word::plain("find")).chain(call.args.iter().cloned()).collect(),
        ..ShellCommand::default()
    };
    let mut rest = call.args.as_slice();
    let mut read = 0;
    while let Some(at) =
        rest.iter().position(|arg| matches!(arg.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir"))
    {
        read += 1;
        if read > MOST_WRAPPERS {
            resolved.deep = true;
            return;
        }
        // The tests before `-exec` limit what is found.
        let tests = call.args.len() - rest.len() + at;
        let searched =
            ShellCommand { words: command.words.get(..=tests).unwrap_or_default().to_vec(), ..ShellCommand::default() };
        let (_, fed) = names(&searched, None, None);
        let tail = rest.get(at + 1..).unwrap_or_default();
        let end = tail.iter().position(|arg| matches!(arg.text.as_str(), ";" | "+" | "\\;")).unwrap_or(tail.len());
        let name = fed.words.first().cloned().unwrap_or_else(|| found_under(fed.root.as_deref().unwrap_or(".")));
        let word = |word: &Word| {
            if word.text == "{}" {
                Word { text: name.clone(), raw: FOUND.to_owned(), runs: Vec::new() }
            } else if word.text.contains("{}") && word.text.len() * name.len() <= LONGEST_SCRIPT {
                Word { text: word.text.replace("{}", &name), ..word.clone() }
            } else {
                word.clone()
            }
        };
        let words: Vec<Word> = tail.iter().take(end).map(word).collect();
        let state = State {
            via: Some(fed.shown.clone()),
            passes_arguments: fed.words.is_empty(),
            fed: Some(fed),
            ..State::default()
        };
        nested(call, &words, state, resolved, depth);
        rest = tail.get(end..).unwrap_or_default();
    }
}

fn nested(call: &ProgramCall, words: &[Word], state: State, resolved: &mut Resolved, depth: usize) {
    if depth >= MOST_WRAPPERS {
        resolved.deep = true;
    } else if !words.is_empty() {
        let command = ShellCommand {
            words: words.to_vec(),
            given: call.given.clone(),
            span: call.span.clone(),
            ..ShellCommand::default()
        };
        unwrap(command, State { raised_by: call.raised_by.clone(), ..state }, resolved, depth + 1);
    }
}

/// Returns a program's name, and true if it was written with `.exe`.
fn name_of(word: &Word) -> (String, bool) {
    let is_windows_path = word.raw.contains('\\') && word.raw.to_ascii_lowercase().contains(".exe");
    let written = if is_windows_path || word.raw.contains(":\\") || word.raw.starts_with("\\\\") {
        word.raw.trim_matches(['"', '\''])
    } else {
        &word.text
    };
    // In a batch file, `@` hides a command from the output.
    let base = written.rsplit(['/', '\\']).next().unwrap_or(written).trim_start_matches('@').to_ascii_lowercase();
    if base.contains(['?', '*', '[']) && base.len() > 1 {
        return (named_by(&base).unwrap_or(&base).to_owned(), false);
    }
    match base.strip_suffix(".exe") {
        Some(stem) => (stem.to_owned(), true),
        None => (base, false),
    }
}

/// Programs that a name pattern such as `/bin/r?` is compared with.
const COMMON: [&str; 18] = [
    "rm", "cat", "sh", "bash", "nc", "dd", "curl", "wget", "chmod", "chown", "python3", "perl", "base64", "shred",
    "mkfs", "ncat", "tee", "mv",
];

/// Returns the program that a pattern stands for.
fn named_by(pattern: &str) -> Option<&'static str> {
    COMMON.into_iter().find(|name| matches(pattern, name))
}
