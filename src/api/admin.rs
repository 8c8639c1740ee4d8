//! `/v1/admin`: reload and keys.

use axum::{Json, extract::Request, http::StatusCode};
use rand::Rng;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api, JsonAnswer, ReloadFault, Reloaded,
    body::{Media, expect_media},
    events::invalid_request,
    params::Params,
    problem::Problem,
};
use crate::{
    api::path_ids::{Addressed, PathId},
    ingest::{self, KeyRequest},
};
use umbra_domain::{
    KeyId,
    key::{Scope, mint},
};
use umbra_store::keys::KeyRow;

/// Reads the settings and shadows anew and puts them in force, whole or not at all.
#[utoipa::path(post, path = "/v1/admin/reload", tag = "admin",
    responses((status = 200, description = "The configuration in force after the reload", body = Reloaded),
        (status = 409, description = "The files have faults; the configuration in force stays as it was")))]
pub async fn post_reload(api: Api, request: Request) -> JsonAnswer<Reloaded> {
    api.bodies.read_nothing(request).await?;
    match (api.reload)().await {
        Ok(reloaded) => Ok(Json(reloaded)),
        Err(ReloadFault::Store(error)) => Err(error.into()),
        Err(ReloadFault::Faults(faults)) => {
            let stays = "the files have faults (see errors); the configuration in force stays as it was";
            let faults = faults.into_iter().map(|(place, text)| (place, "bad_config", text));
            Err(Problem::conflict(stays).with(faults))
        }
    }
}

/// A new key. It is shown this once.
#[derive(Debug, Serialize, ToSchema)]
pub struct MintedKey {
    /// Public name of the key.
    #[schema(value_type = String)]
    pub id: KeyId,
    /// Secret key, to be sent as `Authorization: Bearer`.
    #[schema(example = "umbra_sk_...")]
    pub key: String,
}

/// All keys.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyList {
    /// Oldest first, including revoked keys.
    pub items: Vec<KeyRow>,
}

/// Lists keys, never their secrets.
#[utoipa::path(get, path = "/v1/admin/keys", tag = "admin",
    responses((status = 200, description = "The keys", body = KeyList)))]
pub async fn list_keys(api: Api, params: Params) -> JsonAnswer<KeyList> {
    params.finish()?;
    Ok(Json(KeyList { items: api.flows.store.keys().list().await? }))
}

/// Makes a key. From the first key on, every request needs one.
#[utoipa::path(post, path = "/v1/admin/keys", tag = "admin", request_body = ingest::KeyRequest,
    responses((status = 201, description = "The key; it is shown only in this answer", body = MintedKey)))]
pub async fn post_key(api: Api, request: Request) -> Result<(StatusCode, Json<MintedKey>), Problem> {
    expect_media(request.headers(), &[Media::Json])?;
    let KeyRequest { name, scopes, agents } =
        ingest::key_request(&api.bodies.read(request).await?, &api.limits).map_err(invalid_request)?;
    if api.keys.is_first() && !scopes.contains(&Scope::Admin) {
        return Err(Problem::invalid_request(
            "the first key must have the scope admin: once a key exists, every request needs one",
        )
        .at(
            "/scopes",
            "first_key",
            "add admin to scopes, or make the first key with umbra keys create --scope admin",
        ));
    }
    let key = mint(rand::rng().random());
    let id = KeyId(api.flows.clock.new_id());
    let scopes: Vec<String> = scopes.iter().map(|scope| scope.as_str().to_owned()).collect();
    api.flows.store.keys().add(id, &name, &api.keys.hash(&key), &scopes, &agents).await?;
    api.keys.refresh().await?;
    tracing::info!(%id, "a key was created");
    Ok((StatusCode::CREATED, Json(MintedKey { id, key })))
}

/// Revokes a key: it stops working within a second, everywhere. Revoking twice changes nothing.
#[utoipa::path(delete, path = "/v1/admin/keys/{id}", tag = "admin",
    params(("id" = String, Path, description = "A key's id, such as `key_` and 32 hex digits")),
    responses((status = 204, description = "The key is revoked")))]
pub async fn delete_key(api: Api, PathId(id): PathId<KeyId>) -> Result<StatusCode, Problem> {
    if !api.flows.store.keys().revoke(id).await? {
        return Err(KeyId::unknown());
    }
    api.keys.refresh().await?;
    tracing::info!(%id, "a key was revoked");
    Ok(StatusCode::NO_CONTENT)
}
