//! Refusals that are known to stand for a while, so that a spent budget costs no database work. In: refusals that
//! [`super::decide`] gave under lock, once their flush is committed. Out: the same refusal, as long as it stands. It
//! never reserves, and never holds back what a person asked for.
//!
//! A cooldown stands until its end, and a spent cap until the end of its local day, unless a review is given up, on any
//! replica, and gives back its unit and its cooldown: so a refusal counts only while somebody has asked the database within the last second
//! whether one was ([`Memory::confirm`]), and one release forgets everything. A refusal for money or tokens holds for
//! reviews at least as costly, and for a second at most. Reasons keep their order of precedence, since what is
//! remembered is the whole answer for one (shadow, agent, triggers), never a single meter; only in the second after a
//! refusal for money or tokens may an earlier reason have come to apply as well, by a cheaper review.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::{SignedDuration, Timestamp, civil::Date, tz::TimeZone};

use super::{Candidate, Company, Meters, Worst};
use umbra_domain::{CostControl, SkipReason};

/// Longest that a refusal for money or tokens is remembered, and that a release elsewhere goes unnoticed.
const SECOND: SignedDuration = SignedDuration::from_secs(1);
/// Refusals remembered; agents choose their names, so this is bounded.
const REMEMBERED: usize = 50_000;
/// A refusal is forgotten this long before its end, since our clock only follows the database's.
const MARGIN: SignedDuration = SignedDuration::from_millis(100);

type Key = (usize, String, u8);

#[derive(Debug, Clone, Copy)]
struct Refusal {
    reason: SkipReason,
    until: Timestamp,
    worst: Worst,
}

/// Remembered refusals of one configuration: a reload begins with none.
#[derive(Debug, Default)]
pub struct Memory(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    refusals: HashMap<Key, Refusal>,
    era: Era,
    /// How many units had been released, as last heard.
    releases: Option<i64>,
    /// Until when no release can have gone unnoticed for too long.
    confirmed_until: Option<Timestamp>,
}

/// Between two releases that became known. What was decided in one is not remembered in the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Era(u64);

impl Memory {
    /// The refusal that still stands for a candidate, if one is known. None does where an earlier reason may apply (the
    /// floor), or a critical mark may break it.
    pub fn recall(&self, candidate: &Candidate, now: Timestamp) -> Option<SkipReason> {
        let undecided = candidate.floor.is_some() || !candidate.critical.is_empty();
        if candidate.on_demand || undecided || matches!(candidate.company, Company::Task { .. }) {
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

    /// The present era: to be asked for before the meters are locked, and handed to [`Self::note`].
    pub fn era(&self) -> Era {
        self.known().era
    }

    /// Remembers a refusal that was decided under lock at `now`, the database's time, in a flush that is committed.
    /// `meters` are as the flush left them.
    pub fn note(
        &self,
        era: Era,
        control: &CostControl,
        candidate: &Candidate,
        meters: &Meters,
        reason: SkipReason,
        now: Timestamp,
    ) {
        if candidate.on_demand {
            // The cooldown was not looked at, so this may not be the first reason for others.
            return;
        }
        match candidate.company {
            Company::None => {}
            // What finds no room or no unit may yet join, if it is smaller: only where nothing waits is this the
            // answer for all.
            Company::Batch(_) => {
                let waits = meters.waitings.is_ahead(candidate.shadow, &candidate.agent);
                if waits || reason == SkipReason::Cooldown {
                    return;
                }
            }
            Company::Task { .. } => return,
        }
        let end_of_day = || end_of(meters.days.get(&candidate.shadow)?.day, &control.time_zone);
        let end = match reason {
            SkipReason::Cooldown => {
                let end =
                    |trigger| meters.cooldowns.get(&(candidate.shadow, candidate.agent.clone(), trigger)).copied();
                // One that does not cool, `None`, is the least: then nothing stands.
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

    /// Whether anything is remembered, and so worth to be confirmed.
    pub fn is_empty(&self) -> bool {
        self.known().refusals.is_empty()
    }

    /// Takes note of how many units have ever been released, as the database answered to a question asked at
    /// `asked_at`. Forgets everything if that is news.
    pub fn confirm(&self, releases: i64, asked_at: Timestamp) {
        let mut known = self.known();
        if known.releases.replace(releases) != Some(releases) {
            known.forget();
        }
        known.confirmed_until = asked_at.checked_add(SECOND - MARGIN).ok();
    }

    /// Forgets everything: a unit was released here.
    pub fn forget(&self) {
        self.known().forget();
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn forget(&mut self) {
        self.refusals.clear();
        self.era.0 += 1;
    }
}

fn key(candidate: &Candidate) -> Key {
    let bits = candidate.matched.iter().fold(0, |bits, trigger| bits | 1 << trigger.code());
    (candidate.shadow, candidate.agent.clone(), bits)
}

/// The first moment of the next local date. Midnight itself may not exist there.
pub(super) fn end_of(day: Date, zone: &str) -> Option<Timestamp> {
    let zone = TimeZone::get(zone).ok()?;
    Some(day.tomorrow().ok()?.to_zoned(zone).ok()?.timestamp())
}
