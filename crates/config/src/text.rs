//! Shapes of texts: addresses, names, globs, paths, secrets. Nodes in, parsed values out. A secret is never repeated in
//! a fault.

use std::{net::SocketAddr, path::PathBuf};

use globset::Glob;
use serde_json::{Value, json};

use super::{
    fault::{Faults, ShownPart, is_printable},
    keys::Shape,
    shape::shown,
    tree::{Node, NodeValue},
};

/// Shape of a text that `parse` understands.
pub(super) struct Text<T> {
    what: &'static str,
    max_chars: usize,
    parse: fn(&str) -> Result<T, String>,
    secret: bool,
}

/// Returns the shape of `what`, of 1 to `max_chars` characters. The error of `parse` gives advice.
pub(super) fn text<T>(what: &'static str, max_chars: usize, parse: fn(&str) -> Result<T, String>) -> Text<T> {
    Text { what, max_chars, parse, secret: false }
}

impl<T> Text<T> {
    /// Marks the value as a possible secret: faults show nothing of it.
    pub fn secret(self) -> Self {
        Self { secret: true, ..self }
    }
}

impl<T> Shape for Text<T> {
    type Value = T;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<T> {
        let (show, value) =
            if self.secret { (ShownPart::Nothing, "this".to_owned()) } else { (ShownPart::Line, shown(node)) };
        let NodeValue::Text(text) = &node.kind else {
            faults.fault_showing(node.at, show, format!("{value} is not text"), "put it in quotes");
            return None;
        };
        let count = text.chars().count();
        if count == 0 || count > self.max_chars {
            let message = format!("a text of {count} characters is out of bounds");
            faults.fault_showing(node.at, show, message, format!("write 1 to {} characters", self.max_chars));
            return None;
        }
        match (self.parse)(text) {
            Ok(parsed) => Some(parsed),
            Err(help) => {
                faults.fault_showing(node.at, show, format!("{value} is not {}", self.what), help);
                None
            }
        }
    }

    fn schema(&mut self) -> Value {
        json!({"type": "string", "minLength": 1, "maxLength": self.max_chars})
    }
}

/// Parses an address to listen on, as `IP:PORT`; `localhost` is the loopback address of IPv4.
///
/// # Errors
/// Advice on the right form.
pub fn parse_bind(text: &str) -> Result<SocketAddr, String> {
    let numbers = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    numbers
        .as_deref()
        .unwrap_or(text)
        .parse()
        .map_err(|_| "write an IP address and a port: 127.0.0.1:7817, localhost:7817, 0.0.0.0:7817, [::1]:0".to_owned())
}

/// Shape of any text.
pub(super) fn free_text(max_chars: usize) -> Text<String> {
    text("text", max_chars, |text| Ok(text.to_owned()))
}

/// Shape of a text on one line of visible characters.
pub(super) fn printable(what: &'static str, max_chars: usize) -> Text<String> {
    text(what, max_chars, |text| {
        let plain = text.chars().all(is_printable) && text.trim() == text;
        if plain { Ok(text.to_owned()) } else { Err("use printable characters, no space at either end".to_owned()) }
    })
}

/// Shape of a path of a file or folder. Relative paths begin at the working directory.
pub(super) fn path() -> Text<PathBuf> {
    text("a path", 4_096, |text| {
        if text.contains('\0') { Err("write a path without NUL".to_owned()) } else { Ok(PathBuf::from(text)) }
    })
}

/// Shape of an agent's name, or of a glob over names: at most 256 bytes.
pub(super) fn agent_glob() -> Text<String> {
    text("an agent's name or a glob", 256, |text| {
        if text.len() > 256 || !text.chars().all(is_printable) {
            return Err("use at most 256 bytes of printable characters".to_owned());
        }
        match Glob::new(text) {
            Ok(_) => Ok(text.to_owned()),
            Err(error) => Err(format!("{}; globs are like writer-*, *-agent, {{a,b}}, [ab]?", error.kind())),
        }
    })
}

/// Shape of a host in an allow list: a name, `*.` and a name for all hosts below it, or an address; in lower case.
pub(super) fn host_pattern() -> Text<String> {
    text("a host", 253, |text| {
        let name = text.strip_prefix("*.").unwrap_or(text);
        let label =
            |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
        if name.parse::<std::net::IpAddr>().is_ok() || name.split('.').all(label) {
            Ok(text.to_lowercase())
        } else {
            Err("write only a host, like api.acme.io, *.acme.io or 203.0.113.7: no scheme, port or path".to_owned())
        }
    })
}
