//! The switch of an instrumentation that exports what a model was asked and said.

use std::{collections::HashMap, sync::LazyLock};

static SWITCHES: LazyLock<HashMap<String, String>> =
    LazyLock::new(|| toml::from_str(include_str!("../dialects/switches.toml")).unwrap_or_default());

/// Returns the remedy for an instrumentation whose model calls come without content: the switch to set.
pub fn content_switch(scope: &str) -> &'static str {
    let known = SWITCHES.iter().filter(|(beginning, _)| scope.starts_with(beginning.as_str()));
    known.max_by_key(|(beginning, _)| beginning.len()).map_or("", |(_, switch)| switch)
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
