//! Findings as a SARIF 2.1.0 log (OASIS), for code scanning pages, editors and gates that read it.
//!
//! A page of findings becomes one run, with a rule for each rule that found something, and a result for each finding.
//! An agent's work has no source files: a result is located at the event's field, as an artifact `umbra:evt_.../output`
//! with byte offsets into the field's stored text, and at agent, task and event as logical locations. Text by models
//! and agents is escaped where SARIF reads markup: placeholders and links.

use std::collections::BTreeMap;

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::Listing;
use umbra_domain::Severity;
use umbra_store::findings::{FindingEvidence, FindingItem};

const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/sarif+json");

/// SARIF log.
pub struct Log(Value);

impl Log {
    /// Returns the log of a page. Notifications tell if more findings exist behind it, and which shadows in force run
    /// only the built-in checks (`unjudged`): a log without results is then no approval.
    pub fn of(page: &Listing<FindingItem>, unjudged: &[&str]) -> Self {
        let mut rules: BTreeMap<&str, &FindingItem> = BTreeMap::new();
        for finding in &page.items {
            let first = rules.entry(&finding.rule).or_insert(finding);
            if first.severity < finding.severity {
                *first = finding;
            }
        }
        let index: BTreeMap<&str, usize> = rules.keys().zip(0..).map(|(id, index)| (*id, index)).collect();
        let results: Vec<Value> =
            page.items.iter().map(|finding| result(finding, index.get(finding.rule.as_str()).copied())).collect();
        Self(json!({
            "$schema": SCHEMA,
            "version": "2.1.0",
            "runs": [{
                "tool": {"driver": {
                    "name": "Umbra",
                    "version": env!("CARGO_PKG_VERSION"),
                    "semanticVersion": env!("CARGO_PKG_VERSION"),
                    "rules": rules.values().map(|finding| rule(finding)).collect::<Vec<_>>(),
                }},
                "columnKind": "unicodeCodePoints",
                "invocations": [invocation(page, unjudged)],
                "results": results,
                "properties": {
                    "truncated": page.next_cursor.is_some(),
                    "next_cursor": page.next_cursor,
                    "resume_cursor": page.resume_cursor,
                },
            }],
        }))
    }
}

impl IntoResponse for Log {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, MEDIA_TYPE)], self.0.to_string()).into_response()
    }
}

/// Returns the invocation. A reader that ignores `properties` still gets a notification that more findings exist.
fn invocation(page: &Listing<FindingItem>, unjudged: &[&str]) -> Value {
    let mut notes: Vec<Value> = page
        .next_cursor
        .iter()
        .map(|cursor| {
            let text = format!(
                "This log holds {} findings, and there are more: the next page is at the same address with \
                 cursor={cursor}.",
                page.items.len()
            );
            json!({"level": "warning", "message": {"text": text}})
        })
        .collect();
    if !unjudged.is_empty() {
        let text = plain(&format!(
            "Shadows without a model: {}. Only the built-in checks review for these shadows; no model judges \
             relevance, facts and completeness, so a log without results is no approval.",
            unjudged.join(", ")
        ));
        notes.push(json!({"level": "note", "message": {"text": text}}));
    }
    json!({"executionSuccessful": true, "toolExecutionNotifications": notes})
}

/// Returns a rule, described by its most severe finding of the page.
fn rule(finding: &FindingItem) -> Value {
    json!({
        "id": finding.rule,
        "shortDescription": {"text": plain(&format!("{}: {}", finding.category, finding.rule))},
        "defaultConfiguration": {"level": level(finding.severity)},
        "properties": {"category": finding.category, "tags": [finding.category]},
    })
}

fn result(finding: &FindingItem, rule_index: Option<usize>) -> Value {
    let mut result = json!({
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "kind": "fail",
        "level": level(finding.severity),
        "message": {"text": plain(&finding.description)},
        "locations": [location(finding)],
        "partialFingerprints": {"umbraFingerprint/v1": finding.fingerprint},
        "properties": {
            // Not as `guid`: the schema knows no UUID of version 7.
            "id": finding.id,
            "shadow": finding.shadow,
            "watched_agent": finding.watched_agent,
            "task_id": finding.task_id,
            "event_id": finding.event_id,
            "review_id": finding.review_id,
            "trigger": finding.trigger,
            "mode": finding.mode,
            "severity": finding.severity,
            "category": finding.category,
            "recommendation": finding.recommendation,
            "verified": finding.verified,
            "about": finding.about,
            "source": finding.source,
            "status": finding.status,
            "occurrences": finding.occurrences,
            "timestamp": finding.timestamp,
        },
    });
    // A person marked it a false positive: scanners treat it as suppressed.
    if let (true, Some(object)) = (finding.status == "false_positive", result.as_object_mut()) {
        let mut suppression = json!({"kind": "external", "status": "accepted"});
        if let (Some(note), Some(object)) = (&finding.note, suppression.as_object_mut()) {
            object.insert("justification".into(), json!(note));
        }
        object.insert("suppressions".into(), json!([suppression]));
    }
    result
}

fn location(finding: &FindingItem) -> Value {
    let field = finding.evidence.as_ref().map(|evidence| evidence.field.as_str());
    let mut place = json!({"artifactLocation": {"uri": uri(finding, field)}});
    if let (Some(evidence), Some(object)) = (&finding.evidence, place.as_object_mut()) {
        object.insert("region".into(), region(evidence));
    }
    let mut logical = vec![json!({"name": finding.watched_agent, "kind": "module"})];
    if let Some(task) = &finding.task_id {
        let full = format!("{}/{task}", finding.watched_agent);
        logical.push(json!({"name": task, "kind": "namespace", "fullyQualifiedName": full}));
    }
    let name = finding.event_id.to_string();
    let full = field.map_or(name.clone(), |field| format!("{name}/{field}"));
    logical.push(json!({"name": name, "kind": "member", "fullyQualifiedName": full}));
    json!({"physicalLocation": place, "logicalLocations": logical})
}

fn region(evidence: &FindingEvidence) -> Value {
    json!({
        "byteOffset": evidence.start,
        "byteLength": (evidence.end - evidence.start).max(0),
        "snippet": {"text": evidence.quote},
    })
}

/// Returns the event's field as a URI; names of tools' arguments may hold any character.
fn uri(finding: &FindingItem, field: Option<&str>) -> String {
    const ESCAPED: AsciiSet = NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_');
    let field = field.map(|field| format!("/{}", utf8_percent_encode(field, &ESCAPED)));
    format!("umbra:{}{}", finding.event_id, field.unwrap_or_default())
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "note",
        Severity::Warning => "warning",
        Severity::Critical => "error",
    }
}

/// Escapes text for a SARIF message, where braces are placeholders (3.11.5) and `[text](target)` is a link (3.11.6).
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '{' | '}' => out.extend([c, c]),
            // Adds a backslash unless the bracket is escaped already: a second one would undo the escape.
            '(' if out.strip_suffix(']').is_some_and(|text| slashes(text).is_multiple_of(2)) => {
                out.pop();
                out.push_str("\\](");
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Number of backslashes at the end of a text.
fn slashes(text: &str) -> usize {
    text.len() - text.trim_end_matches('\\').len()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn text_is_escaped_against_sarif_links_and_placeholders() {
        let cases = [
            ("a plain [text] (here)", "a plain [text] (here)"),
            ("{0} and {name}", "{{0}} and {{name}}"),
            ("[text](https://evil.example)", "[text\\](https://evil.example)"),
            ("[text\\](https://evil.example)", "[text\\](https://evil.example)"),
            ("[text\\\\](https://evil.example)", "[text\\\\\\](https://evil.example)"),
            ("[a](b)[c](d)", "[a\\](b)[c\\](d)"),
            ("](", "\\]("),
            ("bell\u{7} and\nbreak", "bell  and break"),
        ];
        for (text, expected) in cases {
            assert_eq!(plain(text), expected, "{text:?}");
        }
    }
}
