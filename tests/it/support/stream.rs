//! Reader of the stream of findings.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use reqwest::Response;
use serde_json::Value;
use tokio::time::timeout;

use super::{DEADLINE, Umbra, server::client};

/// Reader of server-sent events, like those of browsers.
pub struct Reader {
    response: Response,
    buffer: String,
    /// Id of the last block that had one.
    pub last_id: String,
}

impl Reader {
    /// Opens `/v1/findings/stream` and reads its opening.
    pub async fn open(umbra: &Umbra, query: &str, last_id: Option<&str>) -> Self {
        let mut request = client().get(format!("{}/v1/findings/stream{query}", umbra.base));
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        let response = request.send().await.expect("it answers");
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut reader = Self { response, buffer: String::new(), last_id: String::new() };
        // The first block has the position of the stream.
        let opening = reader.block().await.expect("an opening");
        assert!(opening.contains("retry: ") && !reader.last_id.is_empty(), "{opening}");
        reader
    }

    /// Returns the next block; `None` at the stream's end.
    pub async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let block = block.to_owned();
                self.buffer = String::from(rest);
                if let Some(id) = block.lines().find_map(|line| line.strip_prefix("id: ")) {
                    id.clone_into(&mut self.last_id);
                }
                return Some(block);
            }
            let chunk = timeout(DEADLINE, self.response.chunk()).await.expect("something in time").ok()??;
            self.buffer.push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
        }
    }

    /// Returns the next finding.
    pub async fn finding(&mut self) -> Value {
        loop {
            let block = self.block().await.expect("the stream goes on");
            if let Some(data) = block.lines().find_map(|line| line.strip_prefix("data: ")) {
                assert!(block.starts_with("event: finding\n"), "{block}");
                return serde_json::from_str(data).expect("a finding");
            }
        }
    }
}
