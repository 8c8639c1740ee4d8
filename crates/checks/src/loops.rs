//! Check for repetition: calls of a task, and text of an output.
//!
//! *Calls.* The same few tool calls with the same arguments, three times in a row or more. In: the events of a task in
//! their order. Out: a hit on the call that completes the third round, once for each loop. Hashes of each agent's last
//! calls are kept, never their text.
//!
//! Where each round also brought the same results, the loop is a warning. Where the results differ, the agent may be
//! waiting for something, so the hit is info.
//!
//! *Text.* A model that has lost its way ends in the same words over and over, or writes the same paragraph again. In:
//! the output. Out: at most one hit.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    ops::Range,
};

use memchr::memmem;

use umbra_domain::{CheckName, Event, FieldName, Hit, Severity};

/// Rounds that make a loop.
const ROUNDS: usize = 3;
/// Most calls in a round.
const LONGEST_ROUND: usize = 4;
/// Most agents of a task that are followed; agents choose their names.
const MAX_AGENTS: usize = 100;

/// Detector of repeated calls over the events of a task.
#[derive(Debug, Default)]
pub struct Loops {
    agents: HashMap<String, Calls>,
}

/// Last calls of one agent.
#[derive(Debug, Default)]
struct Calls {
    last: VecDeque<CallHashes>,
    /// True if the current loop was reported.
    reported: bool,
}

/// Hashes of a call, and of its outcome.
#[derive(Debug, Clone, Copy)]
struct CallHashes {
    asked: u64,
    outcome: u64,
}

impl Loops {
    /// Reads the next event of the task. Returns a hit if it completes a loop.
    pub fn observe(&mut self, event: &Event) -> Option<Hit> {
        let tool = event.tool.as_ref()?;
        if self.agents.len() >= MAX_AGENTS && !self.agents.contains_key(&event.agent) {
            return None;
        }
        let calls = self.agents.entry(event.agent.clone()).or_default();
        // JSON without white space, with sorted keys: the same arguments are the same text.
        let asked = hash(&(&tool.name, tool.args.to_string()));
        calls.last.push_back(CallHashes { asked, outcome: hash(&(&tool.result, &tool.error, tool.exit_code)) });
        if calls.last.len() > ROUNDS * LONGEST_ROUND {
            calls.last.pop_front();
        }
        let Some((round, same)) = calls.looping() else {
            calls.reported = false;
            return None;
        };
        if std::mem::replace(&mut calls.reported, true) {
            return None;
        }
        let what = if round == 1 { "the same call".to_owned() } else { format!("the same {round} calls") };
        let results = if same { "the same results" } else { "different results" };
        let severity = if same { Severity::Warning } else { Severity::Info };
        let description = format!("Makes {what} {ROUNDS} times in a row with the same arguments and {results}.");
        let (field, at) = (FieldName::fixed("tool.name"), 0..tool.name.len());
        Some(Hit::new(CheckName::Loops, "repeated_calls", severity, field, at, description))
    }
}

impl Calls {
    /// Returns the length of the shortest round that the last calls repeat, and true if the results repeat as well.
    fn looping(&self) -> Option<(usize, bool)> {
        let newest: Vec<CallHashes> = self.last.iter().rev().copied().collect();
        let repeats = |round: usize, of: fn(&CallHashes) -> u64| {
            let Some(calls) = newest.get(..ROUNDS * round) else { return false };
            calls.iter().zip(calls.iter().skip(round)).all(|(later, earlier)| of(later) == of(earlier))
        };
        let round = (1..=LONGEST_ROUND).find(|round| repeats(*round, |call| call.asked))?;
        Some((round, repeats(round, |call| call.outcome)))
    }
}

/// Bytes at the end of a text that must occur before, as a quick test.
const PROBE: usize = 24;
/// Longest end of an output that is searched for a loop, in bytes.
const TAIL: usize = 4_096;
/// Fewest repetitions of a piece that make a loop.
const TIMES: usize = 6;
/// Fewest bytes of a loop.
const LOOPED: usize = 160;
/// Fewest bytes of a loop of letters alone: padding looks the same.
const LAUGHED: usize = 400;
/// Longest piece that is repeated, in bytes.
const LONGEST_PIECE: usize = 400;
/// Fewest words of a sentence that counts up.
const COUNTED_WORDS: usize = 6;
/// Fewest lines at the end with the same counting sentence.
const COUNTED_LINES: usize = 15;
/// Shortest paragraph whose third occurrence is a repetition, in bytes.
const PARAGRAPH: usize = 120;
/// Most paragraphs or lines that are read.
const MAX_PARAGRAPHS: usize = 2_000;

/// Returns a hit for the output's repeated text.
pub(super) fn repetition(event: &Event) -> Option<Hit> {
    let output = event.output.as_deref()?;
    let text = output.trim_end();
    let (span, description) = looping_end(text)
        .map(|span| (span, "The output ends by repeating the same words over and over."))
        .or_else(|| paragraph(text).map(|span| (span, "The output contains the same paragraph three times or more.")))
        .or_else(|| {
            counting(text).map(|span| (span, "The output ends by repeating one sentence with only a number changed."))
        })?;
    let field = FieldName::fixed("output");
    Some(Hit::new(CheckName::Loops, "repeated_text", Severity::Warning, field, span, description))
}

/// Finds the longest end of a text that repeats one piece. The borders of each prefix of the reversed text (Knuth,
/// Morris, Pratt) give its period in one pass.
fn looping_end(text: &str) -> Option<Range<usize>> {
    // The last words of a loop occur once more shortly before.
    let probe = text.get(text.ceil_char_boundary(text.len().checked_sub(PROBE)?)..)?;
    let before = text.get(
        text.ceil_char_boundary(text.len().saturating_sub(LONGEST_PIECE + PROBE))
            ..text.floor_char_boundary(text.len() - 1),
    )?;
    if !before.contains(probe) {
        return None;
    }
    let reversed: Vec<u8> = text.bytes().rev().take(TAIL).collect();
    let mut borders = vec![0_usize; reversed.len()];
    let mut best = None;
    let mut border = 0;
    for at in 1..reversed.len() {
        while border > 0 && reversed.get(at) != reversed.get(border) {
            border = borders.get(border - 1).copied().unwrap_or_default();
        }
        border += usize::from(reversed.get(at) == reversed.get(border));
        if let Some(place) = borders.get_mut(at) {
            *place = border;
        }
        let (length, period) = (at + 1, at + 1 - border);
        if period <= LONGEST_PIECE && length >= LOOPED && length >= TIMES * period {
            best = Some((length, period));
        }
    }
    let (length, period) = best?;
    let start = text.ceil_char_boundary(text.len() - length);
    let piece = text.get(start..text.ceil_char_boundary(start + period))?;
    let mut letters: Vec<char> = piece.chars().filter(|c| c.is_alphabetic()).collect();
    letters.sort_unstable();
    letters.dedup();
    // Rules, table borders and rows of zeros have few letters; a long row of nothing but letters is a loop.
    let laughs = length >= LAUGHED && piece.chars().all(char::is_alphabetic);
    (letters.len() >= 4 || laughs).then_some(start..text.len())
}

/// Finds the lines at the end that are one sentence with another number each time.
fn counting(text: &str) -> Option<Range<usize>> {
    let bare = |line: &str| {
        line.bytes()
            .filter(|byte| !byte.is_ascii_digit())
            .fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
    };
    let mut lines = text.rsplit('\n').take(MAX_PARAGRAPHS);
    let last = lines.next()?;
    // Table rows and progress lines are short; a full sentence is not.
    if last.split_whitespace().count() < COUNTED_WORDS
        || !last.ends_with(['.', '!', '…'])
        || !last.bytes().any(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    let same = bare(last);
    let first = lines.take_while(|line| bare(line) == same).enumerate().last()?;
    (first.0 + 2 >= COUNTED_LINES).then(|| first.1.as_ptr() as usize - text.as_ptr() as usize..text.len())
}

/// Finds the third occurrence of a long paragraph.
fn paragraph(text: &str) -> Option<Range<usize>> {
    let mut seen: HashMap<u64, u32> = HashMap::new();
    if text.len() < 3 * PARAGRAPH {
        return None;
    }
    let mut from = 0;
    let ends = memmem::find_iter(text.as_bytes(), "\n\n").chain([text.len()]);
    let all = ends.map(|end| text.get(std::mem::replace(&mut from, end)..end).unwrap_or_default().trim());
    all.take(MAX_PARAGRAPHS).filter(|one| one.len() >= PARAGRAPH).find_map(|one| {
        let times = seen.entry(hash(&one)).or_default();
        *times += 1;
        let start = one.as_ptr() as usize - text.as_ptr() as usize;
        (*times == 3).then(|| start..start + one.len())
    })
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}
