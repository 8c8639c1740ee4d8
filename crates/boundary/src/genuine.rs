//! Keyed hashes (MACs) of the rows that decisions rest on: overrides, approvals and runs. In: a key, the content of a row.
//! Out: its hash. Pure.
//!
//! The key is derived from that of the audit's folder and is not in the database. A hash is enough, and cheaper than a
//! signature: only processes with the key check these rows, and each decision does.

use jiff::Timestamp;

use super::seal::{Fields, Hash};
use umbra_domain::{ApprovalId, Override};

/// The key of rows' hashes.
#[derive(Clone)]
pub struct RowKey(Hash);

impl std::fmt::Debug for RowKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RowKey")
    }
}

/// What an approval says.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalSaid<'a> {
    /// Its id.
    pub id: ApprovalId,
    /// Who calls.
    pub agent: &'a str,
    /// Which tool.
    pub tool: &'a str,
    /// Keyed hash of agent, tool and arguments.
    pub digest: &'a [u8],
    /// The rule that asks, and its reason.
    pub rule: [Option<&'a str>; 2],
    /// `pending`, `approved`, `denied` or `used`.
    pub state: &'a str,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// When it is past.
    pub expires_at: Timestamp,
}

/// What a run says of whether its calls run. What its stubs remember is not in it: that lets nothing run.
#[derive(Debug, Clone, Copy)]
pub struct RunSaid<'a> {
    /// Whose.
    pub agent: &'a str,
    /// Its name.
    pub run: &'a str,
    /// Whether any of its calls was in shadow.
    pub in_shadow: bool,
    /// Whether it began in shadow.
    pub began_in_shadow: bool,
    /// The shadow run that it descends from.
    pub parent: Option<&'a str>,
    /// The run that started it.
    pub started_by: Option<&'a str>,
    /// The session of its last call.
    pub session: Option<&'a str>,
}

impl RowKey {
    /// The key that comes from a secret.
    pub fn of(secret: &[u8]) -> Self {
        Self(blake3::derive_key("umbra 2026 rows of overrides and approvals", secret))
    }

    /// The keyed hash of an override.
    pub fn of_override(&self, one: &Override) -> Hash {
        let Override { id, scope, value, execution, reason, set_at, expires_at } = one;
        let fields = Fields::of("umbra-override")
            .field(id.0.as_bytes())
            .field(scope.as_str().as_bytes())
            .field(value.as_bytes())
            .field(execution.as_str().as_bytes())
            .field(reason.as_bytes())
            .field(&time(*set_at));
        self.keyed(fields.optional(expires_at.map(time).as_ref().map(<[u8; 8]>::as_slice)))
    }

    /// The keyed hash of an approval.
    pub fn of_approval(&self, said: &ApprovalSaid<'_>) -> Hash {
        let ApprovalSaid { id, agent, tool, digest, rule, state, asked_at, expires_at } = said;
        let fields = Fields::of("umbra-approval")
            .field(id.0.as_bytes())
            .field(agent.as_bytes())
            .field(tool.as_bytes())
            .field(digest);
        let fields = rule.iter().fold(fields, |fields, word| fields.optional(word.map(str::as_bytes)));
        self.keyed(fields.field(state.as_bytes()).field(&time(*asked_at)).field(&time(*expires_at)))
    }

    /// The keyed hash of a run.
    pub fn of_run(&self, said: &RunSaid<'_>) -> Hash {
        let RunSaid { agent, run, in_shadow, began_in_shadow, parent, started_by, session } = said;
        let fields = Fields::of("umbra-run")
            .field(agent.as_bytes())
            .field(run.as_bytes())
            .field(&[u8::from(*in_shadow), u8::from(*began_in_shadow)]);
        let names = [parent, started_by, session];
        self.keyed(names.iter().fold(fields, |fields, name| fields.optional(name.map(str::as_bytes))))
    }

    fn keyed(&self, fields: Fields) -> Hash {
        *blake3::keyed_hash(&self.0, &fields.hash()).as_bytes()
    }
}

/// As exactly as the database keeps it.
fn time(at: Timestamp) -> [u8; 8] {
    at.as_microsecond().to_be_bytes()
}
