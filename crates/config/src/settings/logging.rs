//! `logging`: the service's own log.

use super::{super::shape::word, section::section};

umbra_domain::words! {
    /// How log lines look.
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

umbra_domain::words! {
    /// The least severe lines that are written.
    pub enum LogLevel {
        /// Only what failed.
        Error = "error",
        /// Also what may need somebody's attention.
        Warn = "warn",
        /// Also what happens.
        Info = "info",
        /// Also how.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
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
