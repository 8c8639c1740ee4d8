//! Read your writes: what a run in shadow only seemed to write, it can read back. A call that did not run leaves
//! records in the run's state ([`keep`]); a read of such a record is answered by it ([`look`]); a list that runs live
//! is told what to merge into its result ([`merge`]).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    contract::{CompiledContract, Contracts},
    stub::{
        Call, RunState, SharedMint, Stub, StubError, ValidatedAgainst, eval,
        template::{self, Template},
        tool_variable,
    },
};
use umbra_policy::{Expression, Scope};

/// The error of a record that the run removed.
const NOT_FOUND: &str = "not_found";

/// A tool that reads one record of a collection.
#[derive(Debug)]
pub(super) struct Reader {
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
    pub tool: String,
    pub collection: String,
    pub items: String,
    pub key: String,
    pub more: Option<String>,
}

/// What is to be merged into the result of a read that ran live: of a list, or of one record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Merge {
    /// Where the list, or the record, stands in the result, as `data.items`; the result itself where empty.
    pub items: String,
    /// The field of an item that is its key; empty where the result is of one record.
    pub key: String,
    /// Records that the run wrote.
    pub put: Vec<Value>,
    /// Keys of records that the run removed.
    pub remove: Vec<String>,
    /// By their keys, fields that the run changed of live records.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub patch: BTreeMap<String, Value>,
    /// Where the result says that more pages follow: what the run added comes with the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<String>,
}

/// What a run knows of what a read asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Look {
    /// Nothing: the call runs live.
    Live,
    /// It wrote or removed that very record.
    Stub(Stub),
    /// The call runs live, and its result is merged with this.
    Merge(Merge),
}

/// What a run knows of what a read asks for.
///
/// # Errors
/// When the record cannot be shown as the reading tool would; the run is unchanged then.
pub fn look(contracts: &Contracts, call: &Call<'_>, state: &mut RunState) -> Result<Look, StubError> {
    let name = call.tool.to_string();
    let tool = tool_variable(call.tool);
    let mut scope = Scope::new();
    scope.set("args", call.args);
    scope.set("tool", &tool);
    for reader in contracts.readers(&name) {
        // A call that lacks what the key is made of asks for no record of ours.
        let Some(key) = reader.key.value(&scope).ok().and_then(|key| key_text(&key)) else { continue };
        let Some(record) = state.records.get(&reader.collection).and_then(|records| records.get(&key)) else {
            continue;
        };
        if state.is_partial(&reader.collection, &key) {
            let patch = record.iter().map(|fields| (key.clone(), fields.clone())).collect();
            return Ok(Look::Merge(Merge { items: reader.at.clone(), patch, ..Merge::default() }));
        }
        let mint = SharedMint::of(state);
        let stub = show(contracts, reader, call, record.as_ref(), &mint)?;
        mint.commit(state);
        return Ok(Look::Stub(stub));
    }
    let merge = contracts.listers(&name).find_map(|lister| gather(lister, state));
    Ok(merge.map_or(Look::Live, Look::Merge))
}

/// A record as the reading tool gives it.
fn show(
    contracts: &Contracts,
    reader: &Reader,
    call: &Call<'_>,
    record: Option<&Value>,
    mint: &SharedMint,
) -> Result<Stub, StubError> {
    let own = contracts.find(call.tool);
    let id = own.map_or_else(|| reader.contract.clone(), |own| own.id().to_owned());
    let tool = tool_variable(call.tool);
    let mut scope = Scope::new();
    scope.set("args", call.args);
    scope.set("tool", &tool);
    template::add_functions(&mut scope, mint);
    let failed = |place: &str| {
        let (contract, place) = (reader.contract.clone(), format!("overlay.reads.{place}"));
        move |error| StubError::Expression { contract, place, error }
    };
    let Some(record) = record else {
        let (result, fault) = match &reader.on_missing {
            Some(missing) => (missing.render(&scope).map_err(failed("on_missing"))?, None),
            None => (json!({"error": NOT_FOUND}), Some(NOT_FOUND.to_owned())),
        };
        return Ok(Stub {
            contract: id,
            result,
            validated_against: ValidatedAgainst::Nothing,
            fault,
            is_fallback: false,
        });
    };
    scope.set("record", record);
    let result = match &reader.result {
        Some(result) => result.render(&scope).map_err(failed("result"))?,
        // As a live result holds it.
        None => steps(&reader.at).rev().fold(record.clone(), |inner, step| json!({ step: inner })),
    };
    if result.is_null() {
        return Err(StubError::Null { contract: id });
    }
    let validated_against = match own.filter(|own| own.output.is_some()) {
        Some(own) => {
            own.check_result(&result).map_err(|mismatches| StubError::Invalid { contract: id.clone(), mismatches })?;
            ValidatedAgainst::Contract
        }
        None => ValidatedAgainst::Nothing,
    };
    Ok(Stub { contract: id, result, validated_against, fault: None, is_fallback: false })
}

/// What the run wrote and removed, for a list; none where that is nothing.
fn gather(lister: &Lister, state: &RunState) -> Option<Merge> {
    let records = state.records.get(&lister.collection).filter(|records| !records.is_empty())?;
    let (items, key, more) = (lister.items.clone(), lister.key.clone(), lister.more.clone());
    let mut merge = Merge { items, key, more, ..Merge::default() };
    for (key, record) in records {
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
            // A record without fields has no place for its key.
            Some(record) => {
                let fields = [(lister.key.clone(), json!(key)), ("value".to_owned(), record.clone())];
                merge.put.push(Value::Object(Map::from_iter(fields)));
            }
        }
    }
    Some(merge)
}

/// The live result of a list with what the run wrote: changed, removed, replaced, added (to the last page); or that of one
/// record with the fields that the run changed. A result without such a list or record stays as it is.
pub fn merge(mut result: Value, merge: &Merge) -> Value {
    let follows = merge.more.as_ref().and_then(|more| steps(more).try_fold(&result, |at, step| at.get(step)));
    let is_last = follows.is_none_or(|more| more.is_null() || *more == false || *more == "" || *more == 0);
    match steps(&merge.items).try_fold(&mut result, |at, step| at.get_mut(step)) {
        Some(Value::Array(items)) => merge_items(items, merge, is_last),
        // An error is no record, and has no fields to change.
        Some(record @ Value::Object(_)) if merge.key.is_empty() && record.get("error").is_none_or(Value::is_null) => {
            merge.patch.values().for_each(|fields| lay_over(record, fields));
        }
        _ => {}
    }
    result
}

fn merge_items(items: &mut Vec<Value>, merge: &Merge, is_last: bool) {
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

/// Fields laid over those of a value, members of members as well (RFC 7396, but that null is a value).
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

/// The fields of a path, as of `data.items`.
fn steps(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('.').filter(|step| !step.is_empty())
}

/// Notes in the run what a call would have written.
pub(super) fn keep(
    contract: &CompiledContract,
    call: &Call<'_>,
    result: &Value,
    state: &mut RunState,
    mint: &SharedMint,
) -> Result<(), StubError> {
    if contract.put.is_none() && contract.delete.is_none() {
        return Ok(());
    }
    let tool = tool_variable(call.tool);
    let record;
    let mut scope = Scope::new();
    scope.set("args", call.args);
    scope.set("tool", &tool);
    scope.set("result", result);
    template::add_functions(&mut scope, mint);
    let failed = |place: &str| {
        let (contract, place) = (contract.id().to_owned(), format!("overlay.{place}"));
        move |error| StubError::Expression { contract, place, error }
    };
    let key = |place: &str, key: &Expression| {
        let value = key.value(&scope).map_err(|error| eval(key.source(), error)).map_err(failed(place))?;
        key_text(&value).ok_or_else(|| StubError::Key { contract: contract.id().to_owned(), found: describe(&value) })
    };
    // All is reckoned before anything is kept.
    let deleted = contract.delete.as_ref().map(|delete| key("delete.key", &delete.key)).transpose()?;
    let stored = contract.put.as_ref().map(|put| key("put.key", &put.key)).transpose()?;
    let put = match contract.put.as_ref().zip(stored) {
        Some((put, key)) => {
            let known = state.records.get(&put.collection).and_then(|records| records.get(&key));
            record = known.cloned().flatten().unwrap_or_else(|| json!({}));
            scope.set("record", &record);
            let value = put.value.as_ref().map(|value| value.render(&scope).map_err(failed("put.value")));
            let value = value.transpose()?.unwrap_or_else(|| result.clone());
            match (put.partial && value.is_object(), known) {
                (false, _) => Some((key, value, false)),
                (true, None) => Some((key, value, true)),
                (true, Some(Some(before))) => {
                    let mut laid = before.clone();
                    lay_over(&mut laid, &value);
                    let partial = state.is_partial(&put.collection, &key);
                    Some((key, laid, partial))
                }
                // What the run has removed has no fields to change.
                (true, Some(None)) => None,
            }
        }
        None => None,
    };
    let before = (state.records.clone(), state.partial.clone());
    let write = || {
        if let Some((delete, key)) = contract.delete.as_ref().zip(deleted) {
            state.record(&delete.collection, key, None)?;
        }
        match contract.put.as_ref().zip(put) {
            Some((contract, (key, fields, true))) => state.record_part(&contract.collection, key, fields),
            Some((contract, (key, value, false))) => state.record(&contract.collection, key, Some(value)),
            None => Ok(()),
        }
    };
    write().inspect_err(|_| (state.records, state.partial) = before)
}

/// A key as text.
fn key_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::String(_) => "an empty text",
        Value::Number(_) => "a number",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}
