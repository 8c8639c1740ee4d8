//! `/mcp/{profile}`: the MCP proxy over streamable HTTP. This file identifies the caller; the proxy answers.

use axum::{
    body::Body,
    extract::Request,
    http::{Method, header},
    response::Response,
};
use utoipa::IntoParams;

use super::{
    Api,
    auth::Caller,
    params::{Params, PathPart},
    problem::Problem,
};
use crate::mcp::McpCaller;

/// Most modes of a caller.
const MODES: usize = 16;
/// Most bytes of a name.
const NAME_BYTES: usize = 256;
/// Most bytes of a task.
const TASK_BYTES: usize = 4096;

/// Query parameters that name the caller.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it documents parameters; `params` reads them")]
struct McpCallerParams {
    /// Agent that calls; by default the one of the profile's settings. A key that is bound to agents must be bound to
    /// this one.
    agent: Option<String>,
    /// Session of the agent; by default the session of the protocol, where there is one.
    session: Option<String>,
    /// Run of the agent: stubs of a run share their state. By default the session.
    run: Option<String>,
    /// Seed that makes the stubs of the run repeatable.
    seed: Option<String>,
    /// Route that the agent works on, for rules.
    route: Option<String>,
    /// Modes that the agent is in, for rules, separated by commas; the outermost first.
    modes: Option<String>,
    /// Task by which a profile with `select` lists tools; by default that of the sidecar's session.
    task: Option<String>,
}

/// Speaks the Model Context Protocol with the servers of a profile: 2026-07-28, and by `initialize` 2025-11-25 and
/// older. Each call of a tool is decided first, as by `POST /v1/decide`. Where a profile has several servers, a tool is
/// called `server__tool`. Point a client at this address, with the key in its `Authorization` header.
#[utoipa::path(post, path = "/mcp/{profile}", tag = "boundary",
    params(("profile" = String, Path, description = "A profile of the settings, `mcp.profiles`"), McpCallerParams),
    request_body(content = Object, content_type = "application/json", description = "A JSON-RPC message"),
    responses((status = 200, description = "The answer, as JSON or as a stream of server-sent events"),
        (status = 202, description = "The notification was accepted")))]
pub async fn post_mcp(api: Api, named: Named, request: Request) -> Result<Response, Problem> {
    serve(&api, named, request).await
}

/// Streams messages that the servers send by themselves, in a session of a protocol before 2026-07-28.
#[utoipa::path(get, path = "/mcp/{profile}", tag = "boundary",
    params(("profile" = String, Path, description = "A profile of the settings, `mcp.profiles`"), McpCallerParams),
    responses((status = 200, description = "A stream of server-sent events")))]
pub async fn get_mcp(api: Api, named: Named, request: Request) -> Result<Response, Problem> {
    serve(&api, named, request).await
}

/// Ends a session of a protocol before 2026-07-28.
#[utoipa::path(delete, path = "/mcp/{profile}", tag = "boundary",
    params(("profile" = String, Path, description = "A profile of the settings, `mcp.profiles`"), McpCallerParams),
    responses((status = 204, description = "The session has ended")))]
pub async fn delete_mcp(api: Api, named: Named, request: Request) -> Result<Response, Problem> {
    serve(&api, named, request).await
}

/// Names in a request: of its caller, of the profile, and its parameters.
type Named = (Caller, PathPart, Params);

async fn serve(
    api: &Api,
    (caller, PathPart(profile), mut params): Named,
    request: Request,
) -> Result<Response, Problem> {
    let usual = api.mcp.as_ref().and_then(|profiles| profiles.agent(&profile));
    let right = "1 to 256 bytes without control characters";
    let name = |text: &str| {
        let fits = (1..=NAME_BYTES).contains(&text.len()) && !text.chars().any(char::is_control);
        (fits && !text.trim().is_empty()).then(|| text.to_owned())
    };
    let [agent, session, run, seed, route] =
        ["agent", "session", "run", "seed", "route"].map(|parameter| params.parsed(parameter, right, name));
    let modes = params.parsed("modes", "at most 16 names, separated by commas", |text| {
        let modes: Option<Vec<String>> = text.split(',').map(name).collect();
        modes.filter(|modes| modes.len() <= MODES)
    });
    let task = params.parsed("task", "1 to 4096 bytes, not blank", |text| {
        (text.len() <= TASK_BYTES && !text.trim().is_empty()).then(|| text.to_owned())
    });
    params.finish()?;
    let unknown = || Problem::not_found("profile not found: mcp.profiles in the settings declares them");
    let (Some(profiles), Some(usual)) = (&api.mcp, usual) else { return Err(unknown()) };
    let agent = agent.unwrap_or(usual);
    caller.speak_for(&agent)?;
    let request = if request.method() == Method::POST { whole(api, request).await? } else { request };
    let called_by = McpCaller { agent, session, run, seed, route, modes: modes.unwrap_or_default(), task };
    Ok(profiles.serve(&profile, called_by, request).await.ok_or_else(unknown)?.map(Body::new))
}

/// Returns the request with its body read within our bounds and decompressed.
async fn whole(api: &Api, request: Request) -> Result<Request, Problem> {
    let (mut parts, body) = request.into_parts();
    let bytes = api.bodies.read(Request::from_parts(parts.clone(), body)).await?;
    for name in [header::CONTENT_ENCODING, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        parts.headers.remove(name);
    }
    Ok(Request::from_parts(parts, Body::from(bytes)))
}
