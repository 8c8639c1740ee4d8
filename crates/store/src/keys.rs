//! API keys, stored as keyed hashes only.

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    StoreError,
    aggregates::KeyStore,
    sql::{self, record},
};
use umbra_domain::KeyId;

/// A key as it is listed, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Key)]
pub struct KeyRow {
    /// Public name of the key.
    #[schema(value_type = String)]
    pub id: KeyId,
    /// Purpose, in the operator's words.
    pub name: String,
    /// Keyed hash of the secret.
    #[serde(skip)]
    pub hash: Vec<u8>,
    /// Permissions of the key.
    pub scopes: Vec<String>,
    /// Agents that the key may speak for, as globs.
    pub agents: Vec<String>,
    /// When the key was made.
    pub created_at: Timestamp,
    /// When the key was revoked; null while it is valid.
    pub revoked_at: Option<Timestamp>,
}

record!(KeyRow: id, name, hash, scopes, agents, created_at, revoked_at);

impl KeyStore<'_> {
    /// Stores a key.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn add(
        self,
        id: KeyId,
        name: &str,
        hash: &[u8; 32],
        scopes: &[String],
        agents: &[String],
    ) -> Result<(), StoreError> {
        sql::execute(
            &self.0.control,
            "INSERT INTO api_key (id, name, hash, scopes, agents) VALUES ($1, $2, $3, $4, $5)",
            (id.0, name, hash.as_slice(), scopes, agents),
        )
        .await
    }

    /// Returns every key, revoked ones included, oldest first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list(self) -> Result<Vec<KeyRow>, StoreError> {
        let keys = "SELECT id, name, hash, scopes, agents, created_at, revoked_at FROM api_key ORDER BY id";
        sql::all(&self.0.control, keys, ()).await
    }

    /// Revokes a key; returns false if it does not exist. Revoking twice changes nothing.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn revoke(self, id: KeyId) -> Result<bool, StoreError> {
        sql::changed(
            &self.0.control,
            "UPDATE api_key SET revoked_at = coalesce(revoked_at, clock()) WHERE id = $1",
            (id.0,),
        )
        .await
    }
}
