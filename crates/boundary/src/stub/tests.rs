//! Tests of stubs: typed, valid, never null, and the same for the same seed and calls.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    RecordedResult, RunState, Stub, StubCall, StubError, ValidatedAgainst, answer, answer_with,
    template::{Template, literal},
};
use crate::{
    contract::{Contracts, Schema},
    overlay::{OverlayAnswer, OverlayMerge, merge, read_overlay},
};
use umbra_config::{
    EXAMPLE_TOOLS,
    tools::{ToolsFileValidators, load},
};
use umbra_domain::ToolName;

fn contracts(text: &str) -> Contracts {
    let loaded = load("tools.yaml", text, ToolsFileValidators::NONE);
    let loaded = loaded.unwrap_or_else(|report| panic!("{report}"));
    Contracts::compile(loaded.value.contracts).unwrap_or_else(|error| panic!("{error}"))
}

fn tool(name: &str) -> ToolName {
    match name.split_once('.') {
        Some((server, name)) => ToolName::of(server, name),
        None => ToolName::bare(name),
    }
}

fn call(contracts: &Contracts, name: &str, args: &Value, state: &mut RunState) -> Result<Stub, StubError> {
    answer(
        contracts,
        &StubCall { tool: &tool(name), args, output_schema: None, fallback: None, says_read: false, recorded: &[] },
        state,
    )
}

fn read(contracts: &Contracts, name: &str, args: &Value, state: &mut RunState) -> OverlayAnswer {
    read_overlay(
        contracts,
        &StubCall { tool: &tool(name), args, output_schema: None, fallback: None, says_read: false, recorded: &[] },
        state,
    )
    .unwrap()
}

/// Answers a call of a tool without a contract.
fn unknown(output_schema: Option<&Value>, recorded: &[RecordedResult], args: &Value) -> Result<Stub, StubError> {
    let call = StubCall { tool: &tool("crm.add"), args, output_schema, fallback: None, says_read: false, recorded };
    answer(&Contracts::compile(Vec::new()).unwrap(), &call, &mut RunState::seeded("seed", None))
}

#[test]
fn first_matching_response_answers_with_typed_values() {
    let contracts = contracts(EXAMPLE_TOOLS);
    let mut state = RunState::seeded("seed", None);
    let small =
        call(&contracts, "stripe.process_refund", &json!({"payment_id": "p", "amount": 49.99}), &mut state).unwrap();
    assert_eq!(small.result, json!({"status": "refunded", "tx_id": "shadow-tx-1", "amount": 49.99}));
    assert_eq!(
        (small.contract.as_str(), small.validated_against),
        ("stripe.process_refund@2", ValidatedAgainst::Contract)
    );
    let whole =
        call(&contracts, "stripe.process_refund", &json!({"payment_id": "p", "amount": 500}), &mut state).unwrap();
    assert_eq!(whole.result, json!({"status": "refunded", "tx_id": "shadow-tx-2", "amount": 500}));
    let large =
        call(&contracts, "stripe.process_refund", &json!({"payment_id": "p", "amount": 501}), &mut state).unwrap();
    assert_eq!(large.result["status"], "pending_review");
    assert!(large.result["tx_id"].as_str().unwrap().starts_with("shadow-"), "{large:?}");
    assert_eq!((state.calls, state.counters["shadow-tx-"]), (3, 2));
    let error = call(&contracts, "stripe.process_refund", &json!({"payment_id": "p"}), &mut state).unwrap_err();
    assert_eq!(error.code(), "stub_failed");
    assert_eq!(state.calls, 3, "a call that fails leaves the run as it was");
}

#[test]
fn templates_render_in_text_and_leave_other_braces() {
    let args = json!({"n": 2, "name": "Ann", "tags": ["a"], "map": {"k": 1}});
    let mut scope = umbra_policy::EvaluationScope::new();
    scope.set("args", &args);
    for (template, expected) in [
        (json!("n={{ args.n }}, {{ args.name }}!"), json!("n=2, Ann!")),
        (json!("{{ args.tags }}"), json!(["a"])),
        (json!("tags {{args.tags}}"), json!("tags [\"a\"]")),
        (json!("{{ {'a': {'b': args.n}} }}"), json!({"a": {"b": 2}})),
        (json!("{{ '}}' }}{{ \"{{\" }}"), json!("}}{{")),
        (json!("{ {x} }} }"), json!("{ {x} }} }")),
        (json!(["{{ args.n + 1 }}", 3, null, true]), json!([3, 3, null, true])),
        (json!({"a b": {"c": "{{ args.map }}"}}), json!({"a b": {"c": {"k": 1}}})),
        (json!(""), json!("")),
    ] {
        let rendered = Template::compile(&template, &["args"]).unwrap().render(&scope);
        assert_eq!(rendered, Ok(expected), "{template}");
    }
    let flood = json!(vec!["{{ args.name + args.name }}"; 150]);
    let long = json!({"name": "x".repeat(2_000)});
    let mut scope = umbra_policy::EvaluationScope::new();
    scope.set("args", &long);
    assert!(Template::compile(&flood, &["args"]).unwrap().render(&scope).is_err());
    assert!(Template::compile(&json!(vec!["{{ 1 }}"; 300]), &[]).is_err());
}

#[test]
fn stub_that_violates_its_schema_is_an_error_and_never_null() {
    let text = "tools:\n  - tool: t\n    effect: write\n    output_schema: {type: object, required: [id], properties: {id: {type: integer}}}\n    responses: [{result: {id: '{{ args.id }}'}}]\n  - tool: n\n    effect: write\n    responses: [{result: '{{ args.id }}'}, ]\n  - tool: w\n    effect: write\n    responses: [{when: args.id == 1, result: 1}]\n";
    let contracts = contracts(text);
    let mut state = RunState::seeded("seed", None);
    assert!(call(&contracts, "t", &json!({"id": 1}), &mut state).is_ok());
    let error = call(&contracts, "t", &json!({"id": "hunter2"}), &mut state).unwrap_err();
    assert_eq!(error.code(), "invalid_stub");
    assert!(error.to_string().contains("/id") && !format!("{error:?}").contains("hunter2"), "{error:?}");
    let null = call(&contracts, "n", &json!({"id": null}), &mut state).unwrap_err();
    assert_eq!(null, StubError::null("n@1"));
    assert_eq!(call(&contracts, "w", &json!({"id": 2}), &mut state).unwrap_err().code(), "no_response");
    let own = |tool_name: &str, value: Value, state: &mut RunState| {
        let call = StubCall {
            tool: &tool(tool_name),
            args: &json!({}),
            output_schema: None,
            fallback: None,
            says_read: false,
            recorded: &[],
        };
        answer_with(&contracts, &call, value, state)
    };
    assert_eq!(own("t", json!({"id": 5}), &mut state).unwrap().result, json!({"id": 5}));
    assert_eq!(own("t", json!({"id": "5"}), &mut state).unwrap_err().code(), "invalid_stub");
    assert_eq!(own("n", Value::Null, &mut state).unwrap_err().code(), "invalid_stub");
    assert_eq!(own("x", json!("y".repeat(300_000)), &mut state).unwrap_err(), StubError::large_override());
}

#[test]
fn a_tool_without_contract_is_answered_from_its_schema() {
    let schema = json!({
        "type": "object", "required": ["id", "created", "kind", "items", "price", "ok"],
        "properties": {
            "id": {"type": "string"}, "created": {"type": "string", "format": "date-time"},
            "kind": {"enum": ["a", "b"]}, "items": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/item"}},
            "price": {"type": "number", "minimum": 0.5, "multipleOf": 0.5}, "ok": {"type": "boolean"}, "name": {"type": "string"},
            "code": {"type": "string", "pattern": "^[A-Z]{3}$"}, "note": {"type": ["null", "string"], "maxLength": 3},
        },
        "$defs": {"item": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "exclusiveMinimum": 6},
            "parent": {"$ref": "#/$defs/item"}}}},
    });
    let stub = unknown(Some(&schema), &[], &json!({"name": "Ann", "price": "free"})).unwrap();
    assert_eq!(
        (stub.contract.as_str(), stub.validated_against),
        ("crm.add@output_schema", ValidatedAgainst::OutputSchema)
    );
    assert!(Schema::compile(&schema).unwrap().fits(&stub.result), "{}", stub.result);
    assert_eq!(stub.result["name"], "Ann");
    assert_eq!(stub.result["created"], "2026-01-01T00:00:00Z");
    assert_eq!(stub.result["code"], "USD");
    assert!(stub.result["id"].as_str().unwrap().starts_with("shadow-"));
    for hard in [
        json!({"type": "string", "pattern": "^Q{9}$"}),
        json!(false),
        json!({"type": "array", "minItems": 1_000_000_000_u64}),
        json!({"type": "string", "minLength": 1_000_000_000_u64}),
        json!({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}),
        json!({"allOf": [{"type": "string"}, {"type": "integer"}]}),
        json!({"$ref": "https://example.com/x"}),
        json!({"type": "array", "minItems": 3, "uniqueItems": true, "items": {"const": 1}}),
    ] {
        assert_eq!(unknown(Some(&hard), &[], &json!({})).unwrap_err().code(), "no_contract", "{hard}");
    }
    assert_eq!(unknown(None, &[], &json!({})).unwrap_err().code(), "no_contract");
    assert_eq!(unknown(Some(&json!({"type": "null"})), &[], &json!({})).unwrap().result, Value::Null);
}

#[test]
fn the_callers_fallback_answers_where_no_response_does() {
    let contracts = contracts(
        "tools:
  - {tool: t, effect: write, responses: [{result: {id: 1}}]}
  - {tool: s, effect: write, output_schema: {type: object, required: [id]}}
  - {tool: nothing, effect: write, output_schema: {type: 'null'}, responses: [{result: null}]}\n",
    );
    let state = &mut RunState::seeded("seed", None);
    let mut given = |name: &str, fallback: &Value, output_schema: Option<&Value>| {
        let call = StubCall {
            tool: &tool(name),
            args: &json!({}),
            output_schema,
            fallback: Some(fallback),
            says_read: false,
            recorded: &[],
        };
        answer(&contracts, &call, state).map(|stub| (stub.result, stub.is_fallback))
    };
    let own = json!({"id": 7, "status": "refunded"});
    assert_eq!(given("t", &own, None).unwrap(), (json!({"id": 1}), false));
    assert_eq!(given("s", &own, None).unwrap(), (own.clone(), true));
    assert_eq!(given("x", &own, Some(&json!({"type": "object"}))).unwrap(), (own.clone(), true));
    assert_eq!(given("x", &Value::Null, None).unwrap(), (Value::Null, true));
    assert_eq!(given("nothing", &own, None).unwrap(), (Value::Null, false));
    for (name, fallback, schema) in [
        ("s", json!({"status": "refunded"}), None),
        ("s", Value::Null, None),
        ("x", own.clone(), Some(json!({"type": "string"}))),
        ("x", json!("y".repeat(300_000)), None),
    ] {
        assert_eq!(given(name, &fallback, schema.as_ref()).unwrap_err().code(), "invalid_stub", "{name}");
    }
}

#[test]
fn run_reads_back_its_stubbed_writes() {
    let contracts = contracts(
        "tools:
  - tool: crm.create
    effect: write
    responses: [{result: {id: \"{{ seq('c-') }}\", name: '{{ args.name }}'}}]
    overlay:
      put: {collection: contacts, key: result.id}
      reads: [{tool: crm.get, key: args.id, on_missing: {found: false}}]
      lists: [{tool: crm.list, items: data.items, key: id}]
  - tool: crm.update
    effect: write
    responses: [{result: {ok: true}}]
    overlay: {put: {collection: contacts, key: args.id, value: {id: '{{ args.id }}', name: '{{ args.name }}'}}}
  - tool: crm.delete
    effect: destructive
    responses: [{result: {deleted: true}}]
    overlay: {delete: {collection: contacts, key: args.id}}
  - tool: crm.get
    effect: read
    output_schema: {type: object, required: [id], properties: {name: {type: string}}}
",
    );
    let mut state = RunState::seeded("seed", None);
    assert_eq!(read(&contracts, "crm.get", &json!({"id": "c-1"}), &mut state), OverlayAnswer::Live);
    assert_eq!(read(&contracts, "crm.list", &json!({}), &mut state), OverlayAnswer::Live);
    call(&contracts, "crm.create", &json!({"name": "Ann"}), &mut state).unwrap();
    call(&contracts, "crm.create", &json!({"name": "Bob"}), &mut state).unwrap();
    let OverlayAnswer::Stub(found) = read(&contracts, "crm.get", &json!({"id": "c-1"}), &mut state) else {
        panic!("no record")
    };
    assert_eq!(found.result, json!({"id": "c-1", "name": "Ann"}));
    assert_eq!((found.contract.as_str(), found.validated_against), ("crm.get@1", ValidatedAgainst::Contract));
    assert_eq!(read(&contracts, "crm.get", &json!({"id": "real"}), &mut state), OverlayAnswer::Live);
    assert_eq!(read(&contracts, "crm.get", &json!({}), &mut state), OverlayAnswer::Live);
    call(&contracts, "crm.update", &json!({"id": "live-9", "name": "Zoe"}), &mut state).unwrap();
    call(&contracts, "crm.delete", &json!({"id": "c-2"}), &mut state).unwrap();
    call(&contracts, "crm.delete", &json!({"id": "live-8"}), &mut state).unwrap();
    let OverlayAnswer::Stub(gone) = read(&contracts, "crm.get", &json!({"id": "c-2"}), &mut state) else {
        panic!("not gone")
    };
    assert_eq!(gone.result, json!({"found": false}));
    let OverlayAnswer::Merge(merged) = read(&contracts, "crm.list", &json!({}), &mut state) else { panic!("no merge") };
    let live = json!({"data": {"items": [{"id": "live-7"}, {"id": "live-8"}, {"id": "live-9", "name": "old"}]}, "more": false});
    assert_eq!(
        merge(live, &merged),
        json!({"data": {"items": [{"id": "live-7"}, {"id": "live-9", "name": "Zoe"}, {"id": "c-1", "name": "Ann"}]}, "more": false})
    );
    assert_eq!(merge(json!({"other": 1}), &merged), json!({"other": 1}));
    let stored = serde_json::to_value(&state).unwrap();
    let read = serde_json::from_value::<RunState>(stored.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), stored);
}

#[test]
fn overlay_refuses_records_beyond_its_bounds() {
    let contracts = contracts(
        "tools:\n  - tool: w\n    effect: write\n    responses: [{result: {ok: true}}]\n    overlay: {put: {collection: c, key: args.k, value: '{{ args.v }}'}}\n",
    );
    let mut state = RunState::seeded("seed", None);
    for n in 0..1_000 {
        call(&contracts, "w", &json!({"k": n, "v": 1}), &mut state).unwrap();
    }
    assert_eq!(call(&contracts, "w", &json!({"k": 1_000, "v": 1}), &mut state).unwrap_err().code(), "overlay_full");
    assert!(call(&contracts, "w", &json!({"k": 5, "v": 2}), &mut state).is_ok());
    let mut state = RunState::seeded("seed", None);
    let large = "x".repeat(200_000);
    let kept = (0..10).take_while(|n| call(&contracts, "w", &json!({"k": n, "v": large}), &mut state).is_ok()).count();
    assert_eq!(kept, 5);
    let error = call(&contracts, "w", &json!({"k": ["a"], "v": 1}), &mut state).unwrap_err();
    assert!(error.to_string().contains("a list"), "{error}");
}

#[test]
fn faults_occur_at_their_rate_only_in_runs_with_faults() {
    let contracts = contracts(
        "tools:\n  - tool: w\n    effect: write\n    responses: [{result: {ok: true}}]\n    faults: [{rate: 0.2, error: rate_limited, message: slow down}]\n",
    );
    let count = |faults: bool| {
        let mut state = RunState::seeded("seed", None);
        state.faults = faults;
        (0..500).filter(|_| call(&contracts, "w", &json!({}), &mut state).unwrap().fault.is_some()).count()
    };
    assert_eq!(count(false), 0);
    assert!((60..140).contains(&count(true)), "{}", count(true));
    let mut state = RunState::seeded("seed", None);
    state.faults = true;
    let shown =
        (0..100).filter_map(|_| call(&contracts, "w", &json!({}), &mut state).ok()).find(|stub| stub.fault.is_some());
    assert_eq!(shown.unwrap().result, json!({"error": "rate_limited", "message": "slow down"}));
}

#[test]
fn top_level_list_is_merged_with_the_overlay() {
    let change = OverlayMerge {
        items: String::new(),
        key: "n".into(),
        put: vec![json!({"n": 3, "v": 1})],
        remove: vec!["1".into()],
        ..OverlayMerge::default()
    };
    assert_eq!(merge(json!([{"n": 1}, {"n": 2}, 7]), &change), json!([{"n": 2}, 7, {"n": 3, "v": 1}]));
}

#[test]
fn partial_changes_are_merged_over_live_records() {
    let contracts = contracts(
        "tools:
  - {tool: t.change, effect: write, responses: [{result: {ok: true}}],
     overlay: {put: {collection: t, key: args.id, value: '{{ args.set }}', partial: true},
               reads: [{tool: t.get, key: args.id, at: item}], lists: [{tool: t.list, items: data, key: id}]}}
  - {tool: t.add, effect: write, responses: [{result: {id: '{{ args.id }}', title: new}}],
     overlay: {put: {collection: t, key: args.id}}}
  - {tool: t.delete, effect: destructive, responses: [{result: {ok: true}}], overlay: {delete: {collection: t, key: args.id}}}
",
    );
    let mut state = RunState::seeded("s", None);
    let mut change = |tool: &str, args: &Value| {
        call(&contracts, tool, args, &mut state).unwrap();
        let read = |tool: &str, args: &Value| read(&contracts, tool, args, &mut state.clone());
        (read("t.get", args), read("t.list", &json!({})))
    };
    change(
        "t.change",
        &json!({"id": 7, "set": {"status": "closed", "by": {"name": "Ann", "at": null}, "tags": ["b"]}}),
    );
    let (one, all) = change("t.change", &json!({"id": 7, "set": {"by": {"team": "b"}}}));
    let (OverlayAnswer::Merge(one), OverlayAnswer::Merge(all)) = (one, all) else { panic!("both run") };
    let live = |id: Value| json!({"id": id, "title": "Rain", "status": "open", "by": {"name": "Bo", "at": 1}, "tags": ["a"], "error": null});
    let over = json!({"id": 7, "title": "Rain", "status": "closed", "by": {"name": "Ann", "team": "b", "at": null}, "tags": ["b"], "error": null});
    assert_eq!(merge(json!({"item": live(json!(7))}), &one), json!({"item": over}));
    assert_eq!(
        merge(json!({"data": [live(json!(6)), live(json!(7))]}), &all),
        json!({"data": [live(json!(6)), over]}),
        "an item keeps the type of its key"
    );
    // A missing or removed record has no fields to change.
    for other in
        [json!({"item": {"error": "not_found"}}), json!({"item": null}), json!({"data": []}), json!([1]), json!("x")]
    {
        assert_eq!((merge(other.clone(), &one), merge(other.clone(), &all)), (other.clone(), other));
    }
    // A record of the run's own is whole, and one that it has removed stays away.
    change("t.add", &json!({"id": "8"}));
    let (one, _) = change("t.change", &json!({"id": "8", "set": {"status": "closed"}}));
    let OverlayAnswer::Stub(stub) = one else { panic!("{one:?}") };
    assert_eq!(stub.result, json!({"item": {"id": "8", "title": "new", "status": "closed"}}));
    for (tool, args) in [("t.delete", json!({"id": 7})), ("t.change", json!({"id": 7, "set": {"status": "open"}}))] {
        let (one, all) = change(tool, &args);
        assert!(matches!(one, OverlayAnswer::Stub(stub) if stub.fault.is_some()), "{tool}");
        assert!(matches!(all, OverlayAnswer::Merge(all) if all.remove == ["7"] && all.patch.is_empty()), "{tool}");
    }
    // A partial record stays partial after it was stored and read again, until a whole one replaces it.
    let mut state = RunState::seeded("s", None);
    call(&contracts, "t.change", &json!({"id": "9", "set": {"status": "closed"}}), &mut state).unwrap();
    let mut state: RunState = serde_json::from_value(serde_json::to_value(&state).unwrap()).unwrap();
    assert!(state.is_partial("t", "9"));
    call(&contracts, "t.add", &json!({"id": "9"}), &mut state).unwrap();
    assert!(!state.is_partial("t", "9"));
}

#[test]
fn added_records_appear_on_the_last_page() {
    let put = vec![json!({"n": 1, "v": 1}), json!({"n": 3})];
    let change = OverlayMerge {
        items: "data".into(),
        key: "n".into(),
        put,
        more: Some("page.next".into()),
        ..OverlayMerge::default()
    };
    for (next, added) in [
        (json!("abc"), false),
        (json!(true), false),
        (json!(false), true),
        (json!(null), true),
        (json!(""), true),
        (json!(0), true),
    ] {
        let data = if added { json!([{"n": 1, "v": 1}, {"n": 3}]) } else { json!([{"n": 1, "v": 1}]) };
        let merged = merge(json!({"data": [{"n": 1}], "page": {"next": next}}), &change);
        assert_eq!(merged, json!({"data": data, "page": {"next": next}}));
    }
}

#[test]
fn overlay_value_may_use_the_stored_record() {
    let contracts = contracts(
        "tools:
  - {tool: t.add, effect: write, responses: [{result: {id: '{{ args.id }}', title: '{{ args.title }}', status: open}}],
     overlay: {put: {collection: t, key: args.id}, reads: [{tool: t.get, key: args.id}]}}
  - {tool: t.change, effect: write, responses: [{result: {status: '{{ args.status }}'}}],
     overlay: {put: {collection: t, key: args.id, value: {status: '{{ args.status }}', title: \"{{ has(record.title) ? record.title : '?' }}\"}}}}
",
    );
    let mut state = RunState::seeded("seed", None);
    call(&contracts, "t.add", &json!({"id": "1", "title": "Broken"}), &mut state).unwrap();
    for (id, title) in [("1", "Broken"), ("2", "?")] {
        call(&contracts, "t.change", &json!({"id": id, "status": "closed"}), &mut state).unwrap();
        let OverlayAnswer::Stub(read) = read(&contracts, "t.get", &json!({"id": id}), &mut state) else {
            panic!("no stub")
        };
        assert_eq!(read.result, json!({"status": "closed", "title": title}));
    }
}

proptest! {
    #[test]
    fn the_same_seed_and_calls_give_the_same_bytes(seed in "[a-z0-9]{0,12}", amounts in prop::collection::vec(0.01..2_000.0_f64, 1..12), faults in any::<bool>()) {
        let contracts = contracts(EXAMPLE_TOOLS);
        let run = |seed: &str| {
            let mut state = RunState::seeded(seed, None);
            state.faults = faults;
            let answers: Vec<String> = amounts.iter().map(|amount| {
                let stub = call(&contracts, "stripe.process_refund", &json!({"payment_id": "p", "amount": amount}), &mut state).unwrap();
                format!("{} {:?}", stub.result, stub.fault)
            }).collect();
            (answers, serde_json::to_string(&state).unwrap())
        };
        prop_assert_eq!(run(&seed), run(&seed));
    }

    #[test]
    fn a_literal_text_renders_as_itself(text in "[ a-z{}']{0,20}") {
        let template = Template::compile(&json!(literal(&text)), &[]).unwrap();
        prop_assert_eq!(template.render(&umbra_policy::EvaluationScope::new()), Ok(json!(text)));
    }

    #[test]
    fn arbitrary_schemas_and_templates_never_panic(kind in "(string|integer|array|object|null)", key in "(items|properties|anyOf|required|enum|minLength|pattern|\\$ref|not|const)", text in "[#/a-z{} $]{0,12}", n in -5..50_i64) {
        for value in [json!(text), json!(n), json!([{"type": kind}]), json!({"a": {"type": kind}}), json!([text])] {
            let mut schema = json!({"type": kind});
            schema[key.as_str()] = value.clone();
            let _ = unknown(Some(&schema), &[], &json!({"a": 1}));
            let _ = Template::compile(&value, &["args"]);
        }
    }
}

#[test]
fn overlay_records_are_cleaned_once() {
    let mut state = RunState::seeded("s", None);
    let read = std::cell::RefCell::new(Vec::new());
    let clean = |value: &Value| {
        read.borrow_mut().push(value.clone());
        if *value == json!("secret") { json!("[gone]") } else { value.clone() }
    };
    state.record("notes", "n-1".to_owned(), Some(json!("secret")), false).unwrap();
    state.clean(clean);
    assert_eq!(state.records["notes"]["n-1"], Some(json!("[gone]")));
    // A cleaned record is not cleaned again after it was stored and read.
    let mut state: RunState = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
    state.record("notes", "secret".to_owned(), None, false).unwrap();
    state.clean(clean);
    assert_eq!(state.records["notes"].keys().collect::<Vec<_>>(), ["[gone]", "n-1"]);
    assert_eq!(*read.borrow(), [json!("n-1"), json!("secret"), json!("secret")]);
}
