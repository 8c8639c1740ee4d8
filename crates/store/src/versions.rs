//! Versions of shadows, kept so that the configuration of each review can be read again.

use sqlx::PgExecutor;

use super::{StoreError, aggregates::ShadowStore, sql};
use umbra_domain::Shadow;

impl ShadowStore<'_> {
    /// Stores a shadow's version and returns its number.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn file_version(self, shadow: &Shadow) -> Result<i32, StoreError> {
        let version = shadow.version();
        let known = "SELECT id FROM shadow_version WHERE name = $1 AND version = $2";
        let found: Option<i32> = sql::optional(&self.0.control, known, (&shadow.name, &version)).await?;
        if let Some(id) = found {
            return Ok(id);
        }
        let config = serde_json::to_string(shadow).map_err(|error| broken(&error))?;
        sql::execute(
            &self.0.control,
            "INSERT INTO shadow_version (name, version, config) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            (&shadow.name, &version, config),
        )
        .await?;
        sql::one(&self.0.control, known, (&shadow.name, &version)).await
    }

    /// Returns the shadow as it was in a version, if the version exists.
    ///
    /// # Errors
    /// The database does not answer, or the row cannot be read.
    pub async fn version(self, id: i32) -> Result<Option<Shadow>, StoreError> {
        read(&self.0.work, id).await
    }
}

/// Returns the shadow as it was in a version.
pub(super) async fn read(database: impl PgExecutor<'_>, id: i32) -> Result<Option<Shadow>, StoreError> {
    let config: Option<String> =
        sql::optional(database, "SELECT config FROM shadow_version WHERE id = $1", (id,)).await?;
    config.map(|text| serde_json::from_str(&text).map_err(|error| broken(&error))).transpose()
}

fn broken(error: &serde_json::Error) -> StoreError {
    StoreError::Inconsistent { table: "shadow_version", problem: error.to_string() }
}
