//! Sizes of JSON text, counted without building the text.

use std::io::{self, Write};

use serde::Serialize;

/// Returns the length of a value's compact JSON, in bytes; `usize::MAX` if the value cannot be written as JSON.
pub fn encoded_len<T: Serialize + ?Sized>(value: &T) -> usize {
    struct ByteCount(usize);
    impl Write for ByteCount {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = ByteCount(0);
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}
