//! Renders a review as a page of markdown, for people and for files.

use jiff::tz::TimeZone;
use serde_json::{Value, json};

use umbra_domain::{Assessment, Mode, Reviewer, Trigger, plain, quoted};
use umbra_store::{findings::FindingItem, reviews::Review};

/// Most observations on a page; the review itself has all.
const MAX_OBSERVATIONS: usize = 3;
/// Start of the comment with the page's metadata, as YAML.
pub(super) const METADATA: &str = "<!-- umbra-review\n";
/// End of that comment.
pub(super) const METADATA_END: &str = "\n-->";

/// Renders the page: metadata in a comment, then date, trigger, mode, assessment, the one to three most severe
/// observations, and the recommendation. Text by agents or models has no effect as markup.
pub fn page(review: &Review) -> String {
    let date = review
        .finished_at
        .map_or_else(|| "-".into(), |at| at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
    let reviewer = match (review.reviewer, &review.model) {
        (Some(Reviewer::Model), Some(model)) => format!("{} (${:.6})", plain(model), review.cost_usd),
        (Some(_), _) => "built-in checks".into(),
        (None, _) => "-".into(),
    };
    let mut lines = vec![
        format!("{METADATA}{}{METADATA_END}", metadata(review)),
        format!("# {} on {}", plain(&review.shadow), plain(&review.agent)),
        String::new(),
        format!("- Date: {date}"),
        format!("- Trigger: {}", review.trigger.map_or("-", Trigger::as_str)),
        format!("- Mode: {}", review.mode.map_or("-", Mode::as_str)),
        format!("- Assessment: {}", assessment(review)),
        format!("- Reviewer: {reviewer}"),
        format!("- Review: {}", review.id),
    ];
    if let Some(task) = &review.task_id {
        lines.push(format!("- Task: {}", plain(task)));
    }
    lines.extend([String::new(), "## Observations".into(), String::new()]);
    lines.extend(observations(review));
    let recommendation = review.recommendation.as_deref().filter(|text| !text.is_empty());
    let recommendation = recommendation.map_or_else(|| "Nothing to do.".into(), plain);
    lines.extend([String::new(), "## Recommendation".into(), String::new(), recommendation]);
    if !review.notes.is_empty() {
        lines.extend([String::new(), "## Notes".into(), String::new()]);
        lines.extend(review.notes.iter().map(|note| format!("- {}", plain(note))));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn assessment(review: &Review) -> String {
    let word = review.assessment.map_or("none", Assessment::as_str);
    review.score.map_or_else(|| word.into(), |score| format!("{word} (score {score})"))
}

fn observations(review: &Review) -> Vec<String> {
    let mut findings: Vec<&FindingItem> = review.findings.iter().flatten().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let mut lines: Vec<String> = findings
        .iter()
        .take(MAX_OBSERVATIONS)
        .map(|finding| {
            let place = finding.evidence.as_ref().map_or_else(String::new, |evidence| {
                format!(" ({} {}..{})", plain(&evidence.field), evidence.start, evidence.end)
            });
            let doubt = if finding.verified { "" } else { " Not verified." };
            let (severity, category) = (finding.severity.as_str(), plain(&finding.category));
            format!("- **{severity}, {category}:** {}{place}{doubt}", plain(&finding.description))
        })
        .collect();
    if lines.is_empty() {
        lines.push("- Nothing was found.".into());
    }
    if let Some(left @ 1..) = findings.len().checked_sub(MAX_OBSERVATIONS) {
        lines.extend([String::new(), format!("{left} more: GET /v1/reviews/{}", review.id)]);
    }
    lines
}

/// Renders the metadata of the page as YAML, a field a line.
fn metadata(review: &Review) -> String {
    let fields = [
        ("review_id", json!(review.id)),
        ("shadow", json!(review.shadow)),
        ("shadow_version", json!(review.shadow_version)),
        ("watched_agent", json!(review.agent)),
        ("task_id", json!(review.task_id)),
        ("trigger", json!(review.trigger)),
        ("mode", json!(review.mode)),
        ("assessment", json!(review.assessment)),
        ("score", json!(review.score)),
        ("reviewer", json!(review.reviewer)),
        ("model", json!(review.model)),
        ("cost_usd", json!(review.cost_usd)),
        ("event_ids", json!(review.events)),
        ("created_at", json!(review.created_at)),
        ("finished_at", json!(review.finished_at)),
    ];
    fields.map(|(key, value)| format!("{key}: {}", yaml(&value))).join("\n")
}

fn yaml(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("[{}]", items.iter().map(yaml).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}
