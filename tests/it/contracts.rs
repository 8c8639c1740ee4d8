//! `umbra contracts` as CI runs it: output, places of faults, and exit code.

#![expect(clippy::unwrap_used, reason = "a test that meets an error fails")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Folder of a test, and commands that run in it.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Returns exit code, standard output and standard error.
    fn umbra(&self, args: &[&str]) -> (i32, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_umbra"))
            .args(args)
            .env_clear()
            .current_dir(self.0.path())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }
}

const TOOLS: &str = "tools:
  - tool: crm.add
    version: 1
    effect: write
    input_schema: {type: object, required: [name], properties: {name: {type: string}}}
    output_schema: {type: object, required: [id], properties: {id: {type: string}}}
    responses: [{result: {id: \"{{ seq('c-') }}\"}}]
";

#[test]
fn lint_reports_each_fault_on_a_line_with_its_place() {
    let folder = Folder::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/tools.example.yaml");
    let (code, out, err) = folder.umbra(&["contracts", "lint", example.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("3 contracts, no faults"), "{out}");
    folder.write("tools.yaml", &TOOLS.replace("seq('c-')", "args.size").replace("version: 1", "version: none"));
    let (code, out, err) = folder.umbra(&["contracts", "lint", "--tools", "tools.yaml"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("tools.yaml:3:14: tools[0].version: \"none\" is not a whole number"), "{err}");
    assert!(err.contains("tools.yaml:7:17: tools[0].responses[0]: result: `args.size`: missing `size`"), "{err}");
    assert!(err.ends_with("2 faults\n"), "{err}");
    let (code, out, _) = folder.umbra(&["--json", "contracts", "lint", "tools.yaml"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, json["faults"].as_array().unwrap().len()), (1, 2), "{json}");
    assert_eq!(folder.umbra(&["contracts", "lint"]).0, 2);
}

#[test]
fn lint_and_check_refuse_unanswerable_contracts() {
    let folder = Folder::new();
    let ten = "[1,2,3,4,5,6,7,8,9,0]";
    let slow = (0..9).fold("true".to_owned(), |inner, _| format!("{ten}.all(x, {inner})"));
    let text = format!(
        "tools:
  - tool: x.slow
    effect: write
    responses:
      - when: '{slow}'
        result: {{a: 1}}
      - {{result: {{a: 2}}}}
  - tool: x.many
    effect: write
    output_schema: {{type: array, minItems: 100000000}}
  - tool: x.endless
    effect: write
    output_schema: {{$ref: '#/$defs/n', $defs: {{n: {{type: object, required: [n], properties: {{n: {{$ref: '#/$defs/n'}}}}}}}}}}
"
    );
    folder.write("tools.yaml", &text);
    for command in [&["contracts", "lint"] as &[&str], &["check"]] {
        let (code, _, said) = folder.umbra(&[command, &["--tools", "tools.yaml"]].concat());
        assert_eq!(code, 1, "{said}");
        for words in [
            "tools[0].responses[0]: when: the expression would take more than 250000 steps",
            "tools[1].output_schema: no stub can be made from the schema: the schema requires 100000000 items",
            "tools[2].output_schema: no stub can be made from the schema: the schema requires an endless value",
        ] {
            assert!(said.contains(words), "{command:?} lacks {words}: {said}");
        }
    }
    let (_, _, err) = folder.umbra(&["contracts", "lint", "tools.yaml"]);
    assert!(err.contains("tools.yaml:10:20: ") && err.contains("\n   10 |     output_schema: {type: array"), "{err}");
}

#[test]
fn lint_lists_registered_tools_without_guard_or_contract() {
    let folder = Folder::new();
    folder.write("tools.yaml", TOOLS);
    folder.write(
        "agent/main.py",
        r#"""" An example: @tool
@tool
def told(): ...
"""
@tool
def add(name): ...

@mcp.tool(name='drop_table')
def f(): ...

@tool
@umbra.tool(
    effect="write")
def list(name): ...

Tool(name="add", func=list)
add.__wrapped__("a")
"#,
    );
    folder.write(
        "agent/web/server.ts",
        "server.registerTool(\"wire_money\", {}, run);\nconst tools = {\n  sendSms: tool({description: 'Sends'}),\n};\n",
    );
    folder.write("agent/node_modules/x/index.js", "server.tool('foreign');\n");
    folder.write("agent/notes.md", "@tool\ndef told(): ...\n");
    let (code, _, err) = folder.umbra(&["contracts", "lint", "tools.yaml", "--source", "agent"]);
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(
        (code, lines),
        (
            1,
            vec![
                "agent/main.py:5: @tool registers `add`, which has no guard: add @umbra.tool(...) below the \
                 registration, or put its server behind `umbra mcp`",
                "agent/main.py:8: @mcp.tool registers `drop_table`, which has no contract",
                "agent/main.py:11: @tool registers `list`, which has no contract",
                "agent/main.py:17: calls `add` around its guard (__wrapped__)",
                "agent/web/server.ts:1: server.registerTool registers `wire_money`, which has no contract",
                "agent/web/server.ts:3: tool registers `sendSms`, which has no guard and no contract",
            ]
        )
    );
    let (_, out, _) = folder.umbra(&["--json", "contracts", "lint", "tools.yaml", "--source", "agent"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        json["unguarded"][4],
        json!({"file": "agent/web/server.ts", "line": 1, "name": "wire_money", "by": "server.registerTool",
            "missing": ["contract"]})
    );
    fs::remove_dir_all(folder.0.path().join("agent/web")).unwrap();
    folder.write("agent/main.py", "@tool\n@umbra.tool(effect='write')\ndef add(name): ...\n");
    assert_eq!(folder.umbra(&["contracts", "lint", "tools.yaml", "--source", "agent"]).0, 0);
}

#[test]
fn contracts_inferred_from_recorded_calls_pass_lint() {
    let folder = Folder::new();
    let line = |n: usize| {
        let result = json!({"id": format!("c_{n}9f{n}"), "name": format!("name {n}"), "plan": "free", "at": format!("2026-03-0{n}T00:00:00Z")});
        json!({"tool": "crm.add", "args": {"name": format!("name {n}")}, "result": result, "other": 1}).to_string()
    };
    let lines: Vec<String> = (1..7).map(line).chain([json!({"tool": "few", "result": 1}).to_string()]).collect();
    folder.write("calls.jsonl", &lines.join("\n"));
    let (code, yaml, err) = folder.umbra(&["contracts", "infer", "calls.jsonl", "--effect", "write"]);
    assert_eq!((code, err.as_str()), (0, "few: 1 recorded results; at least 5 are needed\n"), "{yaml}");
    for expected in
        ["effect: write", "name: \"{{ args.name }}\"", "at: \"{{ now() }}\"", "plan: free", "{{ uuid('c_shadow-') }}"]
    {
        assert!(yaml.contains(expected), "{expected}\n{yaml}");
    }
    folder.write("inferred.yaml", &yaml);
    assert_eq!(folder.umbra(&["contracts", "lint", "inferred.yaml"]).0, 0);
    folder.write("calls.jsonl", &format!("{}\n{{\"tool\": 5}}\n", line(1)));
    let (code, _, err) = folder.umbra(&["contracts", "infer", "calls.jsonl"]);
    assert!(code == 1 && err.contains("calls.jsonl:2:10: this line is not a recorded call"), "{err}");
}

#[test]
fn diff_fails_on_changes_that_break_callers() {
    let folder = Folder::new();
    folder.write("old.yaml", TOOLS);
    folder.write("new.yaml", &TOOLS.replace("version: 1", "version: 2").replace("required: [id]", "required: []"));
    let (code, out, _) = folder.umbra(&["contracts", "diff", "old.yaml", "new.yaml"]);
    assert_eq!((code, out.as_str()), (1, "breaking: crm.add: output.id may be missing now\n"));
    folder.write("new.yaml", &TOOLS.replace("version: 1", "version: 2").replace("c-", "contact-"));
    let (code, out, _) = folder.umbra(&["--json", "contracts", "diff", "old.yaml", "new.yaml"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0);
    assert_eq!(
        json,
        json!({"breaking": 0, "changes": [{"tool": "crm.add", "breaking": false, "change": "responses changed"}]})
    );
    assert_eq!(folder.umbra(&["contracts", "diff", "old.yaml", "old.yaml"]).1, "no difference\n");
}

#[test]
fn schema_command_prints_the_tools_schema() {
    let (code, out, _) = Folder::new().umbra(&["schema", "tools"]);
    let schema: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &schema["title"]), (0, &json!("Umbra tools")));
}
