//! `/v1/findings/stream`: findings as server-sent events, as they become visible.
//!
//! The `id` of an event is a cursor of the list: a reader may page through the list and go on here, or the other way
//! round. Each answer begins with `retry` and an `id`, so an `EventSource` that breaks before its first finding resumes
//! as well. A stream holds a place among the streams until it ends. A reader that takes no byte is cut off by the
//! connection's write deadline and resumes at its position. The drain ends all streams.

use std::{collections::VecDeque, convert::Infallible, fmt::Write, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream::{StreamExt, unfold};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::timeout,
};

use super::{
    Api,
    findings::{FEED, FindingQuery, finding_filter},
    params::{Params, ahead, cursor_of, position_of},
    problem::Problem,
};
use crate::flows::followers::finding_feed::NewFindings;
use umbra_store::{
    StoreError,
    findings::{FindingFilter, FindingItem},
    paging::{Feed, Seek},
};

/// Time after which a reader that was cut off reconnects.
const RETRY: Duration = Duration::from_secs(2);
/// Most findings of one read from the store.
const PAGE: u32 = 100;

/// Streams findings as they become visible, as server-sent events `finding` whose data is a finding. Without
/// `Last-Event-ID` the stream begins now; with it, behind that finding: none is skipped or repeated. Findings of
/// passive shadows come only with `mode=passive`.
#[utoipa::path(get, path = "/v1/findings/stream", tag = "findings",
    params(FindingQuery,
        ("since" = Option<String>, Query, format = DateTime,
            description = "Only findings from this time on (RFC 3339)"),
        ("until" = Option<String>, Query, format = DateTime, description = "Only findings before this time (RFC 3339)"),
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event that was received, or a cursor of the list"),
        ("last_event_id" = Option<String>, Query,
            description = "The same as Last-Event-ID, for clients that cannot set headers")),
    responses((status = 200, description = "Events without end", body = String, content_type = "text/event-stream")))]
pub async fn stream_findings(api: Api, headers: HeaderMap, mut params: Params) -> Result<Response, Problem> {
    let filter = finding_filter(&mut params);
    let given = params.text("last_event_id");
    params.finish()?;
    // The header is newer: a page sets the parameter once, and its EventSource the header at each reconnection.
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok().map(ToOwned::to_owned)).or(given);
    let from = match last.filter(|last| !last.is_empty()) {
        Some(last) => Some(position_of(FEED, &last).ok_or_else(|| {
            Problem::bad_cursor("Last-Event-ID is not an id of this stream; leave it out to begin now")
        })?),
        None => None,
    };
    // Subscribing before reading the store leaves no gap.
    let live = api.flows.followers.tail.subscribe();
    let newest = api.flows.store.upkeep().newest(Feed::Result).await?;
    if from.is_some_and(|from| from > newest) {
        return Err(ahead("Last-Event-ID"));
    }
    let (position, behind) = from.map_or((newest, false), |from| (from, true));
    let opening = format!("retry: {}\nid: {}\n\n", RETRY.as_millis(), cursor_of(FEED, position));
    let reader = FindingStream { api, filter, live, position, behind, ready: VecDeque::from([opening]) };
    Ok(event_stream(reader, FindingStream::next))
}

/// State of one stream.
struct FindingStream {
    api: Api,
    filter: FindingFilter,
    live: Receiver<Arc<NewFindings>>,
    /// Number up to which all findings were sent, or did not match.
    position: i64,
    /// True if the store may have findings that were not received live.
    behind: bool,
    ready: VecDeque<String>,
}

impl FindingStream {
    /// Returns the next piece to send; `None` at the drain, or while the database is away: the reader resumes later.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        let draining = self.api.draining.clone();
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some((piece.into(), self));
            }
            if let Err(error) = draining.run_until_cancelled(self.read()).await? {
                tracing::debug!(%error, "a stream of findings ended because of an error; its reader resumes");
                return None;
            }
        }
    }

    /// Waits for findings, or until a keep-alive is due.
    async fn read(&mut self) -> Result<(), StoreError> {
        if self.behind {
            let seek = Seek { from: Some(self.position), descending: false, limit: PAGE };
            let page = self.api.flows.store.findings().list(&self.filter, seek).await?;
            self.behind = page.more;
            for (seq, finding) in page.items {
                self.send(seq, &finding);
            }
            return Ok(());
        }
        match timeout(self.api.stream_keep_alive, self.live.recv()).await {
            Ok(Ok(news)) if news.gap => self.behind = true,
            Ok(Ok(news)) => {
                for (seq, finding) in &news.items {
                    if *seq > self.position && self.filter.admits(finding) {
                        self.send(*seq, finding);
                    }
                }
                self.position = self.position.max(news.upto);
            }
            // The reader was too slow to receive everything; the store has it.
            Ok(Err(RecvError::Lagged(_) | RecvError::Closed)) => self.behind = true,
            // The position goes along: a reader that resumes does not search again what did not match.
            Err(_) => self.ready.push_back(format!(": still here\nid: {}\n\n", cursor_of(FEED, self.position))),
        }
        Ok(())
    }

    fn send(&mut self, seq: i64, finding: &FindingItem) {
        let mut piece = format!("event: finding\nid: {}\ndata: ", cursor_of(FEED, seq));
        // A finding always serialises, on one line.
        let _ = write!(piece, "{}\n\n", serde_json::to_string(finding).unwrap_or_default());
        self.ready.push_back(piece);
        self.position = seq;
    }
}

/// Returns an answer of server-sent events. It reads on only when the connection asks for more, and ends with the pieces.
pub(super) fn event_stream<R, F>(reader: R, next: impl FnMut(R) -> F + Send + 'static) -> Response
where
    R: Send + 'static,
    F: Future<Output = Option<(Bytes, R)>> + Send + 'static,
{
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // Proxies of the nginx family would hold the events back.
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(unfold(reader, next).map(Ok::<_, Infallible>))).into_response()
}
