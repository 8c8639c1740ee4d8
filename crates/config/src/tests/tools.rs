//! The tools file: what it accepts and refuses, with places.

use std::fs;

use serde_json::json;

use super::{
    super::{
        EXAMPLE_TOOLS, Report,
        tools::{ToolsFileValidators, load, read, replace, tools_schema, write},
    },
    faults, one_fault,
};
use umbra_domain::{
    Effect, ToolDeclarations,
    contract::{ContractFault, OnUnavailable, ToolContract},
};

fn parsed(text: &str) -> Result<ToolDeclarations, Report> {
    load("tools.yaml", text, ToolsFileValidators::NONE).map(|loaded| loaded.value)
}

fn tool(lines: &str) -> String {
    let lines: Vec<_> = lines.lines().map(|line| format!("    {line}\n")).collect();
    format!("tools:\n  - tool: a.b\n    effect: write\n{}", lines.concat())
}

#[test]
fn example_file_loads_with_the_documented_contracts() {
    let tools = parsed(EXAMPLE_TOOLS).unwrap();
    let names: Vec<_> = tools.contracts.iter().map(ToolContract::id).collect();
    assert_eq!(names, ["stripe.process_refund@2", "stripe.get_*@1", "web.fetch@1"]);
    let refund = &tools.contracts[0];
    assert_eq!(refund.effect, Effect::Destructive);
    assert_eq!(refund.responses[0].when.as_deref(), Some("args.amount > 500.0"));
    assert_eq!(refund.responses[1].result["amount"], "{{ args.amount }}");
    assert_eq!(refund.input_schema.as_ref().unwrap()["required"], json!(["payment_id", "amount"]));
    let overlay = refund.overlay.as_ref().unwrap();
    assert_eq!(overlay.put.as_ref().unwrap().key, "result.tx_id");
    assert_eq!(overlay.lists[0].items, "data");
    assert_eq!(refund.stale.live_mismatches, Some(3));
    assert_eq!(refund.stale.max_age.unwrap().as_secs(), 90 * 86_400);
    assert_eq!(refund.on_unavailable, OnUnavailable::Block);
    assert_eq!(tools.contracts[2].taints, ["untrusted_web"]);
    assert_eq!((tools.policies.len(), tools.effects.len(), tools.trusted_servers.len()), (2, 1, 1));
}

#[test]
fn every_fault_has_its_line_and_a_correction() {
    for (text, line, words) in [
        ("tools:\n  - effect: read\n".to_owned(), 2, &["`tool` is missing"][..]),
        ("tools:\n  - tool: a.b\n".to_owned(), 2, &["`effect` is missing"]),
        ("tools:\n  - {tool: a, effect: reed}\n".to_owned(), 2, &["did you mean `read`"]),
        ("tols: []\n".to_owned(), 1, &["did you mean `tools`"]),
        (tool("resposes:\n- result: 1"), 4, &["did you mean `responses`"]),
        (tool("version: 0"), 4, &["out of bounds"]),
        (tool("output_schema: 7"), 4, &["expected a JSON Schema"]),
        (tool("responses:\n- when: 'true'"), 5, &["`result` is missing"]),
        (tool("responses:\n- result: 1\n- when: 'true'\n  result: 2"), 5, &["no response after this one"]),
        (tool("faults: [{rate: 2, error: x}]"), 4, &["from 0 to 1"]),
        (tool("faults: [{rate: 0.5, error: 'a b'}]"), 4, &["letters, digits"]),
        (tool("overlay: {reads: [{tool: x, key: args.id}]}"), 4, &["add put or delete"]),
        (tool("overlay: {put: {collection: c, key: args.id, vale: 1}}"), 4, &["did you mean `value`"]),
        (tool("stale: {max_age: 90}"), 4, &["is not a duration"]),
        (tool("arguments: trust"), 4, &["did you mean `trusted`"]),
        (tool("on_unavailable: allowed"), 4, &["did you mean `allow`"]),
        (tool("sandbox: ftp://x"), 4, &["http:// or https://"]),
        (tool("sandbox: https://u:p@x/"), 4, &["without a password"]),
        (tool("taints: ['a b']"), 4, &["letters, digits"]),
        (tool("output_schema: {openapi: x.yaml, operation: A}"), 4, &["cannot be named here"]),
        (tool("output_schema: {openapi: x.yaml}"), 4, &["`operation` is missing"]),
        ("tools:\n  - {tool: 'a b', effect: read}\n".to_owned(), 2, &["without spaces"]),
        ("tools:\n  - {tool: 'a[', effect: read}\n".to_owned(), 2, &["globs are like"]),
        (
            "tools:\n  - {tool: a, effect: read}\n  - {tool: a, effect: write}\n".to_owned(),
            3,
            &["has two contracts", "line 2"],
        ),
        (
            "tools:\n  - tool: a\n    effect: read\n    overlay: {put: {collection: c, key: args.id}}\n".to_owned(),
            4,
            &["a tool with effect: read"],
        ),
    ] {
        one_fault(&text, &faults(parsed(&text)), line, words);
    }
    let many = parsed(&tool("version: x\nresponses: 3\nfoo: 1")).unwrap_err();
    assert_eq!(many.faults.len(), 3, "{many}");
}

#[test]
fn contract_faults_are_reported_at_their_item() {
    let judge = |contract: &ToolContract| {
        vec![
            ContractFault::of("responses", format!("{} is odd", contract.tool), "mend it").at(1),
            ContractFault::of("output_schema", "is not there", "add it"),
        ]
    };
    let text = tool("responses:\n- when: 'true'\n  result: 1\n- result: 2");
    let report =
        load("tools.yaml", &text, ToolsFileValidators { contract: &judge, ..ToolsFileValidators::NONE }).unwrap_err();
    let places: Vec<_> = report.faults.iter().map(|fault| (fault.line, fault.key.as_str())).collect();
    assert_eq!(places, [(2, "tools[0]"), (7, "tools[0].responses[1]")]);
}

#[test]
fn contracts_survive_a_yaml_round_trip() {
    let tools = parsed(EXAMPLE_TOOLS).unwrap();
    let text = write(&tools.contracts);
    assert_eq!(parsed(&text).unwrap_or_else(|report| panic!("{report}\n{text}")).contracts, tools.contracts, "{text}");
    let mut odd = ToolContract::new("x.\"y\"", Effect::Write);
    odd.output_schema =
        Some(json!({"type": "object", "properties": {"yes": {"enum": ["no", "1", ": ", "#", "\n\u{1f600}"]},
        "a: b": {"items": [[{"deep": [1, [], {}]}], []]}, "": {"const": 1.5}}}));
    let text = write(std::slice::from_ref(&odd));
    assert_eq!(parsed(&text).unwrap_or_else(|report| panic!("{report}\n{text}")).contracts, [odd], "{text}");
}

const OPENAPI: &str = r"
openapi: 3.0.3
paths:
  /refunds/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    post:
      operationId: PostRefund
      parameters: [{name: trace, in: header, schema: {type: string}}]
      requestBody:
        content:
          application/json:
            schema:
              type: object
              required: [amount]
              properties: {amount: {type: number, minimum: 0, exclusiveMinimum: true}, note: {type: string, nullable: true}}
      responses:
        '404': {description: none}
        '201':
          content:
            application/json:
              schema: {$ref: '#/components/schemas/Refund'}
              example: {id: re_1, owner: {name: Ann}}
components:
  schemas:
    Refund: {type: object, required: [id], properties: {id: {type: string}, owner: {$ref: '#/components/schemas/Owner'}}}
    Owner: {type: object, properties: {name: {type: string}, boss: {$ref: '#/components/schemas/Owner'}}}
    Unused: {type: string}
";

#[test]
fn schemas_come_from_an_openapi_file_in_the_same_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("api.yaml"), OPENAPI).unwrap();
    fs::write(folder.path().join("broken.yaml"), "paths: [").unwrap();
    let file = folder.path().join("tools.yaml");
    let read = |lines: &str| {
        fs::write(&file, tool(lines)).unwrap();
        read(&file, ToolsFileValidators::NONE).map(|loaded| loaded.value)
    };
    let source = "{openapi: api.yaml, operation: PostRefund}";
    let tools =
        read(&format!("input_schema: {source}\noutput_schema: {source}")).unwrap_or_else(|report| panic!("{report}"));
    let contract = &tools.contracts[0];
    assert_eq!(
        contract.input_schema,
        Some(json!({
            "type": "object", "required": ["amount", "id"],
            "properties": {
                "id": {"type": "string"},
                "amount": {"type": "number", "exclusiveMinimum": 0},
                "note": {"type": ["string", "null"]},
            },
        }))
    );
    let output = contract.output_schema.as_ref().unwrap();
    assert_eq!(output["$ref"], "#/components/schemas/Refund");
    let components: Vec<_> = output["components"]["schemas"].as_object().unwrap().keys().collect();
    assert_eq!(components, ["Owner", "Refund"]);
    assert_eq!(contract.example, Some(json!({"id": "re_1", "owner": {"name": "Ann"}})));
    for (lines, words) in [
        ("output_schema: {openapi: api.yaml, operation: PostRefnd}", "did you mean `PostRefund`"),
        ("output_schema: {openapi: ../api.yaml, operation: A}", "is outside the folder"),
        ("output_schema: {openapi: /etc/passwd, operation: A}", "is outside the folder"),
        ("output_schema: {openapi: none.yaml, operation: A}", "cannot be read"),
    ] {
        one_fault(lines, &faults(read(lines)), 4, &[words]);
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link.yaml")).unwrap();
        let lines = "output_schema: {openapi: link.yaml, operation: A}";
        one_fault(lines, &faults(read(lines)), 4, &["is outside the folder"]);
    }
    let broken = faults(read("output_schema: {openapi: broken.yaml, operation: A}"));
    assert!(broken.iter().any(|fault| fault.file.ends_with("broken.yaml")), "{broken:?}");
}

#[test]
fn the_schema_has_every_key_of_the_manual() {
    let schema = tools_schema();
    let keys = |pointer: &str| -> Vec<String> {
        schema.pointer(pointer).unwrap().as_object().unwrap().keys().cloned().collect()
    };
    let contract = "/properties/tools/items/properties";
    assert_eq!(
        keys(contract),
        [
            "arguments",
            "effect",
            "faults",
            "input_schema",
            "on_unavailable",
            "output_schema",
            "overlay",
            "responses",
            "sandbox",
            "stale",
            "taints",
            "tool",
            "version",
        ]
    );
    assert_eq!(keys("/properties"), ["effects", "policies", "tools", "trusted_servers"]);
    assert_eq!(keys(&format!("{contract}/overlay/properties")), ["delete", "lists", "put", "reads"]);
    assert_eq!(schema["properties"]["tools"]["items"]["required"], json!(["tool", "effect"]));
}

#[test]
fn a_contract_is_replaced_and_every_other_line_stays() {
    let text = "tools:\n    # One.\n    - tool: a.b   # here\n      effect: write\n      # in it\n      taints: [x]\n\n    # Two.\n    - {tool: c, effect: read}\n";
    let mut contract = ToolContract::new("a.b", Effect::Read);
    contract.version = 7;
    let replaced = replace(text, &contract).unwrap();
    assert_eq!(
        replaced,
        "tools:\n    # One.\n    - tool: a.b\n      version: 7\n      effect: read\n\n    # Two.\n    - {tool: c, effect: read}\n"
    );
    contract.tool = "c".to_owned();
    let replaced = replace(text, &contract).unwrap();
    assert!(replaced.ends_with("    # Two.\n    - tool: c\n      version: 7\n      effect: read\n"), "{replaced}");
    let missing = ToolContract::new("d", Effect::Read);
    for (text, words) in [
        (text, "has no contract of d"),
        ("tools: [{tool: d, effect: read}]\n", "the contract of d is written in brackets"),
        ("tools: [", "is not valid YAML"),
    ] {
        let refused = replace(text, &missing).unwrap_err();
        assert!(refused.contains(words), "{refused}");
    }
}
