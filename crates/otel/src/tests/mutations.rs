//! Captures with one thing after another broken.

use opentelemetry_proto::tonic::{common::v1::KeyValue, trace::v1::Span};
use proptest::{prelude::*, sample::Index};
use serde_json::json;

use super::{
    captures::{by_trace, captures},
    synthetic::typed,
};
use crate::{
    Export, Record, assemble,
    attributes::{text_of, value_of},
};

/// Change of one thing in an export, chosen by numbers.
#[derive(Debug, Clone)]
struct Mutation {
    kind: u8,
    place: Index,
    other: Index,
}

fn pairs(export: &mut Export) -> Vec<&mut Vec<KeyValue>> {
    match export {
        Export::Traces(request) => {
            let spans = request.resource_spans.iter_mut().flat_map(|spans| &mut spans.scope_spans);
            let spans = spans.flat_map(|group| &mut group.spans);
            spans
                .flat_map(|span| {
                    let events = span.events.iter_mut().map(|event| &mut event.attributes);
                    events.chain([&mut span.attributes])
                })
                .collect()
        }
        Export::Logs(request) => {
            let logs = request.resource_logs.iter_mut().flat_map(|logs| &mut logs.scope_logs);
            logs.flat_map(|group| &mut group.log_records).map(|log| &mut log.attributes).collect()
        }
        Export::Metrics => Vec::new(),
    }
}

fn all_spans(export: &mut Export) -> Vec<&mut Span> {
    let Export::Traces(request) = export else { return Vec::new() };
    let groups = request.resource_spans.iter_mut().flat_map(|spans| &mut spans.scope_spans);
    groups.flat_map(|group| &mut group.spans).collect()
}

fn mutate(export: &mut Export, mutation: &Mutation) {
    let pick = |index: &Index, length: usize| if length == 0 { 0 } else { index.index(length) };
    if mutation.kind >= 5 {
        let mut spans = all_spans(export);
        let (at, from) = (pick(&mutation.place, spans.len()), pick(&mutation.other, spans.len()));
        let Some(parent) = spans.get(from).map(|span| span.span_id.clone()) else { return };
        let Some(span) = spans.get_mut(at) else { return };
        match mutation.kind {
            5 => span.parent_span_id = parent,
            6 => span.span_id = parent,
            7 => span.end_time_unix_nano = u64::MAX,
            _ => span.start_time_unix_nano = 0,
        }
        return;
    }
    let mut lists = pairs(export);
    let at = pick(&mutation.place, lists.len());
    let Some(list) = lists.get_mut(at) else { return };
    let at = pick(&mutation.other, list.len());
    if mutation.kind == 0 && at < list.len() {
        list.remove(at);
        return;
    }
    let Some(pair) = list.get_mut(at) else { return };
    let text = pair.value.as_ref().map(|value| value_of(Some(value), 24)).unwrap_or_default();
    let text = text_of(&text).unwrap_or_default();
    let replacement = match mutation.kind {
        1 => json!(text.chars().take(mutation.place.index(text.len() + 1)).collect::<String>()),
        2 => [json!(null), json!(-1), json!(true), json!([]), json!({}), json!(1e300)][mutation.other.index(6)].clone(),
        3 => json!([{"role": text, "content": [text, {"text": 1}], "tool_calls": [1, null, {"function": text}]}]),
        _ => json!({"kwargs": {"content": text}, "output": {"output": text}}),
    };
    pair.value = Some(typed(&replacement));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn mutated_captures_never_panic_and_do_not_depend_on_order(
        capture in any::<Index>(),
        mutations in prop::collection::vec(
            (0..9_u8, any::<Index>(), any::<Index>())
                .prop_map(|(kind, place, other)| Mutation { kind, place, other }),
            1..24,
        ),
    ) {
        let mut captures = captures();
        let at = capture.index(captures.len());
        let mut exports = captures.swap_remove(at).exports;
        for mutation in &mutations {
            let at = mutation.place.index(exports.len());
            mutate(&mut exports[at], mutation);
        }
        for records in by_trace(&exports).into_values() {
            let reversed: Vec<Record> = records.iter().rev().chain(&records).cloned().collect();
            prop_assert_eq!(assemble(&records), assemble(&reversed));
        }
    }
}
