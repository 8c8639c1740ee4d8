//! Share of counted items, with its confidence interval.

/// Standard deviations within which 95 % of a normal distribution lie.
const Z: f64 = 1.959_964;

/// A share with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The share; `None` if nothing was counted.
    pub share: Option<f64>,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
}

impl Share {
    /// Computes the share `right` of `all` with Wilson's score interval (E. B. Wilson, JASA 22, 1927), which also holds
    /// for small counts and for shares near 0 and 1. Rounded to four digits, since the counts support no more.
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 were counted")]
    pub fn of(right: u64, all: u64) -> Self {
        if all == 0 {
            return Self { share: None, low: 0.0, high: 1.0 };
        }
        let n = all as f64;
        let p = right as f64 / n;
        let scale = 1.0 + Z * Z / n;
        let centre = (p + Z * Z / (2.0 * n)) / scale;
        let half = Z / scale * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        let rounded = |share: f64| (share * 10_000.0).round() / 10_000.0;
        Self {
            share: Some(rounded(p)),
            low: rounded((centre - half).max(0.0)),
            high: rounded((centre + half).min(1.0)),
        }
    }
}
