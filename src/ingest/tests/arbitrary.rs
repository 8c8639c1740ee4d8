//! Property tests with any JSON and any valid event: no panic, and an event means what its sender wrote.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::ingest::{Incoming, Limits, RequestFault, batch_json, batch_ndjson, event, event_alone};
use umbra_domain::{Event, EventId, NanoUsd, TokenCount, ToolCall, Trigger};

/// Draws any JSON, of the depth and width that a stored event may have, with keys that mean something to a reader.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|eighths| Value::from(f64::from(eighths) / 8.0)),
        ".{0,12}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        prop::sample::select(vec!["agent", "output", "tool", "name", "triggers", "tokens", "input", "events", "id"])
            .prop_map(str::to_owned),
        ".{0,8}",
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Draws any event that the contract allows, as JSON and as the expected event.
fn any_event() -> impl Strategy<Value = (Value, Event)> {
    let label = || prop::option::of("[a-zA-Z0-9/é -]{0,8}[a-z]");
    let usd = || prop::option::of(0_i64..=1_000_000_000_000_000);
    let clean = any_json().prop_filter("U+0000 cannot be stored", |json| !json.to_string().contains("\\u0000"));
    let texts = ("[a-z]\\PC{0,40}", label(), label(), prop::option::of("\\PC{0,80}"), prop::option::of("\\PC{0,80}"));
    let numbers = (usd(), usd(), prop::option::of((0..=9_u64, 0..=1_000_000_u64)), prop::option::of(1..=1000_u32));
    let rest = (
        prop::collection::vec(0..4_i16, 0..4),
        prop::option::of(any::<u128>()),
        prop::option::of((PLAUSIBLE, 0..1_000_000_000_i32)),
        prop::option::of(0..=umbra_domain::MOST_DURATION_MS),
        clean,
    );
    (texts, numbers, rest).prop_map(|((agent, task_id, status, task, output), numbers, rest)| {
        let (cost, task_cost, tokens, attempt) = numbers;
        let (codes, supersedes, occurred, duration_ms, json) = rest;
        let mut triggers: Vec<_> = codes.into_iter().filter_map(Trigger::from_code).collect();
        let named: Vec<_> = triggers.iter().map(|trigger| trigger.as_str()).collect();
        let occurred_at = occurred.map(|(second, nano)| jiff::Timestamp::new(second, nano).unwrap());
        let supersedes = supersedes.map(|bits| EventId(uuid::Uuid::from_u128(bits)));
        let usd = |nano: Option<i64>| nano.map(|nano| NanoUsd(nano).usd());
        let wire = json!({
            "agent": agent, "task_id": task_id, "status": status, "task": task, "output": output, "triggers": named,
            "cost_usd": usd(cost), "task_cost_usd": usd(task_cost), "attempt": attempt, "supersedes": supersedes,
            "tokens": tokens.map(|(input, output)| json!({"input": input, "output": output})),
            "occurred_at": occurred_at.map(|time| time.to_string()), "duration_ms": duration_ms,
            "tool": {"name": agent, "args": json, "result": json}, "metadata": {"any": json},
        });
        let result = match &json {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        let mut seen = Vec::new();
        triggers.retain(|trigger| {
            !seen.contains(trigger) && {
                seen.push(*trigger);
                true
            }
        });
        let tool = Some(ToolCall { name: agent.clone(), args: json.clone(), result, ..ToolCall::default() });
        let event = Event {
            agent,
            task_id,
            status,
            task,
            output,
            tool,
            triggers,
            attempt,
            supersedes,
            occurred_at,
            duration_ms,
            cost_usd: cost.map(NanoUsd),
            task_cost_usd: task_cost.map(NanoUsd),
            tokens: tokens.map(|(input, output)| TokenCount { input, output }),
            metadata: Map::from_iter([("any".to_owned(), json)]),
            ..Event::default()
        };
        (wire, event)
    })
}

const PLAUSIBLE: std::ops::Range<i64> = 946_684_800..4_133_980_800;

proptest! {
    #[test]
    fn valid_event_is_read_exactly_and_survives_storage((wire, expected) in any_event()) {
        let incoming = event(wire.to_string().as_bytes(), &Limits::default()).map_err(|faults| TestCaseError::fail(format!("{faults:?}")))?;
        let stored = serde_json::to_string(&incoming.event).unwrap();
        prop_assert!(incoming.event == expected, "{} became {}", wire, stored);
        prop_assert!(serde_json::from_str::<Event>(&stored).unwrap() == expected, "{} was stored", stored);
    }

    #[test]
    fn digest_input_is_the_canonical_json_of_the_original((wire, _) in any_event(), key in prop::option::of("[a-z]{1,8}")) {
        let mut original = wire.clone();
        original["id"] = json!(key);
        let body = serde_json::to_string_pretty(&original).unwrap();
        let digest = |read: fn(&[u8], &Limits) -> Result<Incoming, Vec<RequestFault>>| {
            read(body.as_bytes(), &Limits::default()).map(|incoming| incoming.digest_input).unwrap()
        };
        let canonical = wire.to_string().into_bytes();
        prop_assert_eq!(&digest(event), &canonical);
        prop_assert_eq!(digest(event_alone), if key.is_some() { canonical } else { Vec::new() });
    }

    #[test]
    fn arbitrary_json_never_panics(json in any_json()) {
        let body = json.to_string();
        let _ = event(body.as_bytes(), &Limits::default());
        let _ = batch_json(body.as_bytes(), &Limits::default());
        let _ = batch_ndjson(body.as_bytes(), &Limits::default());
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_refusals_have_faults(body in prop::collection::vec(any::<u8>(), 0..200)) {
        for faults in [event(&body, &Limits::default()).err(), batch_json(&body, &Limits::default()).err()] {
            prop_assert!(faults.is_none_or(|faults| !faults.is_empty()));
        }
    }

    #[test]
    fn a_cut_body_is_refused_with_a_fault((wire, _) in any_event(), share in 0.0..1.0_f64) {
        let body = wire.to_string();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place within the text")]
        let cut = (body.len() as f64 * share) as usize;
        let faults = event(&body.as_bytes()[..cut], &Limits::default()).unwrap_err();
        prop_assert!(!faults.is_empty());
    }
}
