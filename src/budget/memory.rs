//! Refusals that are known to stand for a while, so that a spent budget costs no database work. In: refusals that
//! [`super::decide`] gave under lock. Out: the same refusal, as long as it stands. It never reserves, and never holds
//! back what a person asked for.
//!
//! A cooldown stands until its end: it never ends earlier. A cap may free a unit at any time, on any replica, so its
//! refusal is remembered for a second at most, and not past the local day. A refusal for money or tokens
//! holds for reviews at least as costly. Reasons keep their order of precedence, since what is remembered is the
//! whole answer for one (shadow, agent, triggers), never a single meter; only in the second after a refusal for money
//! or tokens may an earlier reason have come to apply as well, by a cheaper review.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use jiff::{SignedDuration, Timestamp, civil::Date, tz::TimeZone};

use super::{Candidate, Meters, Worst};
use crate::domain::{CostControl, SkipReason};

/// Longest that a cap's refusal is remembered.
const CAP_SECONDS: i64 = 1;
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
pub struct Memory(Mutex<HashMap<Key, Refusal>>);

impl Memory {
    /// The refusal that still stands for a candidate, if one is known.
    pub fn recall(&self, candidate: &Candidate, now: Timestamp) -> Option<SkipReason> {
        if candidate.on_demand {
            return None;
        }
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let refusal = known.get(&key(candidate)).filter(|refusal| now < refusal.until)?;
        let costs_less = match refusal.reason {
            SkipReason::UsdCap => candidate.worst.usd < refusal.worst.usd,
            SkipReason::TokenCap => candidate.worst.tokens < refusal.worst.tokens,
            _ => false,
        };
        (!costs_less).then_some(refusal.reason)
    }

    /// Remembers a refusal that was decided under lock at `now`, the database's time. `meters` are as they were
    /// locked: what the same flush reserves may still be rolled back, and with it a cooldown of hours.
    pub fn note(
        &self,
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
        let end = match reason {
            SkipReason::Cooldown => {
                let end =
                    |trigger| meters.cooldowns.get(&(candidate.shadow, candidate.agent.clone(), trigger)).copied();
                // One that does not cool, `None`, is the least: then nothing stands.
                candidate.matched.iter().copied().map(end).min().flatten()
            }
            SkipReason::TargetCap | SkipReason::DailyCap | SkipReason::TokenCap | SkipReason::UsdCap => {
                let day = meters.days.get(&candidate.shadow).map(|meter| meter.day);
                let second = now.saturating_add(SignedDuration::from_secs(CAP_SECONDS)).ok();
                second.zip(day.and_then(|day| end_of(day, &control.time_zone))).map(|(second, end)| second.min(end))
            }
            _ => None,
        };
        let until = end.and_then(|end| end.checked_sub(MARGIN).ok());
        if let Some(until) = until.filter(|until| *until > now) {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= REMEMBERED {
                known.clear();
            }
            known.insert(key(candidate), Refusal { reason, until, worst: candidate.worst });
        }
    }

    /// Forgets everything: a unit was released here.
    pub fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn key(candidate: &Candidate) -> Key {
    let bits = candidate.matched.iter().fold(0, |bits, trigger| bits | 1 << trigger.code());
    (candidate.shadow, candidate.agent.clone(), bits)
}

/// The first moment of the next local date. Midnight itself may not exist there.
fn end_of(day: Date, zone: &str) -> Option<Timestamp> {
    let zone = TimeZone::get(zone).ok()?;
    Some(day.tomorrow().ok()?.to_zoned(zone).ok()?.timestamp())
}
