//! Tests of the memory of refusals: how long, for which candidates, and how many are remembered.

use jiff::{
    civil::{date, time},
    tz::{self, TimeZone},
};

use super::{super::refusal_memory::RefusalMemory, *};

/// Returns a memory that has missed no release so far.
fn confirmed(at: Timestamp) -> RefusalMemory {
    let memory = RefusalMemory::default();
    memory.confirm(7, at);
    memory
}

/// True if a refusal for this reason, noted at `noted`, is still known at `asked`, with confirmations all the while.
fn known(control: &CostControl, reason: SkipReason, meters: &Meters, noted: Timestamp, asked: Timestamp) -> bool {
    let (memory, candidate) = (confirmed(noted), candidate("a", &[Trigger::Error]));
    memory.note(memory.era(), control, &candidate, meters, reason, noted);
    memory.confirm(7, asked);
    let recalled = memory.recall(&candidate, asked);
    assert!(recalled.is_none_or(|recalled| recalled == reason));
    recalled.is_some()
}

#[test]
fn lifetime_of_a_refusal_depends_on_its_reason() {
    let meters = meters(1, 1, WorstCaseCost::default());
    for reason in SkipReason::ALL.iter().copied() {
        use SkipReason::{DailyCap, TargetCap, TokenCap, UsdCap};
        for (after_ms, is_soon) in [(0, true), (500, true), (890, true), (1_000, false), (60_000, false)] {
            let expected = match reason {
                TargetCap | DailyCap => true,
                TokenCap | UsdCap => is_soon,
                _ => false,
            };
            let found = known(&unlimited(), reason, &meters, noon(), noon() + millis(after_ms));
            assert_eq!(found, expected, "{reason:?} after {after_ms} ms");
        }
    }
}

#[test]
fn cap_refusal_holds_only_while_releases_are_confirmed() {
    let (meters, pair) = (meters(1, 1, WorstCaseCost::default()), candidate("a", &[Trigger::Error]));
    let recalled = |memory: &RefusalMemory, after_ms| memory.recall(&pair, noon() + millis(after_ms)).is_some();
    let noted = |memory: RefusalMemory| {
        memory.note(memory.era(), &unlimited(), &pair, &meters, SkipReason::DailyCap, noon());
        memory
    };
    let never_confirmed = noted(RefusalMemory::default());
    assert!(!recalled(&never_confirmed, 0), "nobody asked for releases");
    let memory = noted(confirmed(noon()));
    assert!(recalled(&memory, 890) && !recalled(&memory, 900), "and then nobody asked any more");
    memory.confirm(7, noon() + millis(5_000));
    assert!(recalled(&memory, 5_890), "none was released meanwhile");
    memory.confirm(8, noon() + millis(5_100));
    assert!(!recalled(&memory, 5_100), "one was released elsewhere");
}

#[test]
fn refusal_from_before_a_release_is_not_remembered() {
    let (meters, pair) = (meters(1, 1, WorstCaseCost::default()), candidate("a", &[Trigger::Error]));
    for release in [|memory: &RefusalMemory| memory.forget(), |memory: &RefusalMemory| memory.confirm(8, noon())] {
        let memory = confirmed(noon());
        let locked = memory.era();
        release(&memory);
        memory.note(locked, &unlimited(), &pair, &meters, SkipReason::DailyCap, noon());
        assert_eq!(memory.recall(&pair, noon()), None);
    }
}

#[test]
fn a_cooldown_is_remembered_until_shortly_before_its_end() {
    let hour = SignedDuration::from_hours(1);
    let control = CostControl { cooldown: Duration::from_hours(2), ..unlimited() };
    let mut meters = meters(1, 1, WorstCaseCost::default());
    cool(&mut meters, Trigger::Error, noon() + hour);
    for (after, stands) in
        [(SignedDuration::ZERO, true), (hour - millis(101), true), (hour - millis(100), false), (hour, false)]
    {
        let found = known(&control, SkipReason::Cooldown, &meters, noon(), noon() + after);
        assert_eq!(found, stands, "after {after:#}");
    }
}

#[test]
fn cooldown_of_several_triggers_holds_while_all_cool() {
    use Trigger::{CodeWritten, Error};
    let control = CostControl { cooldown: Duration::from_hours(2), ..unlimited() };
    let pair = candidate("a", &[CodeWritten, Error]);
    for (ends, stands) in [
        (&[(Error, 9), (CodeWritten, 5)][..], true),
        (&[(Error, 9), (CodeWritten, 3)], false),
        (&[(Error, 3), (CodeWritten, 9)], false),
        // The other trigger does not cool down.
        (&[(Error, 9)], false),
        (&[(Error, 9), (CodeWritten, -9)], false),
        (&[], false),
    ] {
        let mut meters = meters(1, 1, WorstCaseCost::default());
        for (trigger, seconds) in ends {
            cool(&mut meters, *trigger, noon() + SignedDuration::from_secs(*seconds));
        }
        let asked = noon() + SignedDuration::from_secs(4);
        let memory = confirmed(asked);
        memory.note(memory.era(), &control, &pair, &meters, SkipReason::Cooldown, noon());
        let recalled = memory.recall(&pair, asked);
        assert_eq!(recalled, stands.then_some(SkipReason::Cooldown), "{ends:?}");
    }
}

#[test]
fn money_or_token_refusal_holds_for_equal_or_costlier_reviews() {
    use SkipReason::{DailyCap, TargetCap, TokenCap, UsdCap};
    for (reason, cheaper, fewer) in
        [(UsdCap, false, true), (TokenCap, true, false), (DailyCap, true, true), (TargetCap, true, true)]
    {
        let ask = |usd, tokens| {
            let costing = |usd, tokens| ReviewCandidate {
                worst: WorstCaseCost { usd: NanoUsd(usd), tokens },
                ..candidate("a", &[Trigger::Error])
            };
            let memory = confirmed(noon());
            memory.note(
                memory.era(),
                &unlimited(),
                &costing(50, 50),
                &meters(1, 1, WorstCaseCost::default()),
                reason,
                noon(),
            );
            memory.recall(&costing(usd, tokens), noon()).is_some()
        };
        assert!(ask(50, 50) && ask(51, 51), "{reason:?}");
        assert_eq!((ask(49, 50), ask(50, 49)), (cheaper, fewer), "{reason:?}");
    }
}

#[test]
fn refusal_applies_to_one_shadow_agent_and_trigger_set() {
    use Trigger::{CodeWritten, Error};
    let (memory, meters) = (confirmed(noon()), meters(1, 1, WorstCaseCost::default()));
    let noted = candidate("a", &[Error, CodeWritten]);
    let asked_for = ReviewCandidate { on_demand: true, ..candidate("b", &[Error]) };
    for candidate in [&noted, &asked_for] {
        memory.note(memory.era(), &unlimited(), candidate, &meters, SkipReason::DailyCap, noon());
    }
    for (asked, expected) in [
        (noted.clone(), true),
        (candidate("a", &[CodeWritten, Error]), true),
        (candidate("a", &[Error]), false),
        (candidate("b", &[Error, CodeWritten]), false),
        (ReviewCandidate { shadow: 1, ..noted.clone() }, false),
        (ReviewCandidate { on_demand: true, ..noted.clone() }, false),
        // Other candidates may have an earlier reason than one that a person asked for: the cooldown.
        (candidate("b", &[Error]), false),
    ] {
        assert_eq!(memory.recall(&asked, noon()).is_some(), expected, "{asked:?}");
    }
    memory.forget();
    assert_eq!(memory.recall(&noted, noon()), None, "a unit was released");
}

/// Recalls around the end of `day`, which is `end`: no decision of that day is recalled after it.
fn check_end_of_day(zone: &str, day: Date, end: Timestamp) {
    let control = CostControl { time_zone: zone.into(), ..unlimited() };
    let mut meters = meters(1, 1, WorstCaseCost::default());
    meters.days.entry(0).and_modify(|meter| meter.day = day);
    for (noted, asked, stands) in [
        (-5_000, -4_200, true),
        (-500, -101, true),
        (-3_600_000, -101, true),
        (-500, -100, false),
        (-500, 0, false),
        (0, 0, false),
        (1, 2, false),
    ] {
        let found = known(&control, SkipReason::DailyCap, &meters, end + millis(noted), end + millis(asked));
        assert_eq!(found, stands, "{zone}, {day}: noted {noted} ms and asked {asked} ms after its end at {end}");
    }
}

#[test]
fn cap_refusal_is_forgotten_at_the_end_of_the_local_day() {
    for (zone, day, end) in [
        ("UTC", date(2026, 12, 31), "2027-01-01T00:00:00Z"),
        ("Asia/Kolkata", date(2026, 5, 1), "2026-05-01T18:30:00Z"),
        // No midnight: 00:00 is 01:00.
        ("Africa/Cairo", date(2026, 4, 23), "2026-04-23T22:00:00Z"),
        ("America/Santiago", date(2026, 9, 5), "2026-09-06T04:00:00Z"),
        // The 30th did not happen.
        ("Pacific/Apia", date(2011, 12, 29), "2011-12-30T10:00:00Z"),
        // 24:00 was 23:00 again: a day of 25 hours.
        ("America/Santiago", date(2026, 4, 4), "2026-04-05T04:00:00Z"),
        ("Africa/Cairo", date(2026, 10, 29), "2026-10-29T22:00:00Z"),
    ] {
        check_end_of_day(zone, day, at(end));
    }
}

#[test]
fn local_days_end_at_the_date_change_in_every_zone() {
    let (from, to) = (at("2025-01-01T00:00:00Z"), at("2031-01-01T00:00:00Z"));
    let mut transitions = 0;
    for name in tz::db().available() {
        let zone = TimeZone::get(name.as_str()).expect("a zone of the list");
        for transition in zone.following(from).take_while(|transition| transition.timestamp() < to) {
            transitions += 1;
            let near = zone.to_datetime(transition.timestamp()).date();
            for day in [near.yesterday(), Ok(near), near.tomorrow()].map(|day| day.expect("in this century")) {
                // Noon always exists: the date changes once between two of them.
                let noon = |day: Date| day.to_datetime(time(12, 0, 0, 0)).to_zoned(zone.clone()).expect("a noon");
                let (mut before, mut after) = (noon(day).timestamp(), noon(day.tomorrow().expect("a day")).timestamp());
                while after.as_second() - before.as_second() > 1 {
                    let middle =
                        Timestamp::from_second(i64::midpoint(before.as_second(), after.as_second())).expect("between");
                    if zone.to_datetime(middle).date() > day { after = middle } else { before = middle }
                }
                check_end_of_day(name.as_str(), day, after);
            }
        }
    }
    assert!(transitions > 1_000, "only {transitions} transitions: is there no time zone database?");
}

#[test]
fn memory_is_bounded() {
    let (memory, meters) = (confirmed(noon()), meters(1, 1, WorstCaseCost::default()));
    let stranger = |i: usize| candidate(&format!("agent-{i}"), &[Trigger::Error]);
    let strangers = 60_000;
    for i in 0..strangers {
        memory.note(memory.era(), &unlimited(), &stranger(i), &meters, SkipReason::DailyCap, noon());
        assert!(memory.recall(&stranger(i), noon()).is_some(), "the newest is known");
    }
    let known = (0..strangers).filter(|i| memory.recall(&stranger(*i), noon()).is_some()).count();
    assert!(known <= 50_000, "{known} are known");
}
