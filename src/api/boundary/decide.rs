//! `/v1/decide` and `/v1/calls/{call_id}/outcome`: what becomes of a call of a tool, and what came of it.

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderName, HeaderValue},
    response::{IntoResponse, Response},
};
use serde_json::Value;
use tokio::time::Instant;
use utoipa::ToSchema;

use crate::{
    api::{
        Api,
        auth::Caller,
        body::{Media, expect_media},
        entrance::Arrived,
        events::invalid_request,
        params::PathPart,
        problem::Problem,
    },
    flows::decisions::{DecideError, ReportError, Reported},
    ingest::{self, CallRequest},
};
use umbra_boundary::answer::Answer;
use umbra_domain::key::Scope;

/// Marks an answer that repeats an earlier one.
static REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// A call that somebody asks about.
#[derive(Debug, ToSchema)]
#[schema(as = Call)]
#[expect(dead_code, reason = "it documents what `ingest::call_request` reads")]
pub struct CallSchema {
    /// The caller's own id of the call: sent again, it gets the same decision, but does not run again once its outcome is
    /// stored or calls do not run any more. A new id for each call; the same one only to ask again after a lost answer.
    #[schema(max_length = 255)]
    call_id: String,
    /// Who calls.
    #[schema(max_length = 256)]
    agent: String,
    /// The session it belongs to.
    session: Option<String>,
    /// The run it belongs to: stubs of a run remember each other. Without it, the session is the run.
    run: Option<String>,
    /// The client made up the name of the run, one for a process. Such a run, like one that is a session, ends when shadow
    /// is lifted; a run that somebody named and that began in shadow stays there until it is ended.
    default_run: Option<bool>,
    /// The run that started this one: what is shadow there is shadow here.
    parent_run: Option<String>,
    /// Makes the stubs of a run repeatable; the run's first call sets it.
    seed: Option<String>,
    /// Whether stubs of the run are now and then the faults that their contracts name; the run's first call sets it.
    faults: Option<bool>,
    /// The route that the agent works on, for rules.
    route: Option<String>,
    /// The modes that it is in, for rules; the outermost first.
    #[schema(max_items = 16)]
    modes: Option<Vec<String>>,
    /// What is called.
    tool: ToolSchema,
    /// The arguments.
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    arguments: Option<Value>,
    /// What the tool does: `read`, `write` or `destructive`. A key of the scope `declare` is believed, and so is who calls a
    /// server without keys, unless a contract or an operator's `effects` says otherwise; others only where it is graver than
    /// what is known.
    #[schema(example = "read")]
    declared_effect: Option<String>,
    /// The result that a stub shall have, any JSON; used in shadow alone.
    stub_override: Option<Value>,
    /// The result of a stub where no contract says what it is, `{"result": ...}` with any JSON; used in shadow alone. It goes
    /// before samples of schemas and recorded results.
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>, example = json!({"result": {"status": "sent"}}))]
    stub_fallback: Option<Value>,
    /// Ways to write that nobody can intercept, which the session has: it is refused shadow.
    uninterceptable: Option<Vec<String>>,
    /// W3C trace context (`00-<32 hex digits>-<16>-<2>`), kept in the audit; anything else is ignored.
    traceparent: Option<String>,
    /// Milliseconds that the caller waits, at most the setting `boundary.deadline`.
    deadline_ms: Option<u64>,
}

/// A tool.
#[derive(Debug, ToSchema)]
#[schema(as = Tool)]
#[expect(dead_code, reason = "it documents what `ingest::call_request` reads")]
pub struct ToolSchema {
    /// The server that offers it. Without it, rules and effects for every server's tool of this name hold.
    server: Option<String>,
    /// Its name there: letters, digits and visible signs of ASCII. Spellings of a name are the same tool everywhere:
    /// `mcp__stripe__create_refund`, `stripe.createRefund` and `Stripe/create-refund`.
    name: String,
    /// What the server says of it. It can raise the effect of the tool, and never lower it, whichever server is named.
    description: Option<String>,
    /// Hints of the Model Context Protocol. The same holds of them.
    annotations: Option<umbra_domain::ToolAnnotations>,
    /// JSON Schema of its arguments.
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    input_schema: Option<Value>,
    /// JSON Schema of its result.
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    output_schema: Option<Value>,
}

/// What came of a call.
#[derive(Debug, ToSchema)]
#[schema(as = Outcome)]
#[expect(dead_code, reason = "it documents what `ingest::outcome_request` reads")]
pub struct OutcomeSchema {
    /// Who called.
    agent: String,
    /// `ok` or `error`.
    #[schema(example = "ok")]
    status: String,
    /// What the tool answered, any JSON.
    result: Option<Value>,
    /// What went wrong.
    error: Option<String>,
    /// How long it took, in milliseconds.
    duration_ms: Option<u64>,
}

/// Asks what becomes of a call of a tool. Only `execute` lets it run. The decision is in the audit when this answers; what
/// cannot be decided in time is answered all the same, and lets nothing be changed. A refusal is no HTTP error: `decision`
/// is `block`, and `reason` says why. A `call_id` that is sent again gets its answer again (`replayed`), and no row in the
/// audit; where that answer was `execute`, it is `block` once the outcome is stored (`call_finished`) and while calls do not
/// run that ran when it was decided (`execution_changed`).
#[utoipa::path(post, path = "/v1/decide", tag = "boundary", request_body = inline(CallSchema),
    responses((status = 200, description = "What becomes of it", body = Answer),
        (status = 422, description = "The call_id was used for another call",
            body = crate::api::problem::ProblemDocument, content_type = "application/problem+json")))]
pub async fn post_decide(State(api): State<Api>, caller: Caller, request: Request) -> Result<Response, Problem> {
    caller.require(Scope::Decide)?;
    expect_media(request.headers(), &[Media::Json])?;
    let asked = request.extensions().get::<Arrived>().map_or_else(Instant::now, |arrived| arrived.0);
    let body = api.bodies.read(request).await?;
    let CallRequest { mut call, digest_input } = ingest::call_request(&body, &api.limits).map_err(invalid_request)?;
    caller.speak_for(&call.agent)?;
    if let Some(declared) = &mut call.declared_effect {
        declared.is_believed = caller.require(Scope::Declare).is_ok();
    }
    let answer = api.flows.boundary.decide_since(asked, call, &digest_input).await.map_err(|error| match error {
        DecideError::Mismatch => Problem::idempotency_mismatch(error.to_string()),
        DecideError::Erased => Problem::conflict(error.to_string()),
    })?;
    let replayed = answer.replayed;
    Ok(marked(replayed, Json(answer).into_response()))
}

/// Says what came of a call that ran. It is told once: the same again is answered as before, another one is refused.
#[utoipa::path(post, path = "/v1/calls/{call_id}/outcome", tag = "boundary", request_body = inline(OutcomeSchema),
    params(("call_id" = String, Path, description = "The caller's own id of the call")),
    responses((status = 200, description = "It is in the audit", body = Reported),
        (status = 422, description = "Another outcome was reported before",
            body = crate::api::problem::ProblemDocument, content_type = "application/problem+json")))]
pub async fn post_outcome(
    State(api): State<Api>,
    caller: Caller,
    PathPart(call_id): PathPart,
    request: Request,
) -> Result<Response, Problem> {
    caller.require(Scope::Decide)?;
    expect_media(request.headers(), &[Media::Json])?;
    if call_id.contains('\0') || call_id.len() > 255 {
        return Err(Problem::bad_path("a call's id has at most 255 bytes, without U+0000"));
    }
    let body = api.bodies.read(request).await?;
    let outcome = ingest::outcome_request(&body, &api.limits).map_err(invalid_request)?;
    caller.speak_for(&outcome.agent)?;
    let reported = api.flows.boundary.report(&call_id, &outcome).await.map_err(|error| {
        let text = error.to_string();
        match error {
            ReportError::Mismatch => Problem::idempotency_mismatch(text),
            ReportError::Unknown => Problem::not_found(text),
            ReportError::Unavailable => Problem::database_unavailable(text),
        }
    })?;
    let replayed = reported.replayed;
    Ok(marked(replayed, Json(reported).into_response()))
}

fn marked(replayed: bool, mut response: Response) -> Response {
    if replayed {
        response.headers_mut().insert(REPLAYED.clone(), HeaderValue::from_static("true"));
    }
    response
}
