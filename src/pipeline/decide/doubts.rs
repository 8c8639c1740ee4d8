//! What was found that none of our processes wrote: lines of an outage, overrides, approvals. None of it is obeyed; it is told
//! once in the log, counted, and degrades `/readyz` until somebody has looked.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use uuid::Uuid;

use crate::telemetry::metric;

/// How long an approval that was not obeyed degrades `/readyz`.
const APPROVAL: Duration = Duration::from_mins(10);
/// Approvals that are remembered as told.
const MOST_TOLD: usize = 10_000;

/// What is in doubt.
#[derive(Debug, Default)]
pub struct Doubts {
    lines: AtomicBool,
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    /// Overrides, as they were read last.
    overrides: BTreeSet<Uuid>,
    /// Approvals that were told.
    approvals: BTreeSet<Uuid>,
    /// When an approval was last met.
    met: Option<Instant>,
}

impl Doubts {
    /// Whether lines were set aside that nobody has moved away.
    pub(super) fn lines(&self, are_there: bool) {
        self.lines.store(are_there, Ordering::Relaxed);
    }

    /// Takes in which of the overrides in force nobody vouches for.
    pub(super) fn overrides(&self, now: BTreeSet<Uuid>) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        for id in now.difference(&rows.overrides) {
            metrics::counter!(metric::UNAUTHENTIC_ROWS, "table" => "execution_override").increment(1);
            tracing::error!(
                override_id = %id,
                "an override was not written by a server that holds our key, or was ended before: it lets nothing run; set it again, \
                 or lift it, and find out who can write to the database"
            );
        }
        rows.overrides = now;
    }

    /// Takes in an approval that nobody vouches for.
    pub(super) fn approval(&self, id: Uuid) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.met = Some(Instant::now());
        if rows.approvals.len() >= MOST_TOLD {
            rows.approvals.clear();
        }
        if rows.approvals.insert(id) {
            metrics::counter!(metric::UNAUTHENTIC_ROWS, "table" => "approval").increment(1);
            tracing::error!(
                approval = %id,
                "an approval was not written by a server that holds our key, or was used before: it approves nothing; find out who \
                 can write to the database"
            );
        }
    }

    /// What is wrong, and what to do.
    pub fn complaint(&self) -> Option<&'static str> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if self.lines.load(Ordering::Relaxed) {
            return Some(
                "the audit's folder has lines that no server wrote (unmerged.refused): they are not in the audit; find out who can \
                 write there, and move the file away",
            );
        }
        if !rows.overrides.is_empty() {
            return Some(
                "an override in the database was not written by a server that holds this one's key (checkpoint-key), and lets nothing \
                 run: GET /v1/execution names it; set it again or lift it, and find out who can write to the database",
            );
        }
        rows.met.is_some_and(|met| met.elapsed() < APPROVAL).then_some(
            "an approval in the database was not written by a server that holds this one's key (checkpoint-key), and approves nothing: \
             the log names it; find out who can write to the database",
        )
    }
}
