//! Tests of posted patterns, of mined patterns, and of keys.

use proptest::prelude::*;

use super::*;

fn posted() -> NewPattern {
    NewPattern {
        agent: "worker".to_owned(),
        task: "Convert the invoices to PDF".to_owned(),
        tools: named(&["list_files", "convert"]),
        ..NewPattern::default()
    }
}

#[test]
fn every_fault_is_reported_with_its_pointer() {
    type Change = fn(&mut NewPattern);
    let table: &[(Change, &[(&str, &str)])] = &[
        (|_| {}, &[]),
        (|new| new.agent = " ".to_owned(), &[("/agent", "missing")]),
        (|new| new.agent = "a".repeat(257), &[("/agent", "range")]),
        (|new| new.task.clear(), &[("/task", "missing")]),
        (|new| new.task = "do it!".to_owned(), &[]),
        (|new| new.task = "mail ".repeat(410), &[("/task", "range")]),
        (|new| new.prompt = Some("x".repeat(8193)), &[("/prompt", "range")]),
        (|new| new.summary = Some("x".repeat(2049)), &[("/summary", "range")]),
        (|new| new.session = Some("x".repeat(257)), &[("/session", "range")]),
        (|new| new.task_id = Some("x".repeat(257)), &[("/task_id", "range")]),
        (|new| new.task_type = Some("x".repeat(257)), &[("/task_type", "range")]),
        (|new| new.tools.clear(), &[("", "missing")]),
        (
            |new| {
                new.tools.clear();
                new.prompt = Some("Convert one by one.".to_owned());
            },
            &[],
        ),
        (|new| new.tools = vec![ToolName::bare("x"); 51], &[("/tools", "range")]),
        (|new| new.tools[1].name.clear(), &[("/tools/1/name", "missing")]),
        (|new| new.tools[1].name = "x".repeat(257), &[("/tools/1/name", "range")]),
        (
            |new| new.tools[0] = ToolName::of("a\u{200b}", "b\n"),
            &[("/tools/0/server", "format"), ("/tools/0/name", "format")],
        ),
        (|new| new.cost_usd = Some(NanoUsd(-1)), &[("/cost_usd", "range")]),
        (|new| new.cost_usd = NanoUsd::from_usd(1e6), &[]),
        (|new| new.cost_usd = NanoUsd::from_usd(1e6 + 1.0), &[("/cost_usd", "range")]),
        (|new| new.ms = Some(31 * 24 * 3_600_000), &[]),
        (|new| new.ms = Some(u64::MAX), &[("/ms", "range")]),
        (
            |new| *new = NewPattern { ms: Some(u64::MAX), ..NewPattern::default() },
            &[("/agent", "missing"), ("/task", "missing"), ("", "missing"), ("/ms", "range")],
        ),
    ];
    for (row, (change, expected)) in table.iter().enumerate() {
        let mut new = posted();
        change(&mut new);
        let told = faults(&new);
        let told: Vec<_> = told.iter().map(|fault| (fault.pointer.as_str(), fault.code)).collect();
        assert_eq!(told, *expected, "row {row}");
    }
    // No word of this task can find it again.
    let odd = NewPattern { task: "do it!".to_owned(), ..posted() };
    assert!(can_be_found(&posted()) && !can_be_found(&odd));
    let unknown = serde_json::from_str::<NewPattern>(r#"{"agent": "a", "task": "b", "successes": 9}"#);
    assert!(unknown.is_err(), "nobody posts counts");
}

#[test]
fn equal_tasks_and_tools_have_one_dedup_key() {
    let key = dedup_key(&posted());
    let with = |change: fn(&mut NewPattern)| {
        let mut new = posted();
        change(&mut new);
        dedup_key(&new)
    };
    let same: &[fn(&mut NewPattern)] = &[
        |new| new.task = "to pdf: CONVERT invoices!".to_owned(),
        |new| new.task = "Please convert the invoice, converting invoices to PDFs".to_owned(),
        |new| new.tools = named(&["List-Files", "list_files", "convert", "Convert"]),
        |new| new.prompt = Some("Another one.".to_owned()),
        |new| new.outcome = PatternOutcome::Failed,
        |new| (new.session, new.task_type, new.ms) = (Some("s".to_owned()), Some("office".to_owned()), Some(3)),
    ];
    for (row, change) in same.iter().enumerate() {
        assert_eq!(with(*change), key, "row {row}");
    }
    let others: &[fn(&mut NewPattern)] = &[
        |new| new.agent = "other".to_owned(),
        |new| new.task = "Convert the invoices to HTML".to_owned(),
        |new| new.tools = named(&["convert", "list_files"]),
        |new| new.tools = named(&["list_files", "convert", "list_files"]),
        |new| new.tools = named(&["list_files"]),
        |new| new.tools = vec![ToolName::of("files", "list_files"), ToolName::bare("convert")],
        |new| (new.task, new.tools) = ("Convert the invoices to PDF list_files".to_owned(), named(&["convert"])),
    ];
    for (row, change) in others.iter().enumerate() {
        assert_ne!(with(*change), key, "row {row}");
    }
    assert_ne!(with(|new| new.task = "!".to_owned()), with(|new| new.task = "?".to_owned()));
}

fn step(tool: &str, ok: bool) -> MinedStep {
    MinedStep { tool: Some(ToolName::bare(tool)), ok, rejected: false, summary: Some(format!(" {tool} ran ")) }
}

fn mined(task: &str, steps: &[MinedStep]) -> Option<NewPattern> {
    let approved = NewPattern {
        agent: "worker".to_owned(),
        task_type: Some("office".to_owned()),
        task: task.to_owned(),
        task_id: Some("t1".to_owned()),
        cost_usd: Some(NanoUsd(5)),
        ..NewPattern::default()
    };
    mine(approved, steps)
}

#[test]
fn approved_task_is_mined_for_its_successful_tools() {
    let task = "Convert the invoices to PDF";
    let said = MinedStep { summary: Some("All converted.".to_owned()), ok: true, ..MinedStep::default() };
    let steps = [
        step("list_files", true),
        step("List-Files", true),
        step("open", false),
        step("list_files", true),
        step("convert", true),
        said,
        MinedStep::default(),
    ];
    let new = mined(task, &steps).unwrap();
    assert_eq!(new.tools, named(&["list_files", "convert"]));
    assert_eq!(new.summary.as_deref(), Some("All converted."));
    assert_eq!((new.outcome, new.task_id.as_deref()), (PatternOutcome::Succeeded, Some("t1")));
    let rejected = MinedStep { rejected: true, ..step("convert", true) };
    let many: Vec<MinedStep> = (0..51).map(|number| step(&format!("tool_{number}"), true)).collect();
    let nothing: [(&str, &[MinedStep]); 7] = [
        (task, &[]),
        (task, &[step("convert", false)]),
        (task, &[MinedStep { ok: true, ..MinedStep::default() }]),
        (task, &[step("list_files", true), rejected]),
        (task, &many),
        (task, &[step("conv\u{200b}ert", true)]),
        ("do it", &[step("convert", true)]),
    ];
    for (task, steps) in nothing {
        assert_eq!(mined(task, steps), None, "{task} {}", steps.len());
    }
    assert_eq!(mined(task, &many[..50]).unwrap().tools.len(), 50);
    let long = mined(&"umlaut ü ".repeat(400), &[step("convert", true)]).unwrap();
    assert!(long.task.len() <= 2048 && long.task.len() > 2040);
}

#[test]
fn screened_pattern_has_no_secrets_or_hidden_characters() {
    let token = concat!("ghp_", "R8sKq2LmT4vXwZ6yB1nC3dF5gH7jK9pA0eQx");
    let told = NewPattern {
        prompt: Some(format!("Use the token {token} here.")),
        summary: Some("It wor\u{200b}ked.".to_owned()),
        ..posted()
    };
    let ScreenedPattern { pattern, quarantine } = screen(told);
    let prompt = pattern.prompt.as_deref().unwrap();
    assert!(prompt.contains("[secret:") && !prompt.contains(token), "{prompt}");
    assert_eq!(pattern.summary.as_deref(), Some("It worked."));
    assert_eq!(quarantine.as_deref(), Some("it has hidden characters (zero_width); it contained a secret"));
    // Hidden characters are detected only once; a secret also later, by its mark.
    let again = screen(pattern.clone());
    assert_eq!((again.pattern, again.quarantine.as_deref()), (pattern, Some("it contained a secret")));
}

proptest! {
    #[test]
    fn dedup_key_ignores_order_and_form_of_words(
        (words, shuffled) in proptest::collection::vec(proptest::sample::select(WORDS.to_vec()), 1..12)
            .prop_flat_map(|words| (Just(words.clone()), Just(words).prop_shuffle())),
        signs in proptest::collection::vec(proptest::sample::select(vec![" ", ", ", "! ", " - ", "\n"]), 12),
        upper: bool, new in any_new(),
    ) {
        let one = NewPattern { task: words.join(" "), ..new.clone() };
        let mut task: String = shuffled.iter().zip(&signs).flat_map(|(word, sign)| [*word, *sign]).collect();
        if upper {
            task = task.to_uppercase();
        }
        let tools = new.tools.iter().flat_map(|tool| [tool.clone(), tool.clone()]).collect();
        let other = NewPattern { task, tools, ..new };
        prop_assert_eq!(dedup_key(&one), dedup_key(&other));
        let more = NewPattern { task: format!("{} unheard", one.task), ..one.clone() };
        prop_assert_ne!(dedup_key(&one), dedup_key(&more));
    }

    #[test]
    fn mined_patterns_have_no_faults(
        agent in any::<String>(), task in prop_oneof![any::<String>(), any_words(9)],
        steps in proptest::collection::vec((proptest::option::of(any_words(3)), 0..100_u8, any_text()), 0..60),
    ) {
        let steps: Vec<MinedStep> = steps
            .into_iter()
            .map(|(tool, how, summary)| {
                MinedStep { tool: tool.map(ToolName::bare), ok: how > 20, rejected: how == 99, summary }
            })
            .collect();
        if let Some(new) = mine(NewPattern { agent, task, ..NewPattern::default() }, &steps) {
            prop_assert_eq!(faults(&new), vec![]);
            prop_assert!(new.tools.windows(2).all(|pair| pair[0].joined() != pair[1].joined()));
            prop_assert!(steps.iter().all(|step| !step.rejected));
        }
    }

    #[test]
    fn second_screening_changes_nothing(new in any_new()) {
        let once = screen(new).pattern;
        prop_assert_eq!(screen(once.clone()).pattern, once);
    }
}
