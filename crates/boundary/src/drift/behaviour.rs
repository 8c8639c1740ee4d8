//! Drift of behaviour: compares an agent's calls in two windows of time. In: the calls of both, oldest first. Out:
//! whether the mix of tools, their arguments and their order have changed, each with its distance, the threshold and
//! the number of values.
//!
//! Shares are compared by the Jensen-Shannon divergence in bits (0: the same, 1: nothing in common; Lin 1991), numbers
//! by the two-sample Kolmogorov-Smirnov distance. A difference counts if it is large and no accident: at least
//! [`LEAST_DIVERGENCE`] or [`LEAST_DISTANCE`], and beyond what two unchanged samples of these sizes show once in a
//! thousand times.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Fewest calls, or values, in each window; with fewer, nothing is reported.
pub const LEAST_CALLS: usize = 30;
/// Least divergence that counts, in bits. A population stability index of about 0.25, a major shift, is as much for
/// small changes.
const LEAST_DIVERGENCE: f64 = 0.05;
/// Least Kolmogorov-Smirnov distance that counts: a tenth of the values lies elsewhere.
const LEAST_DISTANCE: f64 = 0.1;
/// Least share of new pairs that counts: a twentieth.
const LEAST_SHARE: f64 = 0.05;
/// Most values of a category; with more it is no category.
const MOST_CATEGORIES: usize = 20;
/// Most pointers into a tool's arguments, and their deepest level.
const MOST_POINTERS: usize = 50;
const MAX_DEPTH: usize = 4;
/// Most values that are kept in all.
const MOST_VALUES: usize = 200_000;
/// Most arguments, categories and pairs that are reported.
const MOST_TOLD: usize = 50;
/// Longest text that counts as a category, in characters.
const CATEGORY_CHARS: usize = 64;

/// A call, as drift compares it.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedCall {
    /// The tool.
    pub tool: String,
    /// Run of the call, else its session, else none. Pairs of calls are counted within it.
    pub within: Option<String>,
    /// Redacted arguments; null where they were erased.
    pub args: Value,
}

/// Changes of an agent's behaviour.
#[derive(Debug, Clone, PartialEq, Default, Serialize, ToSchema)]
pub struct Behaviour {
    /// True if anything has changed; null with too few calls to say.
    pub drifted: Option<bool>,
    /// Reason why nothing is reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_few: Option<String>,
    /// The mix of tools.
    pub mix: Option<Mix>,
    /// Arguments that differ, greatest difference first; at most 50.
    pub arguments: Vec<DriftArgument>,
    /// Number of arguments that were compared.
    pub arguments_compared: usize,
    /// Pairs of consecutive calls that the base window lacks; null where that has too few pairs.
    pub sequences: Option<Sequences>,
}

/// Change of the mix of tools.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = DriftMix)]
pub struct Mix {
    /// True if the mix has changed.
    pub drifted: bool,
    /// Jensen-Shannon divergence, in bits.
    pub divergence: f64,
    /// Divergence from which on the change counts.
    pub threshold: f64,
    /// Tools, greatest difference first; at most 50.
    pub tools: Vec<DriftShare>,
}

/// Frequency of a tool or category in both windows.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = DriftShare)]
pub struct DriftShare {
    /// Tool or category.
    pub name: String,
    /// Count in the base window.
    pub base: usize,
    /// Count in the recent window.
    pub recent: usize,
    /// Share of the base window.
    pub base_share: f64,
    /// Share of the recent window.
    pub recent_share: f64,
}

/// Argument of a tool, compared between both windows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, ToSchema)]
#[schema(as = DriftArgument)]
pub struct DriftArgument {
    /// Tool of the calls.
    pub tool: String,
    /// JSON pointer into the arguments.
    pub pointer: String,
    /// Number of values in the base window.
    pub base: usize,
    /// Number of values in the recent window.
    pub recent: usize,
    /// `ks` (Kolmogorov-Smirnov, of numbers) or `js` (Jensen-Shannon, of categories).
    #[schema(value_type = String)]
    pub measure: &'static str,
    /// Distance between the two windows, by that measure.
    pub distance: f64,
    /// Distance from which on the change counts.
    pub threshold: f64,
    /// Quantiles in the base window, for numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_quantiles: Option<Quantiles>,
    /// Quantiles in the recent window, for numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent_quantiles: Option<Quantiles>,
    /// Shares of categories, greatest difference first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<DriftShare>,
}

/// Quantiles of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct Quantiles {
    /// Minimum.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// Maximum.
    pub max: f64,
}

/// Pairs of consecutive calls that the base window lacks.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = DriftSequences)]
pub struct Sequences {
    /// True if there are more than chance brings.
    pub drifted: bool,
    /// Share of the pairs in the recent window.
    pub share: f64,
    /// Share from which on they count: a twentieth more than chance brings, by the pairs that the base window has once
    /// (Good 1953).
    pub threshold: f64,
    /// New pairs, most frequent first; at most 50.
    pub new: Vec<Sequence>,
}

/// Two consecutive calls.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[schema(as = DriftSequence)]
pub struct Sequence {
    /// First tool.
    pub first: String,
    /// Tool that follows.
    pub then: String,
    /// Count in the recent window.
    pub recent: usize,
}

/// Compares two windows of calls.
pub fn compare(base: &[ObservedCall], recent: &[ObservedCall]) -> Behaviour {
    if base.len().min(recent.len()) < LEAST_CALLS {
        let too_few = format!(
            "too few calls: {} in the base window and {} in the recent one; {LEAST_CALLS} in each are needed",
            base.len(),
            recent.len()
        );
        return Behaviour { too_few: Some(too_few), ..Behaviour::default() };
    }
    let mix =
        mix(&counts(base.iter().map(|made| made.tool.as_str())), &counts(recent.iter().map(|made| made.tool.as_str())));
    let (arguments, compared) = arguments(base, recent);
    let sequences = sequences(base, recent);
    let new_order = sequences.as_ref().is_some_and(|sequences| sequences.drifted);
    Behaviour {
        drifted: Some(mix.drifted || !arguments.is_empty() || new_order),
        too_few: None,
        mix: Some(mix),
        arguments,
        arguments_compared: compared,
        sequences,
    }
}

fn counts<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

#[expect(clippy::cast_precision_loss, reason = "counts of calls in a window")]
fn real(count: usize) -> f64 {
    count as f64
}

fn mix(base: &BTreeMap<&str, usize>, recent: &BTreeMap<&str, usize>) -> Mix {
    let shares = shares(base, recent);
    let (divergence, threshold) = divergence(&shares);
    let tools = shares.into_iter().take(MOST_TOLD).collect();
    Mix { drifted: divergence >= threshold, divergence, threshold, tools }
}

/// Shares of each name in both windows, greatest difference first.
fn shares(base: &BTreeMap<&str, usize>, recent: &BTreeMap<&str, usize>) -> Vec<DriftShare> {
    let (all_base, all_recent): (usize, usize) = (base.values().sum(), recent.values().sum());
    let names: BTreeSet<&str> = base.keys().chain(recent.keys()).copied().collect();
    let share = |name: &str| {
        let (base, recent) =
            (base.get(name).copied().unwrap_or_default(), recent.get(name).copied().unwrap_or_default());
        DriftShare {
            name: name.to_owned(),
            base,
            recent,
            base_share: real(base) / real(all_base.max(1)),
            recent_share: real(recent) / real(all_recent.max(1)),
        }
    };
    let mut shares: Vec<DriftShare> = names.into_iter().map(share).collect();
    let by = |share: &DriftShare| (share.recent_share - share.base_share).abs();
    shares.sort_by(|a, b| by(b).total_cmp(&by(a)));
    shares
}

/// Jensen-Shannon divergence in bits, and the threshold from which on it counts. If nothing has changed, 8 ln 2 times
/// the divergence, over the sum of the reciprocal sizes, is about chi-squared with one degree of freedom less than
/// there are names.
fn divergence(shares: &[DriftShare]) -> (f64, f64) {
    let part = |share: f64, mean: f64| if share > 0.0 { share * (share / mean).log2() } else { 0.0 };
    let sum: f64 = shares
        .iter()
        .map(|share| {
            let mean = f64::midpoint(share.base_share, share.recent_share);
            f64::midpoint(part(share.base_share, mean), part(share.recent_share, mean))
        })
        .sum();
    let (base, recent) = (shares.iter().map(|share| share.base).sum(), shares.iter().map(|share| share.recent).sum());
    let freedom = real(shares.len().saturating_sub(1));
    let scatter =
        (1.0 / real(usize::max(base, 1)) + 1.0 / real(usize::max(recent, 1))) / (8.0 * std::f64::consts::LN_2);
    (sum.clamp(0.0, 1.0), (chi_squared(freedom) * scatter).max(LEAST_DIVERGENCE))
}

/// Value that chi-squared exceeds once in a thousand times (Wilson and Hilferty's approximation).
fn chi_squared(freedom: f64) -> f64 {
    if freedom < 1.0 {
        return 0.0;
    }
    let part = 2.0 / (9.0 * freedom);
    freedom * (1.0 - part + 3.09 * part.sqrt()).powi(3)
}

/// Values of one argument.
#[derive(Default)]
struct Values {
    numbers: Vec<f64>,
    words: Vec<String>,
    /// True if some values are neither.
    others: bool,
}

type Arguments = BTreeMap<(String, String), Values>;

fn arguments(base: &[ObservedCall], recent: &[ObservedCall]) -> (Vec<DriftArgument>, usize) {
    let (base, mut recent) = (gather(base), gather(recent));
    let mut found = Vec::new();
    let mut compared = 0;
    for ((tool, pointer), base) in base {
        let Some(recent) = recent.remove(&(tool.clone(), pointer.clone())) else { continue };
        let Some((differs, argument)) = argument(&tool, &pointer, base, recent) else { continue };
        compared += 1;
        if differs {
            found.push(argument);
        }
    }
    found.sort_by(|a, b| (b.distance / b.threshold).total_cmp(&(a.distance / a.threshold)));
    found.truncate(MOST_TOLD);
    (found, compared)
}

fn gather(calls: &[ObservedCall]) -> Arguments {
    let mut arguments = Arguments::new();
    let mut pointers: HashMap<&str, usize> = HashMap::new();
    let mut left = MOST_VALUES;
    for made in calls {
        let mut waiting = vec![(String::new(), &made.args, 0)];
        while let Some((pointer, value, depth)) = waiting.pop() {
            if let Value::Object(entries) = value {
                if depth < MAX_DEPTH {
                    let below = |key: &str| format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                    waiting.extend(entries.iter().map(|(key, value)| (below(key), value, depth + 1)));
                }
                continue;
            }
            let key = (made.tool.clone(), pointer);
            if left == 0
                || (!arguments.contains_key(&key)
                    && pointers.get(made.tool.as_str()).is_some_and(|n| *n >= MOST_POINTERS))
            {
                continue;
            }
            left -= 1;
            let values = arguments.entry(key).or_insert_with(|| {
                *pointers.entry(&made.tool).or_default() += 1;
                Values::default()
            });
            match value {
                Value::Number(number) => values.numbers.extend(number.as_f64()),
                Value::String(text) if text.chars().count() <= CATEGORY_CHARS => values.words.push(text.clone()),
                Value::Bool(flag) => values.words.push(flag.to_string()),
                _ => values.others = true,
            }
        }
    }
    arguments
}

/// Compares the values of an argument; none if they are too few, or of several kinds.
fn argument(tool: &str, pointer: &str, base: Values, recent: Values) -> Option<(bool, DriftArgument)> {
    if base.others || recent.others {
        return None;
    }
    let told = |measure, base: usize, recent: usize, distance: f64, threshold: f64| DriftArgument {
        tool: tool.to_owned(),
        pointer: pointer.to_owned(),
        base,
        recent,
        measure,
        distance,
        threshold,
        ..DriftArgument::default()
    };
    let enough = |base: usize, recent: usize| base.min(recent) >= LEAST_CALLS;
    if base.words.is_empty() && recent.words.is_empty() && enough(base.numbers.len(), recent.numbers.len()) {
        let (mut a, mut b) = (base.numbers, recent.numbers);
        a.sort_by(f64::total_cmp);
        b.sort_by(f64::total_cmp);
        let (n, m) = (real(a.len()), real(b.len()));
        // Once in a thousand times: the square root of -ln(0.001 / 2) / 2 is 1.95.
        let threshold = (1.95 * ((n + m) / (n * m)).sqrt()).max(LEAST_DISTANCE);
        let distance = kolmogorov_smirnov(&a, &b);
        let mut argument = told("ks", a.len(), b.len(), distance, threshold);
        (argument.base_quantiles, argument.recent_quantiles) = (quantiles(&a), quantiles(&b));
        return Some((distance >= threshold, argument));
    }
    if base.numbers.is_empty() && recent.numbers.is_empty() && enough(base.words.len(), recent.words.len()) {
        let (a, b) = (counts(base.words.iter().map(String::as_str)), counts(recent.words.iter().map(String::as_str)));
        // Names, ids and sentences are no categories: each value is new.
        if a.len() > MOST_CATEGORIES {
            return None;
        }
        let mut shares = shares(&a, &b);
        let (distance, threshold) = divergence(&shares);
        shares.truncate(MOST_CATEGORIES);
        let mut argument = told("js", base.words.len(), recent.words.len(), distance, threshold);
        argument.categories = shares;
        return Some((distance >= threshold, argument));
    }
    None
}

/// Greatest distance between the distributions of two sorted samples.
fn kolmogorov_smirnov(a: &[f64], b: &[f64]) -> f64 {
    let (mut i, mut j, mut most) = (0, 0, 0.0_f64);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let at = x.min(*y);
        while a.get(i).is_some_and(|x| *x <= at) {
            i += 1;
        }
        while b.get(j).is_some_and(|y| *y <= at) {
            j += 1;
        }
        most = most.max((real(i) / real(a.len()) - real(j) / real(b.len())).abs());
    }
    most
}

fn quantiles(sorted: &[f64]) -> Option<Quantiles> {
    let at = |tenths: usize| sorted.get((sorted.len() - 1) * tenths / 10).copied();
    if sorted.is_empty() {
        return None;
    }
    Some(Quantiles { min: at(0)?, p50: at(5)?, p90: at(9)?, max: at(10)? })
}

/// Pairs of the recent window that the base window lacks.
fn sequences(base: &[ObservedCall], recent: &[ObservedCall]) -> Option<Sequences> {
    let (base, recent) = (pairs(base), pairs(recent));
    let (in_base, in_recent): (usize, usize) = (base.values().sum(), recent.values().sum());
    if in_base < LEAST_CALLS {
        return None;
    }
    let mut new: Vec<Sequence> = recent
        .into_iter()
        .filter(|(pair, _)| !base.contains_key(pair))
        .map(|((first, then), recent)| Sequence { first: first.to_owned(), then: then.to_owned(), recent })
        .collect();
    new.sort_by(|a, b| b.recent.cmp(&a.recent).then_with(|| a.cmp(b)));
    let share = real(new.iter().map(|sequence| sequence.recent).sum()) / real(in_recent.max(1));
    let once = base.values().filter(|count| **count == 1).count();
    let threshold = LEAST_SHARE + real(once) / real(in_base);
    new.truncate(MOST_TOLD);
    Some(Sequences { drifted: share >= threshold, share, threshold, new })
}

fn pairs(calls: &[ObservedCall]) -> HashMap<(&str, &str), usize> {
    let mut last: HashMap<&str, &str> = HashMap::new();
    let mut pairs = HashMap::new();
    for made in calls {
        let Some(within) = &made.within else { continue };
        if let Some(first) = last.insert(within, &made.tool) {
            *pairs.entry((first, made.tool.as_str())).or_default() += 1;
        }
    }
    pairs
}
