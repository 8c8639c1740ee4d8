//! `/v1/admin`: reload and keys.

use axum::{
    Json,
    extract::{Request, State},
    http::StatusCode,
};
use rand::Rng;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Api, ReloadFault, Reloaded,
    auth::Caller,
    body::{Media, expect_media, from_json},
    params::PathPart,
    problem::Problem,
};
use crate::{
    domain::{
        KeyId,
        key::{AgentGlobs, Scope, may_bind, mint},
    },
    store::keys::KeyRow,
};

/// Reads the settings and shadows anew and puts them in force, whole or not at all.
#[utoipa::path(post, path = "/v1/admin/reload", tag = "admin",
    responses((status = 200, description = "What is in force now", body = Reloaded),
        (status = 409, description = "The files have faults; what was in force stays",
            body = super::problem::ProblemDocument, content_type = "application/problem+json")))]
pub async fn post_reload(State(api): State<Api>, caller: Caller) -> Result<Json<Reloaded>, Problem> {
    caller.require(Scope::Admin)?;
    match (api.reload)().await {
        Ok(reloaded) => Ok(Json(reloaded)),
        Err(ReloadFault::Store(error)) => Err(error.into()),
        Err(ReloadFault::Faults(faults)) => {
            let mut problem = Problem::conflict(
                "the files have faults; the configuration that was in force stays. errors lists them",
            );
            for (place, text) in faults {
                problem = problem.at(place, "bad_config", text);
            }
            Err(problem)
        }
    }
}

/// A key to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKeyRequest {
    /// What it is for.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// What it permits: ingest, read, decide, admin.
    #[schema(min_items = 1)]
    pub scopes: Vec<Scope>,
    /// The agents that it may speak for, as globs; all without it.
    #[schema(max_items = 100)]
    pub agents: Option<Vec<String>>,
}

/// A new key. It is shown this once.
#[derive(Debug, Serialize, ToSchema)]
pub struct MintedKey {
    /// Its public name.
    #[schema(value_type = String)]
    pub id: KeyId,
    /// The key itself.
    #[schema(example = "umbra_sk_...")]
    pub key: String,
}

/// Every key.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyList {
    /// Oldest first, the revoked ones too.
    pub items: Vec<KeyRow>,
}

/// Lists keys, never their secrets.
#[utoipa::path(get, path = "/v1/admin/keys", tag = "admin",
    responses((status = 200, description = "The keys", body = KeyList)))]
pub async fn list_keys(State(api): State<Api>, caller: Caller) -> Result<Json<KeyList>, Problem> {
    caller.require(Scope::Admin)?;
    Ok(Json(KeyList { items: api.pipeline.store.keys().await? }))
}

/// Makes a key. From the first one on, every request needs a key.
#[utoipa::path(post, path = "/v1/admin/keys", tag = "admin", request_body = NewKeyRequest,
    responses((status = 201, description = "The key, shown this once", body = MintedKey)))]
pub async fn post_key(
    State(api): State<Api>,
    caller: Caller,
    request: Request,
) -> Result<(StatusCode, Json<MintedKey>), Problem> {
    caller.require(Scope::Admin)?;
    expect_media(request.headers(), &[Media::Json])?;
    let wanted: NewKeyRequest = from_json(&api.bodies.read(request).await?)?;
    let bad = |pointer: &str, detail: &str| {
        Problem::invalid_event("the key breaks rules; errors lists them").at(pointer.to_owned(), "bad_value", detail)
    };
    let agents = wanted.agents.unwrap_or_else(|| vec!["*".into()]);
    let name_fits = !wanted.name.trim().is_empty() && wanted.name.len() <= 100 && !wanted.name.contains('\0');
    if !name_fits {
        return Err(bad("/name", "1 to 100 bytes, not blank"));
    }
    if wanted.scopes.is_empty() {
        return Err(bad("/scopes", "at least one of ingest, read, decide, admin"));
    }
    let agents_fit = (1..=100).contains(&agents.len()) && agents.iter().all(|a| a.len() <= 256 && !a.contains('\0'));
    if !agents_fit || AgentGlobs::compile(&agents).is_err() {
        return Err(bad("/agents", "1 to 100 globs of at most 256 bytes, such as writer-*"));
    }
    if !may_bind(&wanted.scopes, &agents) {
        return Err(bad("/agents", "a key that reads or administers sees every agent: leave agents out, or the scope"));
    }
    let key = mint(rand::rng().random());
    let id = KeyId(api.pipeline.clock.new_id());
    let scopes: Vec<String> = wanted.scopes.iter().map(|scope| scope.as_str().to_owned()).collect();
    api.pipeline.store.add_key(id, &wanted.name, &api.keys.hash(&key), &scopes, &agents).await?;
    api.keys.refresh().await?;
    tracing::info!(%id, "a key was made");
    Ok((StatusCode::CREATED, Json(MintedKey { id, key })))
}

/// Revokes a key: it stops working within a second, everywhere. Revoking twice changes nothing.
#[utoipa::path(delete, path = "/v1/admin/keys/{id}", tag = "admin",
    params(("id" = String, Path, description = "A key's id, such as `key_` and 32 hex digits")),
    responses((status = 204, description = "It does not work any more")))]
pub async fn delete_key(State(api): State<Api>, caller: Caller, PathPart(id): PathPart) -> Result<StatusCode, Problem> {
    caller.require(Scope::Admin)?;
    let missing = || Problem::not_found("there is no such key; GET /v1/admin/keys lists them");
    let id: KeyId = id.parse().map_err(|_| missing())?;
    if !api.pipeline.store.revoke_key(id).await? {
        return Err(missing());
    }
    api.keys.refresh().await?;
    tracing::info!(%id, "a key was revoked");
    Ok(StatusCode::NO_CONTENT)
}
