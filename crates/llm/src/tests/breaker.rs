//! Tests of the breaker, with given times.

use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use crate::{
    ProviderState,
    breaker::{Breaker, ProviderCallOutcome},
};

fn sick() -> ProviderCallOutcome {
    ProviderCallOutcome::Failed { why: "down".to_owned(), not_before: None }
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Makes `times` calls with this outcome at `now`; each must be admitted.
fn run(breaker: &Breaker, times: usize, outcome: &ProviderCallOutcome, now: Instant) {
    for _ in 0..times {
        breaker.admit(now).expect("admitted").settle(outcome.clone(), now);
    }
}

#[test]
fn five_failures_in_a_row_open_and_one_probe_closes() {
    let (breaker, start) = (Breaker::default(), Instant::now());
    run(&breaker, 4, &sick(), start);
    assert_eq!(breaker.snapshot(start).state, ProviderState::Ok);
    run(&breaker, 1, &sick(), start);
    assert_eq!(breaker.admit(start + seconds(10)).expect_err("open"), seconds(20));
    assert_eq!(breaker.snapshot(start + seconds(29)).state, ProviderState::Open);

    let later = start + seconds(30);
    assert_eq!(breaker.snapshot(later).state, ProviderState::HalfOpen);
    let probe = breaker.admit(later).expect("the probe");
    assert!(breaker.admit(later).is_err(), "one probe only");
    probe.settle(ProviderCallOutcome::Answered, later);
    assert_eq!(breaker.snapshot(later).state, ProviderState::Ok);
    assert_eq!(breaker.snapshot(later).last_error, None);
    run(&breaker, 4, &sick(), later);
    assert_eq!(breaker.snapshot(later).state, ProviderState::Ok, "the count began anew");
}

#[test]
fn success_resets_the_count_of_failures() {
    let (breaker, now) = (Breaker::default(), Instant::now());
    run(&breaker, 4, &sick(), now);
    run(&breaker, 1, &ProviderCallOutcome::Answered, now);
    run(&breaker, 4, &sick(), now);
    assert_eq!(breaker.snapshot(now).state, ProviderState::Ok);
}

#[test]
fn open_time_doubles_up_to_five_minutes() {
    let (breaker, mut now) = (Breaker::default(), Instant::now());
    run(&breaker, 5, &sick(), now);
    for expected in [30, 60, 120, 240, 300, 300, 300] {
        let rest = breaker.snapshot(now).rest.expect("open");
        assert_eq!(rest, seconds(expected));
        now += rest;
        run(&breaker, 1, &sick(), now);
    }
}

#[test]
fn half_of_twenty_calls_failing_within_thirty_seconds_opens() {
    for (spacing, expected) in [(1, ProviderState::Open), (2, ProviderState::Ok)] {
        let (breaker, start) = (Breaker::default(), Instant::now());
        for call in 0..20 {
            let outcome = if call % 2 == 0 { ProviderCallOutcome::Answered } else { sick() };
            run(&breaker, 1, &outcome, start + seconds(call * spacing));
        }
        assert_eq!(breaker.snapshot(start + seconds(19 * spacing)).state, expected, "spacing {spacing}");
    }
    let (breaker, now) = (Breaker::default(), Instant::now());
    for call in 0..60 {
        run(&breaker, 1, &if call % 5 < 3 { ProviderCallOutcome::Answered } else { sick() }, now);
    }
    assert_eq!(breaker.snapshot(now).state, ProviderState::Ok, "two in five is less than half");
}

#[test]
fn open_time_follows_retry_after_up_to_five_minutes() {
    for (asked, expected) in [(7, 30), (200, 200), (9000, 300)] {
        let (breaker, now) = (Breaker::default(), Instant::now());
        run(&breaker, 4, &sick(), now);
        run(&breaker, 1, &ProviderCallOutcome::Failed { why: String::new(), not_before: Some(seconds(asked)) }, now);
        assert_eq!(breaker.snapshot(now).rest, Some(seconds(expected)));
    }
}

#[test]
fn refused_key_opens_at_once_and_a_bad_request_never() {
    let (breaker, now) = (Breaker::default(), Instant::now());
    run(&breaker, 50, &ProviderCallOutcome::CallerFault { why: "bad".to_owned() }, now);
    assert_eq!(breaker.snapshot(now).state, ProviderState::Ok);
    assert_eq!(breaker.snapshot(now).last_error.as_deref(), Some("bad"));
    run(&breaker, 1, &ProviderCallOutcome::AccessRefused { why: "wrong key".to_owned() }, now);
    assert_eq!(breaker.snapshot(now).rest, Some(seconds(300)));
    let probe = now + seconds(300);
    run(&breaker, 1, &ProviderCallOutcome::CallerFault { why: "bad".to_owned() }, probe);
    assert_eq!(breaker.snapshot(probe).state, ProviderState::Ok, "an answered probe shows that it is well");
}

#[test]
fn cancelled_probe_allows_another() {
    let (breaker, start) = (Breaker::default(), Instant::now());
    run(&breaker, 5, &sick(), start);
    let later = start + seconds(31);
    drop(breaker.admit(later).expect("the probe"));
    assert_eq!(breaker.snapshot(later).state, ProviderState::HalfOpen);
    assert!(breaker.admit(later).is_ok());
}

#[test]
fn late_answer_to_an_earlier_call_keeps_the_breaker_open() {
    let (breaker, now) = (Breaker::default(), Instant::now());
    let early = breaker.admit(now).expect("admitted");
    run(&breaker, 5, &sick(), now);
    early.settle(ProviderCallOutcome::Answered, now);
    assert_eq!(breaker.snapshot(now).state, ProviderState::Open);
}

proptest! {
    #[test]
    fn at_most_one_probe_runs_and_open_time_is_bounded(
        steps in prop::collection::vec((0_u64..400, 0_u8..4), 1..200)
    ) {
        let (breaker, mut now) = (Breaker::default(), Instant::now());
        for (wait, how) in steps {
            now += seconds(wait);
            if let Ok(permit) = breaker.admit(now) {
                if breaker.snapshot(now).state == ProviderState::HalfOpen {
                    prop_assert!(breaker.admit(now).is_err());
                }
                match how {
                    0 => permit.settle(ProviderCallOutcome::Answered, now),
                    1 => permit.settle(sick(), now),
                    2 => permit.settle(ProviderCallOutcome::AccessRefused { why: String::new() }, now),
                    _ => drop(permit),
                }
            }
            prop_assert!(breaker.snapshot(now).rest.is_none_or(|rest| rest <= seconds(300)));
        }
    }
}
