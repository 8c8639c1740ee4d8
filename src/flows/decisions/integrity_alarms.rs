//! Integrity alarms: overrides, approvals and runs that fail authentication, sessions with fewer labels than the audit
//! says, unreadable lines of an outage. None of them is obeyed; each is logged once, counted, and degrades `/readyz`.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use crate::telemetry::metric;

/// Time for which a row that was not obeyed degrades `/readyz`.
const LATELY: Duration = Duration::from_mins(10);
/// Most rows that are remembered as logged.
const MOST_TOLD: usize = 10_000;

/// A row that is not obeyed.
#[derive(Debug, Clone, Copy)]
pub(super) enum UnauthenticRow<'r> {
    /// An approval.
    Approval(Uuid),
    /// A run, by agent and name.
    Run(&'r str, &'r str),
    /// A session with fewer labels than the audit says, by agent and name.
    Session(&'r str, &'r str),
}

/// Integrity alarms of this process.
#[derive(Debug, Default)]
pub struct IntegrityAlarms {
    lines: AtomicBool,
    refused: AtomicBool,
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    /// Failed overrides at the last read.
    overrides: BTreeSet<Uuid>,
    /// Other rows that were logged, by table.
    told: HashSet<(&'static str, String)>,
    /// Time at which a row of a table last failed.
    met: BTreeMap<&'static str, Instant>,
}

impl UnauthenticRow<'_> {
    fn table(self) -> &'static str {
        match self {
            Self::Approval(_) => "approval",
            Self::Run(..) => "boundary_run",
            Self::Session(..) => "boundary_session",
        }
    }

    fn name(self) -> String {
        match self {
            Self::Approval(id) => id.to_string(),
            // No name contains a NUL.
            Self::Run(agent, name) | Self::Session(agent, name) => format!("{agent}\0{name}"),
        }
    }

    fn log(self) {
        match self {
            Self::Approval(id) => tracing::error!(
                approval = %id,
                "an approval fails authentication by this server's key, or was used before: it is ignored; find out \
                 who can write to the database"
            ),
            Self::Run(..) => tracing::error!(
                "a run fails authentication by this server's key, or contradicts the audit: the run is in shadow; \
                 `umbra audit verify` names it; find out who can write to the database"
            ),
            Self::Session(..) => tracing::error!(
                "a session's row has lost labels that the audit has: the labels still count; `umbra audit verify` \
                 names the session; find out who can write to the database"
            ),
        }
    }
}

impl IntegrityAlarms {
    /// Records whether unreadable lines are set aside in the audit's folder.
    pub(super) fn lines(&self, are_there: bool) {
        self.lines.store(are_there, Ordering::Relaxed);
    }

    /// Records whether the database refuses rows of the audit by a constraint or trigger of its own.
    pub(super) fn refused(&self, is: bool) {
        self.refused.store(is, Ordering::Relaxed);
    }

    /// Records the overrides in force that failed authentication, and logs new ones.
    pub(super) fn overrides(&self, now: BTreeSet<Uuid>) {
        let mut rows = self.rows.lock();
        for id in now.difference(&rows.overrides) {
            metrics::counter!(metric::UNAUTHENTIC_ROWS, "table" => "execution_override").increment(1);
            tracing::error!(
                override_id = %id,
                "an override fails authentication by this server's key, or was ended before: it is ignored; set or \
                 lift it again, and find out who can write to the database"
            );
        }
        rows.overrides = now;
    }

    /// Records another row that failed authentication, and logs it the first time.
    pub(super) fn meet(&self, row: UnauthenticRow<'_>) {
        let mut rows = self.rows.lock();
        let table = row.table();
        rows.met.insert(table, Instant::now());
        if rows.told.len() >= MOST_TOLD {
            rows.told.clear();
        }
        if rows.told.insert((table, row.name())) {
            metrics::counter!(metric::UNAUTHENTIC_ROWS, "table" => table).increment(1);
            row.log();
        }
    }

    /// Returns a problem and its remedy, if there is one.
    pub fn complaint(&self) -> Option<&'static str> {
        let rows = self.rows.lock();
        if self.lines.load(Ordering::Relaxed) {
            return Some(
                "the audit's folder has unreadable lines (unmerged/refused) that are not in the audit: look at them, \
                 then move the file away",
            );
        }
        if self.refused.load(Ordering::Relaxed) {
            return Some(
                "the database refuses rows of the audit, so no call that changes something runs: the log names the \
                 constraint or trigger; find out who has changed the tables, and run `umbra doctor` and `umbra audit \
                 verify`",
            );
        }
        if !rows.overrides.is_empty() {
            return Some(
                "an override in the database fails authentication by this server's key (checkpoint-key) and is \
                 ignored: GET /v1/execution names it; set or lift it again, and find out who can write to the database",
            );
        }
        let lately = |(table, met): (&&'static str, &Instant)| (met.elapsed() < LATELY).then_some(*table);
        Some(match rows.met.iter().find_map(lately)? {
            "approval" => {
                "an approval in the database fails authentication by this server's key (checkpoint-key) and is \
                 ignored: the log names it; find out who can write to the database"
            }
            "boundary_run" => {
                "a run in the database fails authentication by this server's key (checkpoint-key), or contradicts the \
                 audit, and is in shadow: `umbra audit verify` names it; find out who can write to the database, and \
                 begin another run"
            }
            _ => {
                "a session in the database has lost labels that the audit has, and the labels still count: `umbra \
                 audit verify` names it; find out who can write to the database"
            }
        })
    }
}
