//! Services of the scripted agent: tables in memory, behind functions that answer like such services.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::agent::Agent;

/// A domain: a service, and the agent's script for it.
pub(super) struct Domain {
    /// The name of the tools' server.
    pub name: &'static str,
    /// Number of tasks, numbered from 0.
    pub cases: u32,
    /// The service before a task.
    pub tables: fn(u32) -> Tables,
    /// The service's answer to a call.
    pub serve: fn(&mut Tables, &str, &Value) -> Value,
    /// The agent's script for a task.
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
    /// Adds a record.
    pub fn with(mut self, table: &'static str, key: &str, record: Value) -> Self {
        self.put(table, key, record);
        self
    }

    /// Stores a record and returns it.
    pub fn put(&mut self, table: &'static str, key: &str, record: Value) -> Value {
        self.rows.entry(table).or_default().insert(key.to_owned(), record.clone());
        record
    }

    /// Finds the record that an argument names.
    pub fn find(&self, table: &'static str, key: &Value) -> Option<&Value> {
        self.rows.get(table)?.get(key.as_str()?)
    }

    /// Finds the record that an argument names, to change it.
    pub fn find_mut(&mut self, table: &'static str, key: &Value) -> Option<&mut Value> {
        self.rows.get_mut(table)?.get_mut(key.as_str()?)
    }

    /// Returns the record, or the error `not_found`.
    pub fn read(&self, table: &'static str, key: &Value) -> Value {
        self.find(table, key).cloned().unwrap_or_else(missing)
    }

    /// Removes the record and returns it.
    pub fn take(&mut self, table: &'static str, key: &Value) -> Option<Value> {
        self.rows.get_mut(table)?.remove(key.as_str()?)
    }

    /// Returns all records of a table, by key.
    pub fn all(&self, table: &'static str) -> Vec<Value> {
        self.rows.get(table).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Returns a page of records from `args.offset` on.
    pub fn page(&self, table: &'static str, args: &Value) -> Value {
        let offset = args["offset"].as_u64().and_then(|offset| usize::try_from(offset).ok()).unwrap_or(0);
        let all = self.all(table);
        let data: Vec<Value> = all.iter().skip(offset).take(PAGE).cloned().collect();
        json!({"data": data, "next_offset": offset + data.len(), "has_more": offset + data.len() < all.len()})
    }

    /// Returns a new id.
    pub fn mint(&mut self, prefix: &str) -> String {
        self.minted += 1;
        format!("{prefix}{}", 4_000 + self.minted * 7)
    }
}

/// Returns the error of a missing record.
pub(super) fn missing() -> Value {
    error("not_found")
}

/// Returns an error with this code.
pub(super) fn error(code: &str) -> Value {
    json!({"error": {"code": code}})
}

/// Pages through a list until it holds a record. True if the agent finds it.
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
