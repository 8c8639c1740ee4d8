//! The switch of an instrumentation that exports what a model was asked and said.

use std::sync::LazyLock;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchRow {
    scope: String,
    switch: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchTable {
    row: Vec<SwitchRow>,
}

static SWITCHES: LazyLock<SwitchTable> =
    LazyLock::new(|| toml::from_str(include_str!("../dialects/switches.toml")).unwrap_or_default());

/// Returns the remedy for an instrumentation whose model calls come without content: the switch to set.
pub fn content_switch(scope: &str) -> &'static str {
    SWITCHES.row.iter().find(|row| scope.starts_with(&row.scope)).map_or("", |row| row.switch.trim())
}

#[cfg(test)]
mod tests {
    use super::content_switch;

    #[test]
    fn each_instrumentation_has_a_switch() {
        assert!(content_switch("opentelemetry.instrumentation.openai_v2").contains("CAPTURE_MESSAGE_CONTENT=true"));
        assert!(content_switch("com.anthropic.claude_code.events").contains("OTEL_LOG_USER_PROMPTS"));
        assert!(!content_switch("anything").is_empty());
    }
}
