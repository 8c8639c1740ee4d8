//! Stubs and contracts from recorded results.

use serde_json::{Value, json};

use super::{LEAST_RECORDED, RecordedResult, infer};
use crate::{
    contract::{Contracts, compile},
    stub::{RunState, Stub, StubCall, StubError, ValidatedAgainst, answer},
};
use umbra_domain::{Effect, ToolName};

/// A call of the agent that asks for the stub.
fn own(args: Value, result: Value) -> RecordedResult {
    RecordedResult { args, result, agent: 0 }
}

/// The same calls by other agents, with `each` calls in a row by one agent.
fn by_others(calls: &[RecordedResult], each: usize) -> Vec<RecordedResult> {
    let call = |(n, call): (usize, &RecordedResult)| RecordedResult { agent: 1 + n / each, ..call.clone() };
    calls.iter().enumerate().map(call).collect()
}

fn call<'a>(args: &'a Value, recorded: &'a [RecordedResult], tool: &'a ToolName) -> StubCall<'a> {
    StubCall { tool, args, output_schema: None, fallback: None, says_read: false, recorded }
}

fn stub(recorded: &[RecordedResult], args: &Value) -> Result<Stub, StubError> {
    let tool = ToolName::of("crm", "add");
    answer(&Contracts::compile(Vec::new()).unwrap(), &call(args, recorded, &tool), &mut RunState::seeded("seed", None))
}

fn result(recorded: &[RecordedResult], args: &Value) -> Value {
    stub(recorded, args).unwrap().result
}

fn seen(n: usize) -> Vec<RecordedResult> {
    let call = |n: usize| {
        let result = json!({
            "id": format!("ch_{:x}", 0xabcd_ef00_u64 + n as u64 * 7_919),
            "number": format!("inv-2026-{n:04}"),
            "name": format!("customer {n}"),
            "amount": n,
            "state": if n == 0 { "failed" } else { "paid {{ x }}" },
            "at": format!("2026-02-0{}T10:00:00Z", n % 9 + 1),
            "lines": [{"n": 1}],
            "odd": if n.is_multiple_of(2) { json!(1) } else { json!(null) },
        });
        own(json!({"customer": {"name": format!("customer {n}")}, "amount": n, "currency": "eur"}), result)
    };
    (0..n).map(call).collect()
}

#[test]
fn stub_is_inferred_from_at_least_five_recorded_results() {
    let args = json!({"customer": {"name": "Zoe"}, "amount": 77, "currency": "eur"});
    let error = stub(&seen(LEAST_RECORDED - 1), &args).unwrap_err();
    assert!(error.to_string().contains("at least 5"), "{error}");
    let stub = stub(&seen(6), &args).unwrap();
    assert_eq!(
        (stub.contract.as_str(), stub.validated_against),
        ("crm.add@recorded", ValidatedAgainst::RecordedResults)
    );
    let result = &stub.result;
    assert_eq!((&result["name"], &result["amount"]), (&json!("Zoe"), &json!(77)));
    assert_eq!(result["state"], "paid {{ x }}");
    assert_eq!(result["at"], "2026-01-01T00:00:00Z");
    assert_eq!(result["lines"], json!([{"n": 1}]));
    assert!(result["id"].as_str().unwrap().starts_with("ch_shadow-"), "{result}");
    assert_eq!(result["number"], "inv-2026-shadow-1");
    let other = self::result(&seen(6), &json!({}));
    assert_eq!((&other["name"], &other["amount"]), (&json!("customer 5"), &json!(5)), "arguments that are not there");
    let mut nulls = seen(6);
    nulls[2].result = Value::Null;
    assert!(infer("t", Effect::Write, &nulls).unwrap_err().contains("null"));
}

#[test]
fn minted_ids_avoid_recorded_ones_and_arguments_are_echoed() {
    let ids = [8_u64, 9, 14, 23, 31];
    let hex = ["deadbeef", "0badcafe", "feedface", "12345678", "abcdefab"];
    let message = |n: usize| {
        let id = ids[n];
        let result = json!({
            "id": id, "key": (10_000 + id).to_string(), "message_id": format!("msg_{}", hex[n]),
            "ts": format!("17000000{id:02}.000{id:02}9"), "created": 1_700_000_000 + id, "channel": "C1",
            "price": f64::from(u32::try_from(700 - id).unwrap()), "note": format!("Posted to C1 as {}.", hex[n]),
            "text": format!("Successfully wrote to /a/{n}.txt"), "parts": [{"type": "text", "text": format!("T-{id}: /a/{n}.txt")}],
        });
        own(json!({"channel": "C1", "path": format!("/a/{n}.txt"), "price": 700 - id}), result)
    };
    let calls: Vec<RecordedResult> = (0..5).map(message).collect();
    let found = result(&calls, &json!({"channel": "C7", "path": "/b/new.md", "price": 12}));
    let number = found["id"].as_u64().unwrap();
    assert!(number > 31, "{found}");
    assert!(found["key"].as_str().unwrap().parse::<u64>().unwrap() > 10_031, "{found}");
    assert!(found["message_id"].as_str().unwrap().starts_with("msg_shadow-"), "{found}");
    assert!(found["ts"].as_str().unwrap().starts_with("1767225600."), "the run's time: {found}");
    assert_eq!(
        (&found["created"], &found["channel"], &found["price"]),
        (&json!(1_767_225_600), &json!("C7"), &json!(12))
    );
    assert!(found["note"].as_str().unwrap().starts_with("Posted to C1 as shadow-"), "{found}");
    assert_eq!(found["text"], "Successfully wrote to /b/new.md");
    assert_eq!(found["parts"][0]["type"], "text");
    assert!(found["parts"][0]["text"].as_str().unwrap().ends_with(": /b/new.md"), "{found}");
    let contract = infer("crm.add", Effect::Write, &calls).unwrap();
    assert!(compile(contract).is_ok());
}

#[test]
fn recorded_braces_are_not_read_as_templates() {
    let call = |n: usize| own(json!({"q": format!("q{n}")}), json!(format!("{{{{ {{q{n}}} {{{{args}}}} {{{{q{n}")));
    let calls: Vec<RecordedResult> = (0..5).map(call).collect();
    assert_eq!(result(&calls, &json!({"q": "x"})), "{{ {x} {{args}} {{x");
}

#[test]
fn recorded_errors_become_faults_and_not_results() {
    let mut calls = seen(5);
    calls.push(own(json!({}), json!({"error": {"code": "rate_limited", "message": "slow down"}})));
    calls.push(own(json!({}), json!({"ok": false, "error": "not_found"})));
    let contract = infer("crm.add", Effect::Write, &calls).unwrap();
    let required = contract.output_schema.as_ref().map(|schema| schema["required"].clone());
    assert_eq!(required.unwrap().as_array().map(Vec::len), Some(8));
    let faults: Vec<_> = contract.faults.iter().map(|fault| (fault.error.as_str(), fault.rate)).collect();
    assert_eq!(faults, [("rate_limited", 0.142), ("not_found", 0.142)]);
    assert!(compile(contract).is_ok());
    let few = infer("crm.add", Effect::Write, &calls[1..]).unwrap_err();
    assert_eq!(few, "4 recorded results beside 2 errors; at least 5 are needed");
    assert!(result(&calls, &json!({}))["id"].is_string());
}

#[test]
fn stub_copies_texts_only_if_two_agents_have_seen_them() {
    let args = json!({"customer": {"name": "Zoe"}, "amount": 77, "currency": "eur"});
    let found = result(&by_others(&seen(6), 6), &args);
    assert_eq!((&found["name"], &found["amount"], &found["state"]), (&json!("Zoe"), &json!(77), &json!("shadow")));
    assert!(found["id"].as_str().unwrap().starts_with("ch_shadow-"), "{found}");
    assert_eq!(result(&by_others(&seen(6), 3), &args)["state"], "paid {{ x }}");
    let wrote = |n: usize| own(json!({"path": format!("/a/{n}.txt")}), json!(format!("Customer ACME has /a/{n}.txt")));
    let calls: Vec<RecordedResult> = (0..6).map(wrote).collect();
    let path = json!({"path": "/b"});
    assert_eq!(result(&by_others(&calls, 6), &path), "shadow");
    assert_eq!(result(&by_others(&calls, 3), &path), "Customer ACME has /b");
    let mut mixed = by_others(&calls, 6);
    mixed[0].agent = 0;
    assert_eq!(result(&mixed, &path), "Customer ACME has /b");
}

#[test]
fn recorded_results_precede_schema_samples_and_answer_reads() {
    let tool = ToolName::of("crm", "add");
    let schema = json!({"type": "object", "properties": {"content": {"type": "string"}}});
    let wrote = |n: usize| own(json!({"path": format!("/{n}.txt")}), json!({"content": format!("wrote /{n}.txt")}));
    let calls: Vec<RecordedResult> = (0..5).map(wrote).collect();
    let args = json!({"path": "/x"});
    let answered = |recorded: &[RecordedResult], says_read: bool| {
        let call = StubCall { output_schema: Some(&schema), says_read, ..call(&args, recorded, &tool) };
        answer(&Contracts::compile(Vec::new()).unwrap(), &call, &mut RunState::seeded("seed", None))
    };
    let stub = answered(&calls, false).unwrap();
    assert_eq!((stub.contract.as_str(), &stub.result), ("crm.add@recorded", &json!({"content": "wrote /x"})));
    assert_eq!(answered(&calls, true).unwrap().result, json!({"content": "wrote /x"}));
    assert_eq!(answered(&by_others(&calls, 2), true).unwrap_err().code(), "no_contract");
    assert_eq!(answered(&calls[1..], false).unwrap().contract, "crm.add@output_schema");
}
