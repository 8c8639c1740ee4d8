//! Compares two runs: what the second did differently from the first.
//!
//! 1. [`run`] reads a run from the rows of its audit.
//! 2. [`mod@align`] matches the calls of one run with those of the other.
//! 3. [`arguments`] finds the differences between the arguments of two calls.
//! 4. [`mod@noise`] holds the differences between two runs that should be equal; they are subtracted.
//!
//! Results are not compared: they come from the world, not from the agent. An agent's reaction to them shows in its
//! next calls.

mod align;
mod arguments;
mod noise;
mod run;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use self::{
    align::{Aligned, Marks, align},
    run::{RunCall, canonical},
};
pub use self::{
    noise::{Noise, RunNoise},
    run::Run,
};
use crate::decide::Decision;
use umbra_domain::Effect;

/// Most calls of a run that is compared.
pub const MAX_CALLS: usize = 5_000;
/// Most differences that are listed; all of them are counted.
pub const MAX_LISTED: usize = 10_000;
/// Most places of noise that are listed.
const MAX_NOISE: usize = 200;

umbra_domain::words! {
    /// Kind of difference.
    #[derive(PartialOrd, Ord, ToSchema)]
    #[schema(as = RunDifferenceKind)]
    pub enum RunDifferenceKind {
        /// The same call, at another place among the others.
        Order = "order",
        /// A value in the arguments.
        Arguments = "arguments",
        /// A call that the second run does not make.
        Missing = "missing",
        /// A call that only the second run makes.
        Extra = "extra",
        /// The decision for a call.
        Decision = "decision",
        /// The outcome of a call.
        Outcome = "outcome",
        /// No difference: the arguments were erased on request and cannot be compared.
        Erased = "erased",
    }
}

/// Place of a call in its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = RunPlace)]
pub struct RunPlace {
    /// Position of the call in the run, from 1.
    pub position: usize,
    /// Row of the call in the audit.
    pub seq: i64,
    /// The caller's id of the call.
    pub call_id: String,
    /// Calling agent.
    pub agent: String,
}

/// One difference between two runs.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = RunDifference)]
pub struct RunDifference {
    /// Kind of difference.
    pub kind: RunDifferenceKind,
    /// Tool of the call.
    pub tool: String,
    /// Effect of the call.
    pub effect: Effect,
    /// The call in the first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<RunPlace>,
    /// The call in the second run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<RunPlace>,
    /// Place in the arguments, as a JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// Value in the first run; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    pub from: Option<Value>,
    /// Value in the second run; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    pub to: Option<Value>,
}

/// Result of comparing two runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunComparison {
    /// Differences, in order of the first run and then of the second; at most [`MAX_LISTED`].
    pub differences: Vec<RunDifference>,
    /// Number of differences of each kind.
    pub counts: BTreeMap<RunDifferenceKind, u64>,
    /// Calls that could be compared: those of both runs, and those of one alone.
    pub calls: u64,
    /// Compared calls that do not differ.
    pub agreed: u64,
    /// Differing calls that are not reads.
    pub changing: u64,
    /// Differences taken for noise, at most 200 places.
    pub noise: Vec<RunNoise>,
}

/// Learns noise from two runs that should be equal.
pub fn noise(a: &Run, again: &Run) -> Noise {
    let mut learnt = Noise::default();
    compare(a, again, &Noise::default(), &mut |difference| {
        learnt.learn(difference.kind, &difference.tool, difference.pointer.as_deref());
    });
    learnt
}

/// Compares two runs, without the differences that are noise.
pub fn diff(a: &Run, b: &Run, noise: &Noise) -> RunComparison {
    let mut listed = Vec::new();
    let mut compared = compare(a, b, noise, &mut |difference| {
        if listed.len() < MAX_LISTED {
            listed.push(difference);
        }
    });
    let place = |place: &Option<RunPlace>| place.as_ref().map_or(usize::MAX, |place| place.position);
    listed.sort_by_key(|one| (place(&one.a).min(place(&one.b)), place(&one.a), place(&one.b)));
    compared.differences = listed;
    compared
}

/// Compares two runs and reports each difference.
fn compare(a: &Run, b: &Run, noise: &Noise, tell: &mut dyn FnMut(RunDifference)) -> RunComparison {
    let mut walk =
        RunComparer { noise: noise.clone(), absorbed: BTreeMap::new(), compared: RunComparison::default(), tell };
    for (a, b) in agents(a, b) {
        walk.agent(&a, &b);
    }
    let RunComparer { absorbed, mut compared, .. } = walk;
    let seen = absorbed.into_iter().map(|((kind, tool, pointer), count)| RunNoise { kind, tool, pointer, count });
    compared.noise = seen.take(MAX_NOISE).collect();
    compared
}

/// Call with its index in the run.
type Numbered<'a> = (usize, &'a RunCall);

/// Pairs the calls of each agent: agents take turns by chance, so each is compared with itself. If only one agent on
/// each side has no namesake, these two are paired.
fn agents<'a>(a: &'a Run, b: &'a Run) -> Vec<(Vec<Numbered<'a>>, Vec<Numbered<'a>>)> {
    let by_name = |run: &'a Run| {
        let mut by_name: BTreeMap<&str, Vec<Numbered<'a>>> = BTreeMap::new();
        for (at, call) in run.calls.iter().enumerate() {
            by_name.entry(&call.agent).or_default().push((at, call));
        }
        by_name
    };
    let (mut a, mut b) = (by_name(a), by_name(b));
    let mut pairs = Vec::new();
    for name in a.keys().copied().filter(|name| b.contains_key(name)).collect::<Vec<_>>() {
        pairs.extend(a.remove(name).zip(b.remove(name)));
    }
    if a.len() == 1 && b.len() == 1 {
        pairs.extend(a.into_values().zip(b.into_values()));
    } else {
        pairs.extend(a.into_values().map(|calls| (calls, Vec::new())));
        pairs.extend(b.into_values().map(|calls| (Vec::new(), calls)));
    }
    pairs
}

struct RunComparer<'t> {
    noise: Noise,
    absorbed: BTreeMap<(RunDifferenceKind, String, Option<String>), u64>,
    compared: RunComparison,
    tell: &'t mut dyn FnMut(RunDifference),
}

impl RunComparer<'_> {
    fn agent(&mut self, a: &[Numbered<'_>], b: &[Numbered<'_>]) {
        let Aligned { pairs, moved, missing, extra } = self.align(a, b);
        for (at, bt) in pairs {
            self.pair(a[at], b[bt], false);
        }
        for (at, bt) in moved {
            self.pair(a[at], b[bt], true);
        }
        for at in missing {
            self.alone(RunDifferenceKind::Missing, a[at].1, Some(a[at]), None);
        }
        for bt in extra {
            self.alone(RunDifferenceKind::Extra, b[bt].1, None, Some(b[bt]));
        }
    }

    /// Aligns the calls of an agent. Among equally long alignments, the choice does not depend on which run is named
    /// first.
    fn align(&self, a: &[Numbered<'_>], b: &[Numbered<'_>]) -> Aligned {
        let key = |(_, call): &Numbered<'_>| (call.tool.clone(), call.args.clone());
        let mut numbers = Numbers::default();
        if a.iter().map(key).le(b.iter().map(key)) {
            return align(&numbers.marks(a, &self.noise), &numbers.marks(b, &self.noise));
        }
        let turned = |pairs: Vec<(usize, usize)>| {
            let mut pairs: Vec<_> = pairs.into_iter().map(|(bt, at)| (at, bt)).collect();
            pairs.sort_unstable();
            pairs
        };
        let Aligned { pairs, moved, missing, extra } =
            align(&numbers.marks(b, &self.noise), &numbers.marks(a, &self.noise));
        Aligned { pairs: turned(pairs), moved: turned(moved), missing: extra, extra: missing }
    }

    fn pair(&mut self, a: Numbered<'_>, b: Numbered<'_>, moved: bool) {
        let ((_, first), (_, second)) = (a, b);
        let graver = if second.effect > first.effect { second } else { first };
        let of = |kind| RunDifference::of(kind, graver, Some(a), Some(b));
        let changed = |kind, from: &str, to: &str| RunDifference {
            from: Some(json!(from)),
            to: Some(json!(to)),
            ..RunDifference::of(kind, graver, Some(a), Some(b))
        };
        let mut differs = false;
        if moved {
            differs |= self.found(of(RunDifferenceKind::Order));
        }
        let erased = first.args.is_none() || second.args.is_none();
        if let (Some(from), Some(to)) = (&first.args, &second.args)
            && from != to
        {
            let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
            arguments::compare(&parse(from), &parse(to), &mut |pointer, from, to| {
                let (from, to) = (from.map(arguments::shown), to.map(arguments::shown));
                let pointer = Some(pointer.to_owned());
                differs |= self.found(RunDifference { pointer, from, to, ..of(RunDifferenceKind::Arguments) });
            });
        }
        let rehearsed = first.execution != second.execution;
        let (from, to) = (decided(first, rehearsed), decided(second, rehearsed));
        if from != to {
            differs |= self.found(changed(RunDifferenceKind::Decision, &from, &to));
        }
        if let (Some(from), Some(to)) = (&first.outcome, &second.outcome)
            && from != to
        {
            differs |= self.found(changed(RunDifferenceKind::Outcome, from, to));
        }
        if erased {
            self.tell(of(RunDifferenceKind::Erased));
            // Agreement in the rest is no evidence.
            if !differs {
                return;
            }
        }
        self.count(graver, differs);
    }

    fn alone(&mut self, kind: RunDifferenceKind, call: &RunCall, a: Option<Numbered<'_>>, b: Option<Numbered<'_>>) {
        if self.found(RunDifference::of(kind, call, a, b)) {
            self.count(call, true);
        }
    }

    fn count(&mut self, call: &RunCall, differs: bool) {
        self.compared.calls += 1;
        self.compared.agreed += u64::from(!differs);
        self.compared.changing += u64::from(differs && call.effect != Effect::Read);
    }

    /// Records a difference, unless it is noise. Returns true if it counts.
    fn found(&mut self, difference: RunDifference) -> bool {
        let RunDifference { kind, tool, pointer, .. } = &difference;
        if self.noise.absorbs(*kind, tool, pointer.as_deref()) {
            *self.absorbed.entry((*kind, tool.clone(), pointer.clone())).or_default() += 1;
            return false;
        }
        self.tell(difference);
        true
    }

    fn tell(&mut self, difference: RunDifference) {
        *self.compared.counts.entry(difference.kind).or_default() += 1;
        (self.tell)(difference);
    }
}

impl RunDifference {
    /// A difference of calls, without values.
    fn of(kind: RunDifferenceKind, call: &RunCall, a: Option<Numbered<'_>>, b: Option<Numbered<'_>>) -> Self {
        let place = |(at, call): Numbered<'_>| RunPlace {
            position: at + 1,
            seq: call.seq,
            call_id: call.call_id.clone(),
            agent: call.agent.clone(),
        };
        let (tool, effect) = (call.tool.clone(), call.effect);
        Self { kind, tool, effect, a: a.map(place), b: b.map(place), pointer: None, from: None, to: None }
    }
}

/// Decision with its reason, for comparison. If just one of the runs is a rehearsal, an executed call and a stub count
/// as the same.
fn decided(call: &RunCall, rehearsed: bool) -> String {
    let word = match call.decision {
        Decision::Stub if rehearsed => Decision::Execute.as_str(),
        decision => decision.as_str(),
    };
    match &call.reason {
        Some(reason) => format!("{word}: {reason}"),
        None => word.to_owned(),
    }
}

/// Gives equal things equal numbers.
#[derive(Default)]
struct Numbers(HashMap<[u8; 32], u32>);

impl Numbers {
    fn marks(&mut self, calls: &[Numbered<'_>], noise: &Noise) -> Vec<Marks> {
        calls.iter().map(|(_, call)| self.mark(call, noise)).collect()
    }

    fn mark(&mut self, call: &RunCall, noise: &Noise) -> Marks {
        let tool = self.number(b"tool", &call.tool, b"");
        let exact = match (&call.args, noise.pointers(&call.tool)) {
            (Some(args), Some(pointers)) => {
                let args = serde_json::from_str(args).unwrap_or_default();
                let args = canonical(arguments::without(args, pointers.iter().map(String::as_str)));
                self.number(b"args", &call.tool, args.as_bytes())
            }
            (Some(args), None) => self.number(b"args", &call.tool, args.as_bytes()),
            (None, _) => tool,
        };
        Marks { exact, shape: self.number(b"shape", &call.tool, &call.shape), tool }
    }

    fn number(&mut self, what: &[u8], tool: &str, thing: &[u8]) -> u32 {
        let mut hasher = blake3::Hasher::new();
        for part in [what, tool.as_bytes(), thing] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(*hasher.finalize().as_bytes()).or_insert(next)
    }
}
