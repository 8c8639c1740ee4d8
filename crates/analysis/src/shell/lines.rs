//! Lines of text as commands: judges by its words whether a line is a command, and whether a block of lines is a
//! script.

use std::{collections::HashSet, sync::LazyLock};

use super::{parse::prompt_len, wrappers::is_assignment};

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

/// Programs whose names are English words too: the rest of the line must look like arguments.
static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "at awk cat cd command crypt cut dig env eval exec export fdisk file find grep head history install kill killall less make more \
     mount nice node read ruby run service set sleep sort source split tail test time timeout top uniq unset watch which \
     yes zfs zpool"
        .split_whitespace()
        .collect()
});

/// Most lines of a block that are read.
const MOST_LINES: usize = 200;

/// True if a script's first line names a shell: `#!/bin/bash`, `#!/usr/bin/env -S bash -e`.
pub fn has_interpreter(script: &str) -> bool {
    let Some(line) = script.strip_prefix("#!").and_then(|rest| rest.lines().next()) else { return false };
    let mut words = line.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or_default());
    let program = words.next();
    let named =
        if program == Some("env") { words.find(|word| !word.starts_with('-') && !word.contains('=')) } else { program };
    named.is_some_and(|name| INTERPRETERS.contains(&name))
}

/// True if a block without a name is shell: it names its interpreter, shows a prompt before a program, half of its
/// lines are commands, or its only line may be a command.
pub fn looks_like_shell(block: &str) -> bool {
    let block = block.trim();
    if has_interpreter(block) {
        return true;
    }
    let (mut lines, mut commands, mut goes_on, mut quoted) = (0_usize, 0_usize, false, false);
    for line in block.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).take(MOST_LINES)
    {
        let prompt = prompt_len(line.as_bytes());
        let is_command = is_command(line.get(prompt..).unwrap_or_default());
        if prompt > 0 && is_command {
            return true;
        }
        lines += 1;
        let command = is_command || goes_on || quoted;
        commands += usize::from(command);
        goes_on = command && line.ends_with(['\\', '|', '&']);
        // Each line within a command's quotes belongs to the command.
        quoted = command && (quoted ^ (line.matches('\'').count() % 2 == 1));
    }
    let single = lines == 1 && !block.ends_with(['.', ':', '!', '?']) && block.split_whitespace().count() <= 12;
    let may_be = single && block.split_whitespace().next().is_some_and(is_program_like);
    may_be || (commands > 0 && commands * 2 >= lines)
}

/// True if a line begins with a program's name and continues like a command.
pub fn is_command(line: &str) -> bool {
    by_name(line).unwrap_or_else(|| {
        // Any other program needs an option in the line.
        let mut words = words(line);
        let name = words.next().map_or("", program);
        is_program_like(name) && !line.ends_with(['.', ',', ':']) && words.any(is_option)
    })
}

/// True if a line begins with the name of a well-known program and continues like a command.
pub fn names_program(line: &str) -> bool {
    by_name(line) == Some(true)
}

/// Judges a line that begins with the name of a well-known program; `None` for any other line.
fn by_name(line: &str) -> Option<bool> {
    let first = words(line).next()?;
    let name = program(first);
    if PROGRAMS.contains(name) {
        // A sentence that begins with a program's name ends like a sentence.
        return Some(!line.ends_with('.') || looks_like_arguments(line, first));
    }
    WORDS.contains(name).then(|| looks_like_arguments(line, first))
}

/// Returns the words of a line from its program on.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split_whitespace().skip_while(|word| is_assignment(word) || *word == "{" || *word == "(")
}

fn program(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or_default().trim_matches(['"', '\''])
}

/// True if a word may be a program's name, as most are: lower case, digits, a hyphen; on Windows with its ending.
fn is_program_like(word: &str) -> bool {
    if [".exe", ".bat", ".cmd", ".ps1"].iter().any(|ending| word.to_ascii_lowercase().ends_with(ending)) {
        return true;
    }
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.');
    word.bytes().all(plain) && word.starts_with(|c: char| c.is_ascii_lowercase())
}

/// True for `-f` and `--force`, and not for a hyphen between words or a number.
fn is_option(word: &str) -> bool {
    word.strip_prefix('-')
        .is_some_and(|rest| rest.trim_start_matches('-').starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// True if the words after the first one hold more than prose: an option, a path, a variable, a quote, an operator.
fn looks_like_arguments(line: &str, first: &str) -> bool {
    let rest = line.split_once(first).map_or("", |(_, rest)| rest);
    rest.split_whitespace().any(|word| {
        word.starts_with('-') && word.len() > 1
            || word.starts_with(['/', '~', '$', '"', '\'', '*', '.', '>', '<', '|', '&'])
            || word.contains(['=', '|', '>', ';'])
    })
}
