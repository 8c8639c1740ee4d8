//! Message authentication codes (MACs) of the rows that decisions rest on: overrides, approvals and runs. In: a key and
//! the content of a row. Out: its MAC. Pure.
//!
//! The key is derived from that of the audit's folder and is not in the database. A MAC is enough, and cheaper than a
//! signature: only processes with the key check these rows, and they do so in each decision.

use jiff::Timestamp;

use super::seal::{Fields, Hash};
use umbra_domain::{ApprovalRow, Execution, Override, RunRow};

/// Key of the rows' MACs.
#[derive(Clone)]
pub struct RowKey(Hash);

impl std::fmt::Debug for RowKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RowKey")
    }
}

impl RowKey {
    /// Derives the key from a secret.
    pub fn of(secret: &[u8]) -> Self {
        Self(blake3::derive_key("umbra 2026 rows of overrides and approvals", secret))
    }

    /// MAC of an override.
    pub fn of_override(&self, one: &Override) -> Hash {
        let Override { id, scope, value, execution, reason, set_at, expires_at } = one;
        let fields = Fields::of("umbra-override")
            .field(id.0.as_bytes())
            .field(scope.as_str().as_bytes())
            .field(value.as_bytes())
            .field(execution.as_str().as_bytes())
            .field(reason.as_bytes())
            .field(&time(*set_at));
        self.keyed(fields.optional(expires_at.map(time)))
    }

    /// MAC of an approval.
    pub fn of_approval(&self, row: &ApprovalRow) -> Hash {
        let ApprovalRow { id, agent, tool, digest, rule, reason, state, asked_at, expires_at, note, mac: _ } = row;
        let fields = Fields::of("umbra-approval")
            .field(id.0.as_bytes())
            .field(agent.as_bytes())
            .field(tool.as_bytes())
            .field(digest)
            .optional(rule.as_deref())
            .optional(reason.as_deref())
            .field(state.as_str().as_bytes())
            .field(&time(*asked_at))
            .field(&time(*expires_at));
        // Only a note adds a field: rows without one keep the MACs from before notes were covered.
        self.keyed(match note {
            Some(note) => fields.field(note.as_bytes()),
            None => fields,
        })
    }

    /// Returns the approval if a process with this key wrote it, without a note that its MAC does not cover.
    pub fn authenticate_approval(&self, mut row: ApprovalRow) -> Option<ApprovalRow> {
        let fits = |row: &ApprovalRow| row.mac.as_ref().is_some_and(|mac| *mac == self.of_approval(row));
        if !fits(&row) {
            row.note = None;
        }
        fits(&row).then_some(row)
    }

    /// MAC of a run. It leaves out the memory of the run's stubs, which lets no call run.
    pub fn of_run(&self, row: &RunRow) -> Hash {
        let RunRow { agent, run, execution, began, parent, started_by, session, named, mac: _ } = row;
        let is_shadow = |execution: &Execution| u8::from(*execution == Execution::Shadow);
        let fields = Fields::of("umbra-run")
            .field(agent.as_bytes())
            .field(run.as_bytes())
            .field(&[is_shadow(execution), is_shadow(began)]);
        let names = [parent, started_by, session];
        let fields = names.iter().fold(fields, |fields, name| fields.optional(name.as_deref()));
        // Only unnamed runs add a field: named ones keep the MACs from before there were unnamed ones.
        self.keyed(if *named { fields } else { fields.field(b"unnamed") })
    }

    /// True if a process with this key wrote the run as it is.
    pub fn is_authentic_run(&self, row: &RunRow) -> bool {
        row.mac.as_ref().is_some_and(|mac| *mac == self.of_run(row))
    }

    fn keyed(&self, fields: Fields) -> Hash {
        *blake3::keyed_hash(&self.0, &fields.hash()).as_bytes()
    }
}

/// Time in microseconds, the precision of the database.
fn time(at: Timestamp) -> [u8; 8] {
    at.as_microsecond().to_be_bytes()
}
