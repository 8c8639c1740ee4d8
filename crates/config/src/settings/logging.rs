//! `logging`: the service's own log.

use super::{super::shape::word, section::section};

umbra_domain::words! {
    /// Format of log lines.
    pub enum LogFormat {
        /// Text for people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

umbra_domain::words! {
    /// Least severe level of lines that are written.
    pub enum LogLevel {
        /// Failures only.
        Error = "error",
        /// Also conditions that may need attention.
        Warn = "warn",
        /// Also ordinary events.
        Info = "info",
        /// Also details of them.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

section! {
    /// The service's own log, on standard error. Texts of agents are never in it.
    Logging {
        /// `text` for people, `json` for machines.
        format: LogFormat = LogFormat::Text, word(&LogFormat::ALL, LogFormat::as_str);
        /// Least severe level of lines that are written.
        level: LogLevel = LogLevel::Info, word(&LogLevel::ALL, LogLevel::as_str);
    }
}
