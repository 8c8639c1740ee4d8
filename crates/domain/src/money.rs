//! Money as integer nano-dollars: sums are exact, and a cap is compared without rounding.

use std::{
    fmt,
    ops::{Add, AddAssign, Sub},
};

use serde::{Deserialize, Serialize};

/// An amount in 10⁻⁹ US dollars. Stored as that integer; people and the wire see dollars ([`Self::usd`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NanoUsd(pub i64);

impl NanoUsd {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// Converts dollars, rounded to the nearest nano-dollar; `None` if negative, not finite or above 9 billion.
    pub fn from_usd(usd: f64) -> Option<Self> {
        let nano = usd * 1e9;
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked just before")]
        (nano.is_finite() && (0.0..9.0e18).contains(&nano)).then(|| Self(nano.round() as i64))
    }

    /// Returns the amount in dollars, for people and JSON.
    #[expect(clippy::cast_precision_loss, reason = "display only; sums are made on the integer")]
    pub fn usd(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl fmt::Display for NanoUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${:.6}", self.usd())
    }
}

impl Add for NanoUsd {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for NanoUsd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for NanoUsd {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Price in nano-dollars per million tokens (so 0.15 USD/Mtok is 150,000,000).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct PricePerMtok(pub u64);

impl PricePerMtok {
    /// Converts dollars per million tokens; `None` if negative, not finite or above a million dollars.
    pub fn from_usd(usd: f64) -> Option<Self> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked just before")]
        (usd.is_finite() && (0.0..=1e6).contains(&usd)).then(|| Self((usd * 1e9).round() as u64))
    }

    /// Returns the price in dollars per million tokens.
    #[expect(clippy::cast_precision_loss, reason = "display only")]
    pub fn usd(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the cost of `tokens`, rounded up to a whole nano-dollar so that a hold is never too small.
    pub fn cost(self, tokens: u64) -> NanoUsd {
        let nano = (u128::from(self.0) * u128::from(tokens)).div_ceil(1_000_000);
        NanoUsd(i64::try_from(nano).unwrap_or(i64::MAX))
    }
}
/// Serde form of money that may be unknown: dollars or null in JSON.
pub mod dollars {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::NanoUsd;

    /// Writes dollars, or null.
    ///
    /// # Errors
    /// The error of the serializer.
    pub fn serialize<S: Serializer>(money: &Option<NanoUsd>, serializer: S) -> Result<S::Ok, S::Error> {
        match money {
            Some(money) => serializer.serialize_f64(money.usd()),
            None => serializer.serialize_none(),
        }
    }

    /// Reads dollars, or null.
    ///
    /// # Errors
    /// The value is no amount of dollars.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NanoUsd>, D::Error> {
        let Some(usd) = Option::<f64>::deserialize(deserializer)? else { return Ok(None) };
        NanoUsd::from_usd(usd).map(Some).ok_or_else(|| D::Error::custom("expected dollars, such as 0.012"))
    }
}
