//! `/v1/decide` and `/v1/calls/{call_id}/outcome`: decisions about calls of tools, and reports of their outcomes.

use axum::{
    Json,
    extract::Request,
    response::{IntoResponse, Response},
};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    api::{
        Api,
        auth::Caller,
        body::{Media, expect_media},
        entrance::arrived,
        events::{invalid_request, marked},
        params::PathPart,
        problem::Problem,
    },
    flows::decisions::{DecideError, ReportError, Reported},
    ingest::{self, CallRequest},
};
use umbra_boundary::answer::Answer;
use umbra_domain::{CallOutcome, key::Scope};

/// A call of a tool that needs a decision.
#[derive(Debug, ToSchema)]
#[schema(as = DecideRequest)]
#[expect(dead_code, reason = "it documents what `ingest::call_request` reads")]
pub struct CallSchema {
    /// The caller's own id of the call. Sent again, it gets the same decision, but the call does not run again once its
    /// outcome is stored or calls no longer run. Use a new id for each call, and the same one only to ask again after a
    /// lost answer.
    #[schema(max_length = 255)]
    call_id: String,
    /// Agent that makes the call.
    #[schema(max_length = 256)]
    agent: String,
    /// Session of the call.
    session: Option<String>,
    /// Run of the call: stubs of a run share their state. Without it, the session is the run.
    run: Option<String>,
    /// True if the client made up the name of the run, one for each process. Such a run, like one that is a session,
    /// ends when shadow is lifted. A run with a chosen name that began in shadow stays there until it is ended.
    default_run: Option<bool>,
    /// Run that started this one: calls that are in shadow there are in shadow here.
    parent_run: Option<String>,
    /// Seed that makes the stubs of a run repeatable; the first call of the run sets it.
    seed: Option<String>,
    /// True if stubs of the run sometimes return the faults that contracts name; the first call of the run sets it.
    faults: Option<bool>,
    /// Route that the agent works on, for rules.
    route: Option<String>,
    /// Modes that the agent is in, for rules; the outermost first.
    #[schema(max_items = 16)]
    modes: Option<Vec<String>>,
    /// Tool to be called.
    tool: ToolSchema,
    /// Arguments of the call.
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    arguments: Option<Value>,
    /// Effect of the tool: `read`, `write` or `destructive`. A key with the scope `declare`, or any caller of a server
    /// without keys, is believed, unless a contract or an operator's `effects` says otherwise. From other callers it
    /// counts only where it is graver than the known effect.
    declared_effect: Option<umbra_domain::Effect>,
    /// Result that a stub must return, any JSON; used in shadow only.
    stub_override: Option<Value>,
    /// Result of a stub where no contract gives one, `{"result": ...}` with any JSON; used in shadow only. It goes
    /// before samples of schemas and recorded results.
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>, example = json!({"result": {"status": "sent"}}))]
    stub_fallback: Option<Value>,
    /// Ways to write that the session has and that cannot be intercepted: the session is refused shadow.
    uninterceptable: Option<Vec<String>>,
    /// W3C trace context (`00-<32 hex digits>-<16>-<2>`), kept in the audit; any other text is ignored.
    traceparent: Option<String>,
    /// Longest wait of the caller, in milliseconds; at most the setting `boundary.deadline`.
    deadline_ms: Option<u64>,
}

/// A tool.
#[derive(Debug, ToSchema)]
#[schema(as = Tool)]
#[expect(dead_code, reason = "it documents what `ingest::call_request` reads")]
pub struct ToolSchema {
    /// Server that offers the tool. Without it, rules and effects for this name on any server apply.
    server: Option<String>,
    /// Name of the tool on its server: letters, digits and visible signs of ASCII. Spellings of a name are the same
    /// tool: `mcp__stripe__create_refund`, `stripe.createRefund` and `Stripe/create-refund`.
    name: String,
    /// Description by the server. It can raise the effect of the tool but never lower it, whichever server is named.
    description: Option<String>,
    /// Hints of the Model Context Protocol. They, too, can only raise the effect.
    annotations: Option<umbra_domain::ToolAnnotations>,
    /// JSON Schema of the arguments.
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    input_schema: Option<Value>,
    /// JSON Schema of the result.
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    output_schema: Option<Value>,
}

/// Decides about a call of a tool. Only `execute` lets the call run. The decision is in the audit before this answers.
/// A call that cannot be decided in time is answered all the same, and then changes nothing. A refusal is no HTTP
/// error: `decision` is `block`, and `reason` says why. A repeated `call_id` gets the same answer (`replayed`) without
/// a new row in the audit. If that answer was `execute`, it becomes `block` once the outcome is stored
/// (`call_finished`), and while calls that ran at the time of the decision no longer run (`execution_changed`).
#[utoipa::path(post, path = "/v1/decide", tag = "boundary", request_body = CallSchema,
    responses((status = 200, description = "The decision about the call", body = Answer),
        (status = 422, description = "The call_id was used before for a different call")))]
pub async fn post_decide(api: Api, caller: Caller, request: Request) -> Result<Response, Problem> {
    expect_media(request.headers(), &[Media::Json])?;
    let asked = arrived(&request);
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

/// Reports the outcome of a call that ran. A repeated report gets the same answer; a different one is refused.
#[utoipa::path(post, path = "/v1/calls/{call_id}/outcome", tag = "boundary", request_body = CallOutcome,
    params(("call_id" = String, Path, description = "The call's id, as the caller gave it")),
    responses((status = 200, description = "The outcome is stored in the audit", body = Reported),
        (status = 422, description = "A different outcome of this call was reported before")))]
pub async fn post_outcome(
    api: Api,
    caller: Caller,
    PathPart(call_id): PathPart,
    request: Request,
) -> Result<Response, Problem> {
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
