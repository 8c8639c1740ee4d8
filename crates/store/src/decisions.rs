//! The transaction of decisions about calls: reads the state that decisions depend on, under a lock against changes of
//! the execution, and writes all decisions in one statement.
//!
//! Lock order, everywhere: the boundary's advisory lock, runs by name, then the locks of the writing statement. A
//! change that tightens the execution takes the advisory lock exclusively after its commit. Once it holds the lock, no
//! decision that read the earlier state is under way.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::PgExecutor;

use uuid::Uuid;

use super::{
    StoreError,
    aggregates::DecisionStore,
    execution::UnverifiedOverride,
    signed::RowSigner,
    sql,
    transaction::{Tx, begin, begin_on},
};
use umbra_domain::{
    ApprovalRow, HexBytes, RunRow, StoredDecision,
    audit::{DecisionEffects, SessionLabels},
};

/// A row of `boundary_run` as JSON of [`RunRow`].
macro_rules! run_json {
    () => {
        "json_build_object('agent', agent, 'run', run, 'execution', execution, 'began', coalesce(began, execution),
             'parent', parent, 'started_by', started_by, 'session', session, 'named', named, 'mac', encode(mac, 'hex'))"
    };
}

/// A row `o` of `execution_override` as JSON of [`UnverifiedOverride`].
macro_rules! override_json {
    () => {
        "json_build_object('id', 'ovr_' || replace(o.id::text, '-', ''), 'scope', scope, 'value', value,
             'execution', execution, 'reason', reason, 'set_at', set_at, 'expires_at', expires_at,
             'mac', encode(mac, 'hex'), 'ended', EXISTS (SELECT FROM audit e WHERE e.id = o.id))"
    };
}

/// A row `a` of `approval` as JSON of [`ApprovalRow`], with `ended`: true if the audit says that it was used.
macro_rules! approval_json {
    () => {
        "json_build_object('id', 'apr_' || replace(a.id::text, '-', ''), 'agent', a.agent, 'tool', a.tool,
             'digest', encode(a.digest, 'hex'), 'rule', a.rule, 'reason', a.reason, 'state', a.state,
             'asked_at', a.asked_at, 'expires_at', a.expires_at, 'note', a.note, 'mac', encode(a.mac, 'hex'),
             'ended', EXISTS (SELECT FROM audit e WHERE e.id = a.id))"
    };
}

pub(super) use {approval_json, override_json, run_json};

mod written;

pub use written::{DecisionRows, NewApproval, NewAudit, NewCall, NewOutcome, RunChange, SealedPayload};

/// Begins a transaction with the shared advisory lock of decisions. Each schema has a lock of its own.
const BEGIN: &str = "BEGIN; SELECT pg_advisory_xact_lock_shared(7817, hashtext(current_schema()))";

/// An agent's name with the name of one of its calls, runs or sessions.
pub type Named = (String, String);

/// Keys of the rows that decisions about a batch of calls depend on.
#[derive(Debug, Clone, Default)]
pub struct DecisionKeys {
    /// Calls, by agent and id.
    pub calls: Vec<Named>,
    /// Runs, by agent and name.
    pub runs: Vec<Named>,
    /// Names of runs that started other runs.
    pub parents: Vec<String>,
    /// Sessions, by agent and name.
    pub sessions: Vec<Named>,
    /// Digests of calls that may have an approval.
    pub digests: Vec<Vec<u8>>,
}

/// A call that was decided before.
#[derive(Debug, Clone, Deserialize)]
pub struct KnownCall {
    /// The agent.
    pub agent: String,
    /// The caller's id.
    pub call_id: String,
    /// Keyed hash of the request.
    pub body: HexBytes,
    /// Number of the decision in the audit.
    pub seq: Option<i64>,
    /// Session of the call.
    pub session: Option<String>,
    /// Run of the call.
    pub run: Option<String>,
    /// Tool of the call.
    pub tool: Option<String>,
    /// The decision.
    pub decision: StoredDecision,
    /// The answer, as JSON; none once erased.
    pub answer: Option<String>,
    /// True if the call waits for an approval that is neither answered nor expired.
    pub is_pending: bool,
    /// Keyed hash of the reported outcome.
    pub outcome: Option<HexBytes>,
    /// Number of the outcome in the audit.
    pub outcome_seq: Option<i64>,
}

/// A run with the state of its stubs.
#[derive(Debug, Clone, Deserialize)]
pub struct StoredRun {
    /// The row.
    pub row: RunRow,
    /// State of the run's stubs, as JSON.
    pub state: Option<String>,
}

/// A row of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionRow {
    /// The agent.
    pub agent: String,
    /// The session's name.
    pub session: String,
    /// Labels of the session.
    #[serde(flatten)]
    pub labels: SessionLabels,
}

/// An audit row that gave a session labels.
#[derive(Debug, Clone, Deserialize)]
struct LabelledRow {
    agent: String,
    session: String,
    body: String,
}

impl LabelledRow {
    fn labels(self) -> Result<(Named, SessionLabels), StoreError> {
        let DecisionEffects { labels, .. } = parse("audit", &self.body)?;
        Ok(((self.agent, self.session), labels.unwrap_or_default()))
    }
}

/// An approval that is neither used nor expired.
#[derive(Debug, Clone, Deserialize)]
pub struct OpenApproval {
    /// The row.
    #[serde(flatten)]
    pub row: ApprovalRow,
    /// True if the audit says that it was used.
    pub ended: bool,
}

/// State that the decisions of a batch depend on, from rows and from the audit. Nothing in it is authenticated yet.
#[derive(Debug, Default)]
pub struct StoredState {
    /// The database's time.
    pub now: Timestamp,
    /// Overrides that have not expired.
    pub overrides: Vec<UnverifiedOverride>,
    /// Calls that were decided before, by agent and id.
    pub calls: HashMap<Named, KnownCall>,
    /// Runs, by agent and name.
    pub runs: HashMap<Named, StoredRun>,
    /// Ancestors of these runs, [`MOST_PARENTS`] at most.
    pub parents: Vec<RunRow>,
    /// Runs that stay in shadow by the audit, with or without a row.
    pub bound: HashSet<Named>,
    /// Labels of sessions from their rows, by agent and name.
    pub sessions: HashMap<Named, SessionLabels>,
    /// Labels of sessions from the audit, one entry for each row that gave any.
    pub audited_labels: Vec<(Named, SessionLabels)>,
    /// Approvals that are neither used nor expired, oldest first.
    pub approvals: Vec<OpenApproval>,
}

/// Most ancestor runs that are read in one transaction.
pub const MOST_PARENTS: usize = 4_096;
/// Most generations of ancestor runs that are read.
pub const MOST_GENERATIONS: usize = 16;

/// A call that ran, with the payloads of its rows in the audit.
#[derive(Debug, Clone)]
pub struct RecordedCall {
    /// The agent that asks, and the tool.
    pub name: Named,
    /// The agent that called.
    pub agent: String,
    /// Payload of the decision, as JSON.
    pub decision: String,
    /// Payload of the outcome, as JSON.
    pub outcome: String,
}

/// An open transaction of decisions. Dropping it decides nothing.
pub struct DecisionTransaction(Tx, RowSigner);

impl DecisionStore<'_> {
    /// Begins a transaction of decisions.
    ///
    /// # Errors
    /// The database does not answer, or the execution is being changed.
    pub async fn begin_deciding(self) -> Result<DecisionTransaction, StoreError> {
        Ok(DecisionTransaction(begin_on(self.0.decisions.take().await?, BEGIN).await?, self.0.stamper.clone()))
    }

    /// Returns the idle connection to its pool.
    pub fn release_idle_connection(self) {
        self.0.decisions.release_idle();
    }

    /// Returns the runs of these names with their ancestors, and those of `runs` that stay in shadow by the audit.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn descent(
        self,
        names: Vec<&str>,
        runs: Vec<Named>,
    ) -> Result<(Vec<RunRow>, HashSet<Named>), StoreError> {
        let wanted = DecisionKeys { runs, ..DecisionKeys::default() };
        let row = read(&self.0.read, &wanted, names).await?;
        Ok((parse("boundary_run", &row.3)?, parse("audit", &row.6)?))
    }

    /// Returns the overrides that are in force, from wide scope to narrow.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn overrides(self) -> Result<Vec<UnverifiedOverride>, StoreError> {
        let wanted = DecisionKeys::default();
        let row = read(&self.0.read, &wanted, Vec::new()).await?;
        let mut overrides: Vec<UnverifiedOverride> = parse("execution_override", &row.1)?;
        overrides.sort_by_key(|one| (one.said.scope, one.said.set_at, one.said.id.0));
        Ok(overrides)
    }

    /// Returns agents with calls in the audit or with stored events, at most 2,000 of each, in order of their names.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn agents_seen(self) -> Result<Vec<String>, StoreError> {
        // A recursive query steps from name to name along the index, instead of reading all rows.
        sql::all(
            &self.0.read,
            "/* decisions.agents */
             WITH RECURSIVE called AS (
                 (SELECT agent FROM audit WHERE agent IS NOT NULL ORDER BY agent LIMIT 1)
                 UNION ALL
                 SELECT (SELECT a.agent FROM audit a WHERE a.agent > c.agent ORDER BY a.agent LIMIT 1)
                 FROM called c WHERE c.agent IS NOT NULL
             ), watched AS (
                 (SELECT agent FROM event ORDER BY agent LIMIT 1)
                 UNION ALL
                 SELECT (SELECT e.agent FROM event e WHERE e.agent > w.agent ORDER BY e.agent LIMIT 1)
                 FROM watched w WHERE w.agent IS NOT NULL
             )
             SELECT agent FROM (SELECT agent FROM called LIMIT 2000) c WHERE agent IS NOT NULL
             UNION SELECT agent FROM (SELECT agent FROM watched LIMIT 2000) w WHERE agent IS NOT NULL ORDER BY 1",
            (),
        )
        .await
    }
}

impl DecisionStore<'_> {
    /// Appends decisions that were made without the database, in order. Leaves out rows that are in the audit already,
    /// and keeps calls that have been decided since. Returns the number of new rows.
    ///
    /// # Errors
    /// The database does not answer, or another process appends the same rows: it may be unknown which are stored.
    pub async fn merge(self, mut rows: DecisionRows) -> Result<u64, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        let ids: Vec<Uuid> = rows.audit.iter().map(|row| row.id).collect();
        let mut known: HashSet<Uuid> =
            sql::all(&mut *tx, "/* decisions.known */ SELECT id FROM audit WHERE id = ANY($1)", (ids,)).await?;
        let mut calls: HashMap<Named, NewCall> = HashMap::new();
        let mut audit = Vec::new();
        for (row, call) in rows.audit.into_iter().zip(rows.calls) {
            if !known.insert(row.id) {
                continue;
            }
            audit.push(row);
            // One statement cannot change a row twice. Of several decisions about a call, the first other than `closed`
            // counts.
            let name = (call.agent.clone(), call.call_id.clone());
            if calls.get(&name).is_none_or(|known| known.decision == StoredDecision::Closed) {
                calls.insert(name, NewCall { row: audit.len(), ..call });
            }
        }
        (rows.audit, rows.calls) = (audit, calls.into_values().collect());
        if !rows.audit.is_empty() {
            written::write(&mut tx, &self.0.stamper, &rows).await?;
            tx.commit().await?;
        }
        Ok(rows.audit.len() as u64)
    }
}

impl DecisionTransaction {
    /// Locks runs, and reads the state that decisions depend on.
    ///
    /// # Errors
    /// Contention, a lost connection, or a row that cannot be read; nothing is stored.
    pub async fn read(&mut self, wanted: &DecisionKeys) -> Result<StoredState, StoreError> {
        let runs = self.lock_runs(&wanted.runs).await?;
        let mut up: Vec<&str> = wanted.parents.iter().map(String::as_str).collect();
        up.extend(runs.values().filter_map(|run| run.row.started_by.as_deref()));
        up.sort_unstable();
        up.dedup();
        let (now, overrides, calls, parents, sessions, approvals, bound, labelled) =
            read(&mut *self.0, wanted, up).await?;
        let calls: Vec<KnownCall> = parse("call", &calls)?;
        let sessions: Vec<SessionRow> = parse("boundary_session", &sessions)?;
        let labelled: Vec<LabelledRow> = parse("audit", &labelled)?;
        Ok(StoredState {
            now,
            overrides: parse("execution_override", &overrides)?,
            calls: calls.into_iter().map(|call| ((call.agent.clone(), call.call_id.clone()), call)).collect(),
            runs,
            parents: parse("boundary_run", &parents)?,
            bound: parse("audit", &bound)?,
            sessions: sessions.into_iter().map(|row| ((row.agent, row.session), row.labels)).collect(),
            audited_labels: labelled.into_iter().map(LabelledRow::labels).collect::<Result<_, _>>()?,
            approvals: parse("approval", &approvals)?,
        })
    }

    /// Returns the last reported calls of these tools that ran, by these agents and by any, oldest first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn recorded(&mut self, names: &[Named]) -> Result<Vec<RecordedCall>, StoreError> {
        let rows: Vec<(String, String, String, String, String)> = sql::all(
            &mut *self.0,
            "/* decisions.recorded */
             SELECT k.agent, k.tool, o.agent, d.body, p.body FROM unnest($1::text[], $2::text[]) k(agent, tool)
             CROSS JOIN LATERAL ((SELECT a.seq, a.agent, a.call_id FROM audit a WHERE a.kind = 'outcome'
                                  AND a.agent = k.agent AND a.tool = k.tool ORDER BY a.seq DESC LIMIT 20)
                                 UNION
                                 (SELECT a.seq, a.agent, a.call_id FROM audit a WHERE a.kind = 'outcome'
                                  AND a.tool = k.tool ORDER BY a.seq DESC LIMIT 20)) o
             JOIN call c ON (c.agent, c.call_id) = (o.agent, o.call_id) AND c.outcome_seq = o.seq
                 AND c.decision = 'execute'
             JOIN audit_payload p ON p.seq = o.seq JOIN audit_payload d ON d.seq = c.seq ORDER BY o.seq",
            split(names),
        )
        .await?;
        let call =
            |(asks, tool, agent, decision, outcome)| RecordedCall { name: (asks, tool), agent, decision, outcome };
        Ok(rows.into_iter().map(call).collect())
    }

    /// Locks and reads those of these runs that have rows.
    ///
    /// # Errors
    /// Contention, a lost connection, or a row that cannot be read.
    pub async fn lock_runs(&mut self, runs: &[Named]) -> Result<HashMap<Named, StoredRun>, StoreError> {
        if runs.is_empty() {
            return Ok(HashMap::new());
        }
        let rows: Vec<String> = sql::all(
            &mut *self.0,
            concat!(
                "/* decisions.runs */ SELECT json_build_object('state', state, 'row', ",
                run_json!(),
                ")::text FROM boundary_run
             JOIN unnest($1::text[], $2::text[]) k(agent, run) USING (agent, run)
             ORDER BY agent COLLATE \"C\", run COLLATE \"C\" FOR UPDATE OF boundary_run"
            ),
            split(runs),
        )
        .await?;
        let known = |text: &String| {
            let run: StoredRun = parse("boundary_run", text)?;
            Ok(((run.row.agent.clone(), run.row.run.clone()), run))
        };
        rows.iter().map(known).collect()
    }

    /// Stores all rows and commits; returns the number before that of the first audit row.
    ///
    /// # Errors
    /// [`StoreError::Contended`]: another process was first with a call, an outcome or an approval. Nothing is stored;
    /// read again. [`StoreError::Unavailable`]: the outcome is unknown. Read again: a call that was stored is among
    /// those decided before.
    pub async fn write(mut self, rows: &DecisionRows) -> Result<i64, StoreError> {
        let (base, calls, outcomes, used) = match written::write(&mut self.0, &self.1, rows).await {
            Ok(counts) => counts,
            Err(error) => {
                // The rollback keeps the connection usable, so the next try need not wait for another.
                drop(self.0.rollback().await);
                return Err(error);
            }
        };
        let all = |count: i64, wanted: usize| i64::try_from(wanted) == Ok(count);
        if !(all(calls, rows.calls.len()) && all(outcomes, rows.outcomes.len()) && all(used, rows.used.len())) {
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

/// Reads one row: the time, and each kind of row as a JSON list.
const READ: &str = concat!(
    "/* decisions.read */
SELECT clock(),
 (SELECT coalesce(json_agg(",
    override_json!(),
    "), '[]')::text
  FROM execution_override o WHERE expires_at IS NULL OR expires_at > clock()),
 (SELECT coalesce(json_agg(json_build_object('agent', agent, 'call_id', call_id, 'body', encode(c.body, 'hex'),
      'seq', seq, 'session', d.session, 'run', d.run, 'tool', d.tool, 'decision', decision, 'answer', answer,
      'outcome', encode(outcome, 'hex'), 'outcome_seq', outcome_seq,
      'is_pending', EXISTS (SELECT FROM approval a
                            WHERE a.id = c.approval AND a.state = 'pending' AND a.expires_at > clock()))), '[]')::text
  FROM call c JOIN unnest($1::text[], $2::text[]) k(agent, call_id) USING (agent, call_id)
  LEFT JOIN LATERAL (SELECT session, run, tool FROM audit WHERE audit.seq = c.seq) d ON true),
 (WITH RECURSIVE up AS (
      SELECT agent, run, session, execution, began, parent, started_by, named, mac, 1 AS generation FROM boundary_run
      WHERE run = ANY($3::text[])
      UNION
      SELECT b.agent, b.run, b.session, b.execution, b.began, b.parent, b.started_by, b.named, b.mac, generation + 1
      FROM up JOIN boundary_run b ON b.run = up.started_by WHERE generation < 16)
  SELECT coalesce(json_agg(",
    run_json!(),
    "), '[]')::text FROM (SELECT * FROM up LIMIT 4096) up),
 (SELECT coalesce(json_agg(json_build_object('agent', agent, 'session', session, 'taints', taints,
      'uninterceptable', uninterceptable)), '[]')::text
  FROM boundary_session JOIN unnest($4::text[], $5::text[]) k(agent, session) USING (agent, session)),
 (SELECT coalesce(json_agg(",
    approval_json!(),
    " ORDER BY asked_at, a.id), '[]')::text
  FROM approval a WHERE digest = ANY($6::bytea[]) AND state <> 'used' AND expires_at > clock()),
 (SELECT coalesce(json_agg(json_build_array(agent, run)), '[]')::text FROM unnest($7::text[], $8::text[]) k(agent, run)
  CROSS JOIN LATERAL (SELECT seq FROM audit a WHERE (a.agent, a.run) = (k.agent, k.run)
                      AND a.body LIKE '%\"run_execution\":\"shadow\"%' ORDER BY seq DESC LIMIT 1) b
  WHERE NOT EXISTS (SELECT FROM audit e WHERE e.run = k.run AND e.seq > b.seq AND e.agent = k.agent
                    AND e.kind = 'execution' ORDER BY e.seq LIMIT 1)),
 (SELECT coalesce(json_agg(json_build_object('agent', agent, 'session', session, 'body', body)), '[]')::text
  FROM unnest($4::text[], $5::text[]) k(agent, session)
  CROSS JOIN LATERAL (SELECT body FROM audit a WHERE (a.agent, a.session) = (k.agent, k.session)
                      AND a.body LIKE '%\"labels\":{%' LIMIT 1024) b)"
);

/// The time; overrides, calls, ancestor runs, sessions and approvals; runs in shadow by the audit, and audit rows that
/// label sessions.
type ReadRow = (Timestamp, String, String, String, String, String, String, String);

async fn read(database: impl PgExecutor<'_>, wanted: &DecisionKeys, up: Vec<&str>) -> Result<ReadRow, StoreError> {
    let (call_agents, call_ids): (Vec<&str>, Vec<&str>) = split(&wanted.calls);
    let (session_agents, sessions) = split(&wanted.sessions);
    let (run_agents, runs) = split(&wanted.runs);
    let keys = (call_agents, call_ids, up, session_agents, sessions, &wanted.digests, run_agents, runs);
    sql::one(database, READ, keys).await
}

/// Returns the two halves of pairs of names as two lists, as statements take them.
pub(super) fn split(names: &[Named]) -> (Vec<&str>, Vec<&str>) {
    names.iter().map(|(agent, name)| (agent.as_str(), name.as_str())).unzip()
}

pub(super) fn parse<T: serde::de::DeserializeOwned>(table: &'static str, json: &str) -> Result<T, StoreError> {
    serde_json::from_str(json).map_err(|error| StoreError::Inconsistent { table, problem: error.to_string() })
}
