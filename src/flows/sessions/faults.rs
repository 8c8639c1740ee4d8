//! Faults in the parts of a request.

/// A fault of one part of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPartFault {
    /// Name of the part, such as `documents/plan`.
    pub part: String,
    /// Description of the fault, and of a valid value.
    pub detail: String,
}

impl RequestPartFault {
    /// Returns a fault of a part.
    pub fn new(part: impl Into<String>, detail: impl std::fmt::Display) -> Self {
        Self { part: part.into(), detail: detail.to_string() }
    }
}
