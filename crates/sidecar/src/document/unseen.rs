//! Which state of a document a text was made from that came back from a file.
//!
//! Mostly the last one that the file was given. But an editor may have read the file before, and who saves what it had read does
//! not mean to undo what it never saw. So the changes of others are gone back through, and each is judged by the lines that it
//! removed or added, as far as the text tells. A line that stands in it as it was before, or of the added ones is missing, speaks
//! against its having been seen; one that it has as it is since, with whatever box, speaks for it; one that says neither, or says
//! the same with more words or other spelling, and a title that is there, speak for nothing. Where something speaks against and nothing for
//! it, the text was made before that change. At last comes what the workspace itself had saved: an editor that saves again has
//! its own text in mind, not what was merged with it.
//!
//! Who undoes what others added, and changes something else at once, finds it there again and has to undo it once more; who writes
//! an older state back as it was means that. Either is told ([`Made`]).

use std::collections::HashMap;

use super::{
    Format,
    identity::alike,
    lines::{self, Marker, explicit_id, substance},
    patch::{Patch, PatchError},
    revision::{Change, Entry, Etag, ReplayError, WORKSPACE, replay},
};

/// Changes of others that may not have been seen.
const MOST_UNSEEN: usize = 400;
/// Lines of a text that no known state has, which are held against what was added: others are like nothing.
const MOST_NEW: usize = 64;

/// What a text was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// It.
    pub from: String,
    /// Whether it is older than the last state of the history.
    pub is_older: bool,
    /// Lines that others had added to that state since the workspace changed it last, and that the text has not.
    pub without: usize,
}

/// It cannot be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnknownMaking {
    /// The history does not lead from its first text to its last.
    #[error("it was made from a state that the document never had")]
    History,
    /// Others have changed more than is gone back through.
    #[error(
        "it has nothing of what others changed the last {MOST_UNSEEN} times: nobody knows which state it was made from"
    )]
    TooOld,
}

impl From<ReplayError> for UnknownMaking {
    fn from(_: ReplayError) -> Self {
        Self::History
    }
}

impl From<PatchError> for UnknownMaking {
    fn from(_: PatchError) -> Self {
        Self::History
    }
}

/// The state of a history that a text was made from, mostly the last.
///
/// # Errors
/// The history cannot be read, or leaves it open.
pub fn made_from(first: &str, entries: &[Entry], text: &str, format: Format) -> Result<Made, UnknownMaking> {
    let others = entries.iter().rev().take_while(|entry| entry.by != WORKSPACE).count();
    let (before, since) = entries.split_at(entries.len() - others);
    let ours = replay(first, before)?;
    let through = |steps: &[Entry]| steps.iter().try_fold(ours.clone(), |text, step| step.patch.apply(&text));
    let last = through(since)?;
    let saved = before.last().and_then(|entry| match &entry.change {
        Change::Merge { said: Some(said), .. } => Some(said),
        _ => None,
    });
    let steps: Vec<Step<'_>> =
        since.iter().rev().map(|entry| Step::of(&entry.patch)).chain(saved.map(Step::back)).collect();
    let near = &steps[..steps.len().min(MOST_UNSEEN)];
    let mut walk = Walk::new(text, &last, near, format);
    let was_so = Etag::of(text);
    let is_state = since.iter().any(|entry| entry.before == was_so);
    let (unseen, is_all) = if is_state { (0, false) } else { walk.unseen(near) };
    if unseen > 0 && is_all && near.len() < steps.len() {
        return Err(UnknownMaking::TooOld);
    }
    let from = match saved {
        _ if unseen == 0 => last,
        Some(said) if unseen > others => said.apply(&ours)?,
        _ => through(&since[..others - unseen])?,
    };
    Ok(Made { from, is_older: unseen > 0, without: walk.without(&near[unseen..]) })
}

/// What led from one state to the next: what stood at each place, and what stands there since.
struct Step<'s>(Vec<(&'s [String], &'s [String])>);

impl<'s> Step<'s> {
    fn of(patch: &'s Patch) -> Self {
        Self(patch.0.iter().map(|hunk| (&*hunk.removed, &*hunk.added)).collect())
    }

    /// The step that a patch undoes.
    fn back(patch: &'s Patch) -> Self {
        Self(patch.0.iter().map(|hunk| (&*hunk.added, &*hunk.removed)).collect())
    }

    fn lines(&self) -> impl Iterator<Item = &'s str> + '_ {
        self.0.iter().flat_map(|(was, is)| was.iter().chain(*is)).map(String::as_str)
    }
}

/// A line that says something: signs alone, such as those of a fence, are everybody's.
struct Line {
    /// With its box.
    all: String,
    /// Without.
    words: String,
    id: Option<String>,
    /// Its key, in YAML.
    key: Option<String>,
    /// Whether it says only what stands below it, as two may say who know nothing of each other.
    is_title: bool,
}

impl Line {
    fn of(line: &str, format: Format) -> Option<Self> {
        let marker = if format == Format::Yaml { Marker::of_yaml(line) } else { Marker::of(line) };
        let all = substance(line);
        let words = marker.map_or_else(|| all.clone(), |marker| substance(&line[marker.text..]));
        let key = (format == Format::Yaml).then(|| lines::key(&words).map(str::to_owned)).flatten();
        let is_title = match format {
            Format::Markdown => lines::heading(line).is_some(),
            Format::Yaml => words.ends_with(':'),
        };
        let says = words.contains(char::is_alphanumeric);
        says.then(|| Self { id: explicit_id(line).map(str::to_owned), key, is_title, words, all })
    }

    /// Whether it is another's in other words, as far as can be told.
    fn is_like(&self, other: &Self) -> bool {
        match (&self.id, &other.id) {
            (Some(own), Some(other)) => own == other,
            _ => (self.key.is_some() && self.key == other.key) || alike(&self.words, &other.words),
        }
    }

    /// Whether it is another's by who had seen that one: spelled otherwise, or with words beside. To be like it is not enough:
    /// two who know nothing of each other write `tests for the parser` and `tests for the lexer`.
    fn is_made_of(&self, other: &Self) -> bool {
        match (&self.id, &other.id) {
            (Some(own), Some(other)) => own == other,
            _ => (self.key.is_some() && self.key == other.key) || is_corrected(&other.words, &self.words),
        }
    }
}

/// Whether all words of one text are in another, in order, but for slips of the pen.
fn is_corrected(before: &str, after: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let after = words(after);
    let mut rest = after.iter();
    words(before).iter().all(|word| rest.any(|other| is_slip(word, other)))
}

/// Whether two words are one: what differs is two letters at most, in one place, of a word of which more is left.
fn is_slip(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let same = |(a, b): &(&char, &char)| a == b;
    let head = a.iter().zip(&b).take_while(same).count();
    let tail = a.iter().rev().zip(b.iter().rev()).take_while(same).count();
    let (short, long) = (a.len().min(b.len()), a.len().max(b.len()));
    let differs = long - (head + tail).min(short);
    let figures = a.iter().chain(&b).any(char::is_ascii_digit);
    !figures && differs <= 2 && short >= 4
}

/// How often a text says what.
#[derive(Clone, Default)]
struct Count {
    all: HashMap<String, isize>,
    words: HashMap<String, isize>,
}

impl Count {
    fn add<'l>(&mut self, lines: impl IntoIterator<Item = &'l Line>, times: isize) {
        for line in lines {
            *self.all.entry(line.all.clone()).or_default() += times;
            *self.words.entry(line.words.clone()).or_default() += times;
        }
    }

    fn all(&self, line: &Line) -> isize {
        self.all.get(&line.all).copied().unwrap_or_default()
    }

    fn words(&self, line: &Line) -> isize {
        self.words.get(&line.words).copied().unwrap_or_default()
    }
}

/// The way back through a history.
struct Walk {
    format: Format,
    text: Count,
    /// The state that was come to.
    state: Count,
    /// Lines of the text that no state has.
    new: Vec<Line>,
}

impl Walk {
    fn new(text: &str, last: &str, steps: &[Step<'_>], format: Format) -> Self {
        let read = |line: &str| Line::of(line, format);
        let lines: Vec<Line> = text.lines().filter_map(read).collect();
        let (mut text, mut state) = (Count::default(), Count::default());
        text.add(&lines, 1);
        for line in last.lines().filter_map(read) {
            state.add([&line], 1);
        }
        let mut known = state.clone();
        for line in steps.iter().flat_map(Step::lines).filter_map(read) {
            known.add([&line], 1);
        }
        let new = lines.into_iter().filter(|line| known.words(line) == 0).take(MOST_NEW).collect();
        Self { format, text, state, new }
    }

    /// How many of the last steps were not seen, going back through them, and whether none of all of them was.
    fn unseen(&mut self, steps: &[Step<'_>]) -> (usize, bool) {
        let mut unseen = 0;
        for (at, step) in (1..).zip(steps) {
            let change = self.change(step);
            match change.shows(self) {
                Shows::Nothing => unseen = at,
                Shows::NoChange => {}
                Shows::Something => return (unseen, false),
            }
            change.undo(&mut self.state);
        }
        (unseen, true)
    }

    fn change(&self, step: &Step<'_>) -> Changed {
        let read = |lines: &[String]| lines.iter().filter_map(|line| Line::of(line, self.format)).collect::<Vec<_>>();
        let places: Vec<_> = step.0.iter().map(|(was, is)| (read(was), read(is))).collect();
        let mut more = Count::default();
        for (was, is) in &places {
            more.add(was, -1);
            more.add(is, 1);
        }
        Changed { places, more }
    }

    /// How many lines that these steps added the state has and the text has not.
    fn without(&self, steps: &[Step<'_>]) -> usize {
        let mut missing: HashMap<String, isize> = HashMap::new();
        for step in steps {
            let change = self.change(step);
            for line in change.places.iter().flat_map(|(_, is)| is).filter(|line| change.more.words(line) > 0) {
                let lacking = self.state.words(line) - self.text.words(line);
                if lacking > 0 && !self.new.iter().any(|new| new.is_made_of(line)) {
                    missing.insert(line.words.clone(), lacking);
                }
            }
        }
        missing.values().copied().sum::<isize>().unsigned_abs()
    }
}

/// What shows of a step in a text.
enum Shows {
    Nothing,
    Something,
    /// The step has other blanks, places or names alone.
    NoChange,
}

/// The lines of a step, and how often each is there more than before.
struct Changed {
    places: Vec<(Vec<Line>, Vec<Line>)>,
    more: Count,
}

impl Changed {
    fn shows(&self, walk: &Walk) -> Shows {
        let (mut speaks_against, mut is_change) = (false, false);
        for (was, is) in &self.places {
            for line in was {
                let (words, all) = (self.more.words(line), self.more.all(line));
                is_change |= words != 0 || all != 0;
                speaks_against |= match words {
                    0 => all < 0 && walk.text.all(line) > walk.state.all(line),
                    _ => words < 0 && walk.text.words(line) > walk.state.words(line),
                };
            }
            for line in is {
                let (words, all) = (self.more.words(line), self.more.all(line));
                is_change |= words != 0 || all != 0;
                let is_there = match words {
                    0 => all > 0 && walk.text.all(line) > walk.state.all(line) - all,
                    _ => words > 0 && walk.text.words(line) > walk.state.words(line) - words,
                };
                if is_there && !line.is_title {
                    return Shows::Something;
                }
                if is_there {
                    continue;
                }
                // Where it took the place of another one it is no evidence by itself that it is missing.
                let replaces = |line: &Line| was.iter().any(|was| self.more.words(was) < 0 && was.is_like(line));
                speaks_against = speaks_against
                    || (words > 0 && !replaces(line) && !walk.new.iter().any(|new| new.is_made_of(line)));
            }
        }
        match (is_change, speaks_against) {
            (false, _) => Shows::NoChange,
            (_, true) => Shows::Nothing,
            (_, false) => Shows::Something,
        }
    }

    fn undo(&self, state: &mut Count) {
        for (was, is) in &self.places {
            state.add(is, -1);
            state.add(was, 1);
        }
    }
}
