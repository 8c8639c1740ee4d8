//! Precision of findings, from people's ratings, with its confidence interval.

use std::ops::AddAssign;

use serde::Serialize;
use utoipa::ToSchema;

use umbra_domain::Share;

/// Numbers of rated findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Findings that were confirmed or resolved.
    pub right: i64,
    /// False positives.
    pub wrong: i64,
}

/// Share of rated findings that were right.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct Precision {
    /// Number of rated findings.
    pub judged: i64,
    /// Number of these that were confirmed or resolved.
    pub right: i64,
    /// Number of these that were false positives.
    pub false_positives: i64,
    /// Share that was right; null where none was rated.
    pub precision: Option<f64>,
    /// Lower end of Wilson's 95 % interval.
    pub low: f64,
    /// Upper end of Wilson's 95 % interval.
    pub high: f64,
}

impl Tally {
    /// Returns the share that was right, with its interval.
    pub fn precision(self) -> Precision {
        let judged = self.right + self.wrong;
        let count = |n: i64| u64::try_from(n).unwrap_or_default();
        let Share { share: precision, low, high } = Share::of(count(self.right), count(judged));
        Precision { judged, right: self.right, false_positives: self.wrong, precision, low, high }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.right += other.right;
        self.wrong += other.wrong;
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn precision_interval_is_wilsons() {
        // R: prop.test(x, n, correct = FALSE)$conf.int
        for (right, wrong, share, low, high) in [
            (0, 0, None, 0.0, 1.0),
            (0, 10, Some(0.0), 0.0, 0.2775),
            (10, 0, Some(1.0), 0.7225, 1.0),
            (8, 2, Some(0.8), 0.4902, 0.9433),
            (1, 0, Some(1.0), 0.2065, 1.0),
            (810, 190, Some(0.81), 0.7846, 0.8331),
        ] {
            let precision = Tally { right, wrong }.precision();
            assert_eq!((precision.precision, precision.judged), (share, right + wrong));
            assert!((precision.low - low).abs() < 1e-3 && (precision.high - high).abs() < 1e-3, "{precision:?}");
        }
    }
}
