//! Policy rules, effects and trusted servers of the tools file: what loads, and every rule with the line of its fault.

use std::fmt::Write as _;

use super::{
    super::{
        Loaded, Report,
        tools::{ToolsFileValidators, load},
        tools_schema,
    },
    faults, one_fault,
};
use umbra_domain::{Effect, GuardVerdict, PolicyMode, ToolDeclarations};

/// Takes any condition that does not say `wrong`.
fn read(text: &str) -> Result<Loaded<ToolDeclarations>, Report> {
    let condition = |text: &str| if text.contains("wrong") { Err("it is wrong".to_owned()) } else { Ok(()) };
    load("tools.yaml", text, ToolsFileValidators { condition: &condition, ..ToolsFileValidators::NONE })
}

/// Returns a rule with these lines from the third on, and `verdict: block` where they have no verdict.
fn rule(lines: &str) -> String {
    let mut text = "policies:\n  - name: r\n".to_owned();
    for line in lines.lines() {
        writeln!(text, "    {line}").unwrap();
    }
    if !lines.contains("verdict:") {
        text.push_str("    verdict: block\n");
    }
    text
}

#[test]
fn rules_load_with_all_keys_and_with_required_keys_only() {
    let text = "policies:
  - name: refund-limit
    mode: audit
    agents: [support-*, bot]
    routes: /refund
    modes: [billing]
    tools: [stripe.*, process_refund]
    effects: [write, destructive]
    when: args.amount > 500.0
    verdict: ask
    reason: Large refunds are looked at by a person.
  - {name: web, tools: browse, verdict: allow, taints: untrusted_web}
effects:
  - {tool: crm.lookup, effect: read}
  - {tool: 'crm.*', effect: destructive}
trusted_servers: [github, stripe]
";
    let loaded = read(text).unwrap();
    assert!(loaded.warnings.is_empty());
    let ToolDeclarations { policies, effects, trusted_servers, .. } = loaded.value;
    let [first, second] = policies.try_into().unwrap();
    assert_eq!(
        (first.name.as_str(), first.mode, first.verdict),
        ("refund-limit", PolicyMode::Audit, GuardVerdict::Ask)
    );
    assert_eq!(
        (first.agents, first.routes, first.modes),
        (vec!["support-*".into(), "bot".into()], vec!["/refund".into()], vec!["billing".into()])
    );
    assert_eq!(first.tools, ["stripe.*", "process_refund"]);
    assert_eq!(first.effects, [Effect::Write, Effect::Destructive]);
    assert_eq!(first.when.as_deref(), Some("args.amount > 500.0"));
    assert_eq!(first.reason, "Large refunds are looked at by a person.");
    assert_eq!(
        (second.mode, second.tools, second.taints),
        (PolicyMode::Enforce, vec!["browse".into()], vec!["untrusted_web".into()])
    );
    assert_eq!(second.reason, "the policy web says allow");
    let effects: Vec<_> = effects.iter().map(|one| (one.tool.as_str(), one.effect)).collect();
    assert_eq!(effects, [("crm.lookup", Effect::Read), ("crm.*", Effect::Destructive)]);
    assert_eq!(trusted_servers, ["github", "stripe"]);
    assert_eq!(read("policies: []\n").unwrap().value, ToolDeclarations::default());
}

#[test]
fn every_fault_has_its_line_and_a_correction() {
    for (lines, line, words) in [
        ("verdict: deny", 3, &["is not an allowed value", "allow, warn, ask or block"][..]),
        ("verdict: blok", 3, &["did you mean `block`"]),
        ("mode: shadow", 3, &["enforce or audit"]),
        ("tool: stripe.*", 3, &["unknown key", "did you mean `tools`"]),
        ("tools: []", 3, &["a list of 0 items"]),
        ("tools: ['stripe.[']", 3, &["policies[0].tools[0]", "globs are like"]),
        ("tools: a b", 3, &["without spaces"]),
        ("agents: '[a'", 3, &["an agent's name or a glob"]),
        ("effects: [delete]", 3, &["read, write or destructive"]),
        ("tools: t\nwhen: wrong", 4, &["policies[0].when", "it is wrong", "args.amount"]),
        ("mode: audit\ntaints: web", 4, &["audit mode changes nothing"]),
        ("taints: [a, 5]", 3, &["policies[0].taints[1]", "put it in quotes"]),
    ] {
        one_fault(lines, &faults(read(&rule(lines))), line, words);
    }
    one_fault(
        "no verdict",
        &faults(read("policies:\n  - {name: r}\n")),
        2,
        &["`verdict` is missing", "block (the call does not run)"],
    );
    one_fault(
        "twins",
        &faults(read(&format!("{}  - {{name: r, verdict: ask}}\n", rule("verdict: ask")))),
        4,
        &["\"r\" occurs twice", "line 2"],
    );
    one_fault(
        "effect",
        &faults(read("effects: [{tool: a, effect: none}]")),
        1,
        &["effects[0].effect", "read, write or destructive"],
    );
    one_fault("server", &faults(read("trusted_servers: ['']")), 1, &["trusted_servers[0]", "1 to 256 characters"]);
    let many = format!("policies: [{}]", vec!["{name: r, verdict: ask}"; 1_001].join(","));
    assert!(faults(read(&many)).iter().any(|fault| fault.message.contains("1001 items")));
}

#[test]
fn the_schema_describes_every_key_of_a_rule() {
    let schema = tools_schema();
    let rule = &schema["properties"]["policies"]["items"];
    let keys: Vec<&String> = rule["properties"].as_object().unwrap().keys().collect();
    let all = [
        "agents", "effects", "except", "mode", "modes", "name", "reason", "routes", "taints", "tools", "verdict",
        "when",
    ];
    assert_eq!(keys, all);
    assert_eq!(rule["required"], serde_json::json!(["name", "verdict"]));
    assert_eq!(rule["additionalProperties"], false);
}
