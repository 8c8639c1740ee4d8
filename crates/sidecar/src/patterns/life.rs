//! What becomes of a pattern. In: a pattern, and what came of it. Out: the pattern as it is from then on.

use jiff::Timestamp;

use super::screen::Screened;
use umbra_domain::{
    Pattern, PatternId, PatternOutcome, PatternProvenance, PatternSource, PatternStatus, PatternUse, ReviewId, Share,
};

/// Uses below which no pattern retires, wherever the interval lies.
const LEAST_USES: u64 = 3;
/// What fails more often than not is no way to do a task.
const WORTH_TRYING: f64 = 0.5;

/// Who tells a pattern, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Whether it is recorded or mined.
    pub source: PatternSource,
    /// The id of an API key, or what of ours mined it.
    pub by: String,
    /// The review that approved the task it was mined from.
    pub review: Option<ReviewId>,
    /// When.
    pub at: Timestamp,
}

/// A pattern that is met for the first time, with what came of it then. It is quarantined where the checks saw something.
pub fn begin(id: PatternId, screened: Screened, origin: Origin) -> Pattern {
    let Screened { pattern: new, quarantine } = screened;
    let used = new.used(origin.source);
    let pattern = Pattern {
        id,
        agent: new.agent,
        task_type: new.task_type,
        task: new.task,
        prompt: new.prompt,
        tools: new.tools,
        summary: new.summary,
        provenance: PatternProvenance {
            source: origin.source,
            by: origin.by,
            session: new.session,
            task_id: new.task_id,
            review: origin.review,
            at: origin.at,
        },
        successes: 0,
        failures: 0,
        cost_usd: None,
        ms: None,
        status: if quarantine.is_some() { PatternStatus::Quarantined } else { PatternStatus::Active },
        reason: quarantine,
    };
    after(&pattern, &used)
}

/// A pattern after one more use.
///
/// - Every use is counted, whatever the status. Counts and sums stop at the greatest number and never turn.
/// - An active pattern retires where even the upper end of Wilson's 95 % interval of its success lies below one half: after
///   four failures at the beginning, or seven of the first eight uses.
/// - A retired one becomes active again by a success that somebody recorded, once it went well at least as often as not.
///   Nobody is offered it meanwhile, so who records one went that way unasked. Failures never bring it back, nor does what
///   is mined: its successes count, and wait for one that is recorded.
/// - A quarantined one stays so: what stands in it does not change by working.
#[must_use]
pub fn after(pattern: &Pattern, again: &PatternUse) -> Pattern {
    let mut pattern = pattern.clone();
    let count = match again.outcome {
        PatternOutcome::Succeeded => &mut pattern.successes,
        PatternOutcome::Failed => &mut pattern.failures,
    };
    *count = count.saturating_add(1);
    if let Some(cost) = again.cost_usd {
        pattern.cost_usd = Some(pattern.cost_usd.unwrap_or_default() + cost);
    }
    if let Some(ms) = again.ms {
        pattern.ms = Some(pattern.ms.unwrap_or_default().saturating_add(ms));
    }
    match pattern.status {
        PatternStatus::Active => retire_failing(&mut pattern),
        PatternStatus::Retired => {
            let recorded = again.source == PatternSource::Recorded && again.outcome == PatternOutcome::Succeeded;
            if recorded && pattern.successes >= pattern.failures {
                pattern.status = PatternStatus::Active;
                pattern.reason = None;
            }
        }
        PatternStatus::Quarantined => {}
    }
    pattern
}

/// A pattern of whose successes so many turned out to be failures. An active one retires where none is left, and where
/// [`after`] would retire it.
#[must_use]
pub fn retract(pattern: &Pattern, successes: u32) -> Pattern {
    let mut pattern = pattern.clone();
    let taken = successes.min(pattern.successes);
    pattern.successes -= taken;
    pattern.failures = pattern.failures.saturating_add(taken);
    if pattern.status == PatternStatus::Active {
        retire_failing(&mut pattern);
        if pattern.status == PatternStatus::Active && taken > 0 && pattern.successes == 0 {
            pattern.status = PatternStatus::Retired;
            pattern.reason = Some("reviews flagged every task in which it seemed to go well".to_owned());
        }
    }
    pattern
}

fn retire_failing(pattern: &mut Pattern) {
    let (uses, failures, at_best) = (pattern.uses(), pattern.failures, rate(pattern).high);
    if uses >= LEAST_USES && at_best < WORTH_TRYING {
        pattern.status = PatternStatus::Retired;
        pattern.reason = Some(format!(
            "{failures} of {uses} uses failed: at best {:.0} % of them go well, and below half it is not offered",
            at_best * 100.0
        ));
    }
}

/// How often it went well, and how often it may well go so.
pub(super) fn rate(pattern: &Pattern) -> Share {
    Share::of(u64::from(pattern.successes), pattern.uses())
}
