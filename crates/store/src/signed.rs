//! Who signs the rows of the audit, and how far its files are.
//!
//! The key lies outside of the database, with whoever calls [`Store::sign_audit_with`]; everything that is written after
//! that is signed on its way, whichever statement writes it.

use std::sync::{Arc, OnceLock};

use super::{StoreError, aggregates::AuditStore, decisions::NewAudit};
use umbra_domain::audit::{AuditFolder, AuditSigner};

/// Signs rows, once it is known with what.
#[derive(Clone, Default)]
pub(super) struct Stamper(Arc<OnceLock<AuditSigner>>);

impl std::fmt::Debug for Stamper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Stamper").field(&self.0.get().is_some()).finish()
    }
}

impl Stamper {
    /// What the first of these rows, which are written together, is to carry.
    pub fn stamp(&self, rows: &[NewAudit]) -> Option<Vec<u8>> {
        let signer = self.0.get().filter(|_| !rows.is_empty())?;
        Some(signer(&rows.iter().map(NewAudit::said).collect::<Vec<_>>()))
    }
}

impl AuditStore<'_> {
    /// Signs with this from now on. Only the first counts.
    pub fn sign_audit_with(self, signer: AuditSigner) {
        drop(self.0.stamper.0.set(signer));
    }

    /// The last row of before rows were signed; 0 where there is none.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn last_unsigned(self) -> Result<i64, StoreError> {
        let seq = sqlx::query_scalar(
            "/* audit.last_unsigned */
             SELECT coalesce((SELECT seq - 1 FROM audit WHERE stamp IS NOT NULL ORDER BY seq LIMIT 1),
                             (SELECT last FROM feed WHERE name = 'audit'), 0)",
        );
        Ok(seq.fetch_one(&self.0.control).await?)
    }

    /// Notes how far the files of a folder are. It only grows.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn note_folder(self, AuditFolder { key, block, written }: &AuditFolder) -> Result<(), StoreError> {
        sqlx::query(
            "/* audit.note_folder */ INSERT INTO audit_folder AS f (key, block, written) VALUES ($1, $2, $3)
             ON CONFLICT (key) DO UPDATE SET noted_at = clock(), block = greatest(f.block, excluded.block),
                 written = greatest(f.written, excluded.written)",
        )
        .bind(key)
        .bind(block)
        .bind(written)
        .execute(&self.0.work)
        .await?;
        Ok(())
    }

    /// How far the files of every folder are.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn audit_folders(self) -> Result<Vec<AuditFolder>, StoreError> {
        let rows: Vec<(Vec<u8>, i64, i64)> =
            sqlx::query_as("/* audit.folders */ SELECT key, block, written FROM audit_folder ORDER BY key")
                .fetch_all(&self.0.work)
                .await?;
        Ok(rows.into_iter().map(|(key, block, written)| AuditFolder { key, block, written }).collect())
    }
}
