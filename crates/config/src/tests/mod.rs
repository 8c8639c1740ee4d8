//! Tests of what configuration accepts and refuses, by tables: a text in, the places and words of its faults out.

mod edits;
mod environment;
mod faults;
mod policies;
mod schema;
mod settings;
mod shadows;
mod sidecar;
mod tools;
mod yaml;

use std::{collections::BTreeMap, time::Duration};

use super::{Fault, Report};
use umbra_domain::{ModelKind, ModelSpec, PricePerMtok, Prices, Provider};

/// A model with prices in USD for a million tokens.
fn model(alias: &str, provider: Provider, prices: Option<(f64, f64)>) -> ModelSpec {
    ModelSpec {
        alias: alias.to_owned(),
        provider,
        kind: ModelKind::Chat,
        name: alias.to_owned(),
        base_url: None,
        api_key_env: None,
        prices: prices.map(|(input, output)| Prices {
            input: PricePerMtok::from_usd(input).unwrap(),
            output: PricePerMtok::from_usd(output).unwrap(),
        }),
        max_output_tokens: 1_024,
        timeout: Duration::from_mins(1),
    }
}

/// Models: cheap ones, a dear one, one without prices, and `checks`.
fn models() -> BTreeMap<String, ModelSpec> {
    [
        model("haiku", Provider::Anthropic, Some((1.0, 5.0))),
        model("mini", Provider::Openai, Some((0.25, 2.0))),
        model("frontier", Provider::Openai, Some((5.0, 25.0))),
        model("local", Provider::Openai, None),
        model("checks", Provider::Checks, None),
    ]
    .into_iter()
    .map(|spec| (spec.alias.clone(), spec))
    .collect()
}

/// Returns the faults of a text that must be refused.
fn faults<T>(result: Result<T, Report>) -> Vec<Fault> {
    result.err().map(|report| report.faults).unwrap_or_default()
}

/// Asserts one fault, its line, and words of its message and help.
#[track_caller]
fn one_fault(case: &str, faults: &[Fault], line: usize, words: &[&str]) {
    let shown: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let shown = shown.join("\n");
    assert_eq!(faults.len(), 1, "{case}\nfaults:\n{shown}");
    assert_eq!(faults[0].line, line, "{case}\n{shown}");
    for word in words {
        assert!(shown.contains(word), "{case}\nlacks {word:?}:\n{shown}");
    }
}
