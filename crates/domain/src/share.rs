//! A share of what was counted, with how far off it may be.

/// 95 % of a normal distribution lie within so many standard deviations.
const Z: f64 = 1.959_964;

/// A share, and between which shares it may well lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The share; none of nothing.
    pub share: Option<f64>,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Share {
    /// So many of so many, with Wilson's score interval (E. B. Wilson, JASA 22, 1927), which holds for few counts and shares
    /// near 0 and 1 as well. To four digits: more would claim what the counts do not say.
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
