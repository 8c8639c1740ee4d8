//! `/v1/audit`: what was decided, as lines of JSON: to its end, or without one.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    body::Body,
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use hyper::body::Frame;

use crate::api::{Api, auth::Caller, params::Params, problem::Problem};
use umbra_boundary::line::line;
use umbra_domain::{audit::AuditKind, key::Scope};
use umbra_store::{StoreError, audit::AuditFilter};

/// Rows of one read from the store.
const PAGE: i64 = 500;
/// Between looks for new rows.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// Every row as a line of JSON, in order; decisions unless `kind` says otherwise. It ends with the newest row, unless
/// `follow=true`.
#[utoipa::path(get, path = "/v1/audit", tag = "boundary",
    params(("agent" = Option<String>, Query, description = "Of this agent"),
        ("session" = Option<String>, Query, description = "Of this session"),
        ("run" = Option<String>, Query, description = "Of this run"),
        ("tool" = Option<String>, Query, description = "Of this tool, as `server.name`"),
        ("call_id" = Option<String>, Query, description = "Of this call"),
        ("kind" = Option<String>, Query, description = "decision (with merged), outcome, execution, approval, erasure, \
            merged, or all", example = "outcome"),
        ("since" = Option<String>, Query, format = DateTime, description = "From this time (RFC 3339)"),
        ("until" = Option<String>, Query, format = DateTime, description = "Before this time (RFC 3339)"),
        ("after" = Option<i64>, Query, description = "Behind the row of this `seq`, to go on later"),
        ("follow" = Option<bool>, Query, description = "Go on with new rows, without end")),
    responses((status = 200, description = "A line a row", body = String, content_type = "application/x-ndjson")))]
pub async fn get_audit(State(api): State<Api>, caller: Caller, mut params: Params) -> Result<Response, Problem> {
    caller.require(Scope::Read)?;
    let [agent, session, run, tool, call_id] = ["agent", "session", "run", "tool", "call_id"]
        .map(|name| params.text(name).map(|given| api.flows.boundary.name_asked_for(&given)));
    let filter = AuditFilter {
        agent,
        session,
        run,
        tool,
        call_id,
        kinds: params
            .parsed("kind", "decision, outcome, execution, approval, erasure, merged or all", kinds)
            .unwrap_or_else(|| vec![AuditKind::Decision, AuditKind::Merged]),
        span: params.span(),
    };
    let after = params.parsed("after", "a row's seq", |text| text.parse().ok().filter(|seq: &i64| *seq >= 0));
    let follow = params.parsed("follow", "true or false", |text| text.parse::<bool>().ok());
    params.finish()?;
    let mut reader = Reader {
        api,
        filter,
        after: after.unwrap_or(0),
        follow: follow == Some(true),
        ready: VecDeque::new(),
        ended: false,
    };
    // The first page at once: a database that is away is a problem, not an empty answer.
    reader.read().await?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, Body::new(Lines(Box::pin(reader.next())))).into_response())
}

fn kinds(word: &str) -> Option<Vec<AuditKind>> {
    match word {
        "all" => Some(AuditKind::ALL.to_vec()),
        "decision" => Some(vec![AuditKind::Decision, AuditKind::Merged]),
        word => AuditKind::parse(word).map(|kind| vec![kind]),
    }
}

/// One answer.
struct Reader {
    api: Api,
    filter: AuditFilter,
    /// Every row up to this number was read.
    after: i64,
    follow: bool,
    ready: VecDeque<Bytes>,
    ended: bool,
}

type Piece = Option<Result<(Bytes, Reader), StoreError>>;

impl Reader {
    async fn read(&mut self) -> Result<(), StoreError> {
        let page = self.api.flows.boundary.store.audit().list(&self.filter, self.after, PAGE).await?;
        self.ended = page.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
        let mut text = Vec::new();
        for record in &page {
            self.after = record.row.seq;
            text.extend(line(record).to_string().into_bytes());
            text.push(b'\n');
        }
        if !text.is_empty() {
            self.ready.push_back(text.into());
        }
        Ok(())
    }

    /// The next piece to send; `None` at the end.
    async fn next(mut self) -> Piece {
        let draining = self.api.draining.clone();
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(Ok((piece, self)));
            }
            if self.ended {
                if !self.follow {
                    return None;
                }
                draining.run_until_cancelled(tokio::time::sleep(BETWEEN_LOOKS)).await?;
            }
            if let Err(error) = self.read().await {
                return Some(Err(error));
            }
        }
    }
}

/// The body: it reads on only when the connection asks for more. Where the database goes away it breaks off, so that
/// nobody takes a part for the whole.
struct Lines(Pin<Box<dyn Future<Output = Piece> + Send>>);

impl hyper::body::Body for Lines {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(match ready!(self.0.as_mut().poll(cx)) {
            Some(Ok((piece, reader))) => {
                self.0 = Box::pin(reader.next());
                Some(Ok(Frame::data(piece)))
            }
            ended => {
                self.0 = Box::pin(std::future::ready(None));
                ended.and_then(Result::err).map(|error| Err(io::Error::other(error.to_string())))
            }
        })
    }
}
