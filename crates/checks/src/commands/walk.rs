//! Walks through a script and the scripts within it. In: a script. Out: what the rules saw, each with its place in the
//! script as it stands. It remembers what a script says of functions, aliases, files and directories.

use std::{
    borrow::Cow,
    collections::{HashSet, VecDeque},
    ops::Range,
};

use super::{Sight, code, incoming, may_matter, outgoing, single, text_sights};
use umbra_analysis::shell::{self, Budget, Call, Resolved, printed};
use umbra_domain::Severity;

/// Scripts within scripts that are read for one script.
const MOST_SCRIPTS: usize = 64;

/// Functions and aliases of a script that are followed.
const MOST_FUNCTIONS: usize = 64;

/// Longest directory that is followed, in bytes, and longest way from a `cd` to what surely follows it.
const LONGEST_DIR: usize = 1024;

/// Longest command of an unread script that is looked at by itself, in bytes.
const LONGEST_PART: usize = 400;

/// Scripts within one another of which the innermost may be left unread without suspicion.
const DEEP: usize = 4;

/// The rule of what is not read.
const INVOLVED: &str = "too_involved";

/// Hits that one script may have.
const MOST_HITS: usize = 50;

/// A script that is still to be read: its text, where it stands, and what runs it.
struct Waiting<'t> {
    text: Cow<'t, str>,
    /// Those within another stand where the call stands that holds them.
    place: Option<Range<usize>>,
    by: Option<String>,
    /// Scripts that it lies in.
    depth: usize,
}

/// What was seen, each with its place.
#[derive(Default)]
struct Seen(Vec<(Sight, Range<usize>)>);

impl Seen {
    fn note(&mut self, mut sight: Sight, at: &Range<usize>, by: Option<&str>) {
        let known = |(other, place): &(Sight, Range<usize>)| {
            other.rule == sight.rule
                && (place.start <= at.start && at.end <= place.end || sight.rule == INVOLVED)
                && other.severity >= sight.severity
        };
        if !self.0.iter().any(known) && self.0.len() < MOST_HITS {
            if let Some(by) = by.filter(|by| !sight.description.contains(*by)) {
                sight = sight.with(&format!("It is run by `{by}`."));
            }
            self.0.push((sight, at.clone()));
        }
    }
}

/// What a script would do, and where in it.
pub(super) fn look(script: &str, budget: &Budget) -> Vec<(Sight, Range<usize>)> {
    if !may_matter(script) {
        return Vec::new();
    }
    let (mut seen, mut downloaded) = (Seen::default(), Vec::new());
    follow(Waiting { text: script.into(), place: None, by: None, depth: 0 }, budget, &mut downloaded, &mut seen);
    if budget.is_over() {
        for at in parts(script, budget) {
            let text = script.get(at.clone()).unwrap_or_default().into();
            let part = Waiting { text, place: Some(at), by: None, depth: 0 };
            follow(part, &Budget::of_part(), &mut downloaded, &mut seen);
        }
    }
    if budget.tells() && !seen.0.iter().any(|(sight, _)| sight.rule == INVOLVED) {
        let what = "The script is so long or nested so deeply that not all of it was read.".to_owned();
        seen.0.push((Sight::new(INVOLVED, Severity::Warning, what), 0..script.len()));
    }
    seen.0
}

/// Reads a script and those within it.
fn follow(script: Waiting<'_>, budget: &Budget, downloaded: &mut Vec<String>, seen: &mut Seen) {
    let mut waiting = VecDeque::from([script]);
    let mut read = 0;
    while let Some(next) = waiting.pop_front() {
        read += 1;
        if read > MOST_SCRIPTS || !budget.reads(next.text.len().min(shell::LONGEST_SCRIPT)) {
            budget.cut();
            if next.depth >= DEEP {
                seen.note(hidden(), &next.place.unwrap_or(0..next.text.len()), None);
            }
            break;
        }
        read_one(&next, budget, downloaded, &mut |sight, at, by| seen.note(sight, at, by), &mut waiting);
    }
}

/// What is wrapped so deeply that it is not read.
fn hidden() -> Sight {
    let what =
        "Commands are wrapped in one another so deeply that the innermost was not read, as only who hides it writes.";
    Sight::new(INVOLVED, Severity::Critical, what.to_owned())
}

/// The commands of a script that is too much to read, by themselves: the last ones and the first ones of those that a
/// rule could see, each kind once. What many harmless lines stand before is found all the same.
fn parts(script: &str, budget: &Budget) -> Vec<Range<usize>> {
    let mut known = HashSet::new();
    let mut all = Vec::new();
    let mut start = 0;
    for part in script.split_inclusive(['\n', ';']) {
        let at = start..start + part.len();
        start = at.end;
        let text = part.trim_end_matches(['\n', ';']).trim();
        if (2..=LONGEST_PART).contains(&text.len()) && may_matter(text) && known.insert(text) {
            all.push(at);
        }
    }
    let granted = budget.parts(all.len());
    let last = granted.div_ceil(2);
    let first = all.len() - last;
    all.drain(granted - last..first);
    all
}

/// Reads one script: notes what it does, and queues the scripts within it.
fn read_one(
    script: &Waiting<'_>,
    budget: &Budget,
    downloaded: &mut Vec<String>,
    note: &mut impl FnMut(Sight, &Range<usize>, Option<&str>),
    waiting: &mut VecDeque<Waiting<'_>>,
) {
    let parsed = shell::parse(&script.text, budget);
    if script.text.get(parsed.unread_from..).is_some_and(|rest| may_matter(rest) || runs_variable(rest)) {
        budget.cut();
    }
    let text = script.text.get(..script.text.floor_char_boundary(shell::LONGEST_SCRIPT)).unwrap_or_default();
    let mut said = Said { functions: parsed.functions, ..Said::default() };
    said.functions.truncate(MOST_FUNCTIONS);
    // What a script only prints, looks for or says in a comment.
    let mut inert = parsed.comments;
    let mut places = Vec::new();
    let mut deep = parsed.deep;
    for pipeline in parsed.pipelines {
        let start = pipeline.iter().map(|command| command.span.start).min().unwrap_or(0);
        let end = pipeline.iter().map(|command| command.span.end).max().unwrap_or(0);
        said.keep_file(&pipeline);
        let mut resolved = shell::resolve(pipeline);
        deep |= resolved.deep;
        let shows = resolved.calls.iter().all(only_shows);
        let kept = if shows { &mut inert } else { &mut places };
        kept.push(start..end);
        for call in &mut resolved.calls {
            call.dir = said.dir_of(text, call.span.start);
        }
        let whole = script.place.clone().unwrap_or(start..end);
        let mut sights = Vec::new();
        incoming::look(&resolved.calls, downloaded, &mut sights);
        outgoing::look(&resolved.calls, &mut sights);
        for code in resolved.code.iter().filter(|code| budget.reads(code.text.len())) {
            let sight = code::look(&code.text);
            sights.extend(sight.map(|sight| sight.with(&format!("It is given to {}.", code.by))));
        }
        for sight in sights {
            note(sight, &whole, script.by.as_deref());
        }
        for call in &resolved.calls {
            let mut sights = Vec::new();
            single(call, &mut sights);
            // What another command names or gives belongs to what the call does.
            let alone = call.fed.is_none() && call.given.is_none() && call.span.start >= start && call.span.end <= end;
            let place = if alone && script.place.is_none() { &call.span } else { &whole };
            for sight in sights {
                note(sight, place, call.via.as_deref().or(script.by.as_deref()));
            }
        }
        said.queue(&resolved, script, &whole, budget, waiting);
        said.go(&resolved.calls, end);
    }
    if deep {
        note(hidden(), &script.place.clone().unwrap_or(0..text.len()), script.by.as_deref());
    }
    let live = without(text, inert);
    for sight in text_sights(&live) {
        // The pipeline that shows it alone, if one does.
        let shows = |place: &&Range<usize>| {
            live.get((*place).clone())
                .is_some_and(|part| text_sights(part).iter().any(|other| other.rule == sight.rule))
        };
        let place = script.place.clone().or_else(|| places.iter().find(shows).cloned()).unwrap_or(0..text.len());
        note(sight, &place, script.by.as_deref());
    }
}

/// True if a command's name stands in a variable, which an unread part of the script may have set to anything.
fn runs_variable(script: &str) -> bool {
    let begins = |part: &str| part.trim_start_matches([' ', '\t', '"', '{', '(']).starts_with('$');
    script.split(['\n', ';', '|', '&', '(']).any(begins)
}

/// What a script has said so far that later commands mean.
#[derive(Default)]
struct Said {
    /// Functions and aliases, by name.
    functions: Vec<(String, String)>,
    /// Files that it wrote, with their content.
    written: Vec<(String, String)>,
    /// Where the last `cd` went, and where that ends.
    dir: Option<(String, usize)>,
}

impl Said {
    /// Keeps a file that the pipeline writes, since the script may run it later.
    fn keep_file(&mut self, pipeline: &[shell::Command]) {
        let file = pipeline.last().and_then(|last| last.writes.first()).filter(|_| self.written.len() < MOST_FUNCTIONS);
        if let Some(file) = file
            && let Some(content) = printed::by(pipeline)
        {
            self.written.push((file.text.clone(), content));
        }
    }

    /// The directory that a command at a place runs in, and whether it surely does.
    fn dir_of(&self, text: &str, at: usize) -> Option<(String, bool)> {
        let (dir, end) = self.dir.as_ref()?;
        let between = text.get(*end..at).filter(|between| between.len() <= LONGEST_DIR);
        // A command that runs only if `cd` worked.
        let sure = between.is_some_and(|between| {
            between.trim_start().starts_with("&&") && !between.contains([';', '\n', ')']) && !between.contains("||")
        });
        Some((dir.clone(), sure))
    }

    /// Follows a `cd` that ends at a place.
    fn go(&mut self, calls: &[Call], end: usize) {
        let [call] = calls else { return };
        if !matches!(call.program.as_str(), "cd" | "pushd" | "chdir" | "set-location") {
            return;
        }
        let to = call.operands().next().filter(|to| !to.is_empty());
        self.dir = to.map(|to| match &call.dir {
            Some((before, _)) if !to.starts_with(['/', '~', '$']) => (format!("{before}/{to}"), end),
            _ => (to.to_owned(), end),
        });
        self.dir = self.dir.take().filter(|(dir, _)| dir.len() <= LONGEST_DIR);
    }

    /// Queues the scripts within a pipeline: those that it holds, and the functions, aliases and files that it runs.
    fn queue(
        &mut self,
        resolved: &Resolved,
        script: &Waiting<'_>,
        place: &Range<usize>,
        budget: &Budget,
        waiting: &mut VecDeque<Waiting<'_>>,
    ) {
        let mut inner: Vec<(String, String)> = Vec::new();
        for call in &resolved.calls {
            let function = self.functions.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case(&call.program));
            inner.extend(function.map(|(name, body)| (shell::with_arguments(body, &call.args, 1), name.clone())));
            inner.extend(self.file_run_by(call));
            if let Some((name, body)) = alias(call).filter(|_| self.functions.len() < 2 * MOST_FUNCTIONS) {
                inner.push((body.clone(), format!("alias {name}")));
                self.functions.push((name, format!("{body} \"$@\"")));
            }
        }
        inner.extend(resolved.scripts.iter().map(|inner| (inner.text.clone(), inner.by.clone())));
        for code in &resolved.code {
            inner.extend(code::commands_in(&code.text).into_iter().map(|text| (text, code.by.clone())));
        }
        for (text, by) in inner {
            if waiting.len() > MOST_SCRIPTS || !budget.reads(text.len()) {
                budget.cut();
                return;
            }
            if text != script.text && may_matter(&text) {
                let depth = script.depth + 1;
                waiting.push_back(Waiting { text: text.into(), place: Some(place.clone()), by: Some(by), depth });
            }
        }
    }

    /// The content of a file that the script wrote and the call runs, and its name.
    fn file_run_by(&self, call: &Call) -> Option<(String, String)> {
        let file = shell::file_run(call).filter(|_| !self.written.is_empty())?;
        let same = |name: &str| name.trim_start_matches("./").eq_ignore_ascii_case(file.trim_start_matches("./"));
        let base = |name: &str| name.rsplit('/').next() == Some(file);
        let (name, content) = self.written.iter().rev().find(|(name, _)| same(name) || base(name))?;
        Some((content.clone(), name.clone()))
    }
}

/// The text with parts blanked.
fn without(text: &str, parts: Vec<Range<usize>>) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for part in parts {
        bytes.get_mut(part).unwrap_or_default().fill(b' ');
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The name and the text of an alias that the call sets.
fn alias(call: &Call) -> Option<(String, String)> {
    let setting = call.args.iter().find(|arg| arg.text.contains('=')).filter(|_| call.program == "alias")?;
    setting.text.split_once('=').map(|(name, body)| (name.to_owned(), body.to_owned()))
}

/// Whether the call only shows or looks for text.
fn only_shows(call: &Call) -> bool {
    const SHOW: [&str; 16] = [
        "echo",
        "printf",
        "grep",
        "egrep",
        "fgrep",
        "rg",
        "ag",
        "ack",
        "man",
        "cat",
        "less",
        "head",
        "tail",
        "sort",
        "wc",
        "write-output",
    ];
    let from_host = call.reads.iter().any(|file| file.text.contains("/dev/tcp") || file.text.contains("/dev/udp"));
    let says = call.program == "git" && call.operands().any(|word| matches!(word, "commit" | "log" | "grep" | "tag"));
    !from_host
        && call.writes.is_empty()
        && (says || SHOW.contains(&call.program.as_str()))
        && call.args.iter().all(|arg| arg.runs.is_empty())
}
