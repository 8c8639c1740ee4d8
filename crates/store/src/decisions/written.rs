//! Rows that a transaction of decisions stores, in one statement. Each table has one parameter: a JSON list of records,
//! whose members are named in the statement.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::SessionRow;
use crate::{StoreError, signed::RowSigner, sql, transaction::Tx};
use umbra_domain::{
    ApprovalId, ApprovalRow, HexBytes, RunRow, StoredDecision,
    audit::{AuditContent, AuditKind},
};

/// A row to append to the audit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewAudit {
    /// Row id.
    pub id: Uuid,
    /// Kind of the row.
    pub kind: AuditKind,
    /// The agent.
    pub agent: Option<String>,
    /// The session.
    pub session: Option<String>,
    /// The run.
    pub run: Option<String>,
    /// The call.
    pub call_id: Option<String>,
    /// The tool.
    pub tool: Option<String>,
    /// Other fields, as JSON.
    pub body: String,
    /// The erasable part.
    #[serde(flatten)]
    pub payload: Option<SealedPayload>,
}

/// A payload with its keyed hash.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SealedPayload {
    /// Random bytes, without which an erased payload cannot be guessed.
    pub salt: HexBytes,
    /// The payload, as JSON.
    #[serde(rename = "payload")]
    pub body: String,
    /// HMAC-SHA256 of the payload under its salt.
    #[serde(rename = "payload_mac")]
    pub mac: HexBytes,
}

impl NewAudit {
    /// Returns the content that is signed.
    pub fn signed_content(&self) -> AuditContent<'_> {
        let Self { id, kind, agent, session, run, call_id, tool, body, payload } = self;
        let names = [agent, session, run, call_id, tool].map(Option::as_deref);
        let payload_mac = payload.as_ref().map(|payload| &*payload.mac);
        AuditContent { id: *id, kind: *kind, names, body, payload_mac }
    }
}

/// A decision, filed under its call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewCall {
    /// The agent.
    pub agent: String,
    /// The caller's id of the call.
    pub call_id: String,
    /// Keyed hash of the request.
    pub body: HexBytes,
    /// Position of the decision's row in [`DecisionRows::audit`], from 1.
    pub row: usize,
    /// The decision.
    pub decision: StoredDecision,
    /// The answer, as JSON.
    pub answer: String,
    /// Approval that the call waits for.
    pub approval: Option<ApprovalId>,
}

/// A reported outcome, filed under its call.
#[derive(Debug, Clone, Serialize)]
pub struct NewOutcome {
    /// The agent.
    pub agent: String,
    /// The caller's id of the call.
    pub call_id: String,
    /// Keyed hash of the outcome.
    pub body: HexBytes,
    /// Position of the outcome's row in [`DecisionRows::audit`], from 1.
    pub row: usize,
}

/// A run as changed by calls.
#[derive(Debug, Clone, Serialize)]
pub struct RunChange {
    /// The row. Without a keyed hash the stored hash stays, so a row that failed authentication fails again.
    #[serde(flatten)]
    pub row: RunRow,
    /// True if the run has no row yet.
    pub is_new: bool,
    /// State of the run's stubs, as JSON.
    pub state: Option<String>,
}

/// A requested approval.
#[derive(Debug, Clone, Serialize)]
pub struct NewApproval {
    /// The row.
    #[serde(flatten)]
    pub approval: ApprovalRow,
    /// Position of the audit row of the asking call in [`DecisionRows::audit`], from 1.
    pub row: usize,
}

/// Rows that a transaction of decisions stores.
#[derive(Debug, Default)]
pub struct DecisionRows {
    /// Rows of the audit, in order.
    pub audit: Vec<NewAudit>,
    /// Decisions, by call.
    pub calls: Vec<NewCall>,
    /// Outcomes, by call.
    pub outcomes: Vec<NewOutcome>,
    /// Changed runs.
    pub runs: Vec<RunChange>,
    /// Sessions with new labels.
    pub sessions: Vec<SessionRow>,
    /// Requested approvals.
    pub approvals: Vec<NewApproval>,
    /// Used approvals.
    pub used: Vec<ApprovalRow>,
}

impl DecisionRows {
    /// True if there is nothing to store.
    pub fn is_empty(&self) -> bool {
        let Self { audit, calls, outcomes, runs, sessions, approvals, used } = self;
        audit.is_empty()
            && calls.is_empty()
            && outcomes.is_empty()
            && runs.is_empty()
            && sessions.is_empty()
            && approvals.is_empty()
            && used.is_empty()
    }
}

/// Stores all rows in one statement. The audit's numbers are drawn in it, last before the commit.
const WRITE: &str = "/* decisions.write */
WITH ra AS MATERIALIZED (
    SELECT * FROM ROWS FROM (json_to_recordset($1::json) AS (id uuid, kind text, agent text, session text, run text,
        call_id text, tool text, body text, payload_mac text, salt text, payload text)) WITH ORDINALITY
        AS r(id, kind, agent, session, run, call_id, tool, body, payload_mac, salt, payload, o)
), rr AS MATERIALIZED (
    SELECT * FROM json_to_recordset($5::json) AS r(agent text, run text, execution text, began text, parent text,
        started_by text, session text, named bool, mac text, is_new bool, state text)
), f AS (
    UPDATE feed SET last = last + $2 WHERE name = 'audit' RETURNING last - $2 AS base
), t AS MATERIALIZED (SELECT clock() AS at
), a AS (
    INSERT INTO audit (seq, id, at, kind, agent, session, run, call_id, tool, body, payload_mac, stamp)
    SELECT f.base + o, id, t.at, kind, agent, session, run, call_id, tool, body, decode(payload_mac, 'hex'),
        CASE o WHEN 1 THEN $9::bytea END FROM f, t, ra
), p AS (
    INSERT INTO audit_payload (seq, salt, body)
    SELECT f.base + o, decode(salt, 'hex'), payload FROM f, ra WHERE salt IS NOT NULL
), c AS (
    INSERT INTO call (agent, call_id, body, seq, decision, answer, approval, decided_at)
    SELECT agent, call_id, decode(body, 'hex'), f.base + row, decision, answer, substr(approval, 5)::uuid, t.at
    FROM f, t, json_to_recordset($3::json) AS r(agent text, call_id text, body text, row bigint, decision text,
        answer text, approval text)
    ON CONFLICT (agent, call_id) DO UPDATE SET seq = excluded.seq, decision = excluded.decision,
        answer = excluded.answer, approval = excluded.approval, decided_at = excluded.decided_at
        WHERE call.decision IN ('ask', 'closed') AND call.body = excluded.body
    RETURNING 1
), o AS (
    UPDATE call SET outcome = decode(r.body, 'hex'), outcome_seq = f.base + r.row
    FROM f, json_to_recordset($4::json) AS r(agent text, call_id text, body text, row bigint)
    WHERE (call.agent, call.call_id) = (r.agent, r.call_id) AND call.outcome IS NULL
    RETURNING 1
), rn AS (
    INSERT INTO boundary_run (agent, run, execution, parent, state, updated_at, began, started_by, session, named, mac)
    SELECT agent, run, execution, parent, state, t.at, began, started_by, session, named, decode(mac, 'hex') FROM t, rr
    WHERE is_new
), ru AS (
    UPDATE boundary_run b SET execution = r.execution, parent = r.parent, state = r.state, updated_at = t.at,
        started_by = r.started_by, session = r.session, named = r.named,
        began = CASE WHEN r.mac IS NULL THEN b.began ELSE r.began END, mac = coalesce(decode(r.mac, 'hex'), b.mac)
    FROM t, rr r WHERE NOT is_new AND (b.agent, b.run) = (r.agent, r.run)
), s AS (
    INSERT INTO boundary_session (agent, session, taints, uninterceptable, updated_at)
    SELECT agent, session, coalesce(taints, '{}'), coalesce(uninterceptable, '{}'), t.at
    FROM t, json_to_recordset($6::json) AS r(agent text, session text, taints text[], uninterceptable text[])
    ON CONFLICT (agent, session) DO UPDATE SET updated_at = excluded.updated_at,
        taints = ARRAY(SELECT unnest(boundary_session.taints) UNION SELECT unnest(excluded.taints) ORDER BY 1),
        uninterceptable = ARRAY(SELECT unnest(boundary_session.uninterceptable)
                                UNION SELECT unnest(excluded.uninterceptable) ORDER BY 1)
), n AS (
    INSERT INTO approval (id, agent, tool, digest, rule, reason, state, asked_at, expires_at, mac, asked_seq)
    SELECT substr(id, 5)::uuid, agent, tool, decode(digest, 'hex'), rule, reason, state, asked_at, expires_at,
        decode(mac, 'hex'), f.base + row
    FROM f, json_to_recordset($7::json) AS r(id text, agent text, tool text, digest text, rule text, reason text,
        state text, asked_at timestamptz, expires_at timestamptz, mac text, row bigint)
), u AS (
    UPDATE approval SET state = r.state, mac = decode(r.mac, 'hex')
    FROM json_to_recordset($8::json) AS r(id text, state text, mac text)
    WHERE approval.id = substr(r.id, 5)::uuid AND approval.state = 'approved' RETURNING 1
)
SELECT f.base, (SELECT count(*) FROM c), (SELECT count(*) FROM o), (SELECT count(*) FROM u) FROM f";

/// The number before that of the first audit row, and the numbers of calls, outcomes and used approvals that were
/// stored.
pub(super) type Counts = (i64, i64, i64, i64);

pub(super) async fn write(tx: &mut Tx, stamper: &RowSigner, rows: &DecisionRows) -> Result<Counts, StoreError> {
    let DecisionRows { audit, calls, outcomes, runs, sessions, approvals, used } = rows;
    sql::one(
        &mut **tx,
        WRITE,
        (
            records("audit", audit)?,
            i64::try_from(audit.len()).unwrap_or(i64::MAX),
            records("call", calls)?,
            records("call", outcomes)?,
            records("boundary_run", runs)?,
            records("boundary_session", sessions)?,
            records("approval", approvals)?,
            records("approval", used)?,
            stamper.stamp(audit),
        ),
    )
    .await
}

fn records<T: Serialize>(table: &'static str, rows: &[T]) -> Result<String, StoreError> {
    serde_json::to_string(rows).map_err(|error| StoreError::Inconsistent { table, problem: error.to_string() })
}
