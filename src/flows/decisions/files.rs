//! State of the audit's files, as their writers find it: logged when it begins to fail and when it recovers, shown in
//! `/readyz` and as a metric.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::telemetry::metric;

/// Kind of file in the audit's folder.
#[derive(Debug, Clone, Copy)]
pub enum AuditFile {
    /// Rows of the audit, line by line.
    Rows,
    /// Signed checkpoints.
    Checkpoints,
    /// Decisions made while the database is away.
    Spool,
}

/// Kinds of files that cannot be written.
#[derive(Debug, Default)]
pub struct AuditFiles([AtomicBool; 3]);

impl AuditFiles {
    /// Records the result of the last write.
    pub fn note(&self, file: AuditFile, error: Option<&std::io::Error>) {
        let [rows, checkpoints, spool] = &self.0;
        let (flag, what) = match file {
            AuditFile::Rows => (rows, "its rows"),
            AuditFile::Checkpoints => (checkpoints, "its checkpoints"),
            AuditFile::Spool => (spool, "decisions made while the database does not answer"),
        };
        let was = flag.swap(error.is_some(), Ordering::Relaxed);
        match error {
            Some(error) if !was => {
                tracing::error!(%error, "the audit's folder cannot be written ({what}); trying again");
            }
            None if was => tracing::info!("the audit's folder can be written again ({what})"),
            _ => {}
        }
        metrics::gauge!(metric::AUDIT_FILES_FAILING).set(f64::from(u8::from(self.complaint().is_some())));
    }

    /// Returns the problem and its remedy, if a file cannot be written.
    pub fn complaint(&self) -> Option<&'static str> {
        let failing = self.0.iter().any(|flag| flag.load(Ordering::Relaxed));
        failing.then_some(
            "the audit's folder cannot be written: decisions are only in the database, and while it does not answer, \
             calls that change something do not run; free disk space, or correct boundary.audit.dir and its \
             permissions",
        )
    }
}
