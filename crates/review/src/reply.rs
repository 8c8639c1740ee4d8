//! Reads a model's reply: leniently in form, strictly in meaning.
//! In: any text. Out: a verdict of the wanted shape with bounded, cleaned strings, or the reason why there is none.
//! Never: a guess at the meaning of a malformed reply, or a word of the reply in an error.

use std::{cmp::Reverse, sync::LazyLock};

use serde_json::{Value, error::Category as JsonFault, json};

use super::{
    canary::CANARY,
    members::{Members, UniqueMembers},
};
use umbra_domain::{Assessment, FindingCategory, ReviewScope, Severity};

/// Most findings kept of one reply, worst first.
const MAX_FINDINGS: usize = 20;
/// Most characters kept of a description.
const DESCRIPTION_CHARS: usize = 1_000;
/// Most characters kept of a recommendation.
const RECOMMENDATION_CHARS: usize = 2_000;
/// Longest reply that is read, in bytes: twenty full findings take a quarter of it.
const MAX_REPLY_BYTES: usize = 256 * 1024;
/// Checklist item for the operator's own criteria.
pub const CRITERIA: &str = "criteria";
/// Checklist items, as the system prompt names them. No finding is filed under the last.
pub(super) const CHECKLIST: [&str; 7] =
    ["addresses_task", "consistent", "safe", "complete", "baseline", CRITERIA, CANARY];
/// Tags around the thoughts of models: `DeepSeek`, Qwen and most others; Cohere and some templates.
const THOUGHTS: [&str; 3] = ["think", "thinking", "reasoning"];
/// Replacement for any other word in a finding's `checklist_item`.
const OTHER_ITEM: &str = "other";

static SCHEMAS: LazyLock<[Value; 3]> = LazyLock::new(|| ReviewScope::ALL.map(build_schema));
/// Length of the longest schema's compact text, in bytes.
pub(super) static SCHEMA_BYTES: LazyLock<usize> =
    LazyLock::new(|| SCHEMAS.iter().map(|schema| schema.to_string().len()).max().unwrap_or_default());

/// A model's verdict as it came, with its strings cleaned.
pub(super) struct ModelVerdict {
    pub nonce: String,
    pub assessment: Assessment,
    /// Score, 0 to 100, checked by [`parse`].
    score: f64,
    pub recommendation: String,
    pub findings: Vec<FindingClaim>,
}

/// A finding as the model states it, before its quote is looked up.
pub(super) struct FindingClaim {
    pub severity: Severity,
    pub category: FindingCategory,
    pub description: String,
    pub evidence_quote: String,
    pub checklist_item: String,
    /// Step of a task that the finding is about.
    pub step: Option<u32>,
}

/// Reason why a reply cannot be read, in words of ours; "it" is the reply. `repair_prompt` adds the request to the model.
pub(super) type Unreadable = String;

impl ModelVerdict {
    /// Returns the score as a whole number from 0 to 100.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`parse` admits 0 to 100 only")]
    pub(super) fn score(&self) -> u8 {
        self.score.round() as u8
    }

    /// Reads one verdict. Nonce, assessment and score have no default, nor do severity, category and description of a
    /// finding.
    fn read(verdict: &Members) -> Result<Self, Unreadable> {
        let mut read = Self {
            nonce: verdict.text("nonce")?,
            assessment: verdict.word("assessment", &Assessment::OF_MODELS, Assessment::as_str)?,
            score: verdict.number("score", 0.0..=100.0)?,
            recommendation: verdict.text_or_empty("recommendation")?,
            findings: verdict.objects("findings")?.iter().map(FindingClaim::read).collect::<Result<_, _>>()?,
        };
        read.tidy();
        Ok(read)
    }

    /// Bounds and cleans the strings.
    fn tidy(&mut self) {
        self.recommendation = clean(&self.recommendation, RECOMMENDATION_CHARS);
        // The canary's claim comes first, and takes no other's place.
        self.findings.sort_by_key(|claim| (!claim.is_canary(), Reverse(claim.severity)));
        let canary = usize::from(self.findings.first().is_some_and(FindingClaim::is_canary));
        self.findings.truncate(MAX_FINDINGS + canary);
        for claim in &mut self.findings {
            claim.description = clean(&claim.description, DESCRIPTION_CHARS);
            if !CHECKLIST.contains(&claim.checklist_item.as_str()) {
                OTHER_ITEM.clone_into(&mut claim.checklist_item);
            }
        }
    }
}

impl FindingClaim {
    fn read(finding: &Members) -> Result<Self, Unreadable> {
        Ok(Self {
            severity: finding.word("severity", &Severity::ALL, Severity::as_str)?,
            category: finding.word("category", &FindingCategory::ALL, FindingCategory::as_str)?,
            description: finding.text("description")?,
            evidence_quote: finding.text_or_empty("evidence_quote")?,
            checklist_item: finding.text_or_empty("checklist_item")?,
            step: finding.optional_step("step")?,
        })
    }

    /// True if the claim is filed under the canary.
    pub(super) fn is_canary(&self) -> bool {
        self.checklist_item == CANARY
    }

    /// Returns the checklist item under which the finding is filed.
    pub(super) fn filed_under(self) -> String {
        if self.is_canary() { OTHER_ITEM.to_owned() } else { self.checklist_item }
    }
}

/// Reads the one JSON object of a reply. Code fences and prose may surround it. Another brace may not: it could be a
/// second verdict, and either may come from the author of the reviewed text.
pub(super) fn parse(text: &str) -> Result<ModelVerdict, Unreadable> {
    ModelVerdict::read(&Members::of(&object(text)?))
}

/// Reads the reply to a batch, by the same rules.
pub(super) fn parse_batch(text: &str) -> Result<Vec<ModelVerdict>, Unreadable> {
    Members::of(&object(text)?).required_objects("events")?.iter().map(ModelVerdict::read).collect()
}

/// Returns the reply without the thoughts of a reasoning model before it. Some servers open the thoughts in the prompt,
/// so only their end is in the reply. A reply that begins with its object has none, whatever tags its strings hold.
fn without_thoughts(text: &str) -> &str {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    if text.starts_with(['{', '`']) {
        return text;
    }
    for tag in THOUGHTS {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        match text.split_once(&close) {
            Some((_, said)) => return said,
            // The reply is nothing but thoughts.
            None if text.starts_with(&open) => return "",
            None => {}
        }
    }
    text
}

fn object(text: &str) -> Result<serde_json::Map<String, Value>, Unreadable> {
    if text.len() > MAX_REPLY_BYTES {
        return Err(format!("it is longer than {MAX_REPLY_BYTES} bytes"));
    }
    let text = without_thoughts(text);
    let object = text.find('{').and_then(|at| text.get(at..)).ok_or("it holds no JSON object")?;
    let mut stream = serde_json::Deserializer::from_str(object).into_iter::<UniqueMembers>();
    let found = match stream.next() {
        Some(Ok(UniqueMembers(Value::Object(found)))) => found,
        Some(Err(error)) => {
            let twice = error.classify() == JsonFault::Data;
            let fault = if twice { "it gives a member twice," } else { "its JSON is broken or ends" };
            return Err(format!("{fault} at line {}, column {} of the object", error.line(), error.column()));
        }
        Some(Ok(_)) | None => return Err("it holds no JSON object".to_owned()),
    };
    if object.get(stream.byte_offset()..).is_none_or(|rest| rest.contains(['{', '}'])) {
        return Err("it holds more than one JSON object, or a brace outside the one".to_owned());
    }
    Ok(found)
}

/// Returns the reply's JSON Schema. Lengths and ranges are described in words and checked by [`parse`]: not every
/// provider's strict mode takes them.
pub(super) fn schema(scope: ReviewScope) -> &'static Value {
    let [event, batch, trajectory] = &*SCHEMAS;
    match scope {
        ReviewScope::Event => event,
        ReviewScope::Batch => batch,
        ReviewScope::Trajectory => trajectory,
    }
}

fn build_schema(scope: ReviewScope) -> Value {
    let mut finding = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["severity", "category", "description", "evidence_quote", "checklist_item"],
        "properties": {
            "severity": {"type": "string", "enum": [Severity::Info, Severity::Warning, Severity::Critical]},
            "category": {"type": "string", "enum": FindingCategory::ALL},
            "description": {"type": "string", "description": "one or two sentences"},
            "evidence_quote": {"type": "string", "description": "copied verbatim from one block, or empty"},
            "checklist_item": {"type": "string", "enum": CHECKLIST},
        },
    });
    if scope == ReviewScope::Trajectory
        && let Some(required) = finding.pointer_mut("/required").and_then(Value::as_array_mut)
    {
        required.push("step".into());
        finding["properties"]["step"] = json!({"type": "integer", "description": "the number of the step it is about"});
    }
    let nonce = if scope == ReviewScope::Batch { "the event's own nonce" } else { "the message's nonce" };
    let verdict = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["nonce", "assessment", "score", "recommendation", "findings"],
        "properties": {
            "nonce": {"type": "string", "description": format!("{nonce}, copied exactly")},
            "assessment": {"type": "string", "enum": Assessment::OF_MODELS},
            "score": {"type": "integer", "description": "0 to 100"},
            "recommendation": {"type": "string", "description": "what to do, in one to three sentences"},
            "findings": {"type": "array", "description": "at most 20", "items": finding},
        },
    });
    if scope != ReviewScope::Batch {
        return verdict;
    }
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["events"],
        "properties": {
            "events": {"type": "array", "description": "one for each event, in their order", "items": verdict},
        },
    })
}

/// Bounds a text that a model wrote: one line, without control, hidden or bidirectional characters.
fn clean(text: &str, max_chars: usize) -> String {
    let spaced = text.chars().map(|c| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { c });
    let visible = spaced.filter(|c| !c.is_control() && !is_hidden(*c));
    visible.collect::<String>().trim().chars().take(max_chars).collect()
}

/// True for characters that show nothing, or change the direction of the text behind them.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}
