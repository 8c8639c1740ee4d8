//! Built-in models with their prices, and the cost of a call.
//!
//! Source of names and prices: the Python package `genai-prices` 0.2.3 (its rates were checked against the
//! makers' pages on 2026-10-14), read on 2026-11-21. Chosen is each maker's cheapest current text model whose
//! rates have no announced end. A declared alias replaces the whole built-in one.

use std::time::Duration;

use umbra_domain::{ModelKind, ModelSpec, NanoUsd, PricePerMtok, Prices, Provider};

use super::Usage;

/// Date on which the built-in prices were read.
pub const PRICES_AS_OF: &str = "2026-11-21";

const TIMEOUT: Duration = Duration::from_mins(1);
const MAX_OUTPUT_TOKENS: u32 = 1500;

/// Model whose price rises for every token once a prompt is long.
struct LongPrompt {
    /// Name of the model, or the start of it.
    model: &'static str,
    /// Longest prompt at ordinary prices, in tokens.
    above: u64,
    /// Prices above that, in per cent of the ordinary ones: input and output.
    percent: (u64, u64),
}

/// Long prompts, from the same source: "every token in a request whose prompt exceeds 100,000 tokens" costs five times
/// as much; above 272,000, twice for input and one and a half times for output.
const LONG_PROMPTS: [LongPrompt; 2] = [
    LongPrompt { model: "claude-haiku-5-5", above: 100_000, percent: (500, 500) },
    LongPrompt { model: "gpt-6-luna", above: 272_000, percent: (200, 150) },
];

/// Returns the built-in models: `haiku`, `mini`, `flash`, `local`, `checks`.
pub fn builtin_models() -> Vec<ModelSpec> {
    let model = |alias: &str, provider, name: &str, key: Option<&str>, prices| ModelSpec {
        alias: alias.to_owned(),
        provider,
        kind: ModelKind::Chat,
        name: name.to_owned(),
        base_url: None,
        api_key_env: key.map(str::to_owned),
        prices: Some(prices),
        max_output_tokens: MAX_OUTPUT_TOKENS,
        timeout: TIMEOUT,
    };
    vec![
        model("haiku", Provider::Anthropic, "claude-haiku-5-5", Some("ANTHROPIC_API_KEY"), milli_usd(100, 500)),
        // $0.10 to read, but this maker caches by itself and bills a token written to its cache at 1.25 times
        // that: the rate which no call can exceed.
        model("mini", Provider::Openai, "gpt-6-luna", Some("OPENAI_API_KEY"), milli_usd(125, 500)),
        model("flash", Provider::Gemini, "gemini-3.5-flash-lite", Some("GEMINI_API_KEY"), milli_usd(300, 2500)),
        ModelSpec {
            base_url: Some("http://127.0.0.1:11434/v1".to_owned()),
            ..model("local", Provider::Openai, "llama3.1:8b", None, milli_usd(0, 0))
        },
        model("checks", Provider::Checks, "checks", None, milli_usd(0, 0)),
    ]
}

/// Returns the cost of a call with this usage; `None` if the model's prices are unknown.
pub fn cost(spec: &ModelSpec, usage: Usage) -> Option<NanoUsd> {
    let prices = spec.prices?;
    let long = LONG_PROMPTS.iter().find(|long| spec.name.starts_with(long.model) && usage.input_tokens > long.above);
    let percent = |price: PricePerMtok, percent: u64| PricePerMtok(price.0.saturating_mul(percent) / 100);
    let prices = long.map_or(prices, |long| Prices {
        input: percent(prices.input, long.percent.0),
        output: percent(prices.output, long.percent.1),
    });
    Some(prices.cost(usage.input_tokens, usage.output_tokens))
}

/// Builds prices from thousandths of a dollar per million tokens.
const fn milli_usd(input: u64, output: u64) -> Prices {
    Prices { input: PricePerMtok(input * 1_000_000), output: PricePerMtok(output * 1_000_000) }
}
