//! Models that reason before they answer unless they are asked for low effort.
//!
//! In: a model's name. Out: whether to ask for low effort. Reasoning counts against `max_output_tokens`, so a
//! model left at its default may spend all of it and return half a verdict. Only names that are known to take
//! the parameter get it: a provider refuses a request with a parameter that its model lacks.

/// True if an Anthropic model takes `output_config.effort`: generation 5 and later, which think by default
/// (platform.claude.com, "Effort", 2026-10). Of earlier ones, only costly models take it.
pub(super) fn anthropic(model: &str) -> bool {
    model.strip_prefix("claude-").is_some_and(|rest| generation(rest).is_some_and(|major| major >= 5))
}

/// True if an OpenAI model takes `reasoning_effort`: `gpt-5` and later except the `-chat` ones, and the `o` series
/// (developers.openai.com, "Reasoning models", 2026-10).
pub(super) fn openai(model: &str) -> bool {
    let o_series = model.strip_prefix('o').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let gpt = model.strip_prefix("gpt-").and_then(leading_number).is_some_and(|major| major >= 5);
    o_series || (gpt && !model.contains("-chat"))
}

/// True if a Gemini model takes `thinkingLevel` and thinks more than minimally by default: generation 3 and
/// later except the `lite` ones (ai.google.dev, "Gemini thinking", 2026-11).
pub(super) fn gemini(model: &str) -> bool {
    let major = model.strip_prefix("gemini-").and_then(leading_number);
    major.is_some_and(|major| major >= 3) && !model.contains("-lite")
}

/// Returns the first part of a dashed name that is a small number: `haiku-5-5-20261007` is of generation 5.
fn generation(name: &str) -> Option<u32> {
    name.split('-').find_map(|part| part.parse().ok().filter(|number| *number < 1000))
}

fn leading_number(text: &str) -> Option<u32> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.get(..digits)?.parse().ok()
}
