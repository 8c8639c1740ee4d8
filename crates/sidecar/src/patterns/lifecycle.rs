//! Life cycle of a pattern. In: a pattern, and the outcome of a use. Out: the pattern after it.

use super::screen::ScreenedPattern;
use umbra_domain::{
    Pattern, PatternId, PatternOutcome, PatternProvenance, PatternSource, PatternStatus, PatternUse, Share,
};

/// Fewest uses after which a pattern can retire.
const LEAST_USES: u64 = 3;
/// Success share that a pattern must be able to reach.
const WORTH_TRYING: f64 = 0.5;

/// Builds a new pattern with the outcome of its first use; session and task of its origin are those of the pattern. It is
/// quarantined if the checks found something.
pub fn begin(id: PatternId, screened: ScreenedPattern, origin: PatternProvenance) -> Pattern {
    let ScreenedPattern { pattern: new, quarantine } = screened;
    let used = new.used(origin.source);
    let pattern = Pattern {
        id,
        agent: new.agent,
        task_type: new.task_type,
        task: new.task,
        prompt: new.prompt,
        tools: new.tools,
        summary: new.summary,
        provenance: PatternProvenance { session: new.session, task_id: new.task_id, ..origin },
        successes: 0,
        failures: 0,
        cost_usd: None,
        ms: None,
        status: if quarantine.is_some() { PatternStatus::Quarantined } else { PatternStatus::Active },
        reason: quarantine,
    };
    record_use(&pattern, &used)
}

/// Returns a pattern after one more use.
///
/// - Every use is counted, whatever the status. Counts and sums saturate.
/// - An active pattern retires once even the upper end of Wilson's 95 % interval of its success share lies below one
///   half: after four failures at the beginning, or seven of the first eight uses.
/// - A retired pattern becomes active again by a recorded success, once it succeeded at least as often as it failed. It
///   is not offered meanwhile, so a recorded success was reached without it being suggested. Failures never reactivate
///   it. Mined successes count, but reactivate it only together with a recorded one.
/// - A quarantined pattern stays so: success does not change its text.
#[must_use]
pub fn record_use(pattern: &Pattern, again: &PatternUse) -> Pattern {
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

/// Returns a pattern after some of its successes turned out to be failures. An active pattern retires if no success is
/// left, and where [`record_use`] would retire it.
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
            pattern.reason = Some("reviews flagged every task in which the pattern succeeded".to_owned());
        }
    }
    pattern
}

fn retire_failing(pattern: &mut Pattern) {
    let (uses, failures, at_best) = (pattern.uses(), pattern.failures, rate(pattern).high);
    if uses >= LEAST_USES && at_best < WORTH_TRYING {
        pattern.status = PatternStatus::Retired;
        pattern.reason = Some(format!(
            "{failures} of {uses} uses failed: at best {:.0} % succeed, and below 50 % a pattern is not offered",
            at_best * 100.0
        ));
    }
}

/// Returns the success share of a pattern, with its interval.
pub(super) fn rate(pattern: &Pattern) -> Share {
    Share::of(u64::from(pattern.successes), pattern.uses())
}
