//! Renders a backtest's forecast and result as text.

use crate::cli::table;
use umbra_domain::{AssessmentChange, Forecast, Shadow, backtest::Basis};
use umbra_store::backtests::Backtest;

/// Renders the forecast.
pub(super) fn render_forecast(shadow: &Shadow, forecast: &Forecast) -> String {
    let Forecast { events, watched, reviews, calls, max_calls, .. } = forecast;
    let mut lines = vec![format!("{}: {events} events, {watched} watched, {reviews} to be reviewed", shadow.name)];
    if !forecast.skips.is_empty() {
        let skips: Vec<String> = forecast.skips.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
        lines.push(format!("skipped: {}", skips.join(", ")));
    }
    if *calls > 0 {
        let usd = |usd: Option<f64>| usd.map_or("unknown".to_owned(), |usd| format!("${usd:.4}"));
        let basis = match forecast.basis {
            Basis::PastReviews => "from the cost of this shadow's past reviews",
            _ => "from the lengths of the prompts",
        };
        lines.push(format!(
            "{calls} calls to {} (at worst {max_calls}): {} expected, {basis}; {} at worst",
            shadow.model,
            usd(forecast.expected_usd),
            usd(forecast.worst_usd)
        ));
        lines.push(format!("tokens: {} expected, {} at worst", forecast.expected_tokens, forecast.worst_tokens));
    }
    lines.extend(forecast.notes.iter().cloned());
    lines.join("\n")
}

/// Renders the result.
pub(super) fn result(backtest: &Backtest) -> String {
    let mut parts = Vec::new();
    if let Some(result) = &backtest.result {
        let counts = |counts: &mut dyn Iterator<Item = (&str, i64)>| {
            let words: Vec<String> = counts.map(|(word, n)| format!("{word} {n}")).collect();
            if words.is_empty() { "-".to_owned() } else { words.join(", ") }
        };
        let mut rows = table::new(&["", "under this version"]);
        rows.add_row(["events", &counts(&mut result.outcomes.iter().map(|(word, n)| (*word, *n)))]);
        rows.add_row(["skipped", &counts(&mut result.skips.iter().map(|(word, n)| (*word, *n)))]);
        rows.add_row(["assessments", &counts(&mut result.assessments.iter().map(|(word, n)| (word.as_str(), *n)))]);
        rows.add_row(["findings", &counts(&mut result.severities.iter().map(|(word, n)| (*word, *n)))]);
        rows.add_row(["about", &counts(&mut result.categories.iter().map(|(word, n)| (*word, *n)))]);
        let cost =
            format!("${:.4}, {} calls, {} tokens", backtest.spend.usd, backtest.spend.calls, backtest.spend.tokens);
        rows.add_row(["cost", &cost]);
        parts.push(rows.to_string());
        let mut agents = table::new(&["agent", "reviewed", "flagged", "flagged before"]);
        for agent in &result.agents {
            let [reviewed, flagged, before] =
                [agent.reviewed, agent.flagged, agent.flagged_before].map(|n| n.to_string());
            agents.add_row([&table::plain(&agent.agent), &reviewed, &flagged, &before]);
        }
        parts.push(agents.to_string());
    }
    let mut changes = table::new(&["compared with live", "events", "first events"]);
    for change in AssessmentChange::ALL {
        let Some(difference) = backtest.diff.as_ref().and_then(|diff| diff.get(change.as_str())) else { continue };
        let shown = if change == AssessmentChange::Same { 0 } else { 3 };
        let ids: Vec<String> = difference.event_ids.iter().take(shown).map(ToString::to_string).collect();
        changes.add_row([&change.as_str().replace('_', " "), &difference.count.to_string(), &ids.join(" ")]);
    }
    parts.push(changes.to_string());
    parts.push(format!("all events of a change: umbra backtest --resume {} --events newly_flagged", backtest.id));
    parts.join("\n\n")
}
