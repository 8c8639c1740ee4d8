//! Tests of slots and waits. Behaviour that needs a database is tested in `tests/it`.

use std::time::Duration;

use proptest::prelude::*;

use super::{Permit, Slots, backoff};
use umbra_domain::Mode::{Active, Passive, Review};

#[test]
fn slots_are_reserved_for_active_reviews() {
    for (workers, for_active, free) in [
        (0, 0, (0, 0)),
        (0, 2, (0, 0)),
        (1, 0, (0, 1)),
        // A single slot is for all reviews, or only active ones would ever run.
        (1, 1, (0, 1)),
        (2, 1, (1, 1)),
        (2, 2, (1, 1)),
        (8, 2, (2, 6)),
        (8, 99, (7, 1)),
    ] {
        let slots = Slots::new(workers, for_active);
        assert_eq!(slots.free(), free, "{workers} workers, {for_active} for active");
        let (active, any) = slots.take_all();
        assert_eq!((active.len(), any.len()), free);
        assert!((slots.free() == (0, 0)) && slots.take(Active.priority()).is_none());
        drop((active, any));
        assert_eq!(slots.free(), free, "dropped places are free again");
        assert_eq!((slots.free() == (0, 0)), workers == 0);
    }
}

#[test]
fn active_reviews_take_reserved_slots_first_and_others_never() {
    let slots = Slots::new(3, 1);
    let mut held: Vec<Permit> = Vec::new();
    for (mode, taken, free) in [
        (Active, true, (0, 2)),
        (Active, true, (0, 1)),
        (Review, true, (0, 0)),
        (Active, false, (0, 0)),
        (Passive, false, (0, 0)),
    ] {
        let place = slots.take(mode.priority());
        assert_eq!((place.is_some(), slots.free()), (taken, free), "{mode:?}");
        held.extend(place);
    }
    // The first review had the kept slot: that one is free now, and only for active reviews.
    drop(held.remove(0));
    assert_eq!(slots.free(), (1, 0));
    assert!(slots.free() != (0, 0));
    assert!(slots.take(Review.priority()).is_none() && slots.take(Passive.priority()).is_none());
    assert!(slots.take(Active.priority()).is_some());
}

#[test]
fn clones_share_their_slots() {
    let slots = Slots::new(1, 0);
    let held = slots.clone().take(Passive.priority());
    assert!(held.is_some() && (slots.free() == (0, 0)));
}

proptest! {
    #[test]
    fn slots_are_neither_lost_nor_doubled(
        workers in 0..6_usize,
        for_active in 0..6_usize,
        steps in prop::collection::vec((0..3_i16, any::<prop::sample::Index>(), any::<bool>()), 0..40),
    ) {
        let slots = Slots::new(workers, for_active);
        let mut held: Vec<Permit> = Vec::new();
        for (priority, which, give_back) in steps {
            if give_back && !held.is_empty() {
                drop(held.swap_remove(which.index(held.len())));
            } else {
                let (active, any) = slots.free();
                let place = slots.take(priority);
                prop_assert_eq!(place.is_some(), any > 0 || (priority == 0 && active > 0));
                held.extend(place);
            }
            let (active, any) = slots.free();
            prop_assert_eq!(held.len() + active + any, workers);
        }
    }
}

#[test]
fn backoff_doubles_up_to_a_minute() {
    for (attempt, seconds) in
        [(0, 1.0), (1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 16.0), (6, 32.0), (7, 60.0), (8, 60.0), (u32::MAX, 60.0)]
    {
        for (jitter, share) in [(1.0, 1.0), (0.0, 0.5), (0.5, 0.75), (-7.0, 0.5), (7.0, 1.0)] {
            let expected = Duration::from_secs_f64(seconds * share);
            assert_eq!(backoff(attempt, None, jitter), expected, "attempt {attempt}, jitter {jitter}");
        }
    }
}

#[test]
fn provider_may_extend_the_backoff_but_not_shorten() {
    for (asked_ms, waits_ms) in [(0, 2_000), (1_999, 2_000), (2_001, 2_001), (86_400_000, 86_400_000)] {
        let wait = backoff(2, Some(Duration::from_millis(asked_ms)), 1.0);
        assert_eq!(wait, Duration::from_millis(waits_ms), "asked for {asked_ms} ms");
    }
}

proptest! {
    #[test]
    fn later_attempts_and_more_jitter_never_wait_less(
        attempts in (0..12_u32, 0..12_u32),
        jitters in (0.0..=1.0, 0.0..=1.0),
        asked in prop::option::of(0..200_000_u64),
    ) {
        let asked = asked.map(Duration::from_millis);
        let (early, late) = (attempts.0.min(attempts.1), attempts.0.max(attempts.1));
        let (less, more) = (f64::min(jitters.0, jitters.1), f64::max(jitters.0, jitters.1));
        let waits = backoff(early, asked, less);
        prop_assert!(waits <= backoff(late, asked, less));
        prop_assert!(waits <= backoff(early, asked, more));
        prop_assert!(waits >= asked.unwrap_or(Duration::from_millis(500)));
        prop_assert!(waits <= asked.unwrap_or_default().max(Duration::from_mins(1)));
    }
}
