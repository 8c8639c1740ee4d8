//! Sections about models and built-in checks: `cheap_model`, `llm`, `checks` and `looks`.

use std::path::PathBuf;

use super::{
    super::{
        number::{decimal, whole},
        shape::{Flag, List},
        text::path,
    },
    section::section,
};
use umbra_domain::PricePerMtok;

/// 5 USD per million tokens written. It admits the small models of late 2026 (the dearest, Anthropic's Haiku, stands at
/// exactly 5) and refuses frontier models, which begin at 10.
const DEFAULT_CEILING: PricePerMtok = PricePerMtok(5_000_000_000);

section! {
    /// The mandate that shadows use cheap models.
    CheapModel {
        /// Highest price of a million tokens written, in USD. A shadow whose model costs more is refused, unless it
        /// says `allow_costly_model: true`.
        max_output_usd_per_mtok: PricePerMtok = DEFAULT_CEILING,
            decimal("a price in USD per million tokens", 0.0..=10_000.0, PricePerMtok::from_usd);
    }
}

section! {
    /// Model calls outside of reviews.
    Llm {
        /// True to ask each model in use one short question at start, and after a reload that changes it: a wrong name,
        /// key or address then shows before the first review.
        probe: bool = true, Flag;
    }
}

section! {
    /// Rules of a user's own for the built-in checks.
    Checks {
        /// Files of rules, the later over the earlier: they add rules, change built-in ones and switch them off. A
        /// gitleaks.toml is such a file.
        rules: Vec<PathBuf> = Vec::new(), List { len: 0..=64, single: true, item: path() };
    }
}

section! {
    /// Bounds of the built-in checks where no review runs them: on events that a cost floor, a cooldown, a sample or a
    /// cap keeps from a model.
    Looks {
        /// Most events that wait for the checks. Older ones are passed over, and listed as `check_backlog`.
        max_backlog: u32 = 200_000, whole(100..=100_000_000);
        /// Largest share of one processor that the checks take while events wait.
        processor_share: f64 = 0.25, decimal("a share", 0.01..=1.0, Some);
    }
}
