//! The transaction of decisions: how things stand for calls, read under a lock against changes of the execution, and
//! everything that was decided, written in one statement.
//!
//! Locks, in this order everywhere: the boundary's advisory lock, runs by name, then what the writing statement takes.
//! Whoever tightens the execution takes the advisory lock alone after its commit: when it has had it, no decision is under
//! way that has read the state before.

use std::collections::HashMap;

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use serde::Deserialize;
use sqlx::{Postgres, Transaction};
use uuid::Uuid;

use super::{Store, StoreError};
use crate::domain::{
    ApprovalId, Override,
    audit::{AuditKind, AuditPayload},
};

/// Taken by every decision before it reads. Each schema has one of its own.
const BEGIN: &str = "BEGIN; SELECT pg_advisory_xact_lock_shared(7817, hashtext(current_schema()))";

/// An agent's name with the name of one of its calls, runs or sessions.
pub type Named = (String, String);

/// What batches of calls ask for.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Calls, by agent and id.
    pub calls: Vec<Named>,
    /// Runs, by agent and name.
    pub runs: Vec<Named>,
    /// Runs that started others.
    pub parents: Vec<String>,
    /// Sessions, by agent and name.
    pub sessions: Vec<Named>,
    /// Digests of what approvals may be there for.
    pub digests: Vec<Vec<u8>>,
}

/// A call that was decided before.
#[derive(Debug, Clone, Deserialize)]
pub struct KnownCall {
    agent: String,
    call_id: String,
    /// Keyed hash of its request, in hex.
    pub body: String,
    /// Its number in the audit.
    pub seq: Option<i64>,
    /// Its session.
    pub session: Option<String>,
    /// Its run.
    pub run: Option<String>,
    /// Its tool.
    pub tool: Option<String>,
    /// What was decided.
    pub decision: String,
    /// What was answered, as JSON; none once erased.
    pub answer: Option<String>,
    /// Where its approval stands, if it waits for one.
    pub approval_state: Option<String>,
    /// Keyed hash of its outcome, in hex.
    pub outcome: Option<String>,
    /// The outcome's number in the audit.
    pub outcome_seq: Option<i64>,
}

/// A run.
#[derive(Debug, Clone)]
pub struct KnownRun {
    /// Whether any of its calls was in shadow.
    pub in_shadow: bool,
    /// The shadow run that started it.
    pub parent: Option<String>,
    /// What its stubs remember, as JSON.
    pub state: Option<String>,
}

/// A session.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct KnownSession {
    #[serde(default)]
    agent: String,
    #[serde(default)]
    session: String,
    /// Its labels.
    pub taints: Vec<String>,
    /// Its ways to write that nobody can intercept.
    pub uninterceptable: Vec<String>,
}

/// An approval that is not used up or past.
#[derive(Debug, Clone, Deserialize)]
pub struct KnownApproval {
    digest: String,
    /// Its id.
    pub id: ApprovalId,
    /// `pending`, `approved` or `denied`.
    pub state: String,
    /// When it is past.
    pub expires_at: Timestamp,
}

/// How things stand.
#[derive(Debug, Default)]
pub struct Stands {
    /// The database's time.
    pub now: Timestamp,
    /// Overrides in force.
    pub overrides: Vec<Override>,
    /// By agent and id.
    pub calls: HashMap<Named, KnownCall>,
    /// By agent and name.
    pub runs: HashMap<Named, KnownRun>,
    /// Those of the parents that were in shadow.
    pub shadow_parents: Vec<String>,
    /// By agent and name.
    pub sessions: HashMap<Named, KnownSession>,
    /// By digest, in hex; the newest of each.
    pub approvals: HashMap<String, KnownApproval>,
}

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

/// A decision to be found again by its call.
#[derive(Debug, Clone)]
pub struct NewCall {
    /// The agent.
    pub agent: String,
    /// The call.
    pub call_id: String,
    /// Keyed hash of its request.
    pub body: Vec<u8>,
    /// Its place in [`Written::audit`], from 1; 0 where it is not audited.
    pub row: i64,
    /// What was decided.
    pub decision: &'static str,
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
    pub body: Vec<u8>,
    /// Its place in [`Written::audit`], from 1.
    pub row: i64,
}

/// A run after its calls.
#[derive(Debug, Clone)]
pub struct RunChange {
    /// Whose, and which.
    pub name: Named,
    /// It was not there before.
    pub new: bool,
    /// Whether any of its calls was in shadow.
    pub in_shadow: bool,
    /// The shadow run that started it.
    pub parent: Option<String>,
    /// What its stubs remember, as JSON.
    pub state: Option<String>,
}

/// An approval to be asked for.
#[derive(Debug, Clone)]
pub struct NewApproval {
    /// Its id.
    pub id: ApprovalId,
    /// The agent.
    pub agent: String,
    /// The tool.
    pub tool: String,
    /// Keyed hash of agent, tool and arguments.
    pub digest: Vec<u8>,
    /// The rule that asks.
    pub rule: Option<String>,
    /// Its reason.
    pub reason: Option<String>,
    /// When it is past.
    pub expires_at: Timestamp,
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
    pub sessions: Vec<(Named, KnownSession)>,
    /// Approvals that are asked for.
    pub approvals: Vec<NewApproval>,
    /// Approvals that are used up.
    pub used: Vec<ApprovalId>,
}

/// Agent, run, execution, parent, state.
type RunRow = (String, String, String, Option<String>, Option<String>);

impl KnownSession {
    /// A session with these.
    pub fn with(taints: Vec<String>, uninterceptable: Vec<String>) -> Self {
        Self { taints, uninterceptable, ..Self::default() }
    }
}

impl KnownApproval {
    /// One that was just asked for.
    pub fn pending(id: ApprovalId, expires_at: Timestamp) -> Self {
        Self { digest: String::new(), id, state: "pending".to_owned(), expires_at }
    }
}

/// A call that ran, with the payloads of its rows in the audit.
#[derive(Debug, Clone)]
pub struct RecordedCall {
    /// Agent and tool.
    pub name: Named,
    /// Of its decision, as JSON.
    pub decision: String,
    /// Of its outcome, as JSON.
    pub outcome: String,
}

/// An open transaction of decisions. Dropped, nothing was decided.
pub struct Deciding(Transaction<'static, Postgres>);

impl Store {
    /// Opens a transaction of decisions.
    ///
    /// # Errors
    /// The database does not answer, or somebody is just changing the execution.
    pub async fn begin_deciding(&self) -> Result<Deciding, StoreError> {
        Ok(Deciding(self.decisions.begin_with(BEGIN).await?))
    }
}

impl Deciding {
    /// Locks runs and reads how things stand.
    ///
    /// # Errors
    /// Contention or a lost connection; nothing is stored.
    pub async fn read(&mut self, wanted: &Wanted) -> Result<Stands, StoreError> {
        let runs = self.lock_runs(&wanted.runs).await?;
        let (call_agents, call_ids): (Vec<&str>, Vec<&str>) = split(&wanted.calls);
        let (session_agents, sessions) = split(&wanted.sessions);
        let (now, overrides, calls, parents, sessions, approvals): (
            jiff_sqlx::Timestamp,
            String,
            String,
            Vec<String>,
            String,
            String,
        ) = sqlx::query_as(READ)
            .bind(call_agents)
            .bind(call_ids)
            .bind(&wanted.parents)
            .bind(session_agents)
            .bind(sessions)
            .bind(&wanted.digests)
            .fetch_one(&mut *self.0)
            .await?;
        let calls: Vec<KnownCall> = parse("call", &calls)?;
        let sessions: Vec<KnownSession> = parse("boundary_session", &sessions)?;
        let approvals: Vec<KnownApproval> = parse("approval", &approvals)?;
        Ok(Stands {
            now: now.to_jiff(),
            overrides: parse("execution_override", &overrides)?,
            calls: calls.into_iter().map(|call| ((call.agent.clone(), call.call_id.clone()), call)).collect(),
            runs,
            shadow_parents: parents,
            sessions: sessions.into_iter().map(|one| ((one.agent.clone(), one.session.clone()), one)).collect(),
            approvals: approvals.into_iter().map(|one| (one.digest.clone(), one)).collect(),
        })
    }

    /// The last calls of these tools by these agents that ran and were reported, oldest first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn recorded(&mut self, names: &[Named]) -> Result<Vec<RecordedCall>, StoreError> {
        let (agents, tools) = split(names);
        let rows: Vec<(String, String, String, String)> = sqlx::query_as(
            "/* decisions.recorded */
             SELECT k.agent, k.tool, d.body, p.body FROM unnest($1::text[], $2::text[]) k(agent, tool)
             CROSS JOIN LATERAL (SELECT a.seq, a.call_id FROM audit a WHERE a.kind = 'outcome' AND a.agent = k.agent
                                 AND a.tool = k.tool ORDER BY a.seq DESC LIMIT 20) o
             JOIN call c ON (c.agent, c.call_id) = (k.agent, o.call_id) AND c.outcome_seq = o.seq AND c.decision = 'execute'
             JOIN audit_payload p ON p.seq = o.seq JOIN audit_payload d ON d.seq = c.seq ORDER BY o.seq",
        )
        .bind(agents)
        .bind(tools)
        .fetch_all(&mut *self.0)
        .await?;
        let call = |(agent, tool, decision, outcome)| RecordedCall { name: (agent, tool), decision, outcome };
        Ok(rows.into_iter().map(call).collect())
    }

    async fn lock_runs(&mut self, runs: &[Named]) -> Result<HashMap<Named, KnownRun>, StoreError> {
        if runs.is_empty() {
            return Ok(HashMap::new());
        }
        let (agents, names) = split(runs);
        let rows: Vec<RunRow> = sqlx::query_as(
            "/* decisions.runs */
             SELECT agent, run, execution, parent, state FROM boundary_run
             JOIN unnest($1::text[], $2::text[]) k(agent, run) USING (agent, run)
             ORDER BY agent COLLATE \"C\", run COLLATE \"C\" FOR UPDATE OF boundary_run",
        )
        .bind(agents)
        .bind(names)
        .fetch_all(&mut *self.0)
        .await?;
        let known = |(agent, run, execution, parent, state): (_, _, String, _, _)| {
            ((agent, run), KnownRun { in_shadow: execution == "shadow", parent, state })
        };
        Ok(rows.into_iter().map(known).collect())
    }

    /// Stores everything and commits; answers the number before the first row's.
    ///
    /// # Errors
    /// [`StoreError::Contended`]: another process was first with a call, an outcome or an approval; nothing is stored,
    /// read again. [`StoreError::Unavailable`]: the outcome is unknown; read again, and a call that was stored is known.
    pub async fn write(mut self, written: &Written) -> Result<i64, StoreError> {
        let (base, calls, outcomes, used) = write(&mut self.0, written).await?;
        let all = |count: i64, wanted: usize| i64::try_from(wanted) == Ok(count);
        if !(all(calls, written.calls.len()) && all(outcomes, written.outcomes.len()) && all(used, written.used.len()))
        {
            self.0.rollback().await?;
            return Err(StoreError::Contended { sqlstate: "40001".to_owned() });
        }
        self.0.commit().await?;
        Ok(base)
    }

    /// Ends the transaction without storing anything.
    ///
    /// # Errors
    /// The connection broke; nothing is stored.
    pub async fn abandon(self) -> Result<(), StoreError> {
        Ok(self.0.rollback().await?)
    }
}

/// One row: the time, and each kind of thing as a JSON list.
const READ: &str = "/* decisions.read */
SELECT clock(),
 (SELECT coalesce(json_agg(json_build_object('id', 'ovr_' || replace(id::text, '-', ''), 'scope', scope,
      'value', value, 'execution', execution, 'reason', reason, 'set_at', set_at, 'expires_at', expires_at)), '[]')::text
  FROM execution_override WHERE expires_at IS NULL OR expires_at > clock()),
 (SELECT coalesce(json_agg(json_build_object('agent', agent, 'call_id', call_id, 'body', encode(c.body, 'hex'),
      'seq', seq, 'session', d.session, 'run', d.run, 'tool', d.tool, 'decision', decision, 'answer', answer, 'outcome', encode(outcome, 'hex'),
      'outcome_seq', outcome_seq,
      'approval_state', (SELECT CASE WHEN a.expires_at > clock() THEN a.state ELSE 'expired' END
                         FROM approval a WHERE a.id = c.approval))), '[]')::text
  FROM call c JOIN unnest($1::text[], $2::text[]) k(agent, call_id) USING (agent, call_id)
  LEFT JOIN LATERAL (SELECT session, run, tool FROM audit WHERE audit.seq = c.seq) d ON true),
 ARRAY(SELECT DISTINCT run FROM boundary_run WHERE run = ANY($3::text[]) AND execution = 'shadow'),
 (SELECT coalesce(json_agg(json_build_object('agent', agent, 'session', session, 'taints', taints,
      'uninterceptable', uninterceptable)), '[]')::text
  FROM boundary_session JOIN unnest($4::text[], $5::text[]) k(agent, session) USING (agent, session)),
 (SELECT coalesce(json_agg(json_build_object('digest', encode(digest, 'hex'),
      'id', 'apr_' || replace(id::text, '-', ''), 'state', state, 'expires_at', expires_at)), '[]')::text
  FROM (SELECT DISTINCT ON (digest) digest, id, state, expires_at FROM approval
        WHERE digest = ANY($6::bytea[]) AND state <> 'used' AND expires_at > clock()
        ORDER BY digest, asked_at DESC, id DESC) a)";

/// Everything in one statement; the audit's numbers are drawn in it, last before the commit.
const WRITE: &str = "/* decisions.write */
WITH f AS (
    UPDATE feed SET last = last + cardinality($1::uuid[]) WHERE name = 'audit'
    RETURNING last - cardinality($1::uuid[]) AS base
), t AS MATERIALIZED (SELECT clock() AS at
), a AS (
    INSERT INTO audit (seq, id, at, kind, agent, session, run, call_id, tool, body, payload_mac)
    SELECT f.base + o, id, t.at, kind, agent, session, run, call_id, tool, body, mac FROM f, t,
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
        WHERE call.decision = 'ask' AND call.body = excluded.body
    RETURNING 1
), o AS (
    UPDATE call SET outcome = r.body, outcome_seq = f.base + r.row
    FROM f, unnest($19::text[], $20::text[], $21::bytea[], $22::bigint[]) r(agent, call_id, body, row)
    WHERE (call.agent, call.call_id) = (r.agent, r.call_id) AND call.outcome IS NULL
    RETURNING 1
), rn AS (
    INSERT INTO boundary_run (agent, run, execution, parent, state, updated_at)
    SELECT agent, run, execution, parent, state, t.at FROM t,
    unnest($23::text[], $24::text[], $25::bool[], $26::text[], $27::text[], $28::text[])
        r(agent, run, new, execution, parent, state) WHERE new
), ru AS (
    UPDATE boundary_run b SET execution = r.execution, parent = r.parent, state = r.state, updated_at = t.at
    FROM t, unnest($23::text[], $24::text[], $25::bool[], $26::text[], $27::text[], $28::text[])
        r(agent, run, new, execution, parent, state) WHERE NOT new AND (b.agent, b.run) = (r.agent, r.run)
), s AS (
    INSERT INTO boundary_session (agent, session, taints, uninterceptable, updated_at)
    SELECT agent, session, taints::text[], uninterceptable::text[], t.at FROM t,
    unnest($29::text[], $30::text[], $31::text[], $32::text[]) r(agent, session, taints, uninterceptable)
    ON CONFLICT (agent, session) DO UPDATE SET updated_at = excluded.updated_at,
        taints = ARRAY(SELECT unnest(boundary_session.taints) UNION SELECT unnest(excluded.taints) ORDER BY 1),
        uninterceptable = ARRAY(SELECT unnest(boundary_session.uninterceptable)
                                UNION SELECT unnest(excluded.uninterceptable) ORDER BY 1)
), n AS (
    INSERT INTO approval (id, agent, tool, digest, rule, reason, state, asked_at, expires_at)
    SELECT id, agent, tool, digest, rule, reason, 'pending', t.at, expires_at FROM t,
    unnest($33::uuid[], $34::text[], $35::text[], $36::bytea[], $37::text[], $38::text[], $39::timestamptz[])
        r(id, agent, tool, digest, rule, reason, expires_at)
), u AS (
    UPDATE approval SET state = 'used' WHERE id = ANY($40::uuid[]) AND state = 'approved' RETURNING 1
)
SELECT f.base, (SELECT count(*) FROM c), (SELECT count(*) FROM o), (SELECT count(*) FROM u) FROM f";

async fn write(tx: &mut Transaction<'static, Postgres>, written: &Written) -> Result<(i64, i64, i64, i64), StoreError> {
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
        .bind(calls.iter().map(|c| c.body.as_slice()).collect::<Vec<_>>())
        .bind(calls.iter().map(|c| c.row).collect::<Vec<_>>())
        .bind(calls.iter().map(|c| c.decision).collect::<Vec<_>>())
        .bind(calls.iter().map(|c| c.answer.as_str()).collect::<Vec<_>>())
        .bind(calls.iter().map(|c| c.approval.map(|id| id.0)).collect::<Vec<_>>())
        .bind(outcomes.iter().map(|o| o.agent.as_str()).collect::<Vec<_>>())
        .bind(outcomes.iter().map(|o| o.call_id.as_str()).collect::<Vec<_>>())
        .bind(outcomes.iter().map(|o| o.body.as_slice()).collect::<Vec<_>>())
        .bind(outcomes.iter().map(|o| o.row).collect::<Vec<_>>())
        .bind(runs.iter().map(|r| r.name.0.as_str()).collect::<Vec<_>>())
        .bind(runs.iter().map(|r| r.name.1.as_str()).collect::<Vec<_>>())
        .bind(runs.iter().map(|r| r.new).collect::<Vec<_>>())
        .bind(runs.iter().map(|r| if r.in_shadow { "shadow" } else { "live" }).collect::<Vec<_>>())
        .bind(runs.iter().map(|r| r.parent.as_deref()).collect::<Vec<_>>())
        .bind(runs.iter().map(|r| r.state.as_deref()).collect::<Vec<_>>())
        .bind(sessions.iter().map(|(name, _)| name.0.as_str()).collect::<Vec<_>>())
        .bind(sessions.iter().map(|(name, _)| name.1.as_str()).collect::<Vec<_>>())
        .bind(sessions.iter().map(|(_, s)| literal(&s.taints)).collect::<Vec<_>>())
        .bind(sessions.iter().map(|(_, s)| literal(&s.uninterceptable)).collect::<Vec<_>>())
        .bind(approvals.iter().map(|a| a.id.0).collect::<Vec<_>>())
        .bind(approvals.iter().map(|a| a.agent.as_str()).collect::<Vec<_>>())
        .bind(approvals.iter().map(|a| a.tool.as_str()).collect::<Vec<_>>())
        .bind(approvals.iter().map(|a| a.digest.as_slice()).collect::<Vec<_>>())
        .bind(approvals.iter().map(|a| a.rule.as_deref()).collect::<Vec<_>>())
        .bind(approvals.iter().map(|a| a.reason.as_deref()).collect::<Vec<_>>())
        .bind(approvals.iter().map(|a| a.expires_at.to_sqlx()).collect::<Vec<_>>())
        .bind(used.iter().map(|id| id.0).collect::<Vec<_>>());
    Ok(query.fetch_one(&mut **tx).await?)
}

fn split(names: &[Named]) -> (Vec<&str>, Vec<&str>) {
    names.iter().map(|(agent, name)| (agent.as_str(), name.as_str())).unzip()
}

fn parse<T: serde::de::DeserializeOwned>(table: &'static str, json: &str) -> Result<T, StoreError> {
    serde_json::from_str(json).map_err(|error| StoreError::Inconsistent { table, problem: error.to_string() })
}

/// A Postgres array literal of texts: arrays of arrays of different lengths cannot be bound.
fn literal(texts: &[String]) -> String {
    let quoted = |text: &String| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    format!("{{{}}}", texts.iter().map(quoted).collect::<Vec<_>>().join(","))
}
