//! What is wrong with what was asked, by its place.

/// A fault of one part of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which part, such as a document's name.
    pub part: String,
    /// What is wrong with it, and what would be right.
    pub detail: String,
}

impl Fault {
    /// A fault.
    pub fn new(part: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { part: part.into(), detail: detail.into() }
    }
}
