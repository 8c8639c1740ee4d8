//! Composes a briefing from facts.

use std::collections::{BTreeMap, HashMap};

use jiff::{Timestamp, civil::Date};

use super::{AgentLine, Assessments, Briefing, BriefingLine, BriefingPast, Findings, Period, ShadowLine, Trend};
use umbra_domain::{Mode, NanoUsd, SkipReason};
use umbra_store::{
    briefings::{AgentCounts, FeedbackCounts, RecurringFault, ReviewCounts, ShadowCounts, TroubledAgent},
    gravest::GravestFinding,
};

/// Facts from which a briefing is composed.
#[derive(Debug, Clone)]
pub struct BriefingFacts {
    /// Period of the briefing.
    pub period: Period,
    /// True if the period is over.
    pub complete: bool,
    /// Time of the database.
    pub made_at: Timestamp,
    /// First local day of the installation.
    pub first_day: Date,
    /// Most severe findings of the period, worst first.
    pub gravest: Vec<GravestFinding>,
    /// Shadows in force, in the order of their file.
    pub in_force: Vec<(String, Mode)>,
    /// Counts of reviews in the period and in earlier ones, by shadow, mode and day.
    pub shadows: Vec<ShadowCounts>,
    /// Skips in the period, by shadow and reason.
    pub skips: Vec<(String, SkipReason, i64)>,
    /// Agents to list for the period.
    pub agents: Vec<AgentCounts>,
    /// Number of all agents.
    pub all_agents: i64,
    /// The same agents, and others, in the earlier periods.
    pub agents_before: Vec<AgentCounts>,
    /// Faults that were found again.
    pub recurring: Vec<RecurringFault>,
    /// Agents whose breakers are not closed.
    pub breakers: Vec<TroubledAgent>,
    /// People's ratings of the findings.
    pub feedback: FeedbackCounts,
}

/// Name of a shadow, and true if it counts as passive: a promoted shadow is in both lists.
type Key<'a> = (&'a str, bool);

/// Sums of a period and of the earlier ones.
struct Sums<'a> {
    totals: ReviewCounts,
    /// Sums of the period by shadow, with the mode of its last day.
    shadows: BTreeMap<Key<'a>, (Mode, ReviewCounts)>,
    /// Sums of all earlier periods together.
    earlier: HashMap<Key<'a>, ReviewCounts>,
    /// Sums of each earlier period, oldest first.
    before: Vec<(i64, ReviewCounts)>,
}

impl<'a> Sums<'a> {
    fn new(period: Period, rows: &'a [ShadowCounts]) -> Self {
        let before = (1..=period.kind.periods_before()).rev().map(|n| (n, ReviewCounts::default())).collect();
        let mut sums =
            Self { totals: ReviewCounts::default(), shadows: BTreeMap::new(), earlier: HashMap::new(), before };
        for ShadowCounts { shadow, mode, day, counts } in rows {
            let is_passive = *mode == Mode::Passive;
            let key = (shadow.as_str(), is_passive);
            if *day < period.first {
                *sums.earlier.entry(key).or_default() += *counts;
                let past =
                    sums.before.iter_mut().find(|(n, _)| (period.before(*n)..period.before(n - 1)).contains(day));
                if let (Some((_, past)), false) = (past, is_passive) {
                    *past += *counts;
                }
                continue;
            }
            let (last_mode, sum) = sums.shadows.entry(key).or_insert((*mode, ReviewCounts::default()));
            *last_mode = *mode;
            *sum += *counts;
            if !is_passive {
                sums.totals += *counts;
            }
        }
        sums
    }
}

/// Composes the briefing from these facts.
pub fn compose(facts: &BriefingFacts) -> Briefing {
    let period = facts.period;
    let periods = period.kind.periods_before();
    let sums = Sums::new(period, &facts.shadows);
    let agents_before: HashMap<&str, ReviewCounts> =
        facts.agents_before.iter().map(|row| (row.agent.as_str(), row.counts)).collect();
    let agents = facts.agents.iter().map(|row| AgentLine {
        agent: row.agent.clone(),
        line: line(row.counts),
        trend: agents_before.get(row.agent.as_str()).map(|counts| trend(*counts, periods)),
    });
    let (passive, shadows) = shadow_lines(facts, &sums);
    Briefing {
        kind: period.kind,
        period: period.to_string(),
        first: period.first,
        last: period.last(),
        complete: facts.complete,
        made_at: facts.made_at,
        first_day: Some(facts.first_day),
        gravest: facts.gravest.clone(),
        totals: line(sums.totals),
        before: sums.before.iter().map(|(n, counts)| past(period, *n, *counts)).collect(),
        shadows,
        more_agents: facts.all_agents - i64::try_from(facts.agents.len()).unwrap_or(0),
        agents: agents.collect(),
        recurring: facts.recurring.clone(),
        breakers: facts.breakers.clone(),
        feedback: facts.feedback,
        passive,
    }
}

/// Returns the lines of passive and of other shadows: shadows in force in their order, then others with reviews or
/// skips.
fn shadow_lines(facts: &BriefingFacts, sums: &Sums<'_>) -> (Vec<ShadowLine>, Vec<ShadowLine>) {
    let mut order: Vec<(Key<'_>, Mode)> =
        facts.in_force.iter().map(|(name, mode)| ((name.as_str(), *mode == Mode::Passive), *mode)).collect();
    for (key, (mode, _)) in &sums.shadows {
        if !order.iter().any(|(known, _)| known == key) {
            order.push((*key, *mode));
        }
    }
    let mut skips: HashMap<&str, BTreeMap<String, i64>> = HashMap::new();
    for (shadow, reason, n) in &facts.skips {
        skips.entry(shadow).or_default().insert(reason.as_str().to_owned(), *n);
        if !order.iter().any(|((known, _), _)| known == shadow) {
            // The shadow no longer exists, and its mode is unknown.
            order.push(((shadow, false), Mode::Review));
        }
    }
    let periods = facts.period.kind.periods_before();
    let (mut passive, mut others) = (Vec::new(), Vec::new());
    for (key, mode) in order {
        let counted = sums.shadows.get(&key);
        let list = if key.1 { &mut passive } else { &mut others };
        list.push(ShadowLine {
            shadow: key.0.to_owned(),
            mode: counted.map_or(mode, |(mode, _)| *mode),
            line: line(counted.map(|(_, counts)| *counts).unwrap_or_default()),
            // Skips are counted by shadow: after a change of its mode they appear under the present one.
            skips: skips.remove(key.0).unwrap_or_default(),
            trend: sums.earlier.get(&key).map(|counts| trend(*counts, periods)),
        });
    }
    (passive, others)
}

fn line(counts: ReviewCounts) -> BriefingLine {
    let ReviewCounts { approve, checked, inconclusive, suggest, flag, info, warning, critical, unverified, .. } =
        counts;
    BriefingLine {
        reviews: counts.reviews,
        assessments: Assessments { approve, checked, inconclusive, suggest, flag },
        failed: counts.failed,
        open: counts.open,
        findings: Findings { info, warning, critical, unverified },
        finding_rate: rate(counts),
        cost_usd: NanoUsd(counts.nano_usd).usd(),
        tokens: counts.tokens,
    }
}

fn past(period: Period, n: i64, counts: ReviewCounts) -> BriefingPast {
    BriefingPast {
        first: period.before(n),
        reviews: counts.reviews,
        flagged: counts.flag,
        findings: counts.info + counts.warning + counts.critical,
        cost_usd: NanoUsd(counts.nano_usd).usd(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "means of counts")]
fn trend(counts: ReviewCounts, periods: i64) -> Trend {
    let mean = |count: i64| rounded(count as f64 / periods as f64);
    Trend {
        reviews: mean(counts.reviews),
        findings: mean(counts.info + counts.warning + counts.critical),
        finding_rate: rate(counts),
        cost_usd: rounded(NanoUsd(counts.nano_usd).usd() / periods as f64),
    }
}

/// Share of reviews that found something.
#[expect(clippy::cast_precision_loss, reason = "a share of counts")]
fn rate(counts: ReviewCounts) -> Option<f64> {
    (counts.reviews > 0).then(|| rounded(counts.with_findings as f64 / counts.reviews as f64))
}

/// Rounds to a ten-thousandth.
fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}
