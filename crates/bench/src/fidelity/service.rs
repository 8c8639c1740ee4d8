//! The services that the agent works with: tables in memory, behind functions that answer as such services do.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::agent::Agent;

/// A field of work: a service, and what an agent does with it.
pub(super) struct Domain {
    /// The name of the tools' server.
    pub name: &'static str,
    /// How many tasks there are, from 0.
    pub cases: u32,
    /// The service before a task.
    pub tables: fn(u32) -> Tables,
    /// The service's answer to a call.
    pub serve: fn(&mut Tables, &str, &Value) -> Value,
    /// What the agent does.
    pub script: fn(&mut Agent<'_>, u32),
}

/// Items of a page.
const PAGE: usize = 5;

/// Records by table and key.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Tables {
    rows: BTreeMap<&'static str, BTreeMap<String, Value>>,
    minted: u32,
}

impl Tables {
    /// With this record, too.
    pub fn with(mut self, table: &'static str, key: &str, record: Value) -> Self {
        self.put(table, key, record);
        self
    }

    /// Stores a record; answers it.
    pub fn put(&mut self, table: &'static str, key: &str, record: Value) -> Value {
        self.rows.entry(table).or_default().insert(key.to_owned(), record.clone());
        record
    }

    /// The record that an argument names.
    pub fn find(&self, table: &'static str, key: &Value) -> Option<&Value> {
        self.rows.get(table)?.get(key.as_str()?)
    }

    /// The same, to be changed.
    pub fn find_mut(&mut self, table: &'static str, key: &Value) -> Option<&mut Value> {
        self.rows.get_mut(table)?.get_mut(key.as_str()?)
    }

    /// The record, or the error that there is none.
    pub fn read(&self, table: &'static str, key: &Value) -> Value {
        self.find(table, key).cloned().unwrap_or_else(missing)
    }

    /// Removes the record.
    pub fn take(&mut self, table: &'static str, key: &Value) -> Option<Value> {
        self.rows.get_mut(table)?.remove(key.as_str()?)
    }

    /// All records, by key.
    pub fn all(&self, table: &'static str) -> Vec<Value> {
        self.rows.get(table).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// A page of records behind the first `args.offset`.
    pub fn page(&self, table: &'static str, args: &Value) -> Value {
        let offset = args["offset"].as_u64().and_then(|offset| usize::try_from(offset).ok()).unwrap_or(0);
        let all = self.all(table);
        let data: Vec<Value> = all.iter().skip(offset).take(PAGE).cloned().collect();
        json!({"data": data, "next_offset": offset + data.len(), "has_more": offset + data.len() < all.len()})
    }

    /// A new id.
    pub fn mint(&mut self, prefix: &str) -> String {
        self.minted += 1;
        format!("{prefix}{}", 4_000 + self.minted * 7)
    }
}

/// The error of a record that is not there.
pub(super) fn missing() -> Value {
    error("not_found")
}

/// An error of this code.
pub(super) fn error(code: &str) -> Value {
    json!({"error": {"code": code}})
}

/// Whether an agent finds a record in a list, going from page to page until it has.
pub(super) fn is_listed(agent: &mut Agent<'_>, tool: &str, key: &str, wanted: &Value) -> bool {
    let mut offset = json!(0);
    loop {
        let page = agent.call(tool, json!({"offset": offset}));
        let found = page["data"].as_array().is_some_and(|items| items.iter().any(|item| item[key] == *wanted));
        if agent.is(&format!("{tool}: it is on this page"), found && !wanted.is_null()) {
            return true;
        }
        if !agent.is(&format!("{tool}: there are more pages"), page["has_more"] == true) {
            return false;
        }
        offset = page["next_offset"].clone();
    }
}
