//! The sidecar file: what loads, and every rule with the line of its fault.

use std::{fmt::Write as _, time::Duration};

use super::{
    super::{
        EXAMPLE_SIDECAR, Loaded, Report,
        sidecar::{SidecarFileValidators, load},
        sidecar_schema,
    },
    faults, one_fault,
};
use umbra_domain::{
    CheckName, GuardVerdict, PolicyMode, Severity,
    sidecar::{DocumentNeed, DocumentOf, SidecarRules, SidecarVerdict, Since, TextOf},
};

/// Reads a text with test judgements: `wrong` is faulty, `nobody` is no shadow, and the tools file has a rule `theirs`.
fn read(text: &str) -> Result<Loaded<SidecarRules>, Report> {
    let judge = |text: &str| if text.contains("wrong") { Err("it is wrong".to_owned()) } else { Ok(()) };
    let judgement = SidecarFileValidators {
        condition: &judge,
        document: &judge,
        shadow: &|name| if name == "nobody" { Err("shadow not found".to_owned()) } else { Ok(()) },
        taken: &|name| name == "theirs",
    };
    load("sidecar.yaml", text, judgement)
}

/// The example with its rule in words, which stands there as a comment.
fn example() -> String {
    let (rules, words) = EXAMPLE_SIDECAR.split_once("# models:").unwrap();
    format!("{rules}models:{}", words.replace("\n# ", "\n"))
}

/// Returns a rule of the list: `name` on line 2, then these lines, then the required keys that they lack.
fn rule(list: &str, lines: &str) -> String {
    let needed: &[&str] = match list {
        "documents" => &["document: todo", "needs: exists", "verdict: block"],
        "texts" => &["checks: pii", "verdict: warn"],
        "models" => &["shadow: kindness", "verdict: block"],
        _ => &["verdict: block"],
    };
    let mut text = format!("{list}:\n");
    let is_given = |key: &str| lines.lines().any(|line| line.split(':').next() == key.split(':').next());
    text.push_str(if is_given("name:") { "  -\n" } else { "  - name: r\n" });
    for line in lines.lines().chain(needed.iter().copied().filter(|key| !is_given(key))) {
        writeln!(text, "    {line}").unwrap();
    }
    text
}

#[test]
fn example_file_loads_with_the_documented_rules() {
    let loaded = read(&example()).unwrap_or_else(|report| panic!("{report}"));
    assert!(loaded.warnings.is_empty());
    let rules = loaded.value;
    assert_eq!(
        rules.names().collect::<Vec<_>>(),
        [
            "no-sending-after-reading-the-web",
            "the-web-leaves-a-mark",
            "findings-before-answers",
            "todo-before-deploying",
            "no-credentials",
            "no-personal-data",
            "orders-in-results",
            "no-promises-of-money",
        ]
    );
    assert_eq!(rules.policies[0].verdict, GuardVerdict::Block);
    assert_eq!(rules.policies[1].taints, ["untrusted_web"]);
    let [findings, todo] = &rules.documents[..] else { panic!("{:?}", rules.documents) };
    assert_eq!((findings.document.as_str(), findings.section.as_deref()), ("notes", Some("Findings")));
    assert_eq!(
        (findings.needs, findings.since, findings.verdict),
        (DocumentNeed::Updated, Since::Session, SidecarVerdict::Block)
    );
    assert_eq!((findings.of.as_slice(), todo.of.as_slice()), (&[DocumentOf::Message][..], &[][..]));
    assert_eq!((todo.needs, todo.tools.as_slice()), (DocumentNeed::Complete, &["deploy_*".to_owned()][..]));
    let [credentials, personal, orders] = &rules.texts[..] else { panic!("{:?}", rules.texts) };
    assert_eq!(credentials.of, [TextOf::Message, TextOf::Call]);
    assert_eq!((&credentials.checks[..], &personal.checks[..]), (&[CheckName::Secrets][..], &[CheckName::Pii][..]));
    assert_eq!((orders.severity, orders.verdict), (Severity::Warning, SidecarVerdict::Warn));
    let [promises] = &rules.models[..] else { panic!("{:?}", rules.models) };
    assert_eq!((promises.mode, promises.shadow.as_str()), (PolicyMode::Audit, "promises-shadow"));
    assert_eq!(promises.deadline, Duration::from_secs(1));
}

#[test]
fn rules_with_required_keys_only_get_defaults() {
    assert_eq!(read("texts: []\n").unwrap().value, SidecarRules::default());
    assert_eq!(read("policies:\n").unwrap().value, SidecarRules::default());
    let document = read(&rule("documents", "")).unwrap().value.documents.remove(0);
    assert_eq!((document.since, document.mode, document.section), (Since::Turn, PolicyMode::Enforce, None));
    assert_eq!(document.reason, "the document todo must exist and have content");
    let document = read(&rule("documents", "needs: updated\nsection: Findings")).unwrap().value.documents.remove(0);
    assert_eq!(document.reason, "the document todo (Findings) must be updated first");
    let text = read(&rule("texts", "")).unwrap().value.texts.remove(0);
    assert_eq!((text.of.as_slice(), text.severity), (&[][..], Severity::Warning));
    assert_eq!(text.reason, "the policy r says warn");
    let model = read(&rule("models", "")).unwrap().value.models.remove(0);
    assert_eq!(model.deadline, Duration::from_secs(1));
    assert_eq!(read(&rule("policies", "")).unwrap().value.policies[0].name, "r");
}

#[test]
fn rules_survive_a_json_round_trip() {
    let rules = read(&example()).unwrap().value;
    let text = serde_json::to_string(&rules).unwrap();
    assert!(text.contains("\"deadline_ms\":1000"), "{text}");
    assert_eq!(serde_json::from_str::<SidecarRules>(&text).unwrap(), rules);
}

#[test]
fn every_fault_has_its_line_and_a_correction() {
    for (list, lines, line, words) in [
        ("policies", "verdict: blok", 3, &["did you mean `block`"][..]),
        ("policies", "except: ['a[']", 3, &["policies[0].except[0]", "globs are like"]),
        ("policies", "when: wrong", 3, &["policies[0].when", "it is wrong"]),
        ("policies", "name: theirs", 3, &["\"theirs\" occurs twice", "tools file"]),
        ("documents", "verdict: ask", 3, &["is not an allowed value", "warn or block"]),
        ("documents", "verdict: allow", 3, &["warn or block"]),
        ("documents", "documnt: todo", 3, &["did you mean `document`"]),
        ("documents", "document: wrong", 3, &["documents[0].document", "it is wrong", "todo"]),
        ("documents", "document: ''", 3, &["1 to 64 characters"]),
        ("documents", "needs: exist", 3, &["did you mean `exists`"]),
        ("documents", "needs: present", 3, &["exists, updated or complete"]),
        ("documents", "since: turn", 3, &["since applies only to needs: updated", "needs: updated"]),
        ("documents", "needs: updated\nsince: today", 4, &["turn or session"]),
        ("documents", "section: ' a'", 3, &["no space at either end"]),
        ("documents", "tools: ['a[']", 3, &["documents[0].tools[0]", "globs are like"]),
        ("documents", "of: answer", 3, &["turn, message or call"]),
        ("documents", "tools: a\nof: message", 4, &["applies only to calls", "of: call"]),
        ("documents", "agents: '[a'", 3, &["an agent's name or a glob"]),
        ("documents", "routes: a b", 3, &["without spaces"]),
        ("documents", "modes: []", 3, &["a list of 0 items"]),
        ("documents", "mode: shadow", 3, &["enforce or audit"]),
        ("documents", "name: theirs", 3, &["\"theirs\" occurs twice"]),
        ("texts", "of: [message, output]", 3, &["texts[0].of[1]", "message, call or result"]),
        ("texts", "checks: []", 3, &["a list of 0 items"]),
        ("texts", "checks: [pii, secret]", 3, &["texts[0].checks[1]", "did you mean `secrets`"]),
        ("texts", "checks: [pii, contradictions]", 3, &["texts[0].checks[1]", "a shadow's `checks`"]),
        ("texts", "of: result\nchecks: [secrets, pii]", 4, &["texts[0].checks[1]", "it checks message or call"]),
        ("texts", "severity: grave", 3, &["info, warning or critical"]),
        ("texts", "tools: a", 3, &["unknown key", "known keys"]),
        ("models", "shadow: ''", 3, &["0 characters is out of bounds"]),
        ("models", "shadow: nobody", 3, &["shadow not found"]),
        ("models", "deadline: 20ms", 3, &["out of bounds", "50ms to 10s"]),
        ("models", "deadline: 11s", 3, &["out of bounds"]),
        ("models", "deadline: 1", 3, &["is not a duration"]),
        ("models", "dedline: 1s", 3, &["did you mean `deadline`"]),
    ] {
        let text = rule(list, lines);
        one_fault(&text, &faults(read(&text)), line, words);
    }
    for (text, line, words) in [
        ("documents:\n  - {name: r}\n", 2, &["`document` is missing", "todo"][..]),
        ("texts:\n  - {name: r, verdict: warn}\n", 2, &["`checks` is missing"]),
        ("models:\n  - {name: r, verdict: warn}\n", 2, &["`shadow` is missing"]),
        ("models:\n  - {shadow: p, verdict: warn}\n", 2, &["`name` is missing"]),
        ("models:\n  - {name: r, shadow: p}\n", 2, &["`verdict` is missing"]),
        ("text: []\n", 1, &["did you mean `texts`"]),
        ("texts: 3\n", 1, &["is not a list"]),
    ] {
        let found = faults(read(text));
        let first = found.first().map(std::slice::from_ref).unwrap_or_default();
        one_fault(text, first, line, words);
    }
}

#[test]
fn rule_name_taken_in_any_list_is_a_fault() {
    let lists = ["policies", "documents", "texts", "models"];
    for (first, second) in
        lists.iter().enumerate().flat_map(|(at, first)| lists[at..].iter().map(move |two| (first, two)))
    {
        let text = if first == second {
            let one = rule(first, "");
            format!("{one}{}", one.split_once('\n').unwrap().1)
        } else {
            format!("{}{}", rule(second, ""), rule(first, ""))
        };
        let found = faults(read(&text));
        assert_eq!(found.len(), 1, "{text}");
        assert!(
            found[0].message.contains("\"r\" occurs twice") && found[0].help.contains("line"),
            "{text}\n{}",
            found[0]
        );
    }
}

#[test]
fn all_faults_are_reported_at_once() {
    let text = format!(
        "{}{}{}",
        rule("documents", "needs: x\nsince: y"),
        rule("texts", "name: s\nof: z"),
        rule("models", "name: t\nshadow: nobody\ndeadline: 1h")
    );
    let keys: Vec<_> = faults(read(&text)).into_iter().map(|fault| fault.key).collect();
    let expected =
        ["documents[0].needs", "documents[0].since", "texts[0].of", "models[0].shadow", "models[0].deadline"];
    assert_eq!(keys, expected);
    let many = format!("models: [{}]", vec!["{name: r, shadow: p, verdict: warn}"; 33].join(","));
    assert!(faults(read(&many)).iter().any(|fault| fault.message.contains("33 items")));
}

#[test]
fn the_schema_has_every_key_of_the_manual() {
    let schema = sidecar_schema();
    let keys = |pointer: &str| -> Vec<String> {
        schema.pointer(pointer).unwrap().as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(keys("/properties"), ["documents", "models", "policies", "texts"]);
    let of = |list: &str| keys(&format!("/properties/{list}/items/properties"));
    let shared = ["agents", "mode", "modes", "name", "reason", "routes", "verdict"];
    for (list, own) in [
        ("policies", &["effects", "except", "taints", "tools", "when"][..]),
        ("documents", &["document", "needs", "of", "section", "since", "tools"]),
        ("texts", &["checks", "of", "severity"]),
        ("models", &["deadline", "shadow", "tools"]),
    ] {
        let mut expected: Vec<_> = shared.iter().chain(own).map(|key| (*key).to_owned()).collect();
        expected.sort_unstable();
        assert_eq!(of(list), expected, "{list}");
    }
    // The example shows every one of them.
    for key in ["policies", "documents", "texts", "models"].into_iter().flat_map(of) {
        assert!(EXAMPLE_SIDECAR.contains(&format!("{key}:")), "{key}");
    }
}
