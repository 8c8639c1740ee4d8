//! The shadows file: what loads, and every rule with the line of its fault.

use std::{fmt::Write as _, time::Duration};

use super::{
    super::{EXAMPLE_SHADOWS, Level, Loaded, Models, Report, shadows::load},
    faults, models, one_fault,
};
use umbra_domain::{
    BatchRules, CheckName, Datamark, Mode, NanoUsd, PricePerMtok, ReviewScope, Severity, Shadow, Trigger,
    verdict::FallbackVerdict,
};

const SEED: &str = "shadow_agents:
  - name: security-shadow
    model: haiku
    mode: review
    watch:
      - agent: \"*\"
        triggers: [security_risk, code_written]
    cost_control:
      max_reviews_per_day: 50
      skip_if_task_cost_below: 0.01
";

fn read(text: &str) -> Result<Loaded<Vec<Shadow>>, Report> {
    let specs = models();
    load("shadows.yaml", text, &Models { specs: &specs, ceiling: PricePerMtok::from_usd(5.0).unwrap() })
}

/// Returns a shadow with these lines from the third on, and default lines for the required keys that they lack.
fn shadow(lines: &str) -> String {
    let mut text = "shadow_agents:\n  - name: s\n".to_owned();
    for line in lines.lines() {
        writeln!(text, "    {line}").unwrap();
    }
    for (key, line) in [
        ("model:", "    model: haiku\n"),
        ("mode:", "    mode: review\n"),
        ("watch:", "    watch: [{agent: a, triggers: [error]}]\n"),
    ] {
        if !lines.lines().any(|line| line.starts_with(key)) {
            text.push_str(line);
        }
    }
    text
}

#[test]
fn seed_file_loads_with_the_stated_defaults() {
    let loaded = read(SEED).unwrap();
    assert!(loaded.warnings.is_empty());
    let [shadow] = loaded.value.try_into().unwrap();
    assert_eq!((shadow.name.as_str(), shadow.model.as_str(), shadow.mode), ("security-shadow", "haiku", Mode::Review));
    assert_eq!(shadow.watch.len(), 1);
    let rule = &shadow.watch[0];
    assert_eq!((rule.agent.as_str(), rule.all), ("*", false));
    assert_eq!(rule.triggers, [Trigger::SecurityRisk, Trigger::CodeWritten]);
    let cost = &shadow.cost_control;
    assert_eq!(cost.max_reviews_per_day, Some(50));
    assert_eq!(cost.skip_if_task_cost_below, NanoUsd::from_usd(0.01));
    assert_eq!(
        (cost.max_usd_per_day, cost.max_tokens_per_day, cost.max_reviews_per_target_per_day),
        (None, None, None)
    );
    assert_eq!(cost.cooldown, Duration::from_hours(2));
    assert_eq!((cost.sample_ppm, cost.time_zone.as_str(), cost.allow_costly_model), (1_000_000, "UTC", false));
    assert_eq!(shadow.checks.len(), CheckName::ALL.len());
    assert_eq!((shadow.flag_at, shadow.max_input_chars, shadow.enabled), (Severity::Critical, 24_000, true));
    assert_eq!((shadow.datamark, shadow.canary), (Datamark::Lines, true));
}

#[test]
fn example_file_holds_two_shadows_and_no_warnings() {
    let loaded = read(EXAMPLE_SHADOWS).unwrap();
    assert!(loaded.warnings.is_empty());
    let names: Vec<_> = loaded.value.iter().map(|shadow| (shadow.name.as_str(), shadow.mode)).collect();
    assert_eq!(names, [("security-shadow", Mode::Review), ("quality-shadow", Mode::Passive)]);
    assert_eq!(loaded.value[1].cost_control.max_reviews_per_day, Some(30));
    assert_eq!(loaded.value[0], read(SEED).unwrap().value[0], "the example's first shadow is the seed's");
}

#[test]
fn every_key_of_a_shadow_is_loaded() {
    let text = "shadow_agents:
  - name: Wächter 1
    model: frontier
    mode: active
    enabled: false
    scope: event
    redact: true
    criteria: [No apologies., Cite sources.]
    checks: [secrets, hidden]
    flag_at: warning
    max_input_chars: 200000
    datamark: words
    canary: false
    verdict_within: 90s
    allowed_hosts: [API.acme.io, '*.acme.dev', 203.0.113.7]
    on_timeout: reject
    on_inconclusive: reject
    watch:
      - {agent: 'writer-{a,b}', triggers: [error, error], task_type: summary, min_cost: 0.5,
         metadata: {repo: x, n: 3, ok: true}, except: writer-b}
    cost_control:
      max_reviews_per_target_per_day: 1000000
      max_usd_per_day: 2.5
      max_tokens_per_day: 5000000
      sample: 0.25
      time_zone: europe/berlin
      allow_costly_model: true
";
    let [shadow] = read(text).unwrap().value.try_into().unwrap();
    assert_eq!((shadow.name.as_str(), shadow.enabled, shadow.max_input_chars), ("Wächter 1", false, 200_000));
    assert_eq!(shadow.criteria, ["No apologies.", "Cite sources."]);
    assert_eq!(shadow.checks.iter().copied().collect::<Vec<_>>(), [CheckName::Secrets, CheckName::Hidden]);
    let hosts = ["api.acme.io", "*.acme.dev", "203.0.113.7"].map(str::to_owned);
    assert_eq!(shadow.allowed_hosts.as_deref(), Some(&hosts[..]));
    assert_eq!(shadow.flag_at, Severity::Warning);
    assert_eq!((shadow.datamark, shadow.canary), (Datamark::Words, false));
    assert_eq!(shadow.verdict.within, Duration::from_secs(90));
    assert_eq!(
        (shadow.verdict.on_timeout, shadow.verdict.on_inconclusive),
        (FallbackVerdict::Reject, FallbackVerdict::Reject)
    );
    let rule = &shadow.watch[0];
    assert_eq!(rule.triggers, [Trigger::Error]);
    assert_eq!((rule.task_type.as_deref(), rule.min_cost), (Some("summary"), NanoUsd::from_usd(0.5)));
    assert_eq!(serde_json::Value::Object(rule.metadata.clone()), serde_json::json!({"repo": "x", "n": 3, "ok": true}));
    assert_eq!(rule.except, ["writer-b"]);
    let cost = &shadow.cost_control;
    assert_eq!(cost.max_reviews_per_target_per_day, Some(1_000_000));
    assert_eq!((cost.max_usd_per_day, cost.max_tokens_per_day), (NanoUsd::from_usd(2.5), Some(5_000_000)));
    assert_eq!((cost.cooldown, cost.sample_ppm), (Duration::ZERO, 250_000), "active shadows do not cool down");
    assert_eq!((cost.time_zone.as_str(), cost.allow_costly_model), ("Europe/Berlin", true));
}

#[test]
fn checks_and_criteria_load_as_word_or_list() {
    for (line, count) in [
        ("checks: all", CheckName::ALL.len()),
        ("checks: none", 0),
        ("checks: []", 0),
        ("checks: [all]", CheckName::ALL.len()),
        ("checks: commands", 1),
        ("checks:", CheckName::ALL.len()),
    ] {
        assert_eq!(read(&shadow(line)).unwrap().value[0].checks.len(), count, "{line}");
    }
    assert_eq!(read(&shadow("criteria: Be brief.")).unwrap().value[0].criteria, ["Be brief."]);
}

#[test]
fn trigger_all_loads_with_a_warning() {
    let loaded = read(&shadow("watch:\n  - {agent: a, triggers: [all]}\n  - {agent: b, triggers: all}")).unwrap();
    assert_eq!(loaded.value[0].watch[0].triggers, Trigger::NAMED);
    assert!(loaded.value[0].watch.iter().all(|rule| rule.all));
    let lines: Vec<_> = loaded.warnings.iter().map(|warning| (warning.level, warning.line)).collect();
    assert_eq!(lines, [(Level::Warning, 4), (Level::Warning, 5)]);
    let shown = loaded.warnings[0].to_string();
    assert!(shown.starts_with("shadows.yaml:4:30: warning: shadow_agents[0].watch[0].triggers: "), "{shown}");
    assert!(shown.contains("name only the triggers"));
}

#[test]
fn seven_faults_are_reported_at_once() {
    let text = "shadow_agents:
  - name: a
    model: haiku
    mode: reviewing
    watch:
      - agent: \"*\"
        trigers: [error]
    cost_control:
      max_reviews_per_day: -1
  - name: a
    model: gpt-9
    mode: review
    watch: [{agent: \"[\", triggers: [error]}]
";
    let found = faults(read(text));
    let lines: Vec<_> = found.iter().map(|fault| (fault.line, fault.key.as_str())).collect();
    let expected = [
        (4, "shadow_agents[0].mode"),
        (6, "shadow_agents[0].watch[0]"),
        (7, "shadow_agents[0].watch[0]"),
        (9, "shadow_agents[0].cost_control.max_reviews_per_day"),
        (10, "shadow_agents[1].name"),
        (11, "shadow_agents[1].model"),
        (13, "shadow_agents[1].watch[0].agent"),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn duplicate_and_unprintable_names_are_faults() {
    let twins = SEED.to_owned() + &SEED.replace("shadow_agents:\n", "");
    one_fault("twins", &faults(read(&twins)), 11, &["\"security-shadow\" occurs twice", "line 2"]);
    // The fault of the name is reported beside other faults of the second shadow.
    let lines: Vec<_> =
        faults(read(&twins.replacen("mode: review", "mode: reviw", 2))).iter().map(|f| f.line).collect();
    assert!(lines.contains(&11) && lines.len() > 1, "{lines:?}");
    for name in ["\"\"", "\"a\\nb\"", "\"a\\u202eb\"", "\" a\"", &"x".repeat(101), "42", "[a]"] {
        let text = shadow("").replace("name: s", &format!("name: {name}"));
        one_fault(name, &faults(read(&text)), 2, &["shadow_agents[0].name"]);
    }
    assert!(read(&shadow("").replace("name: s", &format!("name: {}", "ü".repeat(100)))).is_ok());
}

#[test]
fn invalid_values_are_faults_with_line_and_reason() {
    let cases: [(&str, usize, &[&str]); 40] = [
        ("mode: Active", 3, &["did you mean `active`"]),
        ("model: haiko", 3, &["did you mean `haiku`", "checks, frontier, haiku, local or mini"]),
        ("model: frontier", 3, &["25 USD", "at most 5", "`mini` at 2 USD", "allow_costly_model"]),
        ("model: local", 3, &["`local` has no prices", "models.local.input_usd_per_mtok"]),
        ("model: local\ncost_control: {max_usd_per_day: 1, allow_costly_model: true}", 4, &["`local` has no price"]),
        ("model: checks\nchecks: none", 4, &["no model and no checks"]),
        ("watch: []", 3, &["a list of 0 items"]),
        ("watch: {agent: a, triggers: [error]}", 3, &["not a list"]),
        ("watch: [{agent: a}]", 3, &["`triggers` is missing"]),
        ("watch: [{agent: a, triggers: []}]", 3, &["0 items"]),
        ("watch: [{agent: a, triggers: [eror]}]", 3, &["did you mean `error`"]),
        ("watch: [{agent: 'a[', triggers: [error]}]", 3, &["glob"]),
        ("watch: [{agent: a, triggers: [error], metadata: {a: [1]}}]", 3, &["single value"]),
        ("watch: [{agent: a, triggers: [error], min_cost: -1}]", 3, &["out of bounds"]),
        ("cost_control: {max_reviews_per_day: -1}", 3, &["-1 is out of bounds"]),
        ("cost_control: {max_reviews_per_day: 1e12}", 3, &["1000000000000 is out of bounds"]),
        ("cost_control: {max_reviews_per_day: 0}", 3, &["enabled: false"]),
        ("cost_control: {max_reviews_per_day: 2.5}", 3, &["not a whole number"]),
        ("cost_control: {max_reviews_per_target_per_day: 1000001}", 3, &["1 to 1000000"]),
        ("cost_control: {max_tokens_per_day: 1000000000000}", 3, &["out of bounds"]),
        ("cost_control: {max_usd_per_day: 0}", 3, &["out of bounds"]),
        ("cost_control: {max_usd_per_day: .inf}", 3, &["not an amount"]),
        ("cost_control: {max_usd_per_day: 1e12}", 3, &["out of bounds"]),
        ("cost_control: {skip_if_task_cost_below: -0.01}", 3, &["out of bounds"]),
        ("cost_control: {sample: 1.5}", 3, &["a share from 0 to 1"]),
        ("cost_control: {sample: 0.0000001}", 3, &["out of bounds"]),
        ("cost_control: {cooldown: 2 hours}", 3, &["not a duration"]),
        ("cost_control: {time_zone: Europe/Berln}", 3, &["did you mean Europe/Berlin"]),
        ("cost_control: {time_zone: PST8}", 3, &["time zone"]),
        ("cost_control: {max_review_per_day: 5}", 3, &["unknown key", "`max_reviews_per_day`"]),
        ("checks: [secrets, grammar]", 3, &["checks[1]", "truncation"]),
        ("flag_at: info", 3, &["warning or critical"]),
        ("max_input_chars: 999", 3, &["1000 to 200000"]),
        ("datamark: bold", 3, &["off, lines or words"]),
        ("allowed_hosts: https://api.acme.io/v1", 3, &["only a host", "no scheme"]),
        ("verdict_within: 5s", 3, &["only an active shadow", "mode: active"]),
        ("on_timeout: reject", 3, &["only an active shadow"]),
        ("on_inconclusive: accept", 3, &["only an active shadow"]),
        ("mode: active\nverdict_within: 0s", 4, &["out of bounds"]),
        ("mode: active\non_timeout: rejects", 4, &["did you mean `reject`"]),
    ];
    for (lines, line, words) in cases {
        one_fault(lines, &faults(read(&shadow(lines))), line, words);
    }
    let criteria = format!("criteria: [{0}, {0}]", "x".repeat(2_001));
    one_fault("criteria", &faults(read(&shadow(&criteria))), 3, &["4002 characters"]);
    let rules = format!("watch: [{}]", vec!["{agent: a, triggers: [error]}"; 101].join(","));
    one_fault("rules", &faults(read(&shadow(&rules))), 3, &["101 items"]);
    let agent = format!("watch: [{{agent: {}, triggers: [error]}}]", "ü".repeat(129));
    one_fault("256 bytes", &faults(read(&shadow(&agent))), 3, &["256 bytes"]);
}

#[test]
fn redaction_cannot_be_switched_off() {
    one_fault("redact", &faults(read(&shadow("redact: false"))), 3, &["cannot be switched off"]);
}

#[test]
fn batch_is_off_or_bounded_and_removes_the_default_cooldown() {
    let cost = |text: &str| {
        let loaded = read(&shadow(&format!("cost_control: {{{text}}}"))).unwrap();
        loaded.value.into_iter().next().unwrap().cost_control
    };
    for off in ["batch: off", "batch: 'off'", "batch: false", "sample: 1"] {
        assert_eq!((cost(off).batch, cost(off).cooldown), (None, Duration::from_hours(2)), "{off}");
    }
    let bounds = |max_events, max_chars, seconds| {
        Some(BatchRules { max_events, max_chars, max_wait: Duration::from_secs(seconds) })
    };
    assert_eq!((cost("batch: {}").batch, cost("batch: {}").cooldown), (bounds(8, 12_000, 30), Duration::ZERO));
    let own = cost("batch: {max_events: 20, max_chars: 500, max_wait: 5m}, cooldown: 1h");
    assert_eq!((own.batch, own.cooldown), (bounds(20, 500, 300), Duration::from_hours(1)));
    for (lines, words) in [
        ("cost_control: {batch: on}", &["cost_control.batch", "is not off or a mapping"][..]),
        ("cost_control: {batch: {max_events: 1}}", &["cost_control.batch.max_events", "from 2 to 50"]),
        ("cost_control: {batch: {max_wait: 2d}}", &["max_wait", "out of bounds"]),
        ("mode: active\ncost_control: {batch: {}}", &["cost_control.batch", "cannot wait for other events"]),
    ] {
        one_fault(lines, &faults(read(&shadow(lines))), if lines.starts_with("mode") { 4 } else { 3 }, words);
    }
    let wide = read(&shadow("cost_control: {batch: {max_chars: 30000}}")).unwrap();
    assert!(wide.warnings[0].to_string().contains("more than max_input_chars"), "{:?}", wide.warnings);
}

#[test]
fn trajectory_scope_needs_task_complete_and_no_active_mode() {
    let task = "watch: [{agent: a, triggers: [task_complete]}]\nscope: trajectory";
    assert_eq!(read(&shadow(task)).unwrap().value[0].scope, ReviewScope::Trajectory);
    let all = "watch: [{agent: a, triggers: [all]}]\nscope: trajectory";
    assert_eq!(read(&shadow(all)).unwrap().value[0].scope, ReviewScope::Trajectory);
    assert_eq!(read(SEED).unwrap().value[0].scope, ReviewScope::Event);
    for (lines, line, words) in [
        ("scope: trajectory", 6, &["begins with task_complete", "triggers: [task_complete]"][..]),
        (&format!("{task}\nmode: active"), 4, &["a verdict is about one event"]),
        (&format!("{task}\ncost_control: {{batch: {{}}}}"), 5, &["covers a whole task already"]),
        ("scope: batch", 3, &["is not an allowed value"]),
    ] {
        one_fault(lines, &faults(read(&shadow(lines))), line, words);
    }
}

#[test]
fn files_without_shadows_are_refused() {
    one_fault("none", &faults(read("{}")), 1, &["`shadow_agents` is missing"]);
    one_fault("no item", &faults(read("shadow_agents: []")), 1, &["a list of 0 items"]);
    let other = faults(read("shadows: []"));
    assert_eq!(other.len(), 2, "missing, and unknown: {other:?}");
}

#[test]
fn a_thousand_shadows_are_read_and_one_more_is_not() {
    let many = |count: usize| {
        (0..count).fold("shadow_agents:\n".to_owned(), |mut text, n| {
            writeln!(text, "  - {{name: s{n}, model: mini, mode: review, watch: [{{agent: a, triggers: [error]}}]}}")
                .unwrap();
            text
        })
    };
    assert_eq!(read(&many(1_000)).unwrap().value.len(), 1_000);
    one_fault("1,001", &faults(read(&many(1_001))), 2, &["1001 items"]);
}

#[test]
fn anchors_and_merge_keys_are_resolved() {
    let text = "shadow_agents:
  - name: a
    model: mini
    mode: review
    watch: &writers [{agent: writer-*, triggers: [task_complete]}]
    cost_control: &budget {max_reviews_per_day: 5}
  - name: b
    model: mini
    mode: passive
    watch: *writers
    cost_control: {<<: *budget, sample: 0.5}
";
    let loaded = read(text).unwrap();
    assert_eq!(loaded.value[0].watch, loaded.value[1].watch);
    assert_eq!(loaded.value[1].cost_control.max_reviews_per_day, Some(5));
    assert_eq!(loaded.value[1].cost_control.sample_ppm, 500_000);
}
