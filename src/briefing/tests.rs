//! Tests of the calendar, the sums, and the escaping of the page.

use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, date},
    tz::TimeZone,
};
use proptest::prelude::*;

use super::{BriefingFacts, Kind, Period, compose, latest_day, latest_week, page};
use umbra_domain::{FindingId, Mode, Severity, SkipReason};
use umbra_store::{
    briefings::{AgentCounts, FeedbackCounts, RecurringFault, ReviewCounts, ShadowCounts, TroubledAgent},
    gravest::GravestFinding,
};

#[test]
fn periods_parse_as_iso_8601_weeks_and_days() {
    for (text, monday) in [
        ("2026-W09", Some(date(2026, 2, 23))),
        ("2026-W47", Some(date(2026, 11, 16))),
        ("2026-W53", Some(date(2026, 12, 28))),
        ("2027-W01", Some(date(2027, 1, 4))),
        ("2025-W01", Some(date(2024, 12, 30))),
        ("2027-W53", None),
        ("2026-W00", None),
        ("2026-W9", None),
        ("2026-09", None),
        ("+026-W09", None),
        ("2026-W09x", None),
    ] {
        let read = Period::parse_week(text);
        assert_eq!(read.map(|week| week.first), monday, "{text}");
        assert!(
            read.is_none_or(|week| week.to_string() == text && week.last() == week.before(-1).yesterday().unwrap())
        );
    }
    for text in ["2026-2-28", "2026-02-30", "latest", "2026-02-28T00", "0000-01-01", "9999-12-31", "-026-02-28"] {
        assert_eq!(Period::parse_day(text), None, "{text}");
    }
    assert_eq!(Period::parse_day("2028-02-29").map(|day| day.to_string()).as_deref(), Some("2028-02-29"));
}

#[test]
fn latest_day_is_over_in_every_zone_and_past_the_delay() {
    let zones = |names: &[&str]| -> Vec<_> { names.iter().map(|name| TimeZone::get(name).unwrap()).collect() };
    let cases: [(&str, &[&str], i64, Date); 6] = [
        ("2026-03-01T00:00:00Z", &[], 0, date(2026, 2, 28)),
        ("2026-03-01T00:14:59Z", &["UTC"], 15, date(2026, 2, 27)),
        ("2026-03-01T00:15:00Z", &["UTC"], 15, date(2026, 2, 28)),
        ("2026-03-01T09:00:00Z", &["Pacific/Kiritimati", "America/Los_Angeles"], 0, date(2026, 2, 28)),
        ("2026-03-01T07:59:59Z", &["Pacific/Kiritimati", "America/Los_Angeles"], 0, date(2026, 2, 27)),
        // The clocks of Chile go forward at midnight, which does not exist then.
        ("2026-09-06T04:00:00Z", &["America/Santiago"], 0, date(2026, 9, 5)),
    ];
    for (now, names, minutes, expected) in cases {
        let now: Timestamp = now.parse().unwrap();
        let latest = latest_day(now, &zones(names), SignedDuration::from_mins(minutes));
        assert_eq!(latest, Period::day(expected), "{now} in {names:?}");
    }
    for (day, monday) in [
        (date(2026, 2, 28), date(2026, 2, 16)),
        (date(2026, 3, 1), date(2026, 2, 23)),
        (date(2026, 3, 2), date(2026, 2, 23)),
    ] {
        assert_eq!(latest_week(Period::day(day)), Period { kind: Kind::Week, first: monday }, "{day}");
    }
}

fn counts(reviews: i64, flag: i64, critical: i64) -> ReviewCounts {
    let nano_usd = reviews * 1_000_000;
    ReviewCounts {
        reviews,
        flag,
        approve: reviews - flag,
        with_findings: flag,
        critical,
        nano_usd,
        ..ReviewCounts::default()
    }
}

fn shadow(name: &str, mode: Mode, day: Date, counts: ReviewCounts) -> ShadowCounts {
    ShadowCounts { shadow: name.into(), mode, day, counts }
}

fn facts(period: Period) -> BriefingFacts {
    BriefingFacts {
        period,
        complete: true,
        made_at: "2026-03-01T00:15:00Z".parse().unwrap(),
        first_day: date(2026, 1, 1),
        gravest: Vec::new(),
        in_force: vec![
            ("security".into(), Mode::Review),
            ("quiet".into(), Mode::Passive),
            ("idle".into(), Mode::Active),
        ],
        shadows: Vec::new(),
        skips: Vec::new(),
        agents: Vec::new(),
        all_agents: 0,
        agents_before: Vec::new(),
        recurring: Vec::new(),
        breakers: vec![],
        feedback: FeedbackCounts::default(),
    }
}

#[test]
fn passive_shadows_have_their_own_section_and_count_in_no_total() {
    let day = date(2026, 2, 28);
    let made = compose(&BriefingFacts {
        shadows: vec![
            shadow("quiet", Mode::Passive, day, counts(9, 9, 9)),
            shadow("quiet", Mode::Passive, date(2026, 2, 27), counts(5, 5, 5)),
            shadow("security", Mode::Review, day, counts(4, 1, 2)),
            // Promoted yesterday: earlier reviews are listed separately from present ones.
            shadow("security", Mode::Passive, day, counts(3, 3, 3)),
            shadow("security", Mode::Review, date(2026, 2, 27), counts(14, 7, 7)),
            shadow("gone", Mode::Review, date(2026, 2, 21), counts(7, 0, 0)),
        ],
        skips: vec![
            ("security".into(), SkipReason::Cooldown, 5),
            ("quiet".into(), SkipReason::DailyCap, 2),
            ("forgotten".into(), SkipReason::Overload, 1),
        ],
        ..facts(Period::day(day))
    });
    assert_eq!((made.totals.reviews, made.totals.findings.critical, made.totals.finding_rate), (4, 2, Some(0.25)));
    let names = |lines: &[super::ShadowLine]| lines.iter().map(|line| line.shadow.clone()).collect::<Vec<_>>();
    assert_eq!(names(&made.shadows), ["security", "idle", "forgotten"]);
    assert_eq!(names(&made.passive), ["quiet", "security"]);
    assert_eq!(made.shadows[0].skips["cooldown"], 5);
    assert_eq!(made.passive[0].skips["daily_cap"], 2);
    assert_eq!(made.shadows[0].trend.map(|trend| (trend.reviews, trend.findings)), Some((2.0, 1.0)));
    assert_eq!(made.shadows[1].trend, None);
    let before: Vec<i64> = made.before.iter().map(|past| past.reviews).collect();
    assert_eq!(before, [7, 0, 0, 0, 0, 0, 14]);
    assert_eq!((made.before[0].first, made.before[6].first), (date(2026, 2, 21), date(2026, 2, 27)));
}

#[test]
fn a_week_is_compared_with_the_four_weeks_before() {
    let made = compose(&BriefingFacts {
        shadows: vec![
            shadow("security", Mode::Review, date(2026, 1, 26), counts(1, 0, 0)),
            shadow("security", Mode::Review, date(2026, 2, 1), counts(2, 0, 0)),
            shadow("security", Mode::Review, date(2026, 2, 2), counts(4, 0, 0)),
            shadow("security", Mode::Review, date(2026, 2, 22), counts(8, 0, 0)),
            shadow("security", Mode::Review, date(2026, 2, 23), counts(16, 0, 0)),
            shadow("security", Mode::Review, date(2026, 3, 1), counts(32, 0, 0)),
        ],
        ..facts(Period::parse_week("2026-W09").unwrap())
    });
    assert_eq!(made.totals.reviews, 48);
    assert_eq!(made.before.iter().map(|past| past.reviews).collect::<Vec<_>>(), [3, 4, 0, 8]);
}

fn gravest(text: &str) -> GravestFinding {
    let id = FindingId(uuid::Uuid::from_u128(1));
    GravestFinding {
        id,
        path: format!("/v1/findings/{id}"),
        severity: Severity::Critical,
        category: "security".into(),
        description: text.into(),
        agent: text.into(),
        task_id: Some(text.into()),
        shadow: "security".into(),
        verified: false,
        source: "model".into(),
        times: 2,
    }
}

#[test]
fn page_opens_with_gravest_findings_and_unjudged_events() {
    let day = date(2026, 2, 28);
    let counts = ReviewCounts {
        reviews: 3,
        checked: 2,
        flag: 1,
        critical: 2,
        unverified: 1,
        failed: 1,
        ..ReviewCounts::default()
    };
    let made = page(&compose(&BriefingFacts {
        shadows: vec![shadow("security", Mode::Review, day, counts)],
        skips: vec![("security".into(), SkipReason::CostBelowFloor, 5), ("quiet".into(), SkipReason::DailyCap, 2)],
        gravest: vec![GravestFinding { verified: true, ..gravest("A key leaks.") }, gravest("It is off its task.")],
        ..facts(Period::day(day))
    }));
    let id = FindingId(uuid::Uuid::from_u128(1));
    let expected = [
        "## Gravest findings".to_owned(),
        String::new(),
        format!(
            "- **critical, security:** A key leaks. In the work of A key leaks., task A key leaks., found by security, \
             2 times. [{id}](/#/findings/{id})"
        ),
        format!(
            "- **critical, security:** It is off its task. In the work of It is off its task., task It is off its \
             task., found by security, 2 times. Not verified: no quoted evidence was found in the text. \
             [{id}](/#/findings/{id})"
        ),
        String::new(),
        "## Not judged by a model, and why".to_owned(),
        String::new(),
        "- Events that security skipped: 5 below the cost floor (cost\\_below\\_floor).".to_owned(),
        "- 2 reviews made by the built-in checks alone, which found nothing (CHECKED).".to_owned(),
        "- 1 review given up.".to_owned(),
        String::new(),
        "## Figures".to_owned(),
    ];
    let lines: Vec<&str> = made.lines().collect();
    assert_eq!(lines[4..4 + expected.len()], expected, "{made}");
    assert!(made.contains("They found 2 critical (1 not verified)"), "{made}");
}

#[test]
fn the_page_of_the_first_day_says_so_and_has_no_trend() {
    let day = date(2026, 2, 28);
    let on = |first_day| page(&compose(&BriefingFacts { first_day, complete: false, ..facts(Period::day(day)) }));
    let first = on(day);
    assert!(
        first.contains("began on 2026-02-28: there are no figures before that day.") && !first.contains("Trend"),
        "{first}"
    );
    let second = on(date(2026, 2, 27));
    assert!(!second.contains("began on") && second.contains("## Trend"), "{second}");
}

fn hostile(text: &str) -> BriefingFacts {
    let day = date(2026, 2, 28);
    BriefingFacts {
        gravest: vec![gravest(text)],
        shadows: vec![shadow("security", Mode::Review, day, counts(1, 1, 1))],
        agents: vec![AgentCounts { agent: text.into(), counts: counts(1, 1, 1) }],
        all_agents: 3,
        recurring: vec![RecurringFault {
            agent: text.into(),
            fingerprint: "c3520b7f84e14a10".into(),
            rule: text.into(),
            category: "security".into(),
            severity: Severity::Critical,
            description: text.into(),
            times: 2,
            before: 1,
        }],
        breakers: vec![TroubledAgent {
            agent: text.into(),
            recommendation: "open".into(),
            since: "2026-02-27T09:30:00Z".parse().ok(),
            acknowledged: false,
        }],
        ..facts(Period::day(day))
    }
}

#[test]
fn hostile_agent_text_is_escaped_on_the_page() {
    let text = "--><script>alert(1)</script> | x |\n# head\n\u{1b}[31m \u{202e}evil [a](http://b) ![i](j) **b** `c`";
    insta::assert_snapshot!(page(&compose(&hostile(text))));
}

proptest! {
    #[test]
    fn arbitrary_text_keeps_the_structure_of_the_page(text in any::<String>()) {
        let plain = page(&compose(&hostile("x")));
        let made = page(&compose(&hostile(&text)));
        prop_assert_eq!(plain.lines().count(), made.lines().count());
        let cells = |page: &str| page.lines().map(|line| line.replace("\\|", "").matches('|').count()).collect::<Vec<_>>();
        // A backslash of the text is escaped itself, so the remaining ones escape the next character.
        prop_assert_eq!(cells(&plain), cells(&made.replace("\\\\", "")));
        let acts = made.contains(['<', '>', '\u{1b}', '\u{202e}']);
        prop_assert!(!acts, "{}", made);
    }

    #[test]
    fn briefing_survives_a_json_round_trip(text in any::<String>()) {
        let made = compose(&hostile(&text));
        let filed = serde_json::to_string(&made).unwrap();
        prop_assert_eq!(serde_json::from_str::<super::Briefing>(&filed).unwrap(), made);
    }
}
