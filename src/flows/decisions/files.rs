//! Whether the audit's folder can be written, as its writers find: told once when it begins and once when it is over, in
//! `/readyz`, and as a metric.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::telemetry::metric;

/// What is written there.
#[derive(Debug, Clone, Copy)]
pub enum AuditFile {
    /// The rows, line by line.
    Rows,
    /// The signed checkpoints.
    Checkpoints,
    /// What is decided while the database is away.
    Spool,
}

/// Which of them cannot be written.
#[derive(Debug, Default)]
pub struct AuditFiles([AtomicBool; 3]);

impl AuditFiles {
    /// Takes in how the last attempt went.
    pub fn note(&self, file: AuditFile, error: Option<&std::io::Error>) {
        let [rows, checkpoints, spool] = &self.0;
        let (flag, what) = match file {
            AuditFile::Rows => (rows, "its rows"),
            AuditFile::Checkpoints => (checkpoints, "its checkpoints"),
            AuditFile::Spool => (spool, "what is decided while the database is away"),
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

    /// What is wrong.
    pub fn complaint(&self) -> Option<&'static str> {
        let failing = self.0.iter().any(|flag| flag.load(Ordering::Relaxed));
        failing.then_some(
            "the audit's folder cannot be written: decisions are in the database alone, and without it what cannot be noted \
             does not run; free the disk, or correct boundary.audit.dir and its rights",
        )
    }
}
