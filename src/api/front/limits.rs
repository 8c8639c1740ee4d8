//! Limits of clients of the server, with their defaults and the reasons for them.
//!
//! No limit can be off; a very high value has the same effect.

use std::time::Duration;

/// Limits of connections, and of what arrives on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Most connections open at once; one more gets a 503 and is closed. Lowered to what the process may open.
    pub max_connections: usize,
    /// Longest time from connecting to the first byte.
    pub first_byte: Duration,
    /// Longest time from a request's first byte to the end of its headers.
    pub headers: Duration,
    /// Longest idle time between two requests of a connection.
    pub idle: Duration,
    /// Longest time in which a client takes no byte of an answer.
    pub write_stall: Duration,
    /// Most header fields of a request; more are answered by 431.
    pub max_headers: usize,
    /// Most bytes of a request's line and headers; more are answered by 431.
    pub max_header_bytes: usize,
    /// Time after the soft stop in which an idle connection may still begin a request: a client that is just sending
    /// one is answered (`Connection: close`) instead of cut off.
    pub drain_idle: Duration,
}

impl Default for ConnectionLimits {
    /// 10,000 idle connections must not shut out the others, hence 12,000; a client's pool keeps connections for 60 to
    /// 90 s, hence 75 s (as nginx has it); the rest is what the reliability promises name.
    fn default() -> Self {
        Self {
            max_connections: 12_000,
            first_byte: Duration::from_secs(5),
            headers: Duration::from_secs(5),
            idle: Duration::from_secs(75),
            write_stall: Duration::from_secs(30),
            max_headers: 64,
            max_header_bytes: 16 * 1024,
            drain_idle: Duration::from_secs(1),
        }
    }
}

/// Limits of one request's body, and of all bodies together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyLimits {
    /// Most bytes of an encoded body as it travels.
    pub encoded: usize,
    /// Most bytes of a body after decoding, or of a plain one.
    pub decoded: usize,
    /// Time that any body may take, whatever its size.
    pub patience: Duration,
    /// Least bytes a second that must have arrived on average once `patience` is over.
    pub min_rate: u32,
    /// Most bytes of all bodies held at once; a body that does not fit is answered by 503.
    pub in_flight: usize,
}

impl Default for BodyLimits {
    /// 1 MiB encoded, 4 MiB decoded, 10 s and 64 KiB/s as the reliability promises name them; 64 MiB in flight,
    /// a quarter of the 256 MiB that the process may take under overload.
    fn default() -> Self {
        Self {
            encoded: 1024 * 1024,
            decoded: 4 * 1024 * 1024,
            patience: Duration::from_secs(10),
            min_rate: 64 * 1024,
            in_flight: 64 * 1024 * 1024,
        }
    }
}
