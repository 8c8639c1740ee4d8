//! Protobuf bodies before they are decoded: the number of messages in them, and texts that are no UTF-8.
//!
//! An empty message takes two bytes of a body and seventy of memory, and prost refuses a whole export for one bad text.

use std::{borrow::Cow, ops::Range};

use prost::decode_length_delimiter;

/// Most messages and texts in a body: spans, events, attributes and values.
pub(crate) const ELEMENTS: usize = 500_000;
/// Deepest nesting that prost reads.
const DEPTH: usize = 100;

/// Fields of a message type that hold texts or other messages.
pub(crate) struct Shape(&'static [(usize, Field)]);

enum Field {
    Text,
    Message(&'static Shape),
}
use Field::{Message, Text};

/// `ExportTraceServiceRequest`
pub(crate) static TRACES: Shape = Shape(&[(1, Message(&RESOURCE_SPANS))]);
/// `ExportLogsServiceRequest`
pub(crate) static LOGS: Shape = Shape(&[(1, Message(&RESOURCE_LOGS))]);
static RESOURCE_SPANS: Shape = Shape(&[(1, Message(&RESOURCE)), (2, Message(&SCOPE_SPANS)), (3, Text)]);
static RESOURCE_LOGS: Shape = Shape(&[(1, Message(&RESOURCE)), (2, Message(&SCOPE_LOGS)), (3, Text)]);
static SCOPE_SPANS: Shape = Shape(&[(1, Message(&SCOPE)), (2, Message(&SPAN)), (3, Text)]);
static SCOPE_LOGS: Shape = Shape(&[(1, Message(&SCOPE)), (2, Message(&LOG)), (3, Text)]);
static RESOURCE: Shape = Shape(&[(1, Message(&KEY_VALUE)), (3, Message(&ENTITY))]);
static ENTITY: Shape = Shape(&[(1, Text), (2, Text), (3, Text), (4, Text)]);
static SCOPE: Shape = Shape(&[(1, Text), (2, Text), (3, Message(&KEY_VALUE))]);
static SPAN: Shape = Shape(&[
    (3, Text),
    (5, Text),
    (9, Message(&KEY_VALUE)),
    (11, Message(&EVENT)),
    (13, Message(&LINK)),
    (15, Message(&STATUS)),
]);
static EVENT: Shape = Shape(&[(2, Text), (3, Message(&KEY_VALUE))]);
static LINK: Shape = Shape(&[(3, Text), (4, Message(&KEY_VALUE))]);
static STATUS: Shape = Shape(&[(2, Text)]);
static LOG: Shape = Shape(&[(3, Text), (5, Message(&VALUE)), (6, Message(&KEY_VALUE)), (12, Text)]);
static KEY_VALUE: Shape = Shape(&[(1, Text), (2, Message(&VALUE))]);
static VALUE: Shape = Shape(&[(1, Text), (5, Message(&LIST)), (6, Message(&MAP))]);
static LIST: Shape = Shape(&[(1, Message(&VALUE))]);
static MAP: Shape = Shape(&[(1, Message(&KEY_VALUE))]);

/// Returns the body with `?` in the place of bytes that are no UTF-8; `None` for one of more than [`ELEMENTS`].
pub(crate) fn mended<'b>(body: &'b [u8], shape: &Shape) -> Option<Cow<'b, [u8]>> {
    let mut scan = Scan::default();
    // prost says what is wrong with a body that cannot be read to its end.
    let _read = scan.message(body, 0, shape, DEPTH);
    if scan.elements > ELEMENTS {
        return None;
    }
    let mut body = Cow::Borrowed(body);
    for mut text in scan.broken {
        while let Some(Err(error)) = body.get(text.clone()).map(str::from_utf8) {
            text.start += error.valid_up_to();
            let end = error.error_len().map_or(text.end, |length| text.start + length);
            body.to_mut().get_mut(text.start..end).unwrap_or_default().fill(b'?');
        }
    }
    Some(body)
}

#[derive(Default)]
struct Scan {
    elements: usize,
    /// Places of texts that are no UTF-8.
    broken: Vec<Range<usize>>,
}

impl Scan {
    /// Scans the message that begins at a position of the body; `None` where it is malformed.
    fn message(&mut self, mut rest: &[u8], start: usize, shape: &Shape, depth: usize) -> Option<()> {
        let end = start + rest.len();
        while !rest.is_empty() && self.elements <= ELEMENTS {
            let key = decode_length_delimiter(&mut rest).ok()?;
            match key & 7 {
                0 => drop(decode_length_delimiter(&mut rest).ok()?),
                1 => rest = rest.get(8..)?,
                5 => rest = rest.get(4..)?,
                2 => {
                    let length = decode_length_delimiter(&mut rest).ok()?;
                    let (content, after) = rest.split_at_checked(length)?;
                    let at = end - rest.len();
                    rest = after;
                    let Some((_, field)) = shape.0.iter().find(|(number, _)| *number == key >> 3) else { continue };
                    self.elements += 1;
                    match field {
                        Text if str::from_utf8(content).is_err() => self.broken.push(at..at + length),
                        Text => {}
                        Message(inner) => self.message(content, at, inner, depth.checked_sub(1)?)?,
                    }
                }
                // The fields of a group count like those around it.
                3 | 4 => {}
                _ => return None,
            }
        }
        Some(())
    }
}
