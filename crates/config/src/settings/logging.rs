//! `logging`: the service's own log.

use super::{super::shape::word, section::section};

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// Every format.
    pub const ALL: [Self; 2] = [Self::Text, Self::Json];

    /// The word in YAML.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// The least severe lines that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Only what failed.
    Error,
    /// Also what may need somebody's attention.
    Warn,
    /// Also what happens.
    Info,
    /// Also how.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// Every level.
    pub const ALL: [Self; 5] = [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// The word in YAML, which tracing's filters know as well.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

section! {
    /// The service's own log, on standard error. It never holds what agents wrote.
    Logging {
        /// `text` for people, `json` for machines.
        format: LogFormat = LogFormat::Text, word(&LogFormat::ALL, LogFormat::as_str);
        /// The least severe lines that are written.
        level: LogLevel = LogLevel::Info, word(&LogLevel::ALL, LogLevel::as_str);
    }
}
