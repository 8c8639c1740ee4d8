//! HTTP requests of the benches, as bytes of whole requests, the same in every run: events of the corpus, singly and in
//! batches.

use umbra::cli::bench::corpus::events;

/// Events in a batch request.
pub const BATCH: usize = 100;

/// Returns the requests of single events.
pub fn singles() -> Vec<Vec<u8>> {
    events().map(|event| request("/v1/events", "application/json", event.to_string().as_bytes())).collect()
}

/// Returns the requests of batches, one event a line.
pub fn batches() -> Vec<Vec<u8>> {
    let lines: Vec<String> = events().map(|event| format!("{event}\n")).collect();
    let bodies = lines.chunks(BATCH).map(<[String]>::concat);
    bodies.map(|body| request("/v1/events/batch", "application/x-ndjson", body.as_bytes())).collect()
}

pub fn request(path: &str, media: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {media}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}
