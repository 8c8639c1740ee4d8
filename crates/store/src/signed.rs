//! Signatures of audit rows, and the progress of the audit's files.
//!
//! The key is outside of the database, with the caller of [`AuditStore::sign_audit_with`]. Every row that is written
//! after that call is signed, by each statement that writes to the audit.

use std::sync::{Arc, OnceLock};

use super::{
    StoreError,
    aggregates::AuditStore,
    decisions::NewAudit,
    sql::{self, record},
};
use umbra_domain::audit::{AuditFolder, AuditSigner};

/// Signs audit rows once a signer is set.
#[derive(Clone, Default)]
pub(super) struct RowSigner(Arc<OnceLock<AuditSigner>>);

impl std::fmt::Debug for RowSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Stamper").field(&self.0.get().is_some()).finish()
    }
}

impl RowSigner {
    /// Returns one signature over these rows, which are written together; the first of them stores it.
    pub fn stamp(&self, rows: &[NewAudit]) -> Option<Vec<u8>> {
        let signer = self.0.get().filter(|_| !rows.is_empty())?;
        Some(signer(&rows.iter().map(NewAudit::signed_content).collect::<Vec<_>>()))
    }
}

record!(AuditFolder: key, block, written);

impl AuditStore<'_> {
    /// Sets the signer. Only the first call has an effect.
    pub fn sign_audit_with(self, signer: AuditSigner) {
        drop(self.0.stamper.0.set(signer));
    }

    /// Returns the number of the last row before signing began; 0 if there is none.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn last_unsigned(self) -> Result<i64, StoreError> {
        sql::one(
            &self.0.control,
            "/* audit.last_unsigned */
             SELECT coalesce((SELECT seq - 1 FROM audit WHERE stamp IS NOT NULL ORDER BY seq LIMIT 1),
                             (SELECT last FROM feed WHERE name = 'audit'), 0)",
            (),
        )
        .await
    }

    /// Records the progress of a folder's files, which never decreases.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn note_folder(self, AuditFolder { key, block, written }: &AuditFolder) -> Result<(), StoreError> {
        sql::execute(
            &self.0.work,
            "/* audit.note_folder */ INSERT INTO audit_folder AS f (key, block, written) VALUES ($1, $2, $3)
             ON CONFLICT (key) DO UPDATE SET noted_at = clock(), block = greatest(f.block, excluded.block),
                 written = greatest(f.written, excluded.written)",
            (key, block, written),
        )
        .await
    }

    /// Returns the progress of the files of every folder.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn audit_folders(self) -> Result<Vec<AuditFolder>, StoreError> {
        sql::all(&self.0.work, "/* audit.folders */ SELECT key, block, written FROM audit_folder ORDER BY key", ())
            .await
    }
}
