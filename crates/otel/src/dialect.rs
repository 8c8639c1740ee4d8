//! Tables of dialects: names of attributes, and the kinds of spans and logs.

use std::{collections::HashMap, sync::LazyLock};

use serde::Deserialize;
use serde_json::Value;

use crate::{attributes::Attributes, record::RecordKind};

/// Reads words between blanks.
fn words<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok(text.split_whitespace().map(ToOwned::to_owned).collect())
}

macro_rules! name_table {
    ($($field:ident),* $(,)?) => {
        /// Names of attributes and members by their meaning, most significant first; `dialects/fields.toml`.
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct FieldNames {
            $(#[serde(deserialize_with = "words")] pub $field: Vec<String>,)*
        }
    };
}

name_table! {
    agent, agent_of_agent, conversation, conversation_endings, no_conversation, response_schemes, request_model,
    response_model, response_id, finish, untraced_events, model_input, model_output, output_text, output_calls,
    output_object, message_list, tool_name, tool_id, tool_arguments, tool_arguments_beside, tool_result, tool_command,
    tool_path, tool_exit, failed, succeeded, error, input_tokens, output_tokens, uncached_input_tokens, cache_tokens,
    usage_object, usage_object_input, usage_object_output, cost, cost_object, withheld, message_wrappers, block_wrappers,
    silent_kinds, argument_members,
}

/// A row of `dialects/kinds.toml`: an attribute, and its values by kind.
#[derive(Debug, Deserialize)]
struct KindRow {
    attribute: String,
    #[serde(flatten)]
    values: HashMap<RecordKind, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct KindTable {
    row: Vec<KindRow>,
}

/// Tables in use.
pub(crate) struct Dialects {
    pub names: FieldNames,
    kinds: Vec<(String, HashMap<String, RecordKind>)>,
    /// Attributes that name a tool, whatever else there is.
    pub sure_tool_name: Vec<String>,
    /// Attributes that name an agent, whatever else there is.
    sure_agent_name: Vec<String>,
    /// Attributes that make a span the call of the tool that is named beside, even without content.
    sure_tool_id: Vec<String>,
}

/// All tables, which are part of the program. A test reads them.
pub(crate) static DIALECTS: LazyLock<Dialects> = LazyLock::new(|| {
    let names: FieldNames = toml::from_str(include_str!("../dialects/fields.toml")).unwrap_or_default();
    let table: KindTable = toml::from_str(include_str!("../dialects/kinds.toml")).unwrap_or_default();
    let kinds = table.row.into_iter().map(|row| {
        let values = row.values.iter();
        let words = values
            .flat_map(|(kind, values)| values.split_whitespace().map(move |value| (value.to_ascii_lowercase(), *kind)))
            .collect();
        (row.attribute, words)
    });
    let sure = |names: &[String], word: &str| names.iter().filter(|name| name.contains(word)).cloned().collect();
    Dialects {
        kinds: kinds.collect(),
        sure_tool_name: sure(&names.tool_name, "tool"),
        sure_agent_name: sure(&names.agent_of_agent, "agent"),
        sure_tool_id: sure(&names.tool_id, "gen_ai."),
        names,
    }
});

impl Dialects {
    /// Returns the kind that a table names, else the one that the attributes speak of.
    pub fn kind(&self, attributes: &Attributes) -> RecordKind {
        let named = self.kinds.iter().find_map(|(attribute, words)| {
            let value = attributes.0.get(attribute).and_then(Value::as_str)?;
            // MLflow writes texts as JSON.
            words.get(&value.trim_matches('"').to_ascii_lowercase()).copied()
        });
        let kind = named.unwrap_or_else(|| self.by_facts(attributes));
        // A name in brackets describes something: `(merge_nodes tools)` repeats the calls beside it.
        let is_described = || attributes.text(&self.names.tool_name).is_some_and(|name| name.starts_with('('));
        if kind == RecordKind::Tool && is_described() { RecordKind::Wrapper } else { kind }
    }

    /// Fallback for dialects of no table: the call of a tool names the tool and has an id or content, that of a model
    /// counts its tokens or names its model and holds an output, and an agent has a name and content.
    fn by_facts(&self, attributes: &Attributes) -> RecordKind {
        let names = &self.names;
        let has = |names: &[String]| attributes.first(names).is_some();
        let has_output = || has(&names.output_text) || attributes.structured(&names.model_output).next().is_some();
        let counts = has(&names.input_tokens) || has(&names.output_tokens);
        let is_used = || has(&self.sure_tool_id) || has(&names.tool_arguments) || has(&names.tool_result);
        if has(&self.sure_tool_name) && is_used() {
            RecordKind::Tool
        } else if has(&names.response_id) || has(&names.request_model) && (counts || has_output()) {
            RecordKind::Model
        } else if has(&self.sure_agent_name) && (has(&names.message_list) || has_output()) {
            RecordKind::Agent
        } else {
            RecordKind::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FieldNames, KindTable};

    #[test]
    fn tables_can_be_read() {
        let names: FieldNames = toml::from_str(include_str!("../dialects/fields.toml")).unwrap();
        assert!(!names.tool_id.is_empty());
        let kinds: KindTable = toml::from_str(include_str!("../dialects/kinds.toml")).unwrap();
        assert!(kinds.row.len() > 5);
    }
}
