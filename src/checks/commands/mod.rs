//! Finds commands that destroy, raise rights, bring code in, send credentials out or stay behind.
//! In: an event. Out: hits, each with its place and a sentence on which part does what. It runs nothing.
//!
//! Commands are parsed as shell, never searched as text: `grep 'rm -rf'` and `echo "rm -rf /"` delete nothing, while
//! `sudo sh -c "rm -rf $HOME"` does. A walk takes four steps:
//! `scripts` says which texts of an event are commands; `shell` parses one into pipelines; `resolve` takes wrappers
//! away and hands back the scripts within (`bash -c`, here-documents, `ssh host …`), which are read in turn; then
//! `files`, `disks`, `git`, `databases`, `services`, `rights` and `windows` judge single calls, `incoming` and `outgoing` whole
//! pipelines, `code` what interpreters are given. `targets` knows what a path means, `lexicon` holds the names.
//! A script is parsed only where it names a program that some rule knows.

mod code;
mod databases;
mod disks;
mod fences;
mod files;
mod git;
mod incoming;
mod lexicon;
mod outgoing;
mod resolve;
mod rights;
mod scripts;
mod services;
mod shell;
mod targets;
mod windows;

use std::{borrow::Cow, collections::VecDeque, ops::Range, sync::LazyLock};

use aho_corasick::AhoCorasick;

pub(super) use scripts::{Script, is_shell_tool, of_event, words};

use crate::domain::{CheckName, Hit, Severity};

/// What a rule saw in a command.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sight {
    rule: &'static str,
    severity: Severity,
    description: String,
}

impl Sight {
    fn new(rule: &'static str, severity: Severity, description: String) -> Self {
        Self { rule, severity, description }
    }
}

/// Scripts within scripts that are read for one script.
const MOST_SCRIPTS: usize = 24;

/// Hits that one script may have.
const MOST_HITS: usize = 50;

/// Every hit in the scripts of an event, read one by one as hits are asked for.
pub(super) fn hits<'s>(scripts: &'s [Script<'_>]) -> impl Iterator<Item = Hit> + 's {
    scripts.iter().flat_map(|script| {
        look(&script.text).into_iter().map(|(sight, at)| {
            let place = script.place(at);
            Hit {
                check: CheckName::Commands,
                rule: sight.rule.to_owned(),
                severity: sight.severity,
                field: script.field.clone(),
                start: place.start,
                end: place.end,
                description: sight.description,
            }
        })
    })
}

/// What a script would do, and where in it.
fn look(script: &str) -> Vec<(Sight, Range<usize>)> {
    if !may_matter(script) {
        return Vec::new();
    }
    let mut seen: Vec<(Sight, Range<usize>)> = Vec::new();
    let mut note = |sight: Sight, at: &Range<usize>| {
        let known = seen
            .iter()
            .any(|(other, place)| other.rule == sight.rule && place.start <= at.start && at.end <= place.end);
        if !known && seen.len() < MOST_HITS {
            seen.push((sight, at.clone()));
        }
    };
    let whole = 0..script.floor_char_boundary(shell::LONGEST_SCRIPT);
    for sight in text_sights(script.get(whole.clone()).unwrap_or_default()) {
        note(sight, &whole);
    }
    // Scripts still to be read; those within another stand where the call stands that holds them.
    let mut waiting: VecDeque<(Cow<'_, str>, Option<Range<usize>>)> = VecDeque::from([(script.into(), None)]);
    let mut downloaded = Vec::new();
    let mut read = 0;
    while let Some((text, within)) = waiting.pop_front() {
        read += 1;
        if read > MOST_SCRIPTS {
            break;
        }
        for pipeline in shell::parse(&text) {
            let start = pipeline.iter().map(|command| command.span.start).min().unwrap_or(0);
            let end = pipeline.iter().map(|command| command.span.end).max().unwrap_or(0);
            let resolved = resolve::resolve(pipeline);
            let mut sights = Vec::new();
            incoming::look(&resolved.calls, &mut downloaded, &mut sights);
            outgoing::look(&resolved.calls, text.get(start..end).unwrap_or_default(), &mut sights);
            for call in &resolved.calls {
                single(call, &mut sights);
            }
            sights.extend(resolved.code.iter().filter_map(|code| code::destroys(code)));
            let place = within.clone().unwrap_or(start..end);
            for sight in sights {
                note(sight, &place);
            }
            let more =
                resolved.scripts.into_iter().chain(resolved.code.iter().flat_map(|code| code::commands_in(code)));
            waiting.extend(
                more.filter(|more| *more != text && may_matter(more)).map(|more| (more.into(), Some(place.clone()))),
            );
        }
    }
    seen
}

/// What one call does by itself.
fn single(call: &resolve::Call, sights: &mut Vec<Sight>) {
    rights::look(call, sights);
    if !is_rehearsal(call) {
        files::look(call, sights);
        disks::look(call, sights);
        git::look(call, sights);
        databases::look(call, sights);
        services::look(call, sights);
        windows::look(call, sights);
    }
}

/// Whether the call only says what it would do.
fn is_rehearsal(call: &resolve::Call) -> bool {
    call.args.iter().any(|arg| {
        matches!(
            arg.text.as_str(),
            "--dry-run" | "--dryrun" | "--help" | "--version" | "--what-if" | "-WhatIf" | "--list-only"
        )
    })
}

fn text_sights(script: &str) -> Vec<Sight> {
    static FORK_BOMB: LazyLock<Option<regex::Regex>> =
        LazyLock::new(|| regex::Regex::new(r"([\w:.]{1,20})\s*\(\)\s*\{[^}]{0,80}\|[^}]{0,80}&[^}]{0,20}\}\s*;").ok());
    let mut sights = Vec::new();
    if incoming::connects_shell(script) {
        sights.push(Sight::new(
            "reverse_shell",
            Severity::Critical,
            "A shell is connected to a network socket, so that another host can command it.".to_owned(),
        ));
    }
    // Without the literal the expression cannot match, and it is slow.
    if script.contains("()")
        && let Some(captures) = FORK_BOMB.as_ref().and_then(|bomb| bomb.captures(script))
        && let (Some(whole), Some(name)) = (captures.get(0), captures.get(1))
        && whole.as_str().matches(name.as_str()).count() >= 3
    {
        sights.push(Sight::new(
            "fork_bomb",
            Severity::Critical,
            "A function calls itself twice in a pipe without end and starves the machine.".to_owned(),
        ));
    }
    sights.extend(windows::look_at_text(script));
    sights
}

/// Whether a script names anything that a rule could see. Words alone count: `perform` names no `rm`.
pub(super) fn may_matter(script: &str) -> bool {
    static WORDS: LazyLock<Option<AhoCorasick>> =
        LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(lexicon::WAKING.iter()).ok());
    let bytes = script.as_bytes();
    WORDS.as_ref().is_some_and(|words| {
        words.find_overlapping_iter(script).any(|hit| {
            let inside =
                hit.start().checked_sub(1).and_then(|before| bytes.get(before)).is_some_and(u8::is_ascii_alphabetic);
            !inside || bytes.get(hit.start()).is_some_and(|b| !b.is_ascii_alphabetic())
        })
    }) || windows::names_proxy(script)
}
