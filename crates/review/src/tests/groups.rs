//! Batches and tasks: fences and nonces of their own, verdicts that stay where they belong, and what is left out.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{any_event, any_hits, claim, event, hit, reply_to, shadow, tool_event};
use crate::{
    Baseline, EventInput, FollowUp, Judgement, ModelReply, Prompt, ReviewSubject, StepInput, TaskInput,
    worst_prompt_bytes,
};
use umbra_domain::{Assessment, CheckName, Datamark, Event, EventId, Hit, Severity, Shadow, Trigger};

use Assessment::{Approve, Flag, Inconclusive, Suggest};

/// Nonces 1, 2, 3, ... in the wanted form.
fn counting() -> impl FnMut() -> String {
    let mut drawn = 0_u32;
    move || {
        drawn += 1;
        format!("{drawn:032x}")
    }
}

fn subject(number: u128, event: &Event) -> EventInput<'_> {
    let event_id = EventId(uuid::Uuid::from_u128(number));
    EventInput { event_id, event, trigger: Trigger::TaskComplete, hits: &[], baseline: None, memory: &[] }
}

fn batch(events: &[Event]) -> ReviewSubject<'_> {
    ReviewSubject::Batch(events.iter().zip(1..).map(|(event, number)| subject(number, event)).collect())
}

fn task(events: &[Event], total: usize) -> ReviewSubject<'_> {
    let steps = events
        .iter()
        .zip(1..)
        .map(|(event, number)| StepInput { number, subject: subject(u128::try_from(number).unwrap(), event) });
    ReviewSubject::Trajectory(TaskInput { steps: steps.collect(), total, notes: Vec::new() })
}

fn write(matter: &ReviewSubject) -> Prompt {
    matter.prompt(&shadow(), &mut counting()).unwrap()
}

fn judge(matter: &ReviewSubject, text: &str) -> Vec<Judgement> {
    matter.of_reply(&shadow(), &write(matter), ModelReply { text, cut_off: false, refused: false })
}

fn outputs(texts: &[&str]) -> Vec<Event> {
    texts.iter().map(|text| Event { output: Some((*text).to_owned()), task: None, input: None, ..event() }).collect()
}

fn item(nonce: u32, word: &str, findings: &[Value]) -> Value {
    let text = reply_to(&format!("{nonce:032x}"), word, 80, findings);
    serde_json::from_str(&text).unwrap()
}

fn words(judged: &[Judgement]) -> Vec<Assessment> {
    judged.iter().map(|judgement| judgement.assessment).collect()
}

/// The prompt with its tags replaced by the words TAG1, TAG2, ...
fn readable(prompt: &Prompt) -> String {
    let mut text = prompt.user.clone();
    let mut number = 0;
    while let Some(at) = text.find("umbra-fence-") {
        number += 1;
        let tag = text[at..at + 44].to_owned();
        text = text.replace(&tag, &format!("TAG{number}"));
    }
    text
}

#[test]
fn batch_prompt_matches_its_snapshot() {
    let events = [event(), tool_event(json!({"path": "a"}))];
    let hits = [hit(CheckName::Secrets, Severity::Critical, "tool.args.path", 0, 1)];
    let ReviewSubject::Batch(mut subjects) = batch(&events) else { panic!("a batch") };
    subjects[1].hits = &hits;
    subjects[1].baseline = Some(Baseline { mean: 80.0, spread: 5.0, count: 9 });
    insta::assert_snapshot!(readable(&write(&ReviewSubject::Batch(subjects))));
}

#[test]
fn task_prompt_matches_its_snapshot() {
    let events = [tool_event(json!({"path": "a"})), event()];
    insta::assert_snapshot!(readable(&write(&task(&events, 120))));
}

#[test]
fn system_prompt_names_the_scope_that_is_judged() {
    let events = outputs(&["one", "two"]);
    let (of_batch, of_task) = (write(&batch(&events)).system, write(&task(&events, 2)).system);
    let of_event = super::write(&shadow(), &events[0], &[]).system;
    assert!(of_batch.contains("several events") && of_batch.contains("one item for each event"));
    assert!(of_task.contains("the steps of one task") && of_task.contains("- step: the number"));
    assert!(of_event.contains("one event: a copy") && !of_event.contains("step:"));
}

#[test]
fn verdict_is_assigned_by_the_nonce_of_its_event() {
    let events = outputs(&["one is well", "two is well", "three is well", "four is well"]);
    let own = item(4, "APPROVE", &[]);
    let text = json!({"events": [item(3, "SUGGEST", &[]), item(1, "APPROVE", &[]), own, own]});
    let judged = judge(&batch(&events), &text.to_string());
    assert_eq!(words(&judged), [Approve, Inconclusive, Suggest, Inconclusive]);
    assert_eq!(judged[1].notes, ["The model's reply has no verdict on this event."]);
    assert!(judged[3].notes[0].contains("more than one verdict"));
    assert!(judged.iter().all(|judgement| judgement.follow_up.is_none()));
}

#[test]
fn reply_with_surplus_events_approves_none() {
    let events = outputs(&["one is well", "two is well"]);
    let said = [item(1, "APPROVE", &[]), item(2, "SUGGEST", &[]), item(9, "APPROVE", &[])];
    let judged = judge(&batch(&events), &json!({"events": said}).to_string());
    assert_eq!(words(&judged), [Inconclusive, Suggest]);
    assert!(judged[0].notes[0].contains("more events than it was given"), "{:?}", judged[0].notes);
    let judged = judge(&batch(&events), &json!({"events": said[..2]}).to_string());
    assert_eq!(words(&judged), [Approve, Suggest]);
}

#[test]
fn each_event_needs_its_own_canary() {
    let events = outputs(&["one is well", "two is well", "three is well"]);
    let (mut two, mut three) = (item(2, "APPROVE", &[]), item(3, "APPROVE", &[]));
    two["findings"] = json!([]);
    three["findings"] = json!([super::canary_claim(&format!("{:032x}", 1))]);
    let judged = judge(&batch(&events), &json!({"events": [item(1, "APPROVE", &[]), two, three]}).to_string());
    assert_eq!(words(&judged), [Approve, Inconclusive, Inconclusive]);
    assert!(judged[2].notes[0].contains("planted"), "{:?}", judged[2].notes);
}

#[test]
fn finding_about_an_unshown_step_voids_an_approval() {
    let events = outputs(&["the sum is five", "the sum is six"]);
    let said = |step: u32| {
        let mut finding = claim("info", "is five");
        finding["step"] = json!(step);
        words(&judge(&task(&events, 2), &reply_to(&format!("{:032x}", 1), "APPROVE", 90, &[finding])))
    };
    assert_eq!((said(2), said(9)), (vec![Approve], vec![Inconclusive]));
}

#[test]
fn quote_counts_only_in_its_own_event() {
    let events = outputs(&["the sum is five", "all is well"]);
    let quote = || claim("critical", "the sum is five");
    let text = json!({"events": [item(1, "FLAG", &[quote()]), item(2, "FLAG", &[quote()])]}).to_string();
    let judged = judge(&batch(&events), &text);
    assert_eq!(words(&judged), [Assessment::Flag, Assessment::Suggest]);
    assert_eq!((judged[0].findings[0].verified, judged[1].findings[0].verified), (true, false));
    assert_eq!(judged[1].findings[0].event_id.0.as_u128(), 2);
}

#[test]
fn unreadable_batch_reply_is_inconclusive_for_every_event() {
    let events = outputs(&["one", "two"]);
    for text in ["well", "{\"events\": [{}]}", "{\"events\": []} {}"] {
        let judged = judge(&batch(&events), text);
        assert_eq!(words(&judged), [Assessment::Inconclusive; 2], "{text}");
        assert!(matches!(judged[0].follow_up, Some(FollowUp::Repair(_))), "{text}");
    }
    let none = judge(&batch(&events), "{\"events\": []}");
    assert_eq!((words(&none), &none[0].follow_up), (vec![Assessment::Inconclusive; 2], &None));
}

#[test]
fn task_finding_is_assigned_to_the_step_of_its_quote() {
    let events = outputs(&["the sum is five", "the sum is six", "the sum is five"]);
    let said = |step: Option<u32>, quote: &str| {
        let mut finding = claim("critical", quote);
        finding["step"] = json!(step);
        let text = reply_to(&format!("{:032x}", 1), "FLAG", 5, &[finding]);
        let judged = judge(&task(&events, 3), &text);
        assert_eq!(judged.len(), 1);
        (judged[0].assessment, judged[0].findings[0].event_id.0.as_u128())
    };
    assert_eq!(said(Some(1), "is five"), (Flag, 1), "the step that it names");
    assert_eq!(said(None, "is five"), (Flag, 3), "else the latest that holds it");
    assert_eq!(said(Some(1), "is six"), (Flag, 2), "a wrong number does not hide it");
    assert_eq!(said(Some(2), "is seven"), (Suggest, 2), "unverified, where it was named");
    assert_eq!(said(Some(77), "is seven"), (Suggest, 3));
}

#[test]
fn a_task_that_was_not_shown_whole_is_not_approved() {
    let events = outputs(&["one", "two"]);
    let text = reply_to(&format!("{:032x}", 1), "APPROVE", 90, &[]);
    assert_eq!(words(&judge(&task(&events, 2), &text)), [Assessment::Approve]);
    let cut = judge(&task(&events, 90), &text);
    assert_eq!(words(&cut), [Assessment::Inconclusive]);
    assert!(cut[0].notes[0].starts_with("The task has 90 steps; the model was shown 2"), "{:?}", cut[0].notes);
}

#[test]
fn hits_of_any_step_floor_the_task_assessment() {
    let events = outputs(&["one", "two"]);
    let hits: Vec<Hit> = vec![hit(CheckName::Commands, Severity::Critical, "output", 0, 3)];
    let ReviewSubject::Trajectory(mut of_task) = task(&events, 2) else { panic!("a task") };
    of_task.steps[0].subject.hits = &hits;
    let matter = ReviewSubject::Trajectory(of_task);
    let text = reply_to(&format!("{:032x}", 1), "APPROVE", 90, &[]);
    for judged in [matter.of_checks(&shadow()), judge(&matter, &text)] {
        assert_eq!(words(&judged), [Assessment::Flag]);
        assert_eq!(judged[0].findings[0].event_id.0.as_u128(), 1);
    }
}

#[test]
fn omission_makes_only_its_own_event_inconclusive() {
    let long = "x".repeat(9_000);
    let events = outputs(&["short", &long, &long]);
    let matter = batch(&events);
    let shadow = Shadow { max_input_chars: 4_000, ..shadow() };
    let prompt = matter.prompt(&shadow, &mut counting()).unwrap();
    let left_out: Vec<usize> = prompt.shown.iter().map(|shown| shown.omitted.len()).collect();
    assert_eq!(left_out, [0, 1, 1]);
    let text = json!({"events": [item(1, "APPROVE", &[]), item(2, "APPROVE", &[]), item(3, "APPROVE", &[])]});
    let reply = ModelReply { text: &text.to_string(), cut_off: false, refused: false };
    let judged = matter.of_reply(&shadow, &prompt, reply);
    assert_eq!(words(&judged), [Approve, Inconclusive, Inconclusive], "nobody approves what was not shown");
    assert!(judged[1].notes[0].starts_with("Not shown to the model, output: "));
}

proptest! {
    #[test]
    fn group_prompts_stay_within_their_bound(
        events in proptest::collection::vec(any_event(), 2..6),
        hits in any_hits(),
        max_input_chars in 0..600_u32,
        datamark in proptest::sample::select(Datamark::ALL.to_vec()),
    ) {
        let shadow = Shadow { max_input_chars, datamark, ..shadow() };
        let baseline = Some(Baseline { mean: f64::MAX, spread: f64::MAX, count: u32::MAX });
        let ReviewSubject::Batch(mut subjects) = batch(&events) else { panic!("a batch") };
        let ReviewSubject::Trajectory(mut of_task) = task(&events, usize::MAX) else { panic!("a task") };
        for subject in subjects.iter_mut().chain(of_task.steps.iter_mut().map(|step| &mut step.subject)) {
            (subject.hits, subject.baseline) = (&hits, baseline);
        }
        let bound = worst_prompt_bytes(&shadow, &events.iter().collect::<Vec<_>>());
        for matter in [ReviewSubject::Batch(subjects), ReviewSubject::Trajectory(of_task)] {
            let written = matter.prompt(&shadow, &mut || hex::encode(rand::random::<[u8; 16]>())).unwrap();
            let repaired = crate::repair_prompt(&written, &"m".repeat(240));
            prop_assert!(repaired.bytes() <= bound, "{} of {bound}", repaired.bytes());
        }
    }

    #[test]
    fn no_batch_reply_lowers_the_check_result_of_an_event(
        events in proptest::collection::vec(any_event(), 1..4),
        hits in any_hits(),
        word in proptest::sample::select(vec!["APPROVE", "SUGGEST", "FLAG", "INCONCLUSIVE"]),
        answered in 0..4_u32,
    ) {
        let ReviewSubject::Batch(mut subjects) = batch(&events) else { panic!("a batch") };
        for subject in &mut subjects {
            subject.hits = &hits;
        }
        let matter = ReviewSubject::Batch(subjects);
        let items: Vec<Value> = (1..=answered).map(|nonce| item(nonce, word, &[])).collect();
        let floors = words(&matter.of_checks(&shadow()));
        let judged = words(&judge(&matter, &json!({"events": items}).to_string()));
        prop_assert_eq!(judged.len(), events.len());
        for (floor, judged) in floors.into_iter().zip(judged) {
            prop_assert!(judged >= floor || floor == Assessment::Checked);
        }
    }
}
