//! Walk through a script and the scripts within it. In: a script. Out: detections, each with its place in the outer
//! script. The walk remembers the functions, aliases, files and directories that a script sets.

use std::{
    borrow::Cow,
    collections::{HashSet, VecDeque},
    ops::Range,
};

use super::{Detection, code, detect_in_call, incoming, may_matter, outgoing, text_sights, windows};
use crate::word_lists;
use umbra_analysis::shell::{self, ProgramCall, Resolved, ScriptBudget, printed};
use umbra_domain::Severity;

/// Most nested scripts that are read for one script.
const MOST_SCRIPTS: usize = 64;

/// Most functions and aliases of a script that are followed.
const MOST_FUNCTIONS: usize = 64;

/// Longest directory that is followed, and longest distance from a `cd` to a command that surely follows it, in bytes.
const LONGEST_DIR: usize = 1024;

/// Longest command of an unread script that is read separately, in bytes.
const LONGEST_PART: usize = 400;

/// Depth of nested scripts up to which an unread innermost script is not suspicious.
const DEEP: usize = 4;

/// Rule for scripts that are not read completely.
const INVOLVED: &str = "too_involved";

/// Most hits of one script.
const MOST_HITS: usize = 50;

/// A script in the queue: its text, its place, and the command that runs it.
struct QueuedScript<'t> {
    text: Cow<'t, str>,
    /// Place in the outer script: that of the call that holds this script.
    place: Option<Range<usize>>,
    by: Option<String>,
    /// Number of scripts around it.
    depth: usize,
}

/// Detections so far, each with its place.
#[derive(Default)]
struct Detections(Vec<(Detection, Range<usize>)>);

impl Detections {
    fn note(&mut self, mut sight: Detection, at: &Range<usize>, by: Option<&str>) {
        let known = |(other, place): &(Detection, Range<usize>)| {
            other.rule == sight.rule
                && (place.start <= at.start && at.end <= place.end || sight.rule == INVOLVED)
                && other.severity >= sight.severity
        };
        if !self.0.iter().any(known) && self.0.len() < MOST_HITS {
            if let Some(by) = by.filter(|by| !sight.description.contains(*by)) {
                sight = sight.with(&format!("`{by}` runs it."));
            }
            self.0.push((sight, at.clone()));
        }
    }
}

/// Returns the detections in a script, each with its place.
pub(super) fn detect_in_script(script: &str, budget: &ScriptBudget) -> Vec<(Detection, Range<usize>)> {
    if !may_matter(script) {
        return Vec::new();
    }
    let (mut seen, mut downloaded) = (Detections::default(), Vec::new());
    follow(QueuedScript { text: script.into(), place: None, by: None, depth: 0 }, budget, &mut downloaded, &mut seen);
    if let Some(text) = windows::with_closed_paths(script) {
        let other = QueuedScript { text: text.into(), place: None, by: None, depth: 0 };
        follow(other, budget, &mut downloaded, &mut seen);
    }
    if budget.is_over() {
        for at in parts(script, budget) {
            let text = script.get(at.clone()).unwrap_or_default().into();
            let part = QueuedScript { text, place: Some(at), by: None, depth: 0 };
            follow(part, &ScriptBudget::of_part(), &mut downloaded, &mut seen);
        }
    }
    if budget.take_unread_report() && !seen.0.iter().any(|(sight, _)| sight.rule == INVOLVED) {
        let what = "Contains a script too long or too deeply nested to be read completely.".to_owned();
        seen.0.push((Detection::new(INVOLVED, Severity::Warning, what), 0..script.len()));
    }
    seen.0
}

/// Reads a script and those within it.
fn follow(script: QueuedScript<'_>, budget: &ScriptBudget, downloaded: &mut Vec<String>, seen: &mut Detections) {
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

/// Returns the detection for commands that are nested too deep to be read.
fn hidden() -> Detection {
    let what = "Nests commands too deeply to read the innermost, as attackers do to hide a command.";
    Detection::new(INVOLVED, Severity::Critical, what.to_owned())
}

/// Selects commands of a script that is too long to be read, to be read separately: the first and the last ones that a
/// rule could detect, without duplicates. A command behind many harmless lines is found this way.
fn parts(script: &str, budget: &ScriptBudget) -> Vec<Range<usize>> {
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

/// Reads one script: notes its detections, and queues the scripts within it.
fn read_one(
    script: &QueuedScript<'_>,
    budget: &ScriptBudget,
    downloaded: &mut Vec<String>,
    note: &mut impl FnMut(Detection, &Range<usize>, Option<&str>),
    waiting: &mut VecDeque<QueuedScript<'_>>,
) {
    let parsed = shell::parse(&script.text, budget);
    if script.text.get(parsed.unread_from..).is_some_and(|rest| may_matter(rest) || runs_variable(rest)) {
        budget.cut();
    }
    let text = script.text.get(..script.text.floor_char_boundary(shell::LONGEST_SCRIPT)).unwrap_or_default();
    let mut said = ScriptState { functions: parsed.functions, ..ScriptState::default() };
    said.functions.truncate(MOST_FUNCTIONS);
    // Text that a script only prints, searches for, or has in a comment.
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
        incoming::detect_downloaded_code(&resolved.calls, downloaded, &mut sights);
        outgoing::detect_sent_credentials(&resolved.calls, &mut sights);
        for code in resolved.code.iter().filter(|code| budget.reads(code.text.len())) {
            let sight = code::detect_in_code(&code.text);
            sights.extend(sight.map(|sight| sight.with(&format!("The interpreter is `{}`.", code.by))));
        }
        for sight in sights {
            note(sight, &whole, script.by.as_deref());
        }
        for call in &resolved.calls {
            let mut sights = Vec::new();
            detect_in_call(call, &mut sights);
            // Input and names from another command belong to the call's place.
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
        // The pipeline that shows the sign alone, if there is one.
        let shows = |place: &&Range<usize>| {
            live.get((*place).clone())
                .is_some_and(|part| text_sights(part).iter().any(|other| other.rule == sight.rule))
        };
        let place = script.place.clone().or_else(|| places.iter().find(shows).cloned()).unwrap_or(0..text.len());
        note(sight, &place, script.by.as_deref());
    }
}

/// True if a variable holds a command's name, which an unread part of the script may have set.
fn runs_variable(script: &str) -> bool {
    let begins = |part: &str| part.trim_start_matches([' ', '\t', '"', '{', '(']).starts_with('$');
    script.split(['\n', ';', '|', '&', '(']).any(begins)
}

/// State that earlier commands of a script set up for later ones.
#[derive(Default)]
struct ScriptState {
    /// Functions and aliases, by name.
    functions: Vec<(String, String)>,
    /// Files that the script wrote, with their content.
    written: Vec<(String, String)>,
    /// Directory of the last `cd`, and the byte where that command ends.
    dir: Option<(String, usize)>,
}

impl ScriptState {
    /// Keeps a file that the pipeline writes, since the script may run it later.
    fn keep_file(&mut self, pipeline: &[shell::ShellCommand]) {
        let file = pipeline.last().and_then(|last| last.writes.first()).filter(|_| self.written.len() < MOST_FUNCTIONS);
        if let Some(file) = file
            && let Some(content) = printed::pipeline_output(pipeline)
        {
            self.written.push((file.text.clone(), content));
        }
    }

    /// Returns the directory that a command at a place runs in, and true if it certainly does.
    fn dir_of(&self, text: &str, at: usize) -> Option<(String, bool)> {
        let (dir, end) = self.dir.as_ref()?;
        let between = text.get(*end..at).filter(|between| between.len() <= LONGEST_DIR);
        // A command that runs only if the `cd` worked.
        let sure = between.is_some_and(|between| {
            between.trim_start().starts_with("&&") && !between.contains([';', '\n', ')']) && !between.contains("||")
        });
        Some((dir.clone(), sure))
    }

    /// Follows a `cd` that ends at a place.
    fn go(&mut self, calls: &[ProgramCall], end: usize) {
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

    /// Queues the scripts of a pipeline: inner scripts, and the functions, aliases and files that it runs.
    fn queue(
        &mut self,
        resolved: &Resolved,
        script: &QueuedScript<'_>,
        place: &Range<usize>,
        budget: &ScriptBudget,
        waiting: &mut VecDeque<QueuedScript<'_>>,
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
                waiting.push_back(QueuedScript { text: text.into(), place: Some(place.clone()), by: Some(by), depth });
            }
        }
    }

    /// Returns the content and the name of a file that the script wrote and the call runs.
    fn file_run_by(&self, call: &ProgramCall) -> Option<(String, String)> {
        let file = shell::file_run(call).filter(|_| !self.written.is_empty())?;
        let same = |name: &str| name.trim_start_matches("./").eq_ignore_ascii_case(file.trim_start_matches("./"));
        let base = |name: &str| name.rsplit('/').next() == Some(file);
        let (name, content) = self.written.iter().rev().find(|(name, _)| same(name) || base(name))?;
        Some((content.clone(), name.clone()))
    }
}

/// Returns the text with these parts blanked.
fn without(text: &str, parts: Vec<Range<usize>>) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for part in parts {
        bytes.get_mut(part).unwrap_or_default().fill(b' ');
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the name and the text of an alias that the call sets.
fn alias(call: &ProgramCall) -> Option<(String, String)> {
    let setting = call.args.iter().find(|arg| arg.text.contains('=')).filter(|_| call.program == "alias")?;
    setting.text.split_once('=').map(|(name, body)| (name.to_owned(), body.to_owned()))
}

/// True if the call only shows or searches text.
fn only_shows(call: &ProgramCall) -> bool {
    let from_host = call.reads.iter().any(|file| file.text.contains("/dev/tcp") || file.text.contains("/dev/udp"));
    let says = call.program == "git" && call.operands().any(|word| matches!(word, "commit" | "log" | "grep" | "tag"));
    !from_host
        && call.writes.is_empty()
        && (says || word_lists::lists("showers", &call.program))
        && call.args.iter().all(|arg| arg.runs.is_empty())
}
