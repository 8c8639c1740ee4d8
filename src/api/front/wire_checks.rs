//! Detects requests whose body length is given twice, and replaces hyper's own answers by problems.
//!
//! hyper settles a request with both `Content-Length` and `Transfer-Encoding` silently. RFC 9112, 6.3, permits to
//! refuse it: such a request is an attempt to slip another one past a proxy. hyper's own answers have no body. The
//! bytes of a request are never changed.

use std::sync::LazyLock;

use memchr::memmem::{self, Finder};

use crate::api::problem::Problem;

/// Marks a request whose head gives the length of its body in two ways.
#[derive(Debug, Clone, Copy)]
pub(super) struct TwoLengths;

/// Detector of the end of a request's head.
#[derive(Debug, Default)]
pub(super) struct LengthConflictDetector {
    /// Head so far, where it came in parts.
    begun: Vec<u8>,
    over: bool,
}

impl LengthConflictDetector {
    /// Prepares for the next request.
    pub fn begin(&mut self) {
        self.begun.clear();
        self.over = false;
    }

    /// Takes the next bytes; true if they complete a head with both `Content-Length` and `Transfer-Encoding`. Nothing
    /// is kept of a head that is longer than `most`: hyper refuses it.
    pub fn saw(&mut self, bytes: &[u8], most: usize) -> bool {
        if self.over {
            return false;
        }
        if self.begun.is_empty()
            && let Some(head) = whole(bytes)
        {
            self.over = true;
            return has_two_lengths(head);
        }
        self.begun.extend_from_slice(bytes);
        let found = whole(&self.begun).map(has_two_lengths);
        self.over = found.is_some() || self.begun.len() > most;
        if self.over {
            self.begun = Vec::new();
        }
        found.unwrap_or(false)
    }
}

/// Returns the head at the start of these bytes, if its end is among them. Lines may end without a carriage return.
fn whole(bytes: &[u8]) -> Option<&[u8]> {
    // Preparing a search costs more than searching a head.
    static ENDS: LazyLock<[Finder<'static>; 2]> = LazyLock::new(|| [Finder::new(b"\n\r\n"), Finder::new(b"\n\n")]);
    let [marked, bare] = &*ENDS;
    let found = marked.find(bytes).and_then(|end| bytes.get(..end));
    // The bytes behind the head may be a long body.
    let bare = bare.find(found.unwrap_or(bytes)).and_then(|end| bytes.get(..end));
    bare.or(found)
}

fn has_two_lengths(head: &[u8]) -> bool {
    let has = |name: &[u8]| {
        let begins = memchr::memchr_iter(b'\n', head).map(|end| end + 1);
        begins.filter_map(|at| head.get(at..)).any(|line| {
            let end = memchr::memchr2(b':', b'\n', line).unwrap_or(line.len());
            line.get(..end).is_some_and(|field| field.trim_ascii().eq_ignore_ascii_case(name))
        })
    };
    has(b"transfer-encoding") && has(b"content-length")
}

/// Returns the problem to send in place of an answer of hyper's own; `None` for other bytes. Our answers carry the
/// request's id.
pub(super) fn problem_for(answer: &[u8]) -> Option<Vec<u8>> {
    let rest = answer.strip_prefix(b"HTTP/1.1 4")?;
    let bare = answer.ends_with(b"\r\n\r\n") && memmem::find(answer, b"content-length: 0\r\n").is_some();
    if !bare || memmem::find(answer, b"x-request-id: ").is_some() {
        return None;
    }
    let problem = match rest.get(..2)? {
        b"00" => {
            Problem::bad_request("The connection carried no HTTP request: the server speaks HTTP/1.1 without TLS.")
        }
        b"14" => Problem::uri_too_long("Send long values in the body; a cursor fits into the query."),
        b"31" => Problem::headers_too_large(
            "Send fewer or shorter headers, or raise server.max_header_bytes or server.max_headers in the settings.",
        ),
        _ => return None,
    };
    let body = problem.to_json(None);
    let line = answer.split(|byte| *byte == b'\r').next()?;
    let mut bytes = line.to_vec();
    bytes.extend_from_slice(b"\r\nconnection: close\r\ncontent-type: application/problem+json\r\n");
    bytes.extend_from_slice(format!("content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{LengthConflictDetector, problem_for};

    #[test]
    fn conflicting_lengths_are_detected_in_any_chunking() {
        let both = b"POST / HTTP/1.1\r\nHost: a\r\ncontent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
        for size in [1, 7, both.len()] {
            let mut watch = LengthConflictDetector::default();
            let seen = both.chunks(size).filter(|part| watch.saw(part, 1024)).count();
            assert_eq!(seen, 1, "in parts of {size}");
            watch.begin();
            assert!(watch.saw(both, 1024), "and again for the next request");
        }
        let bare = b"POST / HTTP/1.1\ncontent-length: 5\ntransfer-encoding: chunked\n\n";
        assert!(LengthConflictDetector::default().saw(bare, 1024));
        for one in [
            b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\ntransfer-encoding: chunked\r\n\r\n".as_slice(),
            b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\nx: content-length: 5\r\n\r\n",
            b"POST / HTTP/1.1\r\ncontent-length: 5\r\nx-transfer-encoding: a\r\n\r\n",
        ] {
            assert!(!LengthConflictDetector::default().saw(one, 1024), "{}", String::from_utf8_lossy(one));
        }
    }

    #[test]
    fn only_hypers_own_errors_become_problems() {
        assert!(problem_for(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\ndate: x\r\n\r\n").is_some());
        for own in [
            b"HTTP/1.1 400 Bad Request\r\nx-request-id: 1\r\ncontent-length: 0\r\n\r\n".as_slice(),
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}",
            b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n",
        ] {
            assert!(problem_for(own).is_none(), "{}", String::from_utf8_lossy(own));
        }
    }
}
