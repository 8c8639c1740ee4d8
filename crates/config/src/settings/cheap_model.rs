//! `cheap_model`: the price up to which a model counts as cheap.

use super::{super::number::decimal, section::section};
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
