//! Serialisation of stored values as JSON. A value that cannot be serialised is an error and a count, never an empty
//! value in a row.

use serde::Serialize;

use crate::telemetry::metric;
use umbra_store::StoreError;

/// Returns the JSON text of a value, for a column named `what`.
///
/// # Errors
/// [`StoreError::Unserialisable`]: a bug in Umbra, counted.
pub fn to_json(what: &'static str, value: &(impl Serialize + ?Sized)) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| unserialisable(what, error))
}

/// Returns the JSON tree of a value, for a column named `what`.
///
/// # Errors
/// [`StoreError::Unserialisable`]: a bug in Umbra, counted.
pub fn to_value(what: &'static str, value: &impl Serialize) -> Result<serde_json::Value, StoreError> {
    serde_json::to_value(value).map_err(|error| unserialisable(what, error))
}

fn unserialisable(what: &'static str, error: serde_json::Error) -> StoreError {
    metrics::counter!(metric::UNSERIALISABLE, "what" => what).increment(1);
    StoreError::Unserialisable { what, error }
}
