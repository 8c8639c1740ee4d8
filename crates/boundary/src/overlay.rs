//! Overlay: lets a run in shadow read back its own writes. A call that did not run leaves records in the run's state
//! ([`store_records`]). They answer a read of such a record ([`read_overlay`]) and are merged into the result of a list
//! that runs live ([`merge`]).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    contract::{CompiledContract, CompiledPut, Contracts},
    drift::kind,
    stub::{
        RunState, SharedMint, Stub, StubCall, StubError, ValidatedAgainst, eval,
        template::{self, RenderError, Template},
        tool_variable,
    },
};
use umbra_policy::{EvalError, EvaluationScope, Expression};

/// Error of a read of a record that the run removed.
const NOT_FOUND: &str = "not_found";

/// A tool that reads one record of a collection.
#[derive(Debug)]
pub(super) struct RecordReader {
    /// Joined name of the tool.
    pub tool: String,
    pub contract: String,
    pub collection: String,
    pub key: Expression,
    pub at: String,
    pub result: Option<Template>,
    pub on_missing: Option<Template>,
}

/// A tool that lists records of a collection.
#[derive(Debug)]
pub(super) struct Lister {
    /// Joined name of the tool.
    pub tool: String,
    pub collection: String,
    pub items: String,
    pub key: String,
    pub more: Option<String>,
    pub when: Option<Expression>,
    pub line: Option<Template>,
}

/// Changes to merge into the result of a read that ran live: of a list, or of one record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OverlayMerge {
    /// Path of the list or record in the result, as `data.items`; empty for the result itself.
    pub items: String,
    /// Key field of an item; empty where the result is one record.
    pub key: String,
    /// Records that the run wrote.
    pub put: Vec<Value>,
    /// Keys of records that the run removed.
    pub remove: Vec<String>,
    /// Fields that the run changed in live records, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub patch: BTreeMap<String, Value>,
    /// Path at which the result says that more pages follow: added records come with the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<String>,
    /// Changes of a text at `items`.
    #[serde(default, skip_serializing_if = "TextMerge::is_empty")]
    pub text: TextMerge,
}

/// Changes of a text: replacements within it, and changed lines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TextMerge {
    /// Replacements, in order; one whose text is absent changes nothing.
    pub edits: Vec<TextReplacement>,
    /// Lines to remove.
    pub remove: Vec<String>,
    /// Lines to append, unless they are present.
    pub add: Vec<String>,
}

/// Replacement of a text where it occurs first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TextReplacement {
    /// Replaced text.
    #[serde(rename = "oldText")]
    pub old: String,
    /// New text.
    #[serde(rename = "newText")]
    pub new: String,
}

impl TextMerge {
    fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.remove.is_empty() && self.add.is_empty()
    }

    fn apply(&self, text: &mut String) {
        for TextReplacement { old, new } in &self.edits {
            *text = text.replacen(old, new, 1);
        }
        if self.remove.is_empty() && self.add.is_empty() {
            return;
        }
        let mut lines: Vec<&str> = text.lines().filter(|line| !self.remove.iter().any(|gone| gone == line)).collect();
        for line in &self.add {
            if !lines.contains(&line.as_str()) {
                lines.push(line);
            }
        }
        *text = lines.join("\n");
    }
}

/// The run's own records, as they bear on a read.
#[derive(Debug, Clone, PartialEq)]
pub enum OverlayAnswer {
    /// No record bears on the read: the call runs live.
    Live,
    /// The run wrote or removed this very record, which answers the read.
    Stub(Stub),
    /// The call runs live, and these changes are merged into its result.
    Merge(OverlayMerge),
}

/// Looks up the run's own records that a read asks for.
///
/// # Errors
/// The record cannot be rendered as the reading tool would answer; the run is unchanged then.
pub fn read_overlay(
    contracts: &Contracts,
    call: &StubCall<'_>,
    state: &mut RunState,
) -> Result<OverlayAnswer, StubError> {
    let tool = tool_variable(call.tool);
    let mut scope = EvaluationScope::of([("args", call.args), ("tool", &tool)]);
    template::add_text_functions(&mut scope);
    for reader in contracts.readers(call.tool) {
        // A call without the arguments that form the key asks for no record of the run.
        let Some(key) = reader.key.value(&scope).ok().and_then(|key| key_text(&key)) else { continue };
        let Some(record) = state.records.get(&reader.collection).and_then(|records| records.get(&key)) else {
            continue;
        };
        if state.is_partial(&reader.collection, &key) {
            let mut merge = OverlayMerge { items: reader.at.clone(), ..OverlayMerge::default() };
            match record {
                Some(record @ Value::Array(_)) => merge.text.edits = edits(record).unwrap_or_default(),
                fields => merge.patch.extend(fields.iter().map(|fields| (key.clone(), fields.clone()))),
            }
            return Ok(OverlayAnswer::Merge(merge));
        }
        let mint = SharedMint::of(state);
        let mut stub = show(contracts, reader, call, record.as_ref(), &mint)?;
        if let (Some(_), Some(listed)) = (record, listed(contracts, call, state)) {
            stub.result = merge(stub.result, &listed);
        }
        mint.commit(state);
        return Ok(OverlayAnswer::Stub(stub));
    }
    Ok(listed(contracts, call, state).map_or(OverlayAnswer::Live, OverlayAnswer::Merge))
}

fn listed(contracts: &Contracts, call: &StubCall<'_>, state: &RunState) -> Option<OverlayMerge> {
    let mut all: Option<OverlayMerge> = None;
    for merge in contracts.listers(call.tool).filter_map(|lister| gather(lister, call, state)) {
        match &mut all {
            None => all = Some(merge),
            // Records of several collections may stand in one list.
            Some(all) if (&all.items, &all.key) == (&merge.items, &merge.key) => {
                all.put.extend(merge.put);
                all.remove.extend(merge.remove);
                all.patch.extend(merge.patch);
                all.text.add.extend(merge.text.add);
                all.text.remove.extend(merge.text.remove);
            }
            Some(_) => {}
        }
    }
    all
}

/// Renders a record as the reading tool returns it.
fn show(
    contracts: &Contracts,
    reader: &RecordReader,
    call: &StubCall<'_>,
    record: Option<&Value>,
    mint: &SharedMint,
) -> Result<Stub, StubError> {
    let own = contracts.find(call.tool);
    let id = own.map_or_else(|| reader.contract.clone(), |own| own.id().to_owned());
    let tool = tool_variable(call.tool);
    let mut scope = EvaluationScope::of([("args", call.args), ("tool", &tool)]);
    template::add_functions(&mut scope, mint);
    let failed = |place: &str| {
        let place = format!("overlay.reads.{place}");
        move |error: RenderError| StubError::failed(&reader.contract, &place, error)
    };
    let Some(record) = record else {
        let (result, fault) = match &reader.on_missing {
            Some(missing) => (missing.render(&scope).map_err(failed("on_missing"))?, None),
            None => (json!({"error": NOT_FOUND}), Some(NOT_FOUND.to_owned())),
        };
        return Ok(Stub { fault, ..Stub::of(id, result, ValidatedAgainst::Nothing) });
    };
    scope.set("record", record);
    let result = match &reader.result {
        Some(result) => result.render(&scope).map_err(failed("result"))?,
        // Nested as in a live result.
        None => steps(&reader.at).rev().fold(record.clone(), |inner, step| json!({ step: inner })),
    };
    if result.is_null() {
        return Err(StubError::null(&id));
    }
    let validated_against = match own.filter(|own| own.output.is_some()) {
        Some(own) => {
            own.check_result(&result).map_err(|mismatches| StubError::invalid(&id, &mismatches))?;
            ValidatedAgainst::Contract
        }
        None => ValidatedAgainst::Nothing,
    };
    Ok(Stub::of(id, result, validated_against))
}

/// Collects the records that the run wrote and removed, for a list; none if there are no such records.
fn gather(lister: &Lister, call: &StubCall<'_>, state: &RunState) -> Option<OverlayMerge> {
    let records = state.records.get(&lister.collection).filter(|records| !records.is_empty())?;
    let (items, key, more) = (lister.items.clone(), lister.key.clone(), lister.more.clone());
    let mut merge = OverlayMerge { items, key, more, ..OverlayMerge::default() };
    let tool = tool_variable(call.tool);
    for (key, record) in records {
        let (name, known) = (json!(key), record.as_ref().unwrap_or(&Value::Null));
        let mut scope = EvaluationScope::of([("args", call.args), ("tool", &tool), ("key", &name), ("record", known)]);
        template::add_text_functions(&mut scope);
        // A record on which the condition fails with an error is shown.
        if lister.when.as_ref().is_some_and(|when| when.holds(&scope) == Ok(false)) {
            continue;
        }
        if let Some(line) = &lister.line {
            let lines = if record.is_some() { &mut merge.text.add } else { &mut merge.text.remove };
            lines.extend(line.render(&scope).ok().and_then(|line| line.as_str().map(ToOwned::to_owned)));
            continue;
        }
        match record {
            None => merge.remove.push(key.clone()),
            Some(fields) if state.is_partial(&lister.collection, key) => {
                merge.patch.insert(key.clone(), fields.clone());
            }
            Some(Value::Object(fields)) => {
                let mut fields = fields.clone();
                fields.entry(lister.key.clone()).or_insert_with(|| Value::String(key.clone()));
                merge.put.push(Value::Object(fields));
            }
            // A record without fields has no room for its key: wrap it.
            Some(record) => {
                let fields = [(lister.key.clone(), json!(key)), ("value".to_owned(), record.clone())];
                merge.put.push(Value::Object(Map::from_iter(fields)));
            }
        }
    }
    let is_empty = merge.put.is_empty() && merge.remove.is_empty() && merge.patch.is_empty() && merge.text.is_empty();
    (!is_empty).then_some(merge)
}

/// Merges a run's changes into a live result: of a list (changed, removed, replaced, added on the last page), or of one
/// record (changed fields). A result without such a list or record stays as it is.
pub fn merge(mut result: Value, merge: &OverlayMerge) -> Value {
    let follows = merge.more.as_ref().and_then(|more| steps(more).try_fold(&result, |at, step| at.get(step)));
    let is_last = follows.is_none_or(|more| more.is_null() || *more == false || *more == "" || *more == 0);
    match steps(&merge.items).try_fold(&mut result, |at, step| at.get_mut(step)) {
        Some(Value::Array(items)) => merge_items(items, merge, is_last),
        Some(Value::String(text)) => merge.text.apply(text),
        // An error is no record: it has no fields to change.
        Some(record @ Value::Object(_)) if merge.key.is_empty() && record.get("error").is_none_or(Value::is_null) => {
            merge.patch.values().for_each(|fields| lay_over(record, fields));
        }
        _ => {}
    }
    result
}

fn merge_items(items: &mut Vec<Value>, merge: &OverlayMerge, is_last: bool) {
    let key = |item: &Value| item.get(&merge.key).and_then(key_text);
    let removed: BTreeSet<&str> = merge.remove.iter().map(String::as_str).collect();
    items.retain(|item| key(item).is_none_or(|key| !removed.contains(key.as_str())));
    for item in items.iter_mut() {
        if let Some(fields) = key(item).and_then(|key| merge.patch.get(&key)) {
            lay_over(item, fields);
        }
    }
    for record in &merge.put {
        let wanted = key(record);
        match items.iter_mut().find(|item| wanted.is_some() && key(item) == wanted) {
            Some(item) => *item = record.clone(),
            None if is_last => items.push(record.clone()),
            None => {}
        }
    }
}

/// Lays fields over those of a value, recursively (RFC 7396, except that null is a value).
fn lay_over(value: &mut Value, patch: &Value) {
    match (value, patch) {
        (Value::Object(own), Value::Object(fields)) => {
            for (name, field) in fields {
                match own.get_mut(name) {
                    Some(own) => lay_over(own, field),
                    None => drop(own.insert(name.clone(), field.clone())),
                }
            }
        }
        (value, patch) => *value = patch.clone(),
    }
}

/// Fields of a path such as `data.items`.
fn steps(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('.').filter(|step| !step.is_empty())
}

/// Stores in the run's state the records that a call would have written or removed.
pub(super) fn store_records(
    contract: &CompiledContract,
    call: &StubCall<'_>,
    result: &Value,
    state: &mut RunState,
    mint: &SharedMint,
) -> Result<(), StubError> {
    if contract.put.is_none() && contract.delete.is_none() {
        return Ok(());
    }
    let tool = tool_variable(call.tool);
    let mut scope = EvaluationScope::of([("args", call.args), ("tool", &tool), ("result", result)]);
    template::add_functions(&mut scope, mint);
    let writing = Writing { contract, scope: &scope };
    // Everything is evaluated before anything is stored.
    let deleted = contract.delete.as_ref().map(|delete| writing.key("delete.key", &delete.key)).transpose()?;
    let put = match &contract.put {
        Some(put) => {
            let key = writing.key("put.key", &put.key)?;
            let record = match &put.edits {
                Some(edits) => writing.edited(put, edits, &key, state)?,
                None => writing.record(put, &key, state, (call, result, &tool), mint)?,
            };
            record.map(|record| (put, key, record))
        }
        None => None,
    };
    let before = (state.records.clone(), state.partial.clone());
    let write = || {
        if let Some((delete, key)) = contract.delete.as_ref().zip(deleted) {
            state.record(&delete.collection, key, None, false)?;
        }
        put.map_or(Ok(()), |(put, key, (value, is_part))| state.record(&put.collection, key, Some(value), is_part))
    };
    write().inspect_err(|_| (state.records, state.partial) = before)
}

/// A record that a call leaves, and true if it is only the changes of a live one: fields, or edits of a text.
type OverlayRecord = (Value, bool);

/// Evaluates the overlay of a call that writes.
struct Writing<'a> {
    contract: &'a CompiledContract,
    scope: &'a EvaluationScope<'a>,
}

impl Writing<'_> {
    fn failed(&self, place: &str, error: RenderError) -> StubError {
        StubError::failed(self.contract.id(), &format!("overlay.{place}"), error)
    }

    fn value(&self, place: &str, expression: &Expression) -> Result<Value, StubError> {
        expression.value(self.scope).map_err(|error| self.failed(place, eval(expression.source(), error)))
    }

    fn key(&self, place: &str, key: &Expression) -> Result<String, StubError> {
        let value = self.value(place, key)?;
        let (id, found) = (self.contract.id(), if value.is_string() { "an empty text" } else { kind(&value) });
        let fault = || format!("{id}: the overlay's key is {found}, not a text or a number");
        key_text(&value).ok_or_else(|| StubError::fault("stub_failed", fault()))
    }

    /// Applies replacements to the text of a record; for a live text, keeps the replacements themselves.
    fn edited(
        &self,
        put: &CompiledPut,
        wanted: &Expression,
        key: &str,
        state: &RunState,
    ) -> Result<Option<OverlayRecord>, StubError> {
        let place = "put.edits";
        let failed = |why: &str| self.failed(place, eval(wanted.source(), EvalError::Failed(why.to_owned())));
        let new = self.value(place, wanted)?;
        let replacements = edits(&new).ok_or_else(|| failed("the value is not a list of {oldText, newText}"))?;
        match state.records.get(&put.collection).and_then(|records| records.get(key)) {
            Some(Some(Value::String(text))) => {
                if replacements.iter().any(|edit| !text.contains(&edit.old)) {
                    return Err(failed("the text to replace is not in the record"));
                }
                let mut text = text.clone();
                TextMerge { edits: replacements, ..TextMerge::default() }.apply(&mut text);
                Ok(Some((text.into(), false)))
            }
            Some(Some(Value::Array(before))) => {
                let all = before.iter().chain(new.as_array().into_iter().flatten()).cloned().collect();
                Ok(Some((Value::Array(all), true)))
            }
            None if !replacements.is_empty() => Ok(Some((new, true))),
            _ => Ok(None),
        }
    }

    /// Renders the record to store; none where there is nothing to change or move.
    fn record(
        &self,
        put: &CompiledPut,
        key: &str,
        state: &RunState,
        (call, result, tool): (&StubCall<'_>, &Value, &Value),
        mint: &SharedMint,
    ) -> Result<Option<OverlayRecord>, StubError> {
        let from = put.from.as_ref().map(|from| self.key("put.from", from)).transpose()?;
        let source = from.as_deref().unwrap_or(key);
        let known = state.records.get(&put.collection).and_then(|records| records.get(source));
        let is_partial = state.is_partial(&put.collection, source);
        if from.is_some() && (is_partial || known.is_none_or(Option::is_none)) {
            return Ok(None);
        }
        let record = known.cloned().flatten().unwrap_or_else(|| json!({}));
        let value = match &put.value {
            Some(value) => {
                let mut scope =
                    EvaluationScope::of([("args", call.args), ("tool", tool), ("result", result), ("record", &record)]);
                template::add_functions(&mut scope, mint);
                value.render(&scope).map_err(|error| self.failed("put.value", error))?
            }
            None => result.clone(),
        };
        Ok(match (put.partial && value.is_object(), known) {
            (false, _) => Some((value, false)),
            (true, None) => Some((value, true)),
            (true, Some(Some(_))) => {
                let mut laid = record;
                lay_over(&mut laid, &value);
                Some((laid, is_partial))
            }
            // A record that the run removed has no fields to change.
            (true, Some(None)) => None,
        })
    }
}

/// Parses a list of `{oldText, newText}`; none for any other value.
fn edits(value: &Value) -> Option<Vec<TextReplacement>> {
    Vec::deserialize(value).ok()
}

/// Key as text; none unless it is a number or a text that is not empty.
fn key_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
