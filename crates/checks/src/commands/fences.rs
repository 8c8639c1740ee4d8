//! Shell in a text: fenced blocks, and scripts that begin with their interpreter. In: a text. Out: its shell parts and
//! where they begin. A block that names another language is none; one without a name is shell where it looks so, since
//! whoever wants a command overlooked leaves the name out, and prose stands in such blocks as well.

use std::{collections::HashSet, sync::LazyLock};

use memchr::{
    memchr, memchr2, memchr3,
    memmem::{self, Finder},
};

use super::tools::{docker_steps, package_scripts, recipes, workflow_steps};
use umbra_analysis::shell;

/// Names of a fenced block's language that mean shell.
const SHELLS: [&str; 24] = [
    "bash",
    "sh",
    "shell",
    "zsh",
    "ksh",
    "dash",
    "ash",
    "fish",
    "csh",
    "tcsh",
    "console",
    "terminal",
    "shellscript",
    "shell-script",
    "shell-session",
    "shellsession",
    "bash-session",
    "sh-session",
    "powershell",
    "pwsh",
    "ps1",
    "cmd",
    "bat",
    "batch",
];

/// Interpreters that a script's first line may name.
const INTERPRETERS: [&str; 8] = ["sh", "bash", "zsh", "dash", "ksh", "ash", "csh", "fish"];

/// Programs by whose name alone a line is a command.
static PROGRAMS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "apt apt-get aria2c aws az base64 bash brew bunzip2 cargo chmod chown cp crontab curl dd docker docker-compose doas \
     dnf echo ftp gawk gcloud git gpg gsutil gunzip gzip helm history iptables kubectl ln ls lua mkdir mkfs.ext4 mkfs.xfs mongo \
     mongosh mv mysql nc ncat netcat nft nohup npm npx openssl pacman perl php pip pip3 pkill podman poweroff psql pwd \
     python python3 rclone reboot redis-cli rm rmdir rsync scp sed sftp sh shred shutdown socat ssh su sudo systemctl \
     tar tee telnet terraform tmux touch truncate ufw umount unzip useradd userdel usermod wget wipe wipefs xargs yarn \
     yum zip zsh"
        .split_whitespace()
        .collect()
});

/// Programs whose names are words of English too: a line is a command where what follows looks so.
static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "at awk cat cd command crypt cut dig env eval exec export fdisk file find grep head history install kill killall less make more \
     mount nice node read ruby run service set sleep sort source split tail test time timeout top uniq unset watch which \
     yes zfs zpool"
        .split_whitespace()
        .collect()
});

/// Names of languages whose programs start others.
const CODE: [&str; 18] = [
    "python",
    "python3",
    "py",
    "js",
    "javascript",
    "jsx",
    "mjs",
    "ts",
    "typescript",
    "node",
    "ruby",
    "rb",
    "php",
    "perl",
    "go",
    "golang",
    "rust",
    "java",
];

/// Longest prompt of a shell, in bytes.
const LONGEST_PROMPT: usize = 120;

/// Lines of a block that are looked at to tell whether it is shell.
const LINES: usize = 200;

/// What of a text may be commands, each part with the byte where it begins.
#[derive(Debug, Default)]
pub(super) struct Parts<'t> {
    /// Shell.
    pub(super) shell: Vec<(usize, &'t str)>,
    /// Commands of what says how something is built: recipes of images, makefiles, workflows.
    pub(super) built: Vec<(usize, &'t str)>,
    /// Code in other languages, which may start commands.
    pub(super) code: Vec<(usize, &'t str)>,
}

/// The parts of a text.
pub(super) fn parts(text: &str) -> Parts<'_> {
    let mut parts = Parts::default();
    let start = text.len() - text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).len();
    let script = text.get(start..).filter(|script| has_interpreter(script));
    for block in fenced(text) {
        if script.is_none() && block.is_shell() {
            parts.shell.push((block.start, block.text));
        }
        parts.built.extend(block.built());
        if block.is_code() {
            parts.code.push((block.start, block.text));
        }
    }
    match script {
        Some(script) => parts.shell.push((start, script)),
        None => parts.shell.extend(prompted(text, &parts.shell)),
    }
    parts
}

/// Commands that stand in no block: lines behind a shell's prompt (`$ rm -rf /srv`, `root@host:/# reboot`), lines that are
/// set in, and code within a line that the text says to run.
fn prompted<'t>(text: &'t str, blocks: &[(usize, &str)]) -> Vec<(usize, &'t str)> {
    const MOST: usize = 64;
    static SIGNS: LazyLock<[Finder<'static>; 2]> = LazyLock::new(|| [Finder::new("$ "), Finder::new("# ")]);
    static SET_IN: LazyLock<[Finder<'static>; 2]> = LazyLock::new(|| [Finder::new("\n\n    "), Finder::new("\n\n\t")]);
    let bytes = text.as_bytes();
    // Most prose has neither a sign that one of them needs nor a blank line.
    if memchr3(b'$', b'#', b'`', bytes).is_none() && memmem::find(bytes, b"\n\n").is_none() {
        return Vec::new();
    }
    let prompt = |at: usize| {
        let near = at.saturating_sub(LONGEST_PROMPT);
        let end = bytes.get(near..at)?.iter().rposition(|byte| *byte == b'\n').map(|end| near + end + 1);
        let start = end.or_else(|| (near == 0).then_some(0))?;
        let line = text.get(start..)?;
        let blank = line.len() - line.trim_start_matches([' ', '\t']).len();
        let length = shell::prompt_len(line.as_bytes().get(blank..line.len().min(LONGEST_PROMPT))?);
        (length > 0 && start + blank + length == at + 1).then_some(at + 2)
    };
    // What a heading begins with is no prompt.
    let may = |at: &usize| at.checked_sub(1).and_then(|at| bytes.get(at)).is_none_or(|byte| *byte != b'#');
    let behind = SIGNS.iter().flat_map(|sign| sign.find_iter(bytes).filter(may).filter_map(prompt).take(MOST));
    let set_in = SET_IN.iter().flat_map(|sign| sign.find_iter(bytes).map(|at| at + sign.needle().len()).take(MOST));
    let line = |at: usize| Some((at, text.get(at..)?.lines().next()?));
    let mut found: Vec<_> = behind.chain(set_in).filter_map(line).filter(|(_, line)| is_command(line)).collect();
    found.extend(told_to_run(text));
    found.sort_unstable_by_key(|(at, _)| *at);
    found.dedup();
    found.retain(|(at, _)| !blocks.iter().any(|(start, block)| (*start..start + block.len()).contains(at)));
    found
}

/// Code within a line behind a word that has it run: "just run" and, in backquotes, a command.
fn told_to_run(text: &str) -> Vec<(usize, &str)> {
    const MOST: usize = 64;
    /// Bytes of one.
    const LONGEST: usize = 400;
    const VERBS: [&str; 8] = ["run", "execute", "type", "paste", "enter", "issue", "invoke", "launch"];
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = text.get(at..).and_then(|rest| memchr(b'`', rest.as_bytes())).map(|open| at + open + 1) {
        at = open;
        let before = text.get(text.floor_char_boundary(open.saturating_sub(24))..open - 1).unwrap_or_default();
        let verb =
            before.strip_suffix(' ').and_then(|before| before.rsplit([' ', '\n', '(']).next()).unwrap_or_default();
        let denied = before.to_ascii_lowercase();
        let denied = ["never ", "not ", "n't ", "avoid "].iter().any(|word| denied.contains(word));
        if denied || !VERBS.iter().any(|known| known.eq_ignore_ascii_case(verb)) {
            continue;
        }
        let code = text
            .get(open..text.floor_char_boundary((open + LONGEST).min(text.len())))
            .and_then(|rest| rest.lines().next())
            .and_then(|line| line.split_once('`'));
        if let Some((code, _)) = code {
            found.push((open, code));
            at = open + code.len() + 1;
        }
        if found.len() == MOST {
            break;
        }
    }
    found
}

/// A fenced block.
struct Block<'t> {
    label: &'t str,
    start: usize,
    text: &'t str,
}

impl<'t> Block<'t> {
    fn is_shell(&self) -> bool {
        // Of ```{.bash}, ```bash:deploy.sh and ```sh,ignore the name.
        let sign = |c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '+' | '#'));
        let name = self.label.split(sign).find(|part| !part.is_empty());
        match name {
            Some(name) => SHELLS.iter().any(|shell| shell.eq_ignore_ascii_case(name)),
            None => self.label.trim().is_empty() && looks_like_shell(self.text),
        }
    }

    /// Its commands, where it says how something is built.
    fn built(&self) -> impl Iterator<Item = (usize, &'t str)> {
        let commands = match self.name().to_ascii_lowercase().as_str() {
            "dockerfile" | "docker" | "containerfile" => docker_steps(self.text),
            "makefile" | "make" => recipes(self.text),
            "yaml" | "yml" => workflow_steps(self.text),
            "json" if self.text.contains("\"scripts\"") => package_scripts(self.text),
            _ => Vec::new(),
        };
        let start = self.start;
        commands.into_iter().map(move |(at, command)| (start + at, command))
    }

    fn is_code(&self) -> bool {
        let name = self.name();
        CODE.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// The first word of its label.
    fn name(&self) -> &'t str {
        self.label.split(|c: char| !c.is_alphanumeric()).find(|part| !part.is_empty()).unwrap_or_default()
    }
}

/// The fenced blocks of a text; one that is never closed goes to its end.
fn fenced(text: &str) -> impl Iterator<Item = Block<'_>> {
    static MARKS: LazyLock<[Finder<'static>; 2]> = LazyLock::new(|| [Finder::new("```"), Finder::new("~~~")]);
    // Whether there is any is told much faster than where.
    let bytes = text.as_bytes();
    let any = memchr2(b'`', b'~', bytes).is_some() && MARKS.iter().any(|mark| mark.find(bytes).is_some());
    let mut at = if any { 0 } else { text.len() };
    std::iter::from_fn(move || {
        loop {
            let (open, mark) = next_fence(text, at)?;
            let length = text.get(open..)?.bytes().take_while(|byte| *byte == mark).count();
            let label_end = text.get(open..)?.find('\n').map(|end| open + end)?;
            let label = text.get(open + length..label_end)?.trim();
            let start = label_end + 1;
            // Code within a line, closed where it began.
            if label.contains('`') {
                at = label_end;
                continue;
            }
            let (end, after) = closing(text, start, mark, length);
            at = after;
            return Some(Block { label, start, text: text.get(start..end)? });
        }
    })
}

/// The next run of three or more backquotes or tildes: where, and of which.
fn next_fence(text: &str, from: usize) -> Option<(usize, u8)> {
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        at += memchr2(b'`', b'~', bytes.get(at..)?)?;
        let mark = *bytes.get(at)?;
        let run = bytes.get(at..)?.iter().take_while(|byte| **byte == mark).count();
        if run >= 3 {
            return Some((at, mark));
        }
        at += run;
    }
}

/// Where a block ends whose fence has `length` marks, and where reading goes on.
fn closing(text: &str, start: usize, mark: u8, length: usize) -> (usize, usize) {
    let mut from = start;
    while let Some(rest) = text.get(from..) {
        let Some(found) = memchr(mark, rest.as_bytes()) else { break };
        let run = rest.bytes().skip(found).take_while(|byte| *byte == mark).count();
        if run >= length {
            return (from + found, from + found + run);
        }
        from += found + run;
    }
    (text.len(), text.len())
}

/// Whether a script's first line names a shell: `#!/bin/bash`, `#!/usr/bin/env -S bash -e`.
fn has_interpreter(script: &str) -> bool {
    let Some(line) = script.strip_prefix("#!").and_then(|rest| rest.lines().next()) else { return false };
    let mut words = line.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or_default());
    let program = words.next();
    let named =
        if program == Some("env") { words.find(|word| !word.starts_with('-') && !word.contains('=')) } else { program };
    named.is_some_and(|name| INTERPRETERS.contains(&name))
}

/// Whether a block without a name is shell: it names its interpreter, shows a prompt before a program, half of its
/// lines are commands, or its only line may be one.
fn looks_like_shell(block: &str) -> bool {
    let block = block.trim();
    if has_interpreter(block) {
        return true;
    }
    let (mut lines, mut commands, mut goes_on, mut quoted) = (0_usize, 0_usize, false, false);
    for line in block.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).take(LINES) {
        let prompt = shell::prompt_len(line.as_bytes());
        let is_command = is_command(line.get(prompt..).unwrap_or_default());
        if prompt > 0 && is_command {
            return true;
        }
        lines += 1;
        let command = is_command || goes_on || quoted;
        commands += usize::from(command);
        goes_on = command && line.ends_with(['\\', '|', '&']);
        // Within a command's quotes every line is its own.
        quoted = command && (quoted ^ (line.matches('\'').count() % 2 == 1));
    }
    let single = lines == 1 && !block.ends_with(['.', ':', '!', '?']) && block.split_whitespace().count() <= 12;
    let may_be = single && block.split_whitespace().next().is_some_and(is_program_like);
    may_be || (commands > 0 && commands * 2 >= lines)
}

fn is_command(line: &str) -> bool {
    let mut words = line.split_whitespace().skip_while(|word| is_assignment(word) || *word == "{" || *word == "(");
    let Some(first) = words.next() else { return false };
    let name = first.rsplit('/').next().unwrap_or_default().trim_matches(['"', '\'']);
    if PROGRAMS.contains(name) {
        // A sentence that begins with a program's name ends like a sentence.
        return !line.ends_with('.') || looks_like_arguments(line, first);
    }
    if WORDS.contains(name) {
        return looks_like_arguments(line, first);
    }
    // Any other program shows by an option.
    is_program_like(name) && !line.ends_with(['.', ',', ':']) && words.any(is_option)
}

/// Whether a word may be a program's name, as most are: lower case, digits, a hyphen; on Windows with its ending.
fn is_program_like(word: &str) -> bool {
    if [".exe", ".bat", ".cmd", ".ps1"].iter().any(|ending| word.to_ascii_lowercase().ends_with(ending)) {
        return true;
    }
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.');
    word.bytes().all(plain) && word.starts_with(|c: char| c.is_ascii_lowercase())
}

/// `-f`, `--force`, and not a hyphen between words or a number.
fn is_option(word: &str) -> bool {
    word.strip_prefix('-')
        .is_some_and(|rest| rest.trim_start_matches('-').starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// Whether what follows the first word is more than words: an option, a path, a variable, a quote, an operator.
fn looks_like_arguments(line: &str, first: &str) -> bool {
    let rest = line.split_once(first).map_or("", |(_, rest)| rest);
    rest.split_whitespace().any(|word| {
        word.starts_with('-') && word.len() > 1
            || word.starts_with(['/', '~', '$', '"', '\'', '*', '.', '>', '<', '|', '&'])
            || word.contains(['=', '|', '>', ';'])
    })
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}
