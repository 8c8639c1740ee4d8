//! Text that agents wrote, after secrets were taken out. It reaches no log line: `Debug` shows its length alone.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Text from which secrets were removed, still not to be logged.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Redacted(String);

impl Redacted {
    /// Wraps text that the redactor has seen. Call it nowhere else.
    pub fn seal(text: String) -> Self {
        Self(text)
    }

    /// The text, for storage, prompts and answers.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redacted({} bytes)", self.0.len())
    }
}
