//! Renders a briefing as a page of markdown. Text by agents or models has no effect as markup.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;

use super::{AgentLine, Briefing, BriefingLine, Kind, ShadowLine, Trend};
use umbra_domain::{Severity, SkipReason, plain};
use umbra_store::gravest::GravestFinding;

/// Renders the page: the most severe findings in words, unjudged events with the reasons, then figures.
pub fn page(briefing: &Briefing) -> String {
    let (title, day, before) = match briefing.kind {
        Kind::Day => (format!("# Briefing of {}", briefing.period), "day", "the seven days before"),
        Kind::Week => {
            let days = format!("{} to {}", briefing.first, briefing.last);
            (format!("# Report of {} ({days})", briefing.period), "week", "the four weeks before")
        }
    };
    let made = briefing.made_at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M UTC");
    let so_far = if briefing.complete { "" } else { " This period is not over yet: these are the figures so far." };
    let first_day = briefing.first_day.filter(|first_day| *first_day >= briefing.first);
    let began =
        first_day.map(|day| format!(" This installation began on {day}: there are no figures before that day."));
    let mut lines = vec![
        title,
        String::new(),
        format!("Made {made}. Dates are local days of each shadow.{so_far}{}", began.unwrap_or_default()),
        String::new(),
        "## Gravest findings".into(),
        String::new(),
    ];
    lines.extend(gravest(&briefing.gravest));
    lines.extend([String::new(), "## Not judged by a model, and why".into(), String::new()]);
    lines.extend(not_judged(briefing));
    let totals = &briefing.totals;
    lines.extend([String::new(), "## Figures".into(), String::new()]);
    lines.push(format!(
        "{} came to an assessment: {}. They found {}, and cost {}.",
        counted(totals.reviews, "review"),
        assessments(totals),
        findings(totals),
        usd(totals.cost_usd)
    ));
    if first_day.is_none() {
        lines.extend([String::new(), format!("## Trend over {before}"), String::new()]);
        lines.extend(table(
            &[day, "reviews", "flagged", "findings", "cost"],
            briefing.before.iter().map(|past| {
                let counts = [past.reviews, past.flagged, past.findings].map(|count| count.to_string());
                [vec![past.first.to_string()], counts.to_vec(), vec![usd(past.cost_usd)]].concat()
            }),
        ));
    }
    lines.extend([String::new(), "## Shadows".into(), String::new()]);
    lines.extend(shadows(&briefing.shadows));
    lines.extend([String::new(), "## Agents".into(), String::new()]);
    lines.extend(agents(briefing));
    lines.extend([String::new(), "## Recurring faults".into(), String::new()]);
    lines.extend(recurring(briefing));
    lines.extend([String::new(), "## Breakers".into(), String::new()]);
    lines.extend(breakers(briefing));
    let feedback = briefing.feedback;
    lines.extend([
        String::new(),
        "## Feedback".into(),
        String::new(),
        format!(
            "{} confirmed, {} false positive, {} resolved, {} without feedback.",
            feedback.confirmed, feedback.false_positive, feedback.resolved, feedback.open
        ),
    ]);
    if !briefing.passive.is_empty() {
        let about = "Passive shadows only observe; the figures above do not include them.";
        lines.extend([String::new(), "## Passive shadows".into(), String::new(), about.into(), String::new()]);
        lines.extend(shadows(&briefing.passive));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn gravest(findings: &[GravestFinding]) -> Vec<String> {
    let line = |finding: &GravestFinding| {
        let task = finding.task_id.as_deref().map(|task| format!(", task {}", plain(task)));
        let often = if finding.times > 1 { format!(", {}", times(finding.times)) } else { String::new() };
        let doubt = if finding.is_doubtful() { " Not verified: no quoted evidence was found in the text." } else { "" };
        format!(
            "- **{}, {}:** {} In the work of {}{}, found by {}{often}.{doubt} [{}](/#/findings/{})",
            finding.severity.as_str(),
            plain(&finding.category),
            plain(&finding.description),
            plain(&finding.agent),
            task.unwrap_or_default(),
            plain(&finding.shadow),
            finding.id,
            finding.id
        )
    };
    if findings.is_empty() { vec!["None.".into()] } else { findings.iter().map(line).collect() }
}

/// Returns lines for events without a review, and reviews without a model's verdict.
fn not_judged(briefing: &Briefing) -> Vec<String> {
    let mut lines = Vec::new();
    for shadow in briefing.shadows.iter().filter(|shadow| !shadow.skips.is_empty()) {
        let skips = shadow.skips.iter().map(|(word, n)| match SkipReason::parse(word) {
            Some(reason) => format!("{n} {} ({})", reason.in_words(), plain(word)),
            None => format!("{n} {}", plain(word)),
        });
        lines.push(format!(
            "- Events that {} skipped: {}.",
            plain(&shadow.shadow),
            skips.collect::<Vec<_>>().join(", ")
        ));
    }
    let BriefingLine { assessments, failed, open, .. } = &briefing.totals;
    for (n, what) in [
        (assessments.checked, "made by the built-in checks alone, which found nothing (CHECKED)"),
        (assessments.inconclusive, "without a verdict by the model (INCONCLUSIVE)"),
        (*failed, "given up"),
        (*open, "not finished yet"),
    ] {
        if n > 0 {
            lines.push(format!("- {} {what}.", counted(n, "review")));
        }
    }
    if lines.is_empty() { vec!["No events that a shadow watches.".into()] } else { lines }
}

fn breakers(briefing: &Briefing) -> Vec<String> {
    if briefing.breakers.is_empty() {
        return vec!["All closed.".into()];
    }
    table(
        &["agent", "recommendation", "since", "acknowledged"],
        briefing.breakers.iter().map(|one| {
            let since = one.since.map(|at| at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M UTC").to_string());
            let known = if one.acknowledged { "yes" } else { "no" };
            vec![plain(&one.agent), plain(&one.recommendation), since.unwrap_or_else(|| "-".into()), known.into()]
        }),
    )
}

fn shadows(shadows: &[ShadowLine]) -> Vec<String> {
    if shadows.is_empty() {
        return vec!["None.".into()];
    }
    table(
        &[
            "shadow",
            "mode",
            "reviews",
            "flagged",
            "findings",
            "found something",
            "cost",
            "skipped",
            "before, on average",
        ],
        shadows.iter().map(|shadow| {
            let line = &shadow.line;
            vec![
                plain(&shadow.shadow),
                shadow.mode.as_str().into(),
                line.reviews.to_string(),
                line.assessments.flag.to_string(),
                findings(line),
                percent(line.finding_rate),
                usd(line.cost_usd),
                skips(&shadow.skips),
                trend(shadow.trend),
            ]
        }),
    )
}

fn agents(briefing: &Briefing) -> Vec<String> {
    if briefing.agents.is_empty() {
        return vec!["No agent was reviewed.".into()];
    }
    let row = |agent: &AgentLine| {
        let line = &agent.line;
        vec![
            plain(&agent.agent),
            line.reviews.to_string(),
            line.assessments.flag.to_string(),
            findings(line),
            percent(line.finding_rate),
            usd(line.cost_usd),
            trend(agent.trend),
        ]
    };
    let head = ["agent", "reviews", "flagged", "findings", "found something", "cost", "before, on average"];
    let mut lines = table(&head, briefing.agents.iter().map(row));
    if briefing.more_agents > 0 {
        lines.extend([String::new(), format!("{} more, with fewer findings.", briefing.more_agents)]);
    }
    lines
}

fn recurring(briefing: &Briefing) -> Vec<String> {
    if briefing.recurring.is_empty() {
        return vec!["None.".into()];
    }
    let lines = briefing.recurring.iter().map(|fault| {
        let before = if fault.before > 0 { format!(", {} before", times(fault.before)) } else { String::new() };
        format!(
            "- **{}, {}:** {} In the work of {}, {}{before} (rule {}, fingerprint {}).",
            fault.severity.as_str(),
            plain(&fault.category),
            plain(&fault.description),
            plain(&fault.agent),
            times(fault.times),
            plain(&fault.rule),
            plain(&fault.fingerprint)
        )
    });
    lines.collect()
}

fn times(count: i64) -> String {
    if count == 1 { "once".into() } else { format!("{count} times") }
}

fn counted(count: i64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn assessments(line: &BriefingLine) -> String {
    let a = line.assessments;
    format!(
        "{} APPROVE, {} CHECKED, {} INCONCLUSIVE, {} SUGGEST, {} FLAG",
        a.approve, a.checked, a.inconclusive, a.suggest, a.flag
    )
}

fn findings(line: &BriefingLine) -> String {
    let all = [
        (line.findings.critical, Severity::Critical),
        (line.findings.warning, Severity::Warning),
        (line.findings.info, Severity::Info),
    ];
    let some: Vec<String> = all
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, severity)| format!("{count} {}", severity.as_str()))
        .collect();
    let doubt = match line.findings.unverified {
        0 => String::new(),
        n => format!(" ({n} not verified)"),
    };
    if some.is_empty() { "nothing".into() } else { some.join(", ") + &doubt }
}

fn skips(skips: &BTreeMap<String, i64>) -> String {
    let all: Vec<String> = skips.iter().map(|(reason, count)| format!("{} {count}", plain(reason))).collect();
    if all.is_empty() { "-".into() } else { all.join(", ") }
}

fn trend(trend: Option<Trend>) -> String {
    trend.map_or_else(
        || "-".into(),
        |trend| format!("{:.1} reviews, {:.1} findings, {}", trend.reviews, trend.findings, usd(trend.cost_usd)),
    )
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{:.0} %", share * 100.0))
}

fn usd(usd: f64) -> String {
    format!("${usd:.4}")
}

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|word| (*word).to_owned()).collect();
    let rule = vec!["---".to_owned(); head.len()];
    [line(&head), line(&rule)].into_iter().chain(rows.map(|row| line(&row))).collect()
}
