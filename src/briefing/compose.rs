//! Facts in, a briefing out.

use std::collections::{BTreeMap, HashMap};

use jiff::{Timestamp, civil::Date};

use super::{AgentLine, Assessments, Briefing, Findings, Line, Past, Period, ShadowLine, Trend};
use umbra_domain::{Mode, NanoUsd, SkipReason};
use umbra_store::{
    briefings::{AgentCounts, Counts, FeedbackCounts, Recurring, ShadowCounts, Troubled},
    gravest::Gravest,
};

/// What a briefing is made of.
#[derive(Debug, Clone)]
pub struct Facts {
    /// What it is about.
    pub period: Period,
    /// Whether that is over.
    pub complete: bool,
    /// The database's time.
    pub made_at: Timestamp,
    /// First local day of the installation.
    pub first_day: Date,
    /// The gravest findings of the period, the gravest first.
    pub gravest: Vec<Gravest>,
    /// The shadows in force, in the order of their file.
    pub in_force: Vec<(String, Mode)>,
    /// Reviews of the period and of those before it, by shadow, mode and day.
    pub shadows: Vec<ShadowCounts>,
    /// Skips of the period.
    pub skips: Vec<(String, SkipReason, i64)>,
    /// The agents of the period that are to be listed.
    pub agents: Vec<AgentCounts>,
    /// How many agents there are.
    pub all_agents: i64,
    /// The same agents, and others, in the periods before.
    pub agents_before: Vec<AgentCounts>,
    /// Faults that were found again.
    pub recurring: Vec<Recurring>,
    /// Agents whose breakers are not closed.
    pub breakers: Vec<Troubled>,
    /// What people made of the findings.
    pub feedback: FeedbackCounts,
}

/// A shadow, and whether it is told among the passive ones: one that was promoted is in both lists.
type Key<'a> = (&'a str, bool);

/// The sums of a period and of those before it.
struct Sums<'a> {
    totals: Counts,
    /// Of the period, by shadow, with the mode of its last day.
    shadows: BTreeMap<Key<'a>, (Mode, Counts)>,
    /// Of all periods before it together.
    earlier: HashMap<Key<'a>, Counts>,
    /// Of each period before it, the oldest first.
    before: Vec<(i64, Counts)>,
}

impl<'a> Sums<'a> {
    fn new(period: Period, rows: &'a [ShadowCounts]) -> Self {
        let before = (1..=period.kind.periods_before()).rev().map(|n| (n, Counts::default())).collect();
        let mut sums = Self { totals: Counts::default(), shadows: BTreeMap::new(), earlier: HashMap::new(), before };
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
            let (last_mode, sum) = sums.shadows.entry(key).or_insert((*mode, Counts::default()));
            *last_mode = *mode;
            *sum += *counts;
            if !is_passive {
                sums.totals += *counts;
            }
        }
        sums
    }
}

/// The briefing of these facts.
pub fn compose(facts: &Facts) -> Briefing {
    let period = facts.period;
    let periods = period.kind.periods_before();
    let sums = Sums::new(period, &facts.shadows);
    let agents_before: HashMap<&str, Counts> =
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

/// The passive shadows and the others: those in force in their order, then those that only reviewed, or only skipped.
fn shadow_lines(facts: &Facts, sums: &Sums<'_>) -> (Vec<ShadowLine>, Vec<ShadowLine>) {
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
            // It is gone, and so is its mode.
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
            // Skips are counted by shadow: where it changed its mode meanwhile, they stand where it is now.
            skips: skips.remove(key.0).unwrap_or_default(),
            trend: sums.earlier.get(&key).map(|counts| trend(*counts, periods)),
        });
    }
    (passive, others)
}

fn line(counts: Counts) -> Line {
    let Counts { approve, checked, inconclusive, suggest, flag, info, warning, critical, unverified, .. } = counts;
    Line {
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

fn past(period: Period, n: i64, counts: Counts) -> Past {
    Past {
        first: period.before(n),
        reviews: counts.reviews,
        flagged: counts.flag,
        findings: counts.info + counts.warning + counts.critical,
        cost_usd: NanoUsd(counts.nano_usd).usd(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "means of counts")]
fn trend(counts: Counts, periods: i64) -> Trend {
    let mean = |count: i64| rounded(count as f64 / periods as f64);
    Trend {
        reviews: mean(counts.reviews),
        findings: mean(counts.info + counts.warning + counts.critical),
        finding_rate: rate(counts),
        cost_usd: rounded(NanoUsd(counts.nano_usd).usd() / periods as f64),
    }
}

/// The share of reviews that found something.
#[expect(clippy::cast_precision_loss, reason = "a share of counts")]
fn rate(counts: Counts) -> Option<f64> {
    (counts.reviews > 0).then(|| rounded(counts.with_findings as f64 / counts.reviews as f64))
}

/// To a ten-thousandth, which is more than anybody reads.
fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}
