//! Text of agents after redaction. `Debug` shows the length alone, so the text reaches no log line.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Text from which secrets were removed, still not to be logged.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Redacted(String);

impl Redacted {
    /// Wraps text that the redactor has processed. Only the redactor may call this.
    pub fn seal(text: String) -> Self {
        Self(text)
    }

    /// Returns the text, for storage, prompts and answers.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redacted({} bytes)", self.0.len())
    }
}
