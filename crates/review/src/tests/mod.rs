//! Tests of the judge protocol. This module holds the shared parts: a plain event, hits, a shadow, a scripted reply.

mod baselines;
mod canaries;
mod datamarks;
mod excerpts;
mod fingerprints;
mod groups;
mod judgements;
mod memories;
mod prompts;
mod quotes;
mod rejections;
mod replies;
mod templates;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{EventInput, JudgedFinding, Judgement, ModelReply, Prompt, canary::Canary, of_reply, prompt};
use umbra_domain::{CheckName, Event, EventId, FieldName, Hit, Severity, Shadow, ToolCall, Trigger};

pub(super) const NONCE: &str = "00112233445566778899aabbccddeeff";

pub(super) fn shadow() -> Shadow {
    Shadow::plain()
}

pub(super) fn event() -> Event {
    Event {
        agent: "writer-agent".to_owned(),
        task: Some("Sum up the report in two sentences.".to_owned()),
        input: Some("Sales rose by 12 % in May.".to_owned()),
        output: Some("Sales went up.\nThe reason is unknown.".to_owned()),
        ..Event::default()
    }
}

pub(super) fn tool_event(args: Value) -> Event {
    let tool = ToolCall { name: "run_shell".to_owned(), args, result: Some("done".to_owned()), ..ToolCall::default() };
    Event { agent: "ops-agent".to_owned(), tool: Some(tool), ..Event::default() }
}

pub(super) fn hit(check: CheckName, severity: Severity, field: &'static str, start: usize, end: usize) -> Hit {
    let (rule, description) = ("some_rule".to_owned(), "A check saw something.".to_owned());
    Hit { check, rule, severity, field: FieldName::fixed(field), start, end, description, value: None }
}

pub(super) fn subject<'a>(event: &'a Event, hits: &'a [Hit]) -> EventInput<'a> {
    let id = uuid::Uuid::from_u128(7);
    EventInput { event_id: EventId(id), event, trigger: Trigger::TaskComplete, hits, baseline: None, memory: &[] }
}

pub(super) fn write(shadow: &Shadow, event: &Event, hits: &[Hit]) -> Prompt {
    prompt(shadow, &subject(event, hits), NONCE).unwrap()
}

pub(super) fn answer(shadow: &Shadow, event: &Event, hits: &[Hit], text: &str) -> Judgement {
    let reply = ModelReply { text, cut_off: false, refused: false };
    of_reply(shadow, &subject(event, hits), &write(shadow, event, hits), reply)
}

/// Builds a reply to [`NONCE`] that reports the canary.
pub(super) fn reply(assessment: &str, score: u8, findings: &[Value]) -> String {
    reply_to(NONCE, assessment, score, findings)
}

/// Builds a reply to another nonce that reports its canary.
pub(super) fn reply_to(nonce: &str, assessment: &str, score: u8, findings: &[Value]) -> String {
    let all: Vec<Value> = [canary_claim(nonce)].into_iter().chain(findings.iter().cloned()).collect();
    bare_reply(assessment, score, &all).replace(NONCE, nonce)
}

/// Builds the finding that reports the canary of this nonce.
pub(super) fn canary_claim(nonce: &str) -> Value {
    let canary = Canary::of(nonce);
    let sums = canary.text();
    let wrong = sums.lines().find(|sum| canary.is_named(sum)).unwrap();
    json!({"severity": "info", "category": "factual", "description": "The sum is wrong.", "evidence_quote": wrong,
           "checklist_item": "canary"})
}

/// Builds a reply to [`NONCE`] without a report of the canary.
pub(super) fn bare_reply(assessment: &str, score: u8, findings: &[Value]) -> String {
    json!({"nonce": NONCE, "assessment": assessment, "score": score, "recommendation": "Do this.", "findings": findings})
        .to_string()
}

pub(super) fn claim(severity: &str, quote: &str) -> Value {
    json!({"severity": severity, "category": "quality", "description": "It is vague.", "evidence_quote": quote,
           "checklist_item": "complete"})
}

/// Any event, with the characters that matter to fences, JSON and offsets.
pub(super) fn any_event() -> impl Strategy<Value = Event> {
    let text = || proptest::option::of(any_text());
    let tool = (any_text(), any_args(), text(), text()).prop_map(|(name, args, result, error)| ToolCall {
        name,
        args,
        result,
        error,
        exit_code: None,
    });
    (any_text(), text(), text(), text(), text(), proptest::option::of(tool)).prop_map(
        |(agent, status, task, input, output, tool)| Event {
            agent,
            task,
            input,
            output,
            tool,
            status,
            ..Event::default()
        },
    )
}

pub(super) fn any_text() -> impl Strategy<Value = String> {
    "([a-c \"\\\\{}\n\u{1}é€😀]|</umbra-fence|\\{\\{ nonce \\}\\}|\\{% endfor %\\}){0,60}"
}

pub(super) fn any_args() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any_text().prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-c.\"]{1,3}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

pub(super) fn any_case() -> impl Strategy<Value = JudgedFinding> {
    let text = || proptest::option::of(any_text());
    (any::<bool>(), any::<bool>(), any_text(), any_text(), text(), text()).prop_map(
        |(was_right, same_agent, rule, description, quote, note)| JudgedFinding {
            was_right,
            same_agent,
            rule,
            description,
            quote,
            note,
        },
    )
}

/// Hits at any offsets, fitting or not.
pub(super) fn any_hits() -> impl Strategy<Value = Vec<Hit>> {
    let fields = proptest::sample::select(vec!["output", "input", "tool.name", "tool.args.a", "metadata.x", "task"]);
    let severity = proptest::sample::select(vec![Severity::Info, Severity::Warning, Severity::Critical]);
    let check = proptest::sample::select(CheckName::ALL.to_vec());
    let one = (check, severity, fields, 0..200_usize, 0..50_usize)
        .prop_map(|(check, severity, field, start, len)| hit(check, severity, field, start, start + len));
    proptest::collection::vec(one, 0..40)
}
