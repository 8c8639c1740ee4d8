//! Tests of the breaker's states; the order in which reviews end changes nothing.

use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use super::{BreakerStatus, History, MOST_RECENT, Opinion, content, rejects};
use umbra_config::settings::Breaker;
use umbra_domain::{Assessment, BreakerState, Event, EventId, ReviewId, Severity};

const LIMITS: Breaker = Breaker {
    threshold: 3,
    modes: Vec::new(),
    cool_off: Duration::from_mins(15),
    trials: 2,
    alert_after: Duration::from_hours(24),
};

fn minute(minute: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + 60 * minute).unwrap()
}

/// Returns the opinion on the `order`th event, received in that minute and reviewed at once.
fn opinion(order: i64, rejected: bool, content: &str) -> Opinion {
    let id = uuid::Uuid::from_u128(order.unsigned_abs().into());
    let (event, review) = (EventId(id), ReviewId(id));
    let at = minute(order);
    Opinion { order, event, review, rejected, content: content.to_owned(), received_at: at, ended_at: at }
}

fn folded(opinions: &[Opinion]) -> History {
    let mut history = History::default();
    for opinion in opinions {
        history.add(opinion.clone(), &LIMITS);
    }
    history
}

/// Returns the state after a sequence of one event a minute: `R` rejected, `A` approved, `r` a copy of the last one,
/// rejected, `a` a copy of the last one, approved, `.` none that counts.
fn story(letters: &str) -> BreakerStatus {
    let mut opinions = Vec::new();
    let mut content = String::new();
    for (letter, order) in letters.chars().zip(1..) {
        if letter.is_uppercase() {
            content = format!("content {order}");
        }
        if letter != '.' {
            opinions.push(opinion(order, letter.eq_ignore_ascii_case(&'r'), &content));
        }
    }
    folded(&opinions).standing(minute(i64::try_from(letters.len()).unwrap() + 1), &LIMITS)
}

#[test]
fn rejections_in_a_row_open_and_trial_approvals_close() {
    use BreakerState::{Closed, HalfOpen, Open};
    let wait = ".".repeat(15);
    for (letters, recommendation, rejections) in [
        ("", Closed, 0),
        ("RR", Closed, 2),
        ("RRR", Open, 3),
        ("RRARR", Closed, 2),
        ("RR.R", Open, 3),
        ("Rr", Closed, 1),
        ("Rrr", Open, 1),
        ("RrR.r", Closed, 2),
        ("RrArr", Closed, 1),
        (&format!("Rrr{wait}"), HalfOpen, 1),
        (&format!("Rrr{wait}AA"), Closed, 0),
        (&format!("Rrr{wait}r"), Open, 2),
        ("RrRrR", Open, 3),
        ("RRRR", Open, 4),
        ("RRRAAA", Open, 3),
        (&format!("RRR{wait}"), HalfOpen, 3),
        (&format!("RRR{wait}A"), HalfOpen, 3),
        (&format!("RRR{wait}Aa"), HalfOpen, 3),
        (&format!("RRR{wait}AA"), Closed, 0),
        (&format!("RRR{wait}AR"), Open, 4),
        (&format!("RRR{wait}R{wait}A"), HalfOpen, 4),
        (&format!("RRR{wait}R{wait}AA"), Closed, 0),
        (&format!("RRR{wait}AARR"), Closed, 2),
        (&format!("RRR{wait}AARRR"), Open, 3),
    ] {
        let standing = story(letters);
        assert_eq!((standing.recommendation, standing.rejections), (recommendation, rejections), "{letters}");
    }
}

#[test]
fn agent_is_stuck_on_its_most_rejected_output() {
    for (letters, rejections, stuck) in [("RRR", 3, 0), ("Rr", 1, 2), ("Rrrr", 1, 4), ("RrRrr", 2, 3), ("RrA", 0, 0)] {
        let standing = story(letters);
        assert_eq!((standing.rejections, standing.stuck()), (rejections, stuck), "{letters}");
    }
    let standing = story("Rrr");
    assert_eq!((standing.since, standing.rejected_by.len()), (Some(minute(3)), 3), "it opens with the third");
}

#[test]
fn stored_history_without_copies_is_read() {
    let mut stored = serde_json::to_value(folded(&[opinion(1, true, "a")])).unwrap();
    assert!(stored["settled"].as_object_mut().unwrap().remove("copies").is_some());
    assert!(serde_json::from_value::<History>(stored).is_ok());
}

#[test]
fn standing_names_its_start_and_rejecting_reviews() {
    let standing = story("RAR.RR");
    assert_eq!(standing.since, Some(minute(6)));
    assert_eq!(standing.half_open_at(&LIMITS), Some(minute(21)));
    assert_eq!(standing.rejected_by, [3, 5, 6].map(|n| ReviewId(uuid::Uuid::from_u128(n))));
    let again = story(&format!("RRR{}R", ".".repeat(15)));
    assert_eq!((again.since, again.troubled_since), (Some(minute(19)), Some(minute(3))));
    let closed = story(&format!("RRR{}AA", ".".repeat(15)));
    assert_eq!((closed.since, closed.troubled_since), (Some(minute(20)), None));
}

#[test]
fn open_state_starts_when_the_last_rejection_was_known() {
    let mut late = opinion(2, true, "b");
    late.ended_at = minute(9);
    let history = folded(&[opinion(1, true, "a"), opinion(3, true, "c"), late]);
    assert_eq!(history.standing(minute(10), &LIMITS).since, Some(minute(9)));
}

#[test]
fn late_approval_between_rejections_closes_the_breaker() {
    let mut history = folded(&[opinion(1, true, "a"), opinion(3, true, "c"), opinion(4, true, "d")]);
    assert_eq!(history.standing(minute(5), &LIMITS).recommendation, BreakerState::Open);
    history.add(opinion(2, false, "b"), &LIMITS);
    let standing = history.standing(minute(5), &LIMITS);
    assert_eq!((standing.recommendation, standing.rejections), (BreakerState::Closed, 2));
}

#[test]
fn reset_also_discards_reviews_under_way() {
    let mut history = folded(&[opinion(1, true, "a"), opinion(2, true, "b"), opinion(3, true, "c")]);
    history.reset(minute(6), 5);
    for order in 4..8 {
        history.add(opinion(order, true, &order.to_string()), &LIMITS);
    }
    let standing = history.standing(minute(9), &LIMITS);
    assert_eq!((standing.recommendation, standing.rejections), (BreakerState::Closed, 2), "6 and 7 alone count");
}

#[test]
fn only_a_flag_with_verified_evidence_rejects() {
    use Assessment::{Approve, Checked, Flag, Inconclusive, Suggest};
    use Severity::{Critical, Info, Warning};
    for (assessment, verified, expected) in [
        (Flag, Some(Critical), Some(true)),
        (Flag, Some(Warning), Some(true)),
        (Flag, Some(Info), None),
        (Flag, None, None),
        (Inconclusive, Some(Critical), None),
        (Suggest, Some(Warning), Some(false)),
        (Suggest, None, Some(false)),
        (Approve, None, Some(false)),
    ] {
        assert_eq!(rejects(assessment, true, verified), expected, "{assessment:?} {verified:?}");
    }
    let checked = |has_model| rejects(Checked, has_model, None);
    assert_eq!((checked(false), checked(true)), (Some(false), None), "as its FLAGs count, where it runs on checks");
}

#[test]
fn content_is_equal_for_copies_and_differs_for_attempts() {
    let event = Event { agent: "a".into(), output: Some("rm -rf /".into()), ..Event::default() };
    let copies = [
        Event { agent: "b".into(), ..event.clone() },
        Event { output: Some(" rm\t-rf  /\n".into()), ..event.clone() },
        Event { occurred_at: Some(minute(1)), session_id: Some("s".into()), ..event.clone() },
    ];
    let others = [
        Event { output: None, task: event.output.clone(), ..event.clone() },
        Event { attempt: Some(2), ..event.clone() },
        Event { supersedes: Some(EventId(uuid::Uuid::from_u128(1))), ..event.clone() },
        Event { output: Some("rm -rf /tmp".into()), ..event.clone() },
    ];
    assert!(copies.iter().all(|copy| content(copy) == content(&event)));
    assert!(others.iter().all(|other| content(other) != content(&event)));
}

/// Draws opinions in order of receipt, some minutes apart, and an order in which their reviews end that is late by
/// fewer places than are kept.
fn any_ends() -> impl Strategy<Value = (Vec<Opinion>, Vec<Opinion>)> {
    let one = (any::<bool>(), 0..6_u8, 0..12_i64, 0..30_i64, 0..MOST_RECENT);
    proptest::collection::vec(one, 0..120).prop_map(|drawn| {
        let mut received = minute(0);
        let mut opinions = Vec::new();
        let mut ends = Vec::new();
        for ((rejected, content, gap, takes, late), order) in drawn.into_iter().zip(1..) {
            received = received.saturating_add(Duration::from_secs(60 * gap.unsigned_abs())).unwrap();
            let ended_at = received.saturating_add(Duration::from_secs(60 * takes.unsigned_abs())).unwrap();
            let opinion = Opinion { received_at: received, ended_at, ..opinion(order, rejected, &content.to_string()) };
            ends.push((usize::try_from(order).unwrap() + late, opinion.clone()));
            opinions.push(opinion);
        }
        ends.sort_by_key(|(end, _)| *end);
        (opinions, ends.into_iter().map(|(_, opinion)| opinion).collect())
    })
}

proptest! {
    #[test]
    fn standing_does_not_depend_on_the_order_of_review_ends((received, ended) in any_ends(), later in 0..2_000_i64) {
        let now = minute(later);
        let (in_order, as_ended) = (folded(&received), folded(&ended));
        prop_assert_eq!(in_order.standing(now, &LIMITS), as_ended.standing(now, &LIMITS));
        let told_twice = folded(&[ended.clone(), ended].concat());
        prop_assert_eq!(told_twice.standing(now, &LIMITS), as_ended.standing(now, &LIMITS));
    }

    #[test]
    fn breaker_never_opens_below_three_rejections((received, _) in any_ends()) {
        let standing = folded(&received).standing(minute(0), &LIMITS);
        let rejections = received.iter().filter(|opinion| opinion.rejected).count();
        prop_assert!(standing.recommendation == BreakerState::Closed || rejections >= 3);
        prop_assert!(standing.rejections as usize <= rejections);
    }

    #[test]
    fn history_survives_a_bounded_json_round_trip((received, _) in any_ends()) {
        let history = folded(&received);
        let text = serde_json::to_string(&history).unwrap();
        prop_assert!(text.len() < 32 * 1024, "{} bytes", text.len());
        prop_assert_eq!(serde_json::from_str::<History>(&text).unwrap(), history);
    }
}
