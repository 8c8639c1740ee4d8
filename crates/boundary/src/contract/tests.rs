//! Tests of contracts: lookup, bounds of schemas, faults, changes, and registrations in code.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    Contracts, Schema, compile,
    diff::diff,
    source::{Language, scan},
};
use umbra_config::{
    EXAMPLE_TOOLS,
    tools::{ToolsFileValidators, load},
};
use umbra_domain::{
    Effect, ToolName,
    contract::{Arguments, FaultRule, OnUnavailable, Overlay, OverlayPut, ReadBack, StubResponse, ToolContract},
};

fn example() -> Vec<ToolContract> {
    let judge = |contract: &ToolContract| compile(contract.clone()).err().unwrap_or_default();
    let loaded = load(
        "config/tools.example.yaml",
        EXAMPLE_TOOLS,
        ToolsFileValidators { contract: &judge, ..ToolsFileValidators::NONE },
    );
    let loaded = loaded.unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(loaded.warnings, []);
    loaded.value.contracts
}

#[test]
fn example_contracts_compile_and_check_arguments() {
    let contracts = Contracts::compile(example()).unwrap();
    let refund = contracts.find(&ToolName::of("stripe", "process_refund")).unwrap();
    assert_eq!(refund.id(), "stripe.process_refund@2");
    assert_eq!(refund.effect(), Effect::Destructive);
    assert!(refund.check_arguments(&json!({"payment_id": "p", "amount": 5})).is_ok());
    let faults = refund.check_arguments(&json!({"payment_id": "hunter2", "amount": "hunter2"})).unwrap_err();
    assert_eq!(faults[0].pointer, "/amount");
    assert!(!format!("{faults:?}").contains("hunter2"), "{faults:?}");
}

#[test]
fn lookup_prefers_exact_names_then_longer_globs() {
    let names = ["*", "stripe.*", "stripe.get_*", "stripe.get_refund", "*.delete", "get"];
    let contracts = Contracts::compile(names.map(|name| ToolContract::new(name, Effect::Read)).into()).unwrap();
    for (tool, expected) in [
        (ToolName::of("stripe", "get_refund"), "stripe.get_refund"),
        (ToolName::of("stripe", "get_charge"), "stripe.get_*"),
        (ToolName::of("stripe", "pay"), "stripe.*"),
        (ToolName::of("stripe", "delete"), "stripe.*"),
        (ToolName::of("x", "delete"), "*.delete"),
        (ToolName::bare("get"), "get"),
        (ToolName::of("other", "get"), "*"),
    ] {
        assert_eq!(contracts.find(&tool).unwrap().contract().tool, expected, "{tool}");
    }
    let none = Contracts::compile(vec![ToolContract::new("get", Effect::Read)]).unwrap();
    assert!(none.find(&ToolName::of("evil", "get")).is_none());
}

fn faults(change: impl FnOnce(&mut ToolContract)) -> String {
    let mut contract = ToolContract::new("a.b", Effect::Write);
    contract.input_schema =
        Some(json!({"type": "object", "required": ["amount"], "properties": {"amount": {"type": "number"}}}));
    contract.output_schema =
        Some(json!({"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}));
    change(&mut contract);
    let found = compile(contract).map(|_| ()).err().unwrap_or_default();
    let lines = found.iter().map(|fault| format!("{}[{:?}]: {}\n", fault.key, fault.index, fault.message));
    lines.collect::<Vec<_>>().concat()
}

type Change = Box<dyn FnOnce(&mut ToolContract)>;
type Changes = Box<dyn Fn(&mut ToolContract)>;

fn answers(result: Value) -> Vec<StubResponse> {
    vec![StubResponse { when: None, result }]
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn inapplicable_contracts_are_refused_with_their_fault() {
    assert_eq!(faults(|_| {}), "");
    assert_eq!(faults(|contract| contract.responses = answers(json!({"id": "{{ uuid('x-') }}"}))), "");
    let cases: Vec<(Change, &str)> = vec![
        (
            Box::new(|contract: &mut ToolContract| contract.responses = answers(json!({"id": 7}))),
            "responses[Some(0)]: the stub does not fit output_schema: /id",
        ),
        (
            Box::new(|contract: &mut ToolContract| contract.responses = answers(json!({"id": "{{ args.amount }}"}))),
            "the stub does not fit output_schema: /id",
        ),
        (
            Box::new(|contract: &mut ToolContract| contract.responses = answers(json!({"id": "{{ args.gone }}"}))),
            "missing `gone`",
        ),
        (
            Box::new(|contract: &mut ToolContract| contract.responses = answers(json!({"id": "{{ agrs.amount }}"}))),
            "variable `agrs` not found",
        ),
        (
            Box::new(|contract: &mut ToolContract| contract.responses = answers(json!({"id": "{{ args.amount"}))),
            "without its `}}`",
        ),
        (
            Box::new(|contract: &mut ToolContract| contract.responses = answers(json!({"id": "{{ shell('x') }}"}))),
            "the functions: size",
        ),
        (Box::new(|contract: &mut ToolContract| contract.responses = answers(json!({"{{ x }}": 1}))), "a key has"),
        (
            Box::new(|contract: &mut ToolContract| {
                (contract.output_schema, contract.responses) = (None, answers(Value::Null));
            }),
            "no output_schema allows null",
        ),
        (
            Box::new(|contract: &mut ToolContract| {
                contract.responses =
                    vec![StubResponse { when: Some("args.amount >".into()), result: json!({"id": "x"}) }];
            }),
            "responses[Some(0)]: when: ",
        ),
        (
            Box::new(|contract: &mut ToolContract| {
                contract.responses =
                    vec![StubResponse { when: Some("args.amount".into()), result: json!({"id": "x"}) }];
            }),
            "gives a number",
        ),
        (
            Box::new(|contract: &mut ToolContract| contract.output_schema = Some(json!({"type": "objekt"}))),
            "output_schema[None]: not a valid JSON Schema",
        ),
        (
            Box::new(|contract: &mut ToolContract| contract.output_schema = Some(json!({"$ref": "https://x/y.json"}))),
            "refers to another document",
        ),
        (
            Box::new(|contract: &mut ToolContract| {
                contract.output_schema = Some(json!({"type": "string", "pattern": "^Z{40}Q$"}));
            }),
            "no text was found",
        ),
        (
            Box::new(|contract: &mut ToolContract| {
                contract.faults =
                    vec![FaultRule { rate: 0.1, error: "x".into(), message: None, result: Some(json!("{{ 1 +")) }];
            }),
            "faults[Some(0)]",
        ),
        (
            Box::new(|contract: &mut ToolContract| {
                contract.overlay = Some(Overlay {
                    put: Some(OverlayPut { collection: "c".into(), key: "reslt.id".into(), ..OverlayPut::default() }),
                    reads: vec![ReadBack {
                        tool: "a.*".into(),
                        collection: None,
                        key: "record.id".into(),
                        at: String::new(),
                        result: None,
                        on_missing: None,
                    }],
                    ..Overlay::default()
                });
            }),
            "variable `reslt` not found",
        ),
    ];
    for (change, words) in cases {
        let found = faults(change);
        assert!(found.contains(words), "lacks {words:?}: {found:?}");
    }
}

#[test]
fn impossible_responses_are_refused_for_any_input_schema() {
    let list = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 0]";
    let nested = |verb: &str, times: usize, inmost: &str| {
        (0..times).fold(inmost.to_owned(), |inner, _| format!("{list}.{verb}(x, {inner})"))
    };
    let slow = nested("all", 9, "true");
    let large = format!("{{{{ {} }}}}", nested("map", 6, "'xxxxxxxxxxxxxxxx'"));
    let of = |schema: Value| move |contract: &mut ToolContract| contract.output_schema = Some(schema.clone());
    let cases: Vec<(Changes, &str)> = vec![
        (
            Box::new(move |contract: &mut ToolContract| {
                contract.responses = vec![StubResponse { when: Some(slow.clone()), result: json!({"id": "x"}) }];
            }),
            "responses[Some(0)]: when: the expression would take more than",
        ),
        (
            Box::new(move |contract: &mut ToolContract| contract.responses = answers(json!({"id": large.clone()}))),
            "responses[Some(0)]: result: `[1, 2, 3",
        ),
        (
            Box::new(|contract: &mut ToolContract| contract.responses = answers(json!("{{ null }}"))),
            "does not fit output_schema: the whole",
        ),
        (
            Box::new(|contract: &mut ToolContract| contract.responses = answers(json!({"id": "{{ 1 / 0 }}"}))),
            "a division by zero",
        ),
        (
            Box::new(|contract: &mut ToolContract| contract.responses = answers(json!({"id": 7}))),
            "does not fit output_schema: /id",
        ),
        (
            Box::new(|contract: &mut ToolContract| {
                let result = Some(json!("{{ 'a' + 1 }}"));
                contract.faults = vec![FaultRule { rate: 0.1, error: "x".into(), message: None, result }];
            }),
            "faults[Some(0)]: result: ",
        ),
        (
            Box::new(of(json!({"type": "array", "minItems": 100_000_000}))),
            "no stub can be made from the schema: the schema requires 100000000",
        ),
        (
            Box::new(of(
                json!({"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "required": ["n"], "properties": {"n": {"$ref": "#/$defs/n"}}}}}),
            )),
            "requires an endless value",
        ),
    ];
    for (change, words) in cases {
        for input in
            [None, Some(json!({"type": "object"})), Some(json!({"pattern": "^none of ours$", "type": "string"}))]
        {
            let found = faults(|contract| {
                contract.input_schema = input.clone();
                change(contract);
            });
            assert!(found.contains(words), "{input:?} lacks {words:?}: {found:?}");
        }
    }
    // A part that depends on unknown arguments may be right.
    let found = faults(|contract| {
        contract.input_schema = None;
        contract.responses = vec![
            StubResponse { when: Some("args.n > 5".into()), result: json!({"id": "{{ args.id }}"}) },
            StubResponse { when: None, result: json!({"id": "{{ has(args.id) ? args.id : 7 }}"}) },
        ];
    });
    assert_eq!(found, "");
}

#[test]
fn overlay_expressions_are_tried_at_compilation() {
    let overlay = |key: &str, value: Option<Value>, partial: bool| {
        faults(|contract| {
            contract.responses = answers(json!({"id": "{{ seq('x-') }}"}));
            let put =
                Some(OverlayPut { collection: "c".into(), key: key.into(), value, partial, ..OverlayPut::default() });
            contract.overlay = Some(Overlay { put, ..Overlay::default() });
        })
    };
    assert_eq!(overlay("result.id", None, false), "");
    assert_eq!(overlay("result.id", Some(json!({"amount": "{{ args.amount }}"})), true), "");
    let found = overlay("result.ident", None, false);
    assert!(found.starts_with("overlay[None]: a.b@1: overlay.put.key: `result.ident`: missing `ident`"), "{found}");
    assert!(overlay("result", None, false).contains("the overlay's key is a mapping"));
    assert!(overlay("result.id", Some(json!({"a": "{{ record.gone }}"})), false).contains("overlay.put.value"));
    assert!(overlay("result.id", Some(json!(["a"])), true).contains("the fields that change"));
}

#[test]
fn schema_bombs_are_refused_or_bounded() {
    let mut doubling = json!({"$defs": {"n0": {"type": "string"}}, "$ref": "#/$defs/n30"});
    for n in 1..=30 {
        let below = format!("#/$defs/n{}", n - 1);
        doubling["$defs"][format!("n{n}")] = json!({"anyOf": [{"$ref": below}, {"$ref": below}]});
    }
    let mut deep = json!({});
    for _ in 0..100 {
        deep = json!({"items": deep});
    }
    let wide: Vec<Value> = (0..20_000).map(|n| json!({"const": n})).collect();
    for (schema, words) in [
        (doubling, "too large once its references are resolved"),
        (deep, "nested more than"),
        (json!({"anyOf": wide}), "more than 10000 parts"),
        (json!({"$ref": "#"}), "refers to itself"),
        (json!({"allOf": [{"$ref": "#"}]}), "refers to itself"),
        (
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}}),
            "refers to itself",
        ),
        (json!({"$ref": "file:///etc/passwd"}), "refers to another document"),
        (json!({"$ref": "#/$defs/none"}), "the target of `$ref` does not exist"),
        (json!({"pattern": "(?=a)b"}), "not a valid JSON Schema"),
        (json!({"pattern": "((a{300}){300}){300}"}), "not a valid JSON Schema"),
        (json!("x"), "the schema is not a mapping"),
    ] {
        let start = Instant::now();
        let error = Schema::compile(&schema).unwrap_err();
        assert!(error.contains(words), "{error}");
        assert!(start.elapsed() < Duration::from_secs(2), "{words}: {:?}", start.elapsed());
    }
    // A pattern that backtracks forever elsewhere runs in linear time.
    let start = Instant::now();
    let pattern = Schema::compile(&json!({"pattern": "^(a+)+$"})).unwrap();
    assert!(!pattern.fits(&json!(format!("{}b", "a".repeat(50_000)))));
    assert!(start.elapsed() < Duration::from_secs(2));
    // Recursion is fine where each part of a value is visited once, and bounded in depth where it is visited more
    // often.
    let tree =
        Schema::compile(&json!({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}))
            .unwrap();
    let twice = Schema::compile(&json!({"anyOf": [
        {"properties": {"left": {"$ref": "#"}}, "required": ["none"]}, {"properties": {"left": {"$ref": "#"}}, "required": ["nor"]}]})).unwrap();
    let mut value = json!({});
    for _ in 0..60 {
        value = json!({"left": value});
    }
    assert!(tree.fits(&value));
    let start = Instant::now();
    assert_eq!(twice.check(&value).unwrap_err()[0].message, "the value is nested too deeply to be validated");
    assert!(start.elapsed() < Duration::from_secs(1));
    let words: Vec<String> = (0..5_000).map(|n| n.to_string()).collect();
    let many = Schema::compile(&json!({"items": {"enum": words}})).unwrap();
    assert!(!many.fits(&json!(vec!["x"; 50_000])));
}

#[test]
fn contract_diff_marks_breaking_changes() {
    let base = || {
        let mut contract = ToolContract::new("a", Effect::Write);
        contract.input_schema = Some(
            json!({"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "note": {"type": "string"}}}),
        );
        contract.output_schema = Some(json!({"type": "object", "required": ["status", "n"], "properties": {
            "status": {"enum": ["a", "b"]}, "n": {"type": "integer", "minimum": 0}, "extra": {"type": "string"}}}));
        contract.taints = vec!["web".into()];
        contract
    };
    let told = |change: &dyn Fn(&mut ToolContract)| {
        let mut new = base();
        new.version = 2;
        change(&mut new);
        let changes = diff(&[base()], &[new]);
        changes
            .iter()
            .map(|change| format!("{}{}", if change.breaking { "!" } else { "" }, change.change))
            .collect::<Vec<_>>()
            .join("; ")
    };
    assert_eq!(diff(&[base()], &[base()]), []);
    let output = |pointer: &'static str, value: Value| {
        told(&move |new: &mut ToolContract| {
            let schema = new.output_schema.as_mut().unwrap();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            schema.pointer_mut(parent).unwrap()[key] = value.clone();
        })
    };
    assert_eq!(told(&|new| new.effect = Effect::Read), "!effect is lowered from write to read");
    assert_eq!(told(&|new| new.effect = Effect::Destructive), "effect is raised from write to destructive");
    assert_eq!(told(&|new| new.arguments = Arguments::Trusted), "!arguments are now trusted");
    assert_eq!(told(&|new| new.on_unavailable = OnUnavailable::Allow), "!on_unavailable is now allow");
    assert_eq!(told(&|new| new.taints.clear()), "!calls no longer add the label web");
    assert_eq!(told(&|new| new.responses = answers(json!(1))), "responses changed");
    assert_eq!(
        told(&|new| {
            new.version = 1;
            new.sandbox = Some("https://x".into());
        }),
        "!the contract changed and still has version 1: raise the version; sandbox changed"
    );
    assert_eq!(told(&|new| new.output_schema = None), "!results are no longer validated: output_schema is removed");
    assert_eq!(output("/required", json!(["n"])), "!output.status may be missing now");
    assert_eq!(output("/properties/n/type", json!("string")), "!output.n: type integer became type string");
    assert_eq!(output("/properties/n/minimum", json!(-5)), "!output.n: `minimum` is less strict than before");
    assert_eq!(
        output("/properties/status", json!({"enum": ["a", "b", "c"]})),
        "!output.status: 1 values of the enumeration are new"
    );
    assert_eq!(output("/properties/new", json!({"type": "string"})), "output.new is new");
    let gone =
        told(&|new| drop(new.output_schema.as_mut().unwrap()["properties"].as_object_mut().unwrap().remove("extra")));
    assert_eq!(gone, "!output.extra is removed");
    let needed = told(&|new| new.input_schema.as_mut().unwrap()["required"] = json!(["id", "note"]));
    assert_eq!(needed, "!input.note is required now");
    let wider =
        told(&|new| new.input_schema.as_mut().unwrap()["properties"]["id"] = json!({"type": ["string", "integer"]}));
    assert_eq!(wider, "");
    let bounded = told(&|new| new.input_schema.as_mut().unwrap()["properties"]["id"]["maxLength"] = json!(3));
    assert_eq!(bounded, "!input.id: `maxLength` is stricter than before");
    let closed = told(&|new| new.input_schema.as_mut().unwrap()["additionalProperties"] = json!(false));
    assert_eq!(closed, "!input: `additionalProperties` changed");
    assert_eq!(output("/properties/n/uniqueItems", json!(true)), "!output.n: `uniqueItems` changed");
    assert_eq!(output("/properties/n/title", json!("N")), "");
    assert_eq!(diff(&[base()], &[]).len(), 1);
    assert!(diff(&[base()], &[])[0].breaking && !diff(&[], &[base()])[0].breaking);
}

#[test]
fn tool_registrations_are_found_in_source_code() {
    let python = r#"
from langchain_core.tools import tool, Tool

@tool
def search(query: str) -> str:
    """Search."""

@tool("send_mail", return_direct=True)
def anything(): ...

@mcp.tool(
    name='pay',
)
@other
async def ignored(): ...

@function_tool
async def refund(id: str): ...

# @tool
# def commented(): ...

tools = [Tool(name="lookup", func=f), StructuredTool.from_function(func=g, name="store", description="(")]
MyTool(name="no"); x.Tool(title="no")
schema = {"type": "function", "function": {"name": "dictated", "parameters": {}}}
@toolbox
def no(): ...
"#;
    let found: Vec<_> =
        scan(python, Language::Python).into_iter().map(|tool| (tool.line, tool.name, tool.by)).collect();
    let expected = [
        (4, "search", "@tool"),
        (8, "send_mail", "@tool"),
        (11, "pay", "@mcp.tool"),
        (17, "refund", "@function_tool"),
        (23, "lookup", "Tool"),
        (23, "store", "StructuredTool.from_function"),
        (25, "dictated", "function"),
    ];
    assert_eq!(found, expected.map(|(line, name, by)| (line, name.to_owned(), by.to_owned())));
    let javascript = r#"
server.tool("read_file", { path: z.string() }, async () => {});
mcpServer.registerTool('write_file', {}, handler);
const t = tool(async () => 1, { name: "search", schema });
new DynamicTool({
  name: `fetch`,
});
server.addTool({ name: "added", execute });
// server.tool("no")
app.tool("no"); server.tools("no"); mytool({ name: "no" });
const f = { type: "function", function: { "name": "dictated" } };
"#;
    let found: Vec<_> = scan(javascript, Language::JavaScript).into_iter().map(|tool| (tool.line, tool.name)).collect();
    let expected = [(2, "read_file"), (3, "write_file"), (4, "search"), (5, "fetch"), (8, "added"), (11, "dictated")];
    assert_eq!(found, expected.map(|(line, name)| (line, name.to_owned())));
}
