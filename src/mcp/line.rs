//! Reads messages as lines from pipes. A line beyond the bound is not kept, but its ends show which request it belongs
//! to: that request fails, instead of waiting forever.

use std::sync::LazyLock;

use regex::bytes::Regex;
use rmcp::model::{NumberOrString, RequestId};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Bytes at each end of a line in which its id is searched.
const ENDS: usize = 512;

/// Line that is arriving.
pub(super) struct LineReader {
    /// The whole line, or its beginning where it is too long.
    kept: Vec<u8>,
    /// End of a line that is too long.
    tail: Vec<u8>,
    over: bool,
    max: usize,
}

/// Content of a line.
#[derive(Debug)]
pub(super) enum LineContent<M> {
    /// A message.
    Message(M),
    /// A line longer than the bound.
    TooLong(LineSubject),
    /// JSON that is no message.
    Odd(serde_json::Value),
    /// Text that is no JSON.
    Garbled(LineSubject),
    /// A blank line.
    Blank,
}

/// Request that an unreadable line belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LineSubject {
    /// Id of the request, or of the request that the line answers.
    pub id: Option<RequestId>,
    /// True if the line answers a request.
    pub answers: bool,
}

impl LineReader {
    /// Returns a reader of lines of at most so many bytes.
    pub(super) fn new(max: usize) -> Self {
        Self { kept: Vec::new(), tail: Vec::new(), over: false, max }
    }

    /// Reads up to the end of a line; `None` once the input is at its end or broken. Every byte that was read is in `self`
    /// before the next await, so a read that is given up in a `select!` loses nothing.
    pub(super) async fn read<M: DeserializeOwned>(
        &mut self,
        input: &mut (impl AsyncBufRead + Unpin),
    ) -> Option<LineContent<M>> {
        loop {
            let part = input.fill_buf().await.ok().filter(|part| !part.is_empty())?;
            let end = memchr::memchr(b'\n', part);
            let taken = end.map_or(part.len(), |end| end + 1);
            self.push(&part[..taken]);
            input.consume(taken);
            if end.is_some() {
                return Some(self.take());
            }
        }
    }

    /// Adds bytes that have arrived.
    fn push(&mut self, part: &[u8]) {
        if !self.over && self.kept.len() + part.len() <= self.max {
            self.kept.extend_from_slice(part);
            return;
        }
        if !self.over {
            self.over = true;
            let missing = ENDS.saturating_sub(self.kept.len()).min(part.len());
            self.kept.extend_from_slice(&part[..missing]);
            self.tail = self.kept.split_off(self.kept.len().min(ENDS));
            self.kept.shrink_to_fit();
        }
        self.tail.extend_from_slice(&part[part.len().saturating_sub(ENDS)..]);
        let gone = self.tail.len().saturating_sub(ENDS);
        self.tail.drain(..gone);
    }

    /// Returns the content of the complete line, and begins the next one.
    fn take<M: DeserializeOwned>(&mut self) -> LineContent<M> {
        let (kept, tail) = (std::mem::take(&mut self.kept), std::mem::take(&mut self.tail));
        if std::mem::take(&mut self.over) {
            return LineContent::TooLong(about(&kept, &tail));
        }
        let line = kept.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&kept).trim_ascii();
        if line.is_empty() {
            return LineContent::Blank;
        }
        if let Ok(message) = serde_json::from_slice(line) {
            return LineContent::Message(message);
        }
        match serde_json::from_slice(line) {
            Ok(value) => LineContent::Odd(value),
            Err(_) => {
                LineContent::Garbled(about(&line[..line.len().min(ENDS)], &line[line.len().saturating_sub(ENDS)..]))
            }
        }
    }
}

/// Finds the id before or after the content of a line, where implementations write it.
fn about(head: &[u8], tail: &[u8]) -> LineSubject {
    const ID: &str = r#""id"\s*:\s*(?:(\d{1,18})|"([^"\\]{1,128})")\s*"#;
    const PLAIN: &str = r#""(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*"#;
    static FIRST: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(&format!(r"^\s*\{{\s*(?:{PLAIN},\s*)*{ID},")).ok());
    static LAST: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(&format!(r"{ID}(?:,\s*{PLAIN})*\}}\s*$")).ok());
    static ANSWER: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#"^\s*\{(?:\s*"(?:jsonrpc|id)"\s*:\s*(?:"[^"\\]*"|\d+)\s*,)*\s*"(?:result|error)"\s*:"#).ok()
    });
    let id = |rule: &LazyLock<Option<Regex>>, text: &[u8]| {
        let found = LazyLock::force(rule).as_ref()?.captures(text)?;
        let plain = |index| found.get(index).and_then(|part| std::str::from_utf8(part.as_bytes()).ok());
        let number = plain(1).and_then(|digits| digits.parse().ok()).map(NumberOrString::Number);
        number.or_else(|| plain(2).map(|text| NumberOrString::String(text.into())))
    };
    LineSubject {
        id: id(&FIRST, head).or_else(|| id(&LAST, tail)),
        answers: LazyLock::force(&ANSWER).as_ref().is_some_and(|rule| rule.is_match(head)),
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};

    use super::*;

    fn fed<M: DeserializeOwned>(max: usize, text: &str, step: usize) -> Vec<LineContent<M>> {
        let mut line = LineReader::new(max);
        let mut said = Vec::new();
        for whole in text.as_bytes().split_inclusive(|byte| *byte == b'\n') {
            whole.chunks(step).for_each(|part| line.push(part));
            said.push(line.take());
        }
        said
    }

    fn number(id: i64) -> RequestId {
        NumberOrString::Number(id)
    }

    #[test]
    fn oversized_line_fails_only_its_own_request() {
        let long = "x".repeat(5_000);
        for step in [1, 7, 600, 100_000] {
            for (name, text) in [
                ("first", format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":"{long}"}}}}"#)),
                ("last", format!(r#"{{"result":{{"content":"{long}"}},"jsonrpc":"2.0","id":7}}"#)),
            ] {
                let said = fed::<ServerJsonRpcMessage>(
                    1_000,
                    &format!("{text}\n{{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{{}}}}\n"),
                    step,
                );
                let [LineContent::TooLong(about), LineContent::Message(ServerJsonRpcMessage::Response(next))] =
                    &said[..]
                else {
                    panic!("{name} {step}: {said:?}")
                };
                assert_eq!(about, &LineSubject { id: Some(number(7)), answers: true }, "{name}");
                assert_eq!(next.id, NumberOrString::Number(8));
            }
        }
    }

    #[test]
    fn oversized_request_is_recognised_with_its_id() {
        let long = "x".repeat(5_000);
        let text = Some(NumberOrString::String("a-1".into()));
        for (head, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":""#, Some(number(7))),
            (r#"{"method":"tools/call","id":"a-1","params":{"name":""#, text),
            (r#"{"method":"tools/call","params":{"id":3,"name":""#, None),
        ] {
            let said = fed::<ClientJsonRpcMessage>(1_000, &format!("{head}{long}\"}}}}\n"), 600);
            let [LineContent::TooLong(about)] = &said[..] else { panic!("{said:?}") };
            assert_eq!(about, &LineSubject { id, answers: false }, "{head}");
        }
        let late = format!(r#"{{"method":"tools/call","params":{{"name":"{long}"}},"jsonrpc":"2.0","id":9}}"#);
        let said = fed::<ClientJsonRpcMessage>(1_000, &format!("{late}\n"), 600);
        assert!(
            matches!(&said[..], [LineContent::TooLong(LineSubject { id, answers: false })] if *id == Some(number(9))),
            "{said:?}"
        );
    }

    #[test]
    fn nested_id_of_an_oversized_line_is_ignored() {
        let text = format!(r#"{{"result":{{"id":3,"content":"{}"}},"id":{{"a":1}}}}"#, "x".repeat(5_000));
        let said = fed::<ServerJsonRpcMessage>(1_000, &format!("{text}\n"), 100);
        assert!(matches!(&said[..], [LineContent::TooLong(LineSubject { id: None, .. })]), "{said:?}");
    }

    #[test]
    fn non_message_lines_are_classified() {
        let odd = "Server listening\n{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{oops}}\n[1]\n  \r\n";
        let said = fed::<ServerJsonRpcMessage>(1_000, odd, 100);
        let [LineContent::Garbled(words), LineContent::Garbled(broken), LineContent::Odd(batch), LineContent::Blank] =
            &said[..]
        else {
            panic!("{said:?}")
        };
        assert_eq!(words, &LineSubject { id: None, answers: false });
        assert_eq!(broken, &LineSubject { id: Some(number(4)), answers: true });
        assert_eq!(batch, &serde_json::json!([1]));
    }
}
