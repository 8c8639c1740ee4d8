//! `/v1/audit`: rows of the audit as lines of JSON, up to the newest or followed without end.

use std::{collections::VecDeque, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream::try_unfold;

use crate::{
    api::{Api, params::Params, problem::Problem},
    flows::audit::search::AuditSearch,
};
use umbra_boundary::record_json::line;
use umbra_domain::{Decision, Effect, Execution, audit::AuditKind, tool::ToolPatterns};
use umbra_store::{StoreError, audit::AuditFilter, paging::Span};

/// Rows of one read from the store.
const PAGE: i64 = 500;
/// Rows of a newest-first answer without `limit`.
const NEWEST: i64 = 50;
/// Header that reports filters which match nothing known.
const WARNING: HeaderName = HeaderName::from_static("umbra-warning");
/// Pause between reads for new rows.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// Streams rows of the audit as lines of JSON, in order; decisions unless `kind` says otherwise. The stream ends with
/// the newest row, unless `follow=true`.
#[utoipa::path(get, path = "/v1/audit", tag = "boundary",
    params(("agent" = Option<String>, Query,
        description = "Only rows of this agent, or of the agents that a glob matches"),
        ("session" = Option<String>, Query, description = "Only rows of this session"),
        ("run" = Option<String>, Query, description = "Only rows of this run"),
        ("tool" = Option<String>, Query,
            description = "Only rows of this tool in any spelling, or of the tools that a glob such as `stripe.*` \
                           matches"),
        ("call_id" = Option<String>, Query, description = "Only rows of this call"),
        ("decision" = Option<String>, Query,
            description = "Only decisions with this result: execute, stub, ask or block"),
        ("effect" = Option<String>, Query,
            description = "Only decisions about calls of this effect: read, write or destructive"),
        ("execution" = Option<String>, Query, description = "Only decisions under this execution: live or shadow"),
        ("kind" = Option<String>, Query, description = "decision (with merged), outcome, execution, approval, erasure, \
            merged, or all", example = "outcome"),
        ("since" = Option<String>, Query, description = "From this time (RFC 3339), or from a duration ago (`1h`)"),
        ("until" = Option<String>, Query,
            description = "Before this time (RFC 3339), or before a duration ago (`10m`)"),
        ("after" = Option<i64>, Query, description = "Only rows after the row with this `seq`, to resume a listing"),
        ("order" = Option<String>, Query,
            description = "asc (default) or desc: newest first, 50 rows unless `limit` is given"),
        ("limit" = Option<i64>, Query, description = "Rows at most, 1 to 500"),
        ("follow" = Option<bool>, Query, description = "Keep the answer open and send new rows as they are written")),
    responses((status = 200,
        description = "One row a line. The header `umbra-warning` names an agent or tool that no row has, with the \
                       nearest name", body = String, content_type = "application/x-ndjson",
        headers(("umbra-warning" = Option<String>, description = "Warnings about the filters")))))]
pub async fn get_audit(api: Api, mut params: Params) -> Result<Response, Problem> {
    let search = search(&api, &mut params);
    let after = params.parsed("after", "a row's seq", |text| text.parse().ok().filter(|seq: &i64| *seq >= 0));
    let follow = params.parsed("follow", "true or false", |text| text.parse::<bool>().ok()) == Some(true);
    let (newest_first, limit) = (params.descending(), params.limit().map(i64::from));
    if newest_first && (follow || after.is_some()) {
        params.fault(
            "order",
            "bad_value",
            "`order=desc` cannot be combined with `after` or `follow`: leave out one of them",
        );
    }
    params.finish()?;
    let limit = limit.or(newest_first.then_some(NEWEST));
    let after = after.unwrap_or(0);
    let mut reader =
        AuditStream { api, search, after, newest_first, left: limit, follow, ready: VecDeque::new(), ended: true };
    // The first page is read at once: a database that is away is a problem, not an empty answer.
    reader.read().await?;
    let mut headers = HeaderMap::from_iter([
        (header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ]);
    if reader.ready.is_empty() {
        let warnings = reader.search.warnings(&reader.api.flows.boundary.store).await?.join("; ");
        // Header fields carry visible ASCII; other characters become `?`.
        let plain: String = warnings.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' }).collect();
        if let Some(value) = HeaderValue::from_str(&plain).ok().filter(|value| !value.is_empty()) {
            headers.insert(WARNING, value);
        }
    }
    // The answer breaks off when the database goes away: a part cannot pass for the whole.
    Ok((headers, Body::from_stream(try_unfold(reader, AuditStream::next))).into_response())
}

/// Reads the filters of a request; faults are kept in `params`.
fn search(api: &Api, params: &mut Params) -> AuditSearch {
    let [agent, session, run, call_id] = ["agent", "session", "run", "call_id"]
        .map(|name| params.text(name).map(|given| api.flows.boundary.name_asked_for(&given)));
    let tool = params.parsed("tool", "a name or a glob such as stripe.*", |tool| {
        let tool = api.flows.boundary.name_asked_for(tool);
        ToolPatterns::compile([(tool.as_str(), 0)]).ok().map(|patterns| (tool, patterns))
    });
    let decision = params.parsed("decision", "execute, stub, ask or block", Decision::parse);
    let effect = params.parsed("effect", "read, write or destructive", Effect::parse);
    let execution = params.parsed("execution", "live or shadow", Execution::parse);
    let kinds = params.parsed("kind", "decision, outcome, execution, approval, erasure, merged or all", kinds);
    let now = api.flows.clock.now();
    let [since, until] = ["since", "until"].map(|name| params.time_or_ago(name, now));
    let filter = AuditFilter {
        session,
        run,
        call_id,
        decision: decision.map(|word| word.as_str().to_owned()),
        effect: effect.map(|word| word.as_str().to_owned()),
        execution: execution.map(|word| word.as_str().to_owned()),
        kinds: kinds.unwrap_or_else(|| vec![AuditKind::Decision, AuditKind::Merged]),
        span: Span { since, until },
        ..AuditFilter::default()
    };
    AuditSearch::new(filter, agent, tool)
}

fn kinds(word: &str) -> Option<Vec<AuditKind>> {
    match word {
        "all" => Some(AuditKind::ALL.to_vec()),
        "decision" => Some(vec![AuditKind::Decision, AuditKind::Merged]),
        word => AuditKind::parse(word).map(|kind| vec![kind]),
    }
}

/// State of one answer.
struct AuditStream {
    api: Api,
    search: AuditSearch,
    /// Number of the last row that was read.
    after: i64,
    newest_first: bool,
    /// Rows left to send, where there is a limit.
    left: Option<i64>,
    follow: bool,
    ready: VecDeque<Bytes>,
    /// True if no more rows were stored at the last read; also before the first.
    ended: bool,
}

impl AuditStream {
    async fn read(&mut self) -> Result<(), StoreError> {
        let store = &self.api.flows.boundary.store;
        // Reads names that came since the last read, too.
        if self.ended {
            self.search.resolve(store, self.after).await?;
        }
        let most = self.left.unwrap_or(PAGE).min(PAGE);
        let page = if self.newest_first {
            store.audit().newest(&self.search.filter, most).await?
        } else {
            store.audit().list(&self.search.filter, self.after, most).await?
        };
        let count = i64::try_from(page.len()).unwrap_or(i64::MAX);
        self.left = self.left.map(|left| left - count);
        self.ended = count < PAGE || self.newest_first;
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

    /// Returns the next piece to send; `None` at the end.
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, StoreError> {
        let draining = self.api.draining.clone();
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Ok(Some((piece, self)));
            }
            if self.left == Some(0) || (self.ended && !self.follow) {
                return Ok(None);
            }
            let pause = tokio::time::sleep(BETWEEN_LOOKS);
            if self.ended && draining.run_until_cancelled(pause).await.is_none() {
                return Ok(None);
            }
            self.read().await?;
        }
    }
}
