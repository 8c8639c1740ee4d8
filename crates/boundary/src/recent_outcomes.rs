//! Recent outcomes of this process's calls, for `/readyz`: detects a process that answers with stubs alone, or runs
//! only reads. In: each decision with its time. Out: a complaint, once that has lasted for the operator's limit.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;

use super::{decide::Decision, gate::Standards};
use umbra_domain::{Effect, Execution};

/// First and last time of a kind of outcome since the last executed call that changes something.
#[derive(Debug, Clone, Copy)]
struct OutcomePeriod {
    first: Timestamp,
    last: Timestamp,
}

/// Recent stubs and recent live reads, each as a stretch of time.
#[derive(Debug, Default)]
pub struct RecentOutcomes(Mutex<[Option<OutcomePeriod>; 2]>);

impl RecentOutcomes {
    /// Records a decision.
    pub fn note(&self, decision: Decision, effect: Effect, execution: Execution, at: Timestamp) {
        let mut stretches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let [stubs, reads] = &mut *stretches;
        let stretch = match (decision, effect) {
            (Decision::Execute, Effect::Read) if execution == Execution::Live => reads,
            (Decision::Execute, Effect::Write | Effect::Destructive) => {
                *stretches = [None, None];
                return;
            }
            (Decision::Stub, _) => stubs,
            _ => return,
        };
        stretch.get_or_insert(OutcomePeriod { first: at, last: at }).last = at;
    }

    /// Readiness complaint while only stubs, or only reads, have run for the limit. Cleared by the next call that
    /// changes something, or after as long without stubs or reads, so that new calls can arrive.
    pub fn complaint(&self, standards: &Standards, now: Timestamp) -> Option<&'static str> {
        let [stubs, reads] = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lasts = |stretch: Option<OutcomePeriod>, limit: Option<Duration>| {
            let (Some(OutcomePeriod { first, last }), Some(limit)) = (stretch, limit) else { return false };
            let reaches = |from: Timestamp, to: Timestamp| from.saturating_add(limit).is_ok_and(|end| end <= to);
            reaches(first, last) && !reaches(last, now)
        };
        if lasts(stubs, standards.only_stubs_for) {
            return Some("tool calls have been answered only by stubs for longer than boundary.gate.only_stubs_for");
        }
        lasts(reads, standards.no_side_effect_for)
            .then_some("no call that changes something has run for longer than boundary.gate.no_side_effect_for")
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::RecentOutcomes;
    use crate::{decide::Decision, gate::Standards};
    use umbra_domain::{Effect, Execution};

    #[test]
    fn complaint_lasts_while_only_stubs_or_reads_are_recent() {
        let at = |minute: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute);
        let ten = Some(std::time::Duration::from_mins(10));
        let standards = Standards { only_stubs_for: ten, no_side_effect_for: ten, ..Standards::default() };
        let said = |lately: &RecentOutcomes, minute: i64| lately.complaint(&standards, at(minute)).map(str::len);
        for (decision, effect) in [(Decision::Stub, Effect::Write), (Decision::Execute, Effect::Read)] {
            let lately = RecentOutcomes::default();
            let note = |decision, effect, minute| lately.note(decision, effect, Execution::Live, at(minute));
            note(decision, effect, 0);
            assert_eq!(said(&lately, 30), None, "once is no stretch");
            note(Decision::Block, Effect::Destructive, 8);
            note(decision, effect, 9);
            assert_eq!(said(&lately, 10), None);
            note(decision, effect, 10);
            assert!(said(&lately, 10).is_some() && said(&lately, 19).is_some(), "{decision:?}");
            assert_eq!(said(&lately, 20), None, "nobody calls any more");
            note(decision, effect, 21);
            assert!(said(&lately, 21).is_some());
            assert_eq!(lately.complaint(&Standards::default(), at(21)), None, "nobody asked for it");
            note(Decision::Execute, Effect::Destructive, 22);
            assert_eq!(said(&lately, 22), None);
        }
        // In shadow, reads are all that should run.
        let lately = RecentOutcomes::default();
        lately.note(Decision::Execute, Effect::Read, Execution::Shadow, at(0));
        lately.note(Decision::Execute, Effect::Read, Execution::Shadow, at(30));
        assert_eq!(said(&lately, 30), None);
    }
}
