//! Renders a review as a page of markdown, for people and for files.

use std::{cmp::Reverse, sync::LazyLock};

use jiff::tz::TimeZone;
use minijinja::{Environment, UndefinedBehavior, context, value::Serde};
use serde_json::{Value, json};

use umbra_domain::{plain, quoted};
use umbra_store::{findings::FindingItem, reviews::Review};

/// Most observations on a page; the review itself has all.
const MAX_OBSERVATIONS: usize = 3;
/// Start of the comment with the page's metadata, as YAML.
pub(super) const METADATA: &str = "<!-- umbra-review\n";
/// End of that comment.
pub(super) const METADATA_END: &str = "\n-->";

#[expect(clippy::expect_used, reason = "the template is a constant, and every test renders it")]
static PAGE: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut page = Environment::new();
    page.set_undefined_behavior(UndefinedBehavior::Strict);
    page.set_formatter(|out, _, value| match value.as_str() {
        Some(text) if !value.is_safe() => Ok(out.write_str(&plain(text))?),
        _ => Ok(write!(out, "{value}")?),
    });
    page.add_filter("usd", |usd: f64| format!("${usd:.6}"));
    page.add_template("page", include_str!("page.j2")).expect("page.j2 is a template");
    page
});

/// Renders the page: metadata in a comment, then date, trigger, mode, assessment, the one to three most severe
/// observations, and the recommendation. Text by agents or models has no effect as markup.
pub fn page(review: &Review) -> String {
    let date = review.finished_at.map(|at| at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
    let mut findings: Vec<&FindingItem> = review.findings.iter().flatten().collect();
    findings.sort_by_key(|finding| Reverse(finding.severity));
    let left = findings.len().saturating_sub(MAX_OBSERVATIONS);
    findings.truncate(MAX_OBSERVATIONS);
    let metadata = format!("{METADATA}{}{METADATA_END}", metadata(review));
    let date = date.as_deref().unwrap_or("-");
    let context = context! { review => Serde(review), findings => Serde(findings), left, metadata, date };
    let page = PAGE.get_template("page").and_then(|page| page.render(context));
    page.unwrap_or_else(|error| format!("The page cannot be made: {error}")) + "\n"
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
