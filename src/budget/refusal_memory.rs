//! Remembers refusals that hold for a while, so that a spent budget costs no database work. Refusals of
//! [`super::decide`], given under lock, are recorded once their flush is committed, and recalled as long as they hold.
//! A recall never reserves, and never holds back a review that a person asked for.
//!
//! A cooldown holds until its end, and a spent cap until the end of its local day, unless a review is given up on any
//! replica and returns its unit and its cooldown. So a refusal counts only if the database was asked within the last
//! second for such releases ([`RefusalMemory::confirm`]), and one release clears everything. A refusal for money or
//! tokens holds for reviews at least as costly, and for a second at most. Reasons keep their order of precedence, since
//! the memory holds the whole answer for one (shadow, agent, triggers), never a single meter. Only in the second after
//! a refusal for money or tokens may an earlier reason have come to apply as well, by a cheaper review.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::{SignedDuration, Timestamp, civil::Date, tz::TimeZone};

use super::{Grouping, Meters, ReviewCandidate, WorstCaseCost};
use umbra_domain::{CostControl, SkipReason};

/// Longest time that a refusal for money or tokens is remembered, and that a release elsewhere goes unnoticed.
const SECOND: SignedDuration = SignedDuration::from_secs(1);
/// Most refusals that are remembered; agents choose their names, so this is bounded.
const REMEMBERED: usize = 50_000;
/// Time before its end at which a refusal is forgotten, since our clock only follows the database's.
const MARGIN: SignedDuration = SignedDuration::from_millis(100);

type Key = (usize, String, u8);

#[derive(Debug, Clone, Copy)]
struct Refusal {
    reason: SkipReason,
    until: Timestamp,
    worst: WorstCaseCost,
}

/// Remembered refusals of one configuration; a reload begins with an empty memory.
#[derive(Debug, Default)]
pub struct RefusalMemory(Mutex<KnownRefusals>);

#[derive(Debug, Default)]
struct KnownRefusals {
    refusals: HashMap<Key, Refusal>,
    era: ReleasePeriod,
    /// Total number of released units, as last read.
    releases: Option<i64>,
    /// Time until which an unnoticed release is too recent to matter.
    confirmed_until: Option<Timestamp>,
}

/// Period between two known releases. Decisions of one period are not remembered in the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReleasePeriod(u64);

impl RefusalMemory {
    /// Returns the refusal that still holds for a candidate, if one is known. None is returned where an earlier reason
    /// may apply (the floor), or a critical mark may override it.
    pub fn recall(&self, candidate: &ReviewCandidate, now: Timestamp) -> Option<SkipReason> {
        let undecided = candidate.floor.is_some() || !candidate.critical.is_empty();
        if candidate.on_demand || undecided || matches!(candidate.company, Grouping::Task { .. }) {
            return None;
        }
        let known = self.known();
        let refusal = known.refusals.get(&key(candidate)).filter(|refusal| now < refusal.until)?;
        let confirmed = || known.confirmed_until.is_some_and(|until| now < until);
        let stands = match refusal.reason {
            SkipReason::UsdCap => candidate.worst.usd >= refusal.worst.usd && confirmed(),
            SkipReason::TokenCap => candidate.worst.tokens >= refusal.worst.tokens && confirmed(),
            _ => confirmed(),
        };
        stands.then_some(refusal.reason)
    }

    /// Returns the present era. Read it before the meters are locked, and pass it to [`Self::note`].
    pub fn era(&self) -> ReleasePeriod {
        self.known().era
    }

    /// Remembers a refusal that was decided under lock at `now`, the database's time, in a committed flush. `meters`
    /// are in the state that the flush left.
    pub fn note(
        &self,
        era: ReleasePeriod,
        control: &CostControl,
        candidate: &ReviewCandidate,
        meters: &Meters,
        reason: SkipReason,
        now: Timestamp,
    ) {
        if candidate.on_demand {
            // The cooldown was not checked, so other candidates may have an earlier reason.
            return;
        }
        match candidate.company {
            Grouping::None => {}
            // A smaller event may still join a waiting batch: only where none waits is this the answer for all.
            Grouping::Batch(_) => {
                let waits = meters.waitings.is_ahead(candidate.shadow, &candidate.agent);
                if waits || reason == SkipReason::Cooldown {
                    return;
                }
            }
            Grouping::Task { .. } => return,
        }
        let end_of_day = || end_of(meters.days.get(&candidate.shadow)?.day, &control.time_zone);
        let end = match reason {
            SkipReason::Cooldown => {
                let end =
                    |trigger| meters.cooldowns.get(&(candidate.shadow, candidate.agent.clone(), trigger)).copied();
                // `None`, a trigger without a cooldown, is the least: then nothing is remembered.
                candidate.matched.iter().copied().map(end).min().flatten()
            }
            SkipReason::TargetCap | SkipReason::DailyCap => end_of_day(),
            SkipReason::TokenCap | SkipReason::UsdCap => {
                end_of_day().zip(now.checked_add(SECOND).ok()).map(|(day, second)| day.min(second))
            }
            _ => None,
        };
        let until = end.and_then(|end| end.checked_sub(MARGIN).ok());
        if let Some(until) = until.filter(|until| *until > now) {
            let mut known = self.known();
            // A unit may have been released between the decision and now.
            if known.era != era {
                return;
            }
            if known.refusals.len() >= REMEMBERED {
                known.refusals.clear();
            }
            known.refusals.insert(key(candidate), Refusal { reason, until, worst: candidate.worst });
        }
    }

    /// True if nothing is remembered: there is nothing to confirm.
    pub fn is_empty(&self) -> bool {
        self.known().refusals.is_empty()
    }

    /// Records the total number of released units, as the database answered to a question asked at `asked_at`. Clears
    /// everything if the number changed.
    pub fn confirm(&self, releases: i64, asked_at: Timestamp) {
        let mut known = self.known();
        if known.releases.replace(releases) != Some(releases) {
            known.forget();
        }
        known.confirmed_until = asked_at.checked_add(SECOND - MARGIN).ok();
    }

    /// Clears everything: a unit was released here.
    pub fn forget(&self) {
        self.known().forget();
    }

    fn known(&self) -> MutexGuard<'_, KnownRefusals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownRefusals {
    fn forget(&mut self) {
        self.refusals.clear();
        self.era.0 += 1;
    }
}

fn key(candidate: &ReviewCandidate) -> Key {
    let bits = candidate.matched.iter().fold(0, |bits, trigger| bits | 1 << trigger.code());
    (candidate.shadow, candidate.agent.clone(), bits)
}

/// Returns the first moment of the next local date. Midnight itself may not exist there.
pub(super) fn end_of(day: Date, zone: &str) -> Option<Timestamp> {
    let zone = TimeZone::get(zone).ok()?;
    Some(day.tomorrow().ok()?.to_zoned(zone).ok()?.timestamp())
}
