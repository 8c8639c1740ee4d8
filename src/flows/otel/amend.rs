//! Facts that arrive after a call's event was filed: they are added to the event, and the checks look at them.

use super::Otel;
use serde_json::{Map, Value};
use umbra_domain::{Event, EventId, Mark, NanoUsd, StoredEvent, ToolCall};
use umbra_store::StoreError;

/// Most tries if the event changes meanwhile.
const TRIES: usize = 3;

impl Otel {
    /// Adds to an event what it lacks. What it says already stays, but for arguments and result of a tool: those of the
    /// whole trace count. What a later trace was told of a result may be cut.
    /// Returns the instrumentation under which a model's call was counted, if its content came only now.
    pub(super) async fn amend(&self, id: EventId, more: &Event, marks: &[Mark]) -> Result<Option<String>, StoreError> {
        for _ in 0..TRIES {
            let Some(before) = self.0.store.events().payload(id).await? else { return Ok(None) };
            let Ok(mut stored) = serde_json::from_slice::<StoredEvent>(&before) else { return Ok(None) };
            let new = completed(&mut stored.event, more);
            if !new.any {
                return Ok(None);
            }
            stored.marks.retain(|mark| !new.fields.iter().any(|field| mark.field.as_str().starts_with(field)));
            stored.marks.extend(
                marks
                    .iter()
                    .filter(|mark| new.fields.iter().any(|field| mark.field.as_str().starts_with(field)))
                    .cloned(),
            );
            let Ok(after) = serde_json::to_vec(&stored) else { return Ok(None) };
            let cost = new.cost.and_then(|cost| Some((stored.event.task_id.as_deref()?, cost)));
            if self.0.store.otel().amend(id, (&before, &after), cost).await? {
                if !new.fields.is_empty() {
                    self.0.looks.look_again(id, &stored, &new.fields).await?;
                }
                return Ok(new.content);
            }
        }
        Ok(None)
    }
}

/// Additions to an event.
#[derive(Default)]
struct Additions {
    any: bool,
    /// Names of the texts that are new.
    fields: Vec<&'static str>,
    cost: Option<NanoUsd>,
    /// Instrumentation that the event named, if the content of a model's call came.
    content: Option<String>,
}

/// Fills in what an event lacks.
fn completed(event: &mut Event, more: &Event) -> Additions {
    let mut new = Additions::default();
    let mut text = |slot: &mut Option<String>, value: &Option<String>, name: &'static str| {
        if slot.is_none() && value.is_some() {
            slot.clone_from(value);
            new.fields.push(name);
        }
    };
    text(&mut event.output, &more.output, "output");
    text(&mut event.task, &more.task, "task");
    // A hook sees the call itself, its trace a copy that exporters cut, a later trace what became of it in the history.
    let is_of_trace = more.metadata.contains_key("otel") && !event.metadata.contains_key("hook");
    let may_replace = more.metadata.contains_key("hook") || is_of_trace;
    if let Some(told) = &more.tool {
        let tool = event.tool.get_or_insert_with(ToolCall::default);
        text(&mut tool.error, &told.error, "tool.error");
        tool.exit_code = tool.exit_code.or(told.exit_code);
        let is_new = |known: bool, differs: bool| differs && (may_replace || !known);
        if told.result.is_some() && is_new(tool.result.is_some(), tool.result != told.result) {
            tool.result.clone_from(&told.result);
            new.fields.push("tool.result");
        } else if may_replace && told.error.is_some() && told.result.is_none() && tool.result.take().is_some() {
            // The result was the error, as one of two instrumentations tells it.
            new.fields.push("tool.result");
        }
        if !told.args.is_null() && is_new(!tool.args.is_null(), tool.args != told.args) {
            tool.args.clone_from(&told.args);
            new.fields.push("tool.args");
        }
        if tool.name.is_empty() {
            tool.name.clone_from(&told.name);
        }
    }
    new.any = !new.fields.is_empty();
    if event.cost_usd.is_none() && more.cost_usd.is_some() {
        (event.cost_usd, new.cost, new.any) = (more.cost_usd, more.cost_usd, true);
    }
    for (slot, value) in [
        (&mut event.session_id, &more.session_id),
        (&mut event.stop_reason, &more.stop_reason),
        (&mut event.status, &more.status),
    ] {
        if slot.is_none() && value.is_some() {
            slot.clone_from(value);
            new.any = true;
        }
    }
    if event.tokens.is_none() && more.tokens.is_some() {
        (event.tokens, new.any) = (more.tokens, true);
    }
    for (name, value) in &more.metadata {
        if name != "otel" && !event.metadata.contains_key(name) {
            event.metadata.insert(name.clone(), value.clone());
            new.any = true;
        }
    }
    let Some(Value::Object(told)) = more.metadata.get("otel") else { return new };
    // An event of a hook has no provenance yet.
    let known = event.metadata.entry("otel").or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(known) = known else { return new };
    if !told.contains_key("content") && known.remove("content").is_some() {
        let scope = known.get("scope").and_then(Value::as_str).unwrap_or_default();
        (new.content, new.any) = (Some(scope.to_owned()), true);
    }
    // The place in time and in the trace is known better later.
    if more.duration_ms.is_some() && (event.occurred_at, event.duration_ms) != (more.occurred_at, more.duration_ms) {
        (event.occurred_at, event.duration_ms, new.any) = (more.occurred_at, more.duration_ms, true);
    }
    for (name, value) in told {
        if known.get(name) != Some(value) {
            known.insert(name.clone(), value.clone());
            new.any = true;
        }
    }
    new
}
