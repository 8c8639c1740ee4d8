//! What a transaction of decisions stores, in one statement.

use jiff_sqlx::ToSqlx;
use uuid::Uuid;

use super::Named;
use crate::{StoreError, signed::Stamper, transaction::Tx};
use umbra_domain::{
    ApprovalId, ApprovalRow, HexBytes, RunRow, StoredDecision,
    audit::{AuditKind, AuditPayload, AuditSaid, Labels},
};

/// A row for the audit.
#[derive(Debug, Clone)]
pub struct NewAudit {
    /// Its id.
    pub id: Uuid,
    /// What happened.
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
    /// Everything else, as JSON.
    pub body: String,
    /// What may be erased, with its keyed hash.
    pub payload: Option<(AuditPayload, Vec<u8>)>,
}

impl NewAudit {
    /// What it says, to be signed.
    pub fn said(&self) -> AuditSaid<'_> {
        let Self { id, kind, agent, session, run, call_id, tool, body, payload } = self;
        let names = [agent, session, run, call_id, tool].map(Option::as_deref);
        let payload_mac = payload.as_ref().map(|(_, mac)| mac.as_slice());
        AuditSaid { id: *id, kind: *kind, names, body, payload_mac }
    }
}

/// A decision to be found again by its call.
#[derive(Debug, Clone)]
pub struct NewCall {
    /// The agent.
    pub agent: String,
    /// The call.
    pub call_id: String,
    /// Keyed hash of its request.
    pub body: HexBytes,
    /// Its place in [`Written::audit`], from 1; 0 where it is not audited.
    pub row: i64,
    /// What was decided.
    pub decision: StoredDecision,
    /// What is answered, as JSON.
    pub answer: String,
    /// What it waits for.
    pub approval: Option<ApprovalId>,
}

/// An outcome to be found again by its call.
#[derive(Debug, Clone)]
pub struct NewOutcome {
    /// The agent.
    pub agent: String,
    /// The call.
    pub call_id: String,
    /// Keyed hash of it.
    pub body: HexBytes,
    /// Its place in [`Written::audit`], from 1.
    pub row: i64,
}

/// A run after its calls.
#[derive(Debug, Clone)]
pub struct RunChange {
    /// The row. Without a keyed hash it keeps the one that it has: a row that failed authentication goes on failing.
    pub row: RunRow,
    /// It has no row yet.
    pub is_new: bool,
    /// Memory of its stubs, as JSON.
    pub state: Option<String>,
}

/// Everything that a transaction stores.
#[derive(Debug, Default)]
pub struct Written {
    /// Rows of the audit, in order.
    pub audit: Vec<NewAudit>,
    /// Decisions.
    pub calls: Vec<NewCall>,
    /// Outcomes.
    pub outcomes: Vec<NewOutcome>,
    /// Runs.
    pub runs: Vec<RunChange>,
    /// Sessions with labels and ways to write that are new.
    pub sessions: Vec<(Named, Labels)>,
    /// Approvals that are asked for.
    pub approvals: Vec<ApprovalRow>,
    /// Approvals that are used up.
    pub used: Vec<ApprovalRow>,
}

/// Everything in one statement; the audit's numbers are drawn in it, last before the commit.
const WRITE: &str = "/* decisions.write */
WITH f AS (
    UPDATE feed SET last = last + cardinality($1::uuid[]) WHERE name = 'audit'
    RETURNING last - cardinality($1::uuid[]) AS base
), t AS MATERIALIZED (SELECT clock() AS at
), a AS (
    INSERT INTO audit (seq, id, at, kind, agent, session, run, call_id, tool, body, payload_mac, stamp)
    SELECT f.base + o, id, t.at, kind, agent, session, run, call_id, tool, body, mac, CASE o WHEN 1 THEN $44::bytea END
    FROM f, t,
    unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bytea[])
        WITH ORDINALITY r(id, kind, agent, session, run, call_id, tool, body, mac, o)
), p AS (
    INSERT INTO audit_payload (seq, salt, body)
    SELECT f.base + o, salt, body FROM f, unnest($10::bytea[], $11::text[]) WITH ORDINALITY r(salt, body, o)
    WHERE salt IS NOT NULL
), c AS (
    INSERT INTO call (agent, call_id, body, seq, decision, answer, approval, decided_at)
    SELECT agent, call_id, body, f.base + nullif(row, 0), decision, answer, approval, t.at FROM f, t,
    unnest($12::text[], $13::text[], $14::bytea[], $15::bigint[], $16::text[], $17::text[], $18::uuid[])
        r(agent, call_id, body, row, decision, answer, approval)
    ON CONFLICT (agent, call_id) DO UPDATE SET seq = excluded.seq, decision = excluded.decision,
        answer = excluded.answer, approval = excluded.approval, decided_at = excluded.decided_at
        WHERE call.decision IN ('ask', 'closed') AND call.body = excluded.body
    RETURNING 1
), o AS (
    UPDATE call SET outcome = r.body, outcome_seq = f.base + r.row
    FROM f, unnest($19::text[], $20::text[], $21::bytea[], $22::bigint[]) r(agent, call_id, body, row)
    WHERE (call.agent, call.call_id) = (r.agent, r.call_id) AND call.outcome IS NULL
    RETURNING 1
), rn AS (
    INSERT INTO boundary_run (agent, run, execution, parent, state, updated_at, began, started_by, session, mac)
    SELECT agent, run, execution, parent, state, t.at, began, started_by, session, mac FROM t,
    unnest($23::text[], $24::text[], $25::bool[], $26::text[], $27::text[], $28::text[], $41::text[], $42::text[],
           $43::text[], $48::bytea[]) r(agent, run, new, execution, parent, state, started_by, session, began, mac)
    WHERE new
), ru AS (
    UPDATE boundary_run b SET execution = r.execution, parent = r.parent, state = r.state, updated_at = t.at,
        started_by = r.started_by, session = r.session, mac = coalesce(r.mac, b.mac)
    FROM t, unnest($23::text[], $24::text[], $25::bool[], $26::text[], $27::text[], $28::text[], $41::text[], $42::text[],
                   $48::bytea[]) r(agent, run, new, execution, parent, state, started_by, session, mac)
    WHERE NOT new AND (b.agent, b.run) = (r.agent, r.run)
), s AS (
    INSERT INTO boundary_session (agent, session, taints, uninterceptable, updated_at)
    SELECT agent, session, taints::text[], uninterceptable::text[], t.at FROM t,
    unnest($29::text[], $30::text[], $31::text[], $32::text[]) r(agent, session, taints, uninterceptable)
    ON CONFLICT (agent, session) DO UPDATE SET updated_at = excluded.updated_at,
        taints = ARRAY(SELECT unnest(boundary_session.taints) UNION SELECT unnest(excluded.taints) ORDER BY 1),
        uninterceptable = ARRAY(SELECT unnest(boundary_session.uninterceptable)
                                UNION SELECT unnest(excluded.uninterceptable) ORDER BY 1)
), n AS (
    INSERT INTO approval (id, agent, tool, digest, rule, reason, state, asked_at, expires_at, mac)
    SELECT id, agent, tool, digest, rule, reason, 'pending', asked_at, expires_at, mac FROM
    unnest($33::uuid[], $34::text[], $35::text[], $36::bytea[], $37::text[], $38::text[], $39::timestamptz[],
           $45::timestamptz[], $46::bytea[]) r(id, agent, tool, digest, rule, reason, expires_at, asked_at, mac)
), u AS (
    UPDATE approval SET state = 'used', mac = r.mac FROM unnest($40::uuid[], $47::bytea[]) r(id, mac)
    WHERE approval.id = r.id AND state = 'approved' RETURNING 1
)
SELECT f.base, (SELECT count(*) FROM c), (SELECT count(*) FROM o), (SELECT count(*) FROM u) FROM f";

pub(super) async fn write(
    tx: &mut Tx,
    stamper: &Stamper,
    written: &Written,
) -> Result<(i64, i64, i64, i64), StoreError> {
    let Written { audit, calls, outcomes, runs, sessions, approvals, used } = written;
    let payload = |row: &NewAudit| row.payload.as_ref().map(|(payload, _)| payload.clone());
    let query = sqlx::query_as(WRITE)
        .bind(audit.iter().map(|a| a.id).collect::<Vec<_>>())
        .bind(audit.iter().map(|a| a.kind.as_str()).collect::<Vec<_>>())
        .bind(audit.iter().map(|a| a.agent.as_deref()).collect::<Vec<_>>())
        .bind(audit.iter().map(|a| a.session.as_deref()).collect::<Vec<_>>())
        .bind(audit.iter().map(|a| a.run.as_deref()).collect::<Vec<_>>())
        .bind(audit.iter().map(|a| a.call_id.as_deref()).collect::<Vec<_>>())
        .bind(audit.iter().map(|a| a.tool.as_deref()).collect::<Vec<_>>())
        .bind(audit.iter().map(|a| a.body.as_str()).collect::<Vec<_>>())
        .bind(audit.iter().map(|a| a.payload.as_ref().map(|(_, mac)| mac.as_slice())).collect::<Vec<_>>())
        .bind(audit.iter().map(|a| payload(a).map(|p| p.salt)).collect::<Vec<_>>())
        .bind(audit.iter().map(|a| payload(a).map(|p| p.body)).collect::<Vec<_>>())
        .bind(calls.iter().map(|c| c.agent.as_str()).collect::<Vec<_>>())
        .bind(calls.iter().map(|c| c.call_id.as_str()).collect::<Vec<_>>())
        .bind(calls.iter().map(|c| &*c.body).collect::<Vec<_>>())
        .bind(calls.iter().map(|c| c.row).collect::<Vec<_>>())
        .bind(calls.iter().map(|c| c.decision.as_str()).collect::<Vec<_>>())
        .bind(calls.iter().map(|c| c.answer.as_str()).collect::<Vec<_>>())
        .bind(calls.iter().map(|c| c.approval.map(|id| id.0)).collect::<Vec<_>>())
        .bind(outcomes.iter().map(|o| o.agent.as_str()).collect::<Vec<_>>())
        .bind(outcomes.iter().map(|o| o.call_id.as_str()).collect::<Vec<_>>())
        .bind(outcomes.iter().map(|o| &*o.body).collect::<Vec<_>>())
        .bind(outcomes.iter().map(|o| o.row).collect::<Vec<_>>())
        .bind(runs.iter().map(|r| r.row.agent.as_str()).collect::<Vec<_>>())
        .bind(runs.iter().map(|r| r.row.run.as_str()).collect::<Vec<_>>())
        .bind(runs.iter().map(|r| r.is_new).collect::<Vec<_>>())
        .bind(runs.iter().map(|r| r.row.execution.as_str()).collect::<Vec<_>>())
        .bind(runs.iter().map(|r| r.row.parent.as_deref()).collect::<Vec<_>>())
        .bind(runs.iter().map(|r| r.state.as_deref()).collect::<Vec<_>>())
        .bind(sessions.iter().map(|(name, _)| name.0.as_str()).collect::<Vec<_>>())
        .bind(sessions.iter().map(|(name, _)| name.1.as_str()).collect::<Vec<_>>())
        .bind(sessions.iter().map(|(_, s)| literal(&s.taints)).collect::<Vec<_>>())
        .bind(sessions.iter().map(|(_, s)| literal(&s.uninterceptable)).collect::<Vec<_>>())
        .bind(approvals.iter().map(|a| a.id.0).collect::<Vec<_>>())
        .bind(approvals.iter().map(|a| a.agent.as_str()).collect::<Vec<_>>())
        .bind(approvals.iter().map(|a| a.tool.as_str()).collect::<Vec<_>>())
        .bind(approvals.iter().map(|a| &*a.digest).collect::<Vec<_>>())
        .bind(approvals.iter().map(|a| a.rule.as_deref()).collect::<Vec<_>>())
        .bind(approvals.iter().map(|a| a.reason.as_deref()).collect::<Vec<_>>())
        .bind(approvals.iter().map(|a| a.expires_at.to_sqlx()).collect::<Vec<_>>())
        .bind(used.iter().map(|u| u.id.0).collect::<Vec<_>>())
        .bind(runs.iter().map(|r| r.row.started_by.as_deref()).collect::<Vec<_>>())
        .bind(runs.iter().map(|r| r.row.session.as_deref()).collect::<Vec<_>>())
        .bind(runs.iter().map(|r| r.row.began.as_str()).collect::<Vec<_>>())
        .bind(stamper.stamp(audit))
        .bind(approvals.iter().map(|a| a.asked_at.to_sqlx()).collect::<Vec<_>>())
        .bind(approvals.iter().map(|a| a.mac.as_deref()).collect::<Vec<_>>())
        .bind(used.iter().map(|u| u.mac.as_deref()).collect::<Vec<_>>())
        .bind(runs.iter().map(|r| r.row.mac.as_deref()).collect::<Vec<_>>());
    Ok(query.fetch_one(&mut **tx).await?)
}

/// A Postgres array literal of texts: arrays of arrays of different lengths cannot be bound.
fn literal(texts: &[String]) -> String {
    let quoted = |text: &String| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    format!("{{{}}}", texts.iter().map(quoted).collect::<Vec<_>>().join(","))
}
