//! The installation's secret: key of its hashes, made at the first start and the same on every replica.

use secrecy::{ExposeSecret, SecretSlice};

use super::{Store, StoreError, sql};

/// The key of this installation's hashes (idempotency, samples, API keys).
#[derive(Debug, Clone)]
pub struct Installation(SecretSlice<u8>);

impl Store {
    /// Reads the secret. At the very first start it stores `fresh`, made by the caller.
    ///
    /// # Errors
    /// The database does not answer, or holds a secret of another length.
    pub async fn installation(&self, fresh: [u8; 32]) -> Result<Installation, StoreError> {
        sql::execute(
            &self.control,
            "INSERT INTO installation (secret) VALUES ($1) ON CONFLICT DO NOTHING",
            (fresh.as_slice(),),
        )
        .await?;
        let secret: Vec<u8> = sql::one(&self.control, "SELECT secret FROM installation", ()).await?;
        Ok(Installation(secret.into()))
    }
}

impl Installation {
    /// Returns the hash under which an API key is filed.
    pub fn hash_key(&self, key: &str) -> [u8; 32] {
        self.hash("api-key", &[key.as_bytes()])
    }

    /// Returns a hash of `parts` that only this installation can make; `context` separates its uses.
    pub fn hash(&self, context: &'static str, parts: &[&[u8]]) -> [u8; 32] {
        let mut key = [0_u8; 32];
        let secret = self.0.expose_secret();
        key[..secret.len().min(32)].copy_from_slice(&secret[..secret.len().min(32)]);
        let mut hasher = blake3::Hasher::new_keyed(&key);
        hasher.update(context.as_bytes());
        for part in parts {
            // The length comes first, so no two lists of parts have the same encoding.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }
}
