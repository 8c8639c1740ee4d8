//! `/v1/approvals`: calls that a rule holds for approval, and the answers of people.

use axum::{Json, extract::Request};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    api::{
        Api, JsonAnswer,
        auth::Caller,
        params::{NOTE_CHARS, Params, fits_note},
        path_ids::{Addressed, PathId},
        problem::Problem,
    },
    flows::decisions::ApprovalError,
};
use umbra_domain::{ApprovalId, tool::ToolPatterns};
use umbra_store::execution::{ApprovalFilter, ApprovalItem};

/// A person's decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// The call may run, once.
    Approve,
    /// The call may not run.
    Deny,
}

/// A person's answer to an approval request.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRequest {
    /// Decision about the call.
    pub decision: ApprovalDecision,
    /// Reason, kept in the audit and as the `note` of the approval. The agent reads that of a denial.
    #[schema(max_length = 2000)]
    pub reason: Option<String>,
}

/// Approvals.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApprovalList {
    /// Newest first.
    pub items: Vec<ApprovalItem>,
}

/// Lists calls that wait for approval, and calls that were answered.
#[utoipa::path(get, path = "/v1/approvals", tag = "boundary",
    params(("state" = Option<String>, Query, description = "`pending`, `approved`, `denied`, `used` or `expired`"),
        ("agent" = Option<String>, Query, description = "Only those of this agent"),
        ("tool" = Option<String>, Query,
            description = "Only those of this tool (`server.name`), or of the tools that a glob matches"),
        ("limit" = Option<i64>, Query, description = "Items at most, 1 to 500; 50 unless given")),
    responses((status = 200, description = "The approvals, newest first", body = ApprovalList)))]
pub async fn list_approvals(api: Api, mut params: Params) -> JsonAnswer<ApprovalList> {
    let state = params.parsed("state", "pending, approved, denied, used or expired", |word| {
        ["pending", "approved", "denied", "used", "expired"].contains(&word).then(|| word.to_owned())
    });
    let agent = params.text("agent");
    let tools =
        params.parsed("tool", "a name or a glob such as stripe.*", |tool| ToolPatterns::compile([(tool, 0)]).ok());
    let limit = params.limit();
    params.finish()?;
    let filter = ApprovalFilter { state, agent, limit: limit.unwrap_or(50).into() };
    Ok(Json(ApprovalList { items: api.flows.boundary.approvals(filter, tools.as_ref()).await? }))
}

/// Returns an approval, with the call that needs it.
#[utoipa::path(get, path = "/v1/approvals/{id}", tag = "boundary",
    params(("id" = String, Path, description = "An approval's id, from a decision `ask`")),
    responses((status = 200, description = "The approval", body = ApprovalItem)))]
pub async fn get_approval(api: Api, PathId(id): PathId<ApprovalId>) -> JsonAnswer<ApprovalItem> {
    Ok(Json(api.flows.boundary.approval(id).await?.ok_or_else(ApprovalId::unknown)?))
}

/// Approves or denies a call. An approval holds for exactly these arguments, this tool and this agent. The first call
/// that it lets run uses it up; after its expiry it has no effect.
#[utoipa::path(post, path = "/v1/approvals/{id}", tag = "boundary", request_body = ApprovalRequest,
    params(("id" = String, Path, description = "An approval's id, from a decision `ask`")),
    responses((status = 200, description = "The approval after the answer", body = ApprovalItem),
        (status = 409, description = "The approval was answered before, has expired, or fails authentication")))]
pub async fn post_approval(
    api: Api,
    caller: Caller,
    PathId(id): PathId<ApprovalId>,
    request: Request,
) -> JsonAnswer<ApprovalItem> {
    let ApprovalRequest { decision, reason } = api.bodies.read_json(request).await?;
    if !reason.as_deref().is_none_or(fits_note) {
        let right = format!("at most {NOTE_CHARS} characters, without U+0000");
        return Err(Problem::invalid_values([("/reason", "range", right)]));
    }
    let approve = decision == ApprovalDecision::Approve;
    let webhooks = api.flows.webhooks.load();
    let answered = api.flows.boundary.answer_approval(id, approve, reason.as_deref(), caller.key(), &webhooks).await;
    let answered = answered.map_err(|error| match error {
        ApprovalError::Unauthentic => Problem::conflict(error.to_string()),
        ApprovalError::Store(error) => error.into(),
    })?;
    match answered.ok_or_else(ApprovalId::unknown)? {
        (item, true) => Ok(Json(item)),
        (item, false) => Err(Problem::conflict(unanswerable(&item))),
    }
}

/// Describes why an approval takes no answer, and what can be done instead.
fn unanswerable(item: &ApprovalItem) -> String {
    let (agent, tool, expires_at) = (&item.agent, &item.tool, item.expires_at);
    match item.state {
        "approved" => format!(
            "this approval is already approved, and an answer is final: the call may run once before {expires_at:.0}; \
             to stop it, set {tool} or {agent} to shadow (umbra execution shadow)"
        ),
        "denied" => format!(
            "this approval is already denied, and an answer is final: {agent} cannot call {tool} with these arguments \
             before {expires_at:.0}; after that, or with other arguments, let it call again, and answer the new \
             approval"
        ),
        "used" => "this approval is already used up by a call: to allow another one, let the agent call again with a \
                   new call_id, and answer the new approval"
            .to_owned(),
        "expired" => format!(
            "this approval expired at {expires_at:.0}: let the agent make the same call again, and answer the new \
             approval"
        ),
        _ => "this approval was changed at the same time: read it, and answer it again".to_owned(),
    }
}
