//! Overrides of the settings at run time, runs, and approvals of calls. Each change commits together with the audit row
//! about it.

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use utoipa::{
    ToSchema,
    openapi::{Object, Type},
};

use super::{
    StoreError,
    aggregates::DecisionStore,
    decisions::{Named, NewAudit, approval_json, override_json, parse, run_json, split},
    pool::Connection,
    sql,
    transaction::begin,
    webhooks::{OutgoingMessage, enqueue},
};
use umbra_domain::{
    ApprovalId, ApprovalRow, ApprovalState, Execution, HexBytes, Override, OverrideScope, RunRow,
    audit::{AuditedTables, DecisionEffects},
};

/// An approval, as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Approval)]
pub struct ApprovalItem {
    /// Approval id.
    #[schema(value_type = String, example = "apr_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub id: ApprovalId,
    /// The agent that calls.
    pub agent: String,
    /// The tool that is called.
    pub tool: String,
    /// The rule that asks.
    pub rule: Option<String>,
    /// Reason of the rule.
    pub reason: Option<String>,
    /// State of the approval.
    #[schema(schema_with = approval_states)]
    pub state: &'static str,
    /// When the approval was requested.
    pub asked_at: Timestamp,
    /// When the approval expires.
    pub expires_at: Timestamp,
    /// When a person answered.
    pub answered_at: Option<Timestamp>,
    /// Key of that person, where keys are required.
    pub answered_by: Option<String>,
    /// Note of that person; the agent reads that of a denial.
    pub note: Option<String>,
    /// The caller's id of the waiting call.
    pub call_id: Option<String>,
    /// The session of the call.
    pub session: Option<String>,
    /// The run of the call.
    pub run: Option<String>,
    /// Execution of the call: the approval of a rehearsed call (`shadow`) counts in rehearsals alone.
    pub execution: Option<Execution>,
    /// The arguments of the call, redacted; null once erased.
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    pub arguments: Option<Value>,
}

fn approval_states() -> Object {
    let states = ApprovalState::ALL.map(ApprovalState::as_str).into_iter().chain(["expired"]);
    Object::builder()
        .schema_type(Type::String)
        .enum_values(Some(states))
        .description(Some("State of the approval."))
        .build()
}

/// A stored override, not authenticated.
#[derive(Debug, Clone, Deserialize)]
pub struct UnverifiedOverride {
    /// Content of the override.
    #[serde(flatten)]
    pub said: Override,
    /// Keyed hash of the content; `None` in rows from before these hashes.
    pub mac: Option<HexBytes>,
    /// True if the audit says that it was lifted or replaced.
    pub ended: bool,
}

/// A stored approval with the call that asks for it, not authenticated.
#[derive(Debug, Clone, Deserialize)]
pub struct UnverifiedApproval {
    /// The row.
    #[serde(flatten)]
    pub row: ApprovalRow,
    /// True if it has expired.
    pub is_past: bool,
    answered_at: Option<Timestamp>,
    answered_by: Option<String>,
    call_id: Option<String>,
    session: Option<String>,
    run: Option<String>,
    execution: Option<Execution>,
    payload: Option<String>,
}

/// The part of a decision's audit payload that approvals show.
#[derive(Deserialize)]
struct Payload {
    args: Option<Value>,
}

/// A row `a` of `approval` as JSON of [`UnverifiedApproval`], whose call is the row `d` of `audit` with the payload
/// `p`.
macro_rules! stored_approval_json {
    () => {
        concat!(
            approval_json!(),
            "::jsonb || jsonb_build_object('is_past', a.expires_at <= clock(), 'answered_at', a.answered_at,
                 'answered_by', a.answered_by, 'call_id', d.call_id, 'session', d.session, 'run', d.run,
                 'execution', d.body::jsonb->'execution', 'payload', p.body)"
        )
    };
}

/// Filter of a list of approvals.
#[derive(Debug, Clone, Default)]
pub struct ApprovalFilter {
    /// In this state, as the API shows it.
    pub state: Option<String>,
    /// Of this agent.
    pub agent: Option<String>,
    /// Most approvals, the newest.
    pub limit: i64,
}

impl UnverifiedApproval {
    /// Returns the approval as the API shows it.
    pub fn item(self) -> ApprovalItem {
        let Self { row, is_past, answered_at, answered_by, call_id, session, run, execution, payload } = self;
        let ApprovalRow { id, agent, tool, rule, reason, state, asked_at, expires_at, note, .. } = row;
        let is_expired = is_past && matches!(state, ApprovalState::Pending | ApprovalState::Approved);
        let state = if is_expired { "expired" } else { state.as_str() };
        let payload: Option<Payload> = payload.and_then(|body| serde_json::from_str(&body).ok());
        let arguments = payload.and_then(|payload| payload.args);
        ApprovalItem {
            id,
            agent,
            tool,
            rule,
            reason,
            state,
            asked_at,
            expires_at,
            answered_at,
            answered_by,
            note,
            call_id,
            session,
            run,
            execution,
            arguments,
        }
    }
}

/// A person's answer to an approval: the row before and after.
#[derive(Debug, Clone)]
pub struct ApprovalChange<'c> {
    /// The row that the person saw.
    pub from: &'c ApprovalRow,
    /// The same with another state, note and keyed hash.
    pub to: &'c ApprovalRow,
    /// The person's key.
    pub by: Option<String>,
    /// Message about the answer.
    pub message: Option<&'c OutgoingMessage>,
}

/// Filter of a list of runs.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Of this agent.
    pub agent: Option<String>,
    /// With this name.
    pub run: Option<String>,
    /// With a call since this time.
    pub since: Option<Timestamp>,
    /// True to return only runs that stay in shadow, or whose name the caller did not choose.
    pub in_shadow: bool,
    /// Most runs, those with the newest calls.
    pub limit: i64,
}

/// A stored run, not authenticated.
#[derive(Debug, Clone, Deserialize)]
pub struct ListedRun {
    /// The row.
    #[serde(flatten)]
    pub row: RunRow,
    /// When a call last changed the run.
    pub updated_at: Timestamp,
}

/// Takes the exclusive lock for changes of overrides. Each schema has a lock of its own.
const CHANGING: &str = "/* execution.change */ SELECT pg_advisory_xact_lock(7819, hashtext(current_schema()))";

impl DecisionStore<'_> {
    /// Sets an override, and ends the one with the same scope and value. `said` is the audit row about it; `replaced`
    /// makes the audit row about the ended one, which comes first. On return, no decision is under way that read the
    /// earlier state.
    ///
    /// # Errors
    /// The database does not answer, or decisions under way do not end: the override may be in force all the same.
    pub async fn set_override(
        self,
        one: &Override,
        mac: &[u8],
        said: &NewAudit,
        replaced: impl FnOnce(&Override) -> NewAudit,
    ) -> Result<(), StoreError> {
        let mut tx = begin(&self.0.control).await?;
        sql::execute(&mut *tx, CHANGING, ()).await?;
        self.end_override(&mut tx, one.scope, &one.value, replaced).await?;
        sql::execute(
            &mut *tx,
            "/* execution.set */
             INSERT INTO execution_override (scope, value, id, execution, reason, set_at, expires_at, mac)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            (
                one.scope.as_str(),
                &one.value,
                one.id.0,
                one.execution.as_str(),
                &one.reason,
                one.set_at.to_sqlx(),
                one.expires_at.map(ToSqlx::to_sqlx),
                mac,
            ),
        )
        .await?;
        self.0.audit().append_row(&mut tx, said).await?;
        tx.commit().await?;
        self.outwait_decisions().await
    }

    /// Returns runs, those with the newest calls first.
    ///
    /// # Errors
    /// The database does not answer, or a row cannot be read.
    pub async fn runs(self, filter: &RunFilter) -> Result<Vec<ListedRun>, StoreError> {
        let rows: Vec<String> = sql::all(
            &self.0.read,
            concat!(
                "/* execution.runs */ SELECT (",
                run_json!(),
                "::jsonb || jsonb_build_object('updated_at', updated_at))::text FROM boundary_run
             WHERE ($1::text IS NULL OR agent = $1) AND ($2::text IS NULL OR run = $2)
               AND ($3::timestamptz IS NULL OR updated_at >= $3)
               AND (NOT $4 OR began = 'shadow' OR parent IS NOT NULL OR NOT named)
             ORDER BY updated_at DESC, agent, run LIMIT $5"
            ),
            (&filter.agent, &filter.run, filter.since.map(ToSqlx::to_sqlx), filter.in_shadow, filter.limit),
        )
        .await?;
        rows.iter().map(|row| parse("boundary_run", row)).collect()
    }

    /// Ends runs: the next call under such a name begins a new run. `said` are the audit rows about it.
    ///
    /// # Errors
    /// The database does not answer: they may be ended all the same.
    pub async fn end_runs(self, runs: &[Named], said: &[NewAudit]) -> Result<(), StoreError> {
        let mut tx = begin(&self.0.control).await?;
        sql::execute(
            &mut *tx,
            "/* execution.end_runs */
             WITH locked AS (
                 SELECT agent, run FROM boundary_run
                 JOIN unnest($1::text[], $2::text[]) k(agent, run) USING (agent, run)
                 ORDER BY agent COLLATE \"C\", run COLLATE \"C\" FOR UPDATE OF boundary_run)
             DELETE FROM boundary_run b USING locked l WHERE (b.agent, b.run) = (l.agent, l.run)",
            split(runs),
        )
        .await?;
        for row in said {
            self.0.audit().append_row(&mut tx, row).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Returns agents with a run of this name, or with one that stays in shadow by the audit; at most 1,000.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn agents_of_run(self, run: &str) -> Result<Vec<String>, StoreError> {
        sql::all(
            &self.0.read,
            "/* execution.agents_of_run */
             SELECT agent FROM boundary_run WHERE run = $1
             UNION SELECT a.agent FROM audit a WHERE a.run = $1 AND a.body LIKE '%\"run_execution\":\"shadow\"%'
               AND NOT EXISTS (SELECT FROM audit e WHERE e.run = $1 AND e.agent = a.agent AND e.seq > a.seq
                               AND e.kind = 'execution')
             ORDER BY 1 LIMIT 1000",
            (run,),
        )
        .await
    }

    /// Lifts the override of a scope and value; returns it, or `None` if there was none.
    ///
    /// # Errors
    /// As [`DecisionStore::set_override`].
    pub async fn lift_override(
        self,
        scope: OverrideScope,
        value: &str,
        said: impl FnOnce(&Override) -> NewAudit,
    ) -> Result<Option<Override>, StoreError> {
        let mut tx = begin(&self.0.control).await?;
        sql::execute(&mut *tx, CHANGING, ()).await?;
        let Some(lifted) = self.end_override(&mut tx, scope, value, said).await? else { return Ok(None) };
        tx.commit().await?;
        self.outwait_decisions().await?;
        Ok(Some(lifted))
    }

    /// Deletes an override. The audit row about it has the override's id, so an override that is put back is recognized
    /// as ended by its id.
    async fn end_override(
        self,
        tx: &mut Connection,
        scope: OverrideScope,
        value: &str,
        said: impl FnOnce(&Override) -> NewAudit,
    ) -> Result<Option<Override>, StoreError> {
        let row: Option<String> = sql::optional(
            &mut *tx,
            concat!(
                "/* execution.end */ DELETE FROM execution_override o WHERE scope = $1 AND value = $2 RETURNING ",
                override_json!(),
                "::text"
            ),
            (scope.as_str(), value),
        )
        .await?;
        let Some(row) = row else { return Ok(None) };
        let UnverifiedOverride { said: one, ended, .. } = parse("execution_override", &row)?;
        let mut said = said(&one);
        if !ended {
            said.id = one.id.0;
        }
        self.0.audit().append_row(tx, &said).await?;
        Ok(Some(one))
    }

    /// Returns overrides and approvals, with the last number of the audit at that time.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn audited_tables(self) -> Result<AuditedTables, StoreError> {
        let (now, seq, overrides, approvals): (Timestamp, i64, String, String) = sql::one(
            &self.0.read,
            "/* execution.standing */ SELECT clock(), (SELECT last FROM feed WHERE name = 'audit'),
             (SELECT coalesce(json_agg(json_build_object('id', 'ovr_' || replace(id::text, '-', ''), 'scope', scope,
                  'value', value, 'execution', execution, 'reason', reason, 'set_at', set_at, 'expires_at', expires_at,
                  'keyed', mac IS NOT NULL)), '[]')::text FROM execution_override),
             (SELECT coalesce(json_agg(json_build_object('id', 'apr_' || replace(id::text, '-', ''), 'agent', agent,
                  'tool', tool, 'digest', encode(digest, 'hex'), 'state', state, 'expires_at', expires_at,
                  'keyed', mac IS NOT NULL)), '[]')::text FROM approval)",
            (),
        )
        .await?;
        let (overrides, approvals) = (parse("execution_override", &overrides)?, parse("approval", &approvals)?);
        Ok(AuditedTables { now, seq, overrides, approvals })
    }

    /// Waits until every decision that may have read an earlier state has ended.
    async fn outwait_decisions(self) -> Result<(), StoreError> {
        let mut tx = begin(&self.0.control).await?;
        sql::execute(
            &mut *tx,
            "/* execution.outwait */ SELECT pg_advisory_xact_lock(7817, hashtext(current_schema()))",
            (),
        )
        .await?;
        Ok(tx.commit().await?)
    }

    /// Returns the ways to write that cannot be intercepted, in any agent's session of this name, including those that
    /// only the audit has.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn uninterceptable(self, session: &str) -> Result<Vec<String>, StoreError> {
        let (mut paths, bodies): (Vec<String>, Vec<String>) = sql::one(
            &self.0.read,
            "/* execution.uninterceptable */
             SELECT ARRAY(SELECT DISTINCT unnest(uninterceptable) FROM boundary_session WHERE session = $1),
                    ARRAY(SELECT body FROM audit WHERE session = $1 AND body LIKE '%\"labels\":{%' LIMIT 1024)",
            (session,),
        )
        .await?;
        let said = |body: &String| serde_json::from_str::<DecisionEffects>(body).ok()?.labels;
        paths.extend(bodies.iter().filter_map(said).flat_map(|labels| labels.uninterceptable));
        paths.sort_unstable();
        paths.dedup();
        Ok(paths)
    }

    /// Returns an approval; `None` if there is none with this id.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn approval(self, id: ApprovalId) -> Result<Option<UnverifiedApproval>, StoreError> {
        let row: Option<String> = sql::optional(
            &self.0.control,
            concat!(
                "/* execution.approval */ SELECT (",
                stored_approval_json!(),
                ")::text FROM approval a LEFT JOIN audit d ON d.seq = a.asked_seq
             LEFT JOIN audit_payload p ON p.seq = a.asked_seq WHERE a.id = $1"
            ),
            (id.0,),
        )
        .await?;
        row.map(|text| parse("approval", &text)).transpose()
    }

    /// Returns approvals, newest first.
    ///
    /// # Errors
    /// The database does not answer, or a row cannot be read.
    pub async fn approvals(self, filter: &ApprovalFilter) -> Result<Vec<UnverifiedApproval>, StoreError> {
        let rows: Vec<String> = sql::all(
            &self.0.read,
            concat!(
                "/* execution.approvals */ SELECT (",
                stored_approval_json!(),
                ")::text FROM approval a LEFT JOIN audit d ON d.seq = a.asked_seq
             LEFT JOIN audit_payload p ON p.seq = a.asked_seq
             WHERE ($1::text IS NULL OR a.agent = $1)
               AND ($2::text IS NULL OR $2 = CASE WHEN a.expires_at <= clock() AND a.state IN ('pending', 'approved')
                                                  THEN 'expired' ELSE a.state END)
             ORDER BY a.asked_at DESC, a.id LIMIT $3"
            ),
            (&filter.agent, &filter.state, filter.limit),
        )
        .await?;
        rows.iter().map(|text| parse("approval", text)).collect()
    }

    /// Takes the oldest approvals without a message, and stores the message that `message` makes of each, in one
    /// transaction. Returns how many approvals were taken.
    ///
    /// # Errors
    /// The database does not answer, or a row cannot be read.
    pub async fn tell_approvals(
        self,
        limit: i64,
        message: impl Fn(UnverifiedApproval) -> Option<OutgoingMessage>,
    ) -> Result<usize, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        let rows: Vec<String> = sql::all(
            &mut *tx,
            concat!(
            "/* execution.tell_approvals */
             WITH a AS (UPDATE approval SET told = true WHERE id IN (
                 SELECT id FROM approval WHERE NOT told ORDER BY asked_at LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING *)
             SELECT (",
            stored_approval_json!(),
            ")::text FROM a LEFT JOIN audit d ON d.seq = a.asked_seq LEFT JOIN audit_payload p ON p.seq = a.asked_seq
             ORDER BY a.asked_at"
        ),
            (limit,),
        )
        .await?;
        for text in &rows {
            if let Some(message) = message(parse("approval", text)?) {
                enqueue(&mut tx, &message).await?;
            }
        }
        tx.commit().await?;
        Ok(rows.len())
    }

    /// Approves or denies a waiting call; returns false if its approval has changed or expired.
    ///
    /// # Errors
    /// The database does not answer: the approval may be answered all the same.
    pub async fn answer_approval(self, change: ApprovalChange<'_>, said: &NewAudit) -> Result<bool, StoreError> {
        let ApprovalChange { from, to, by, message } = change;
        let mut tx = begin(&self.0.control).await?;
        let changed = sql::count(
            &mut *tx,
            "/* execution.approve */ UPDATE approval SET state = $2, note = $3, mac = $5, answered_at = clock(),
                 answered_by = $6
             WHERE id = $1 AND state = 'pending' AND expires_at > clock() AND mac = $4",
            (to.id.0, to.state.as_str(), &to.note, from.mac.as_deref(), to.mac.as_deref(), by),
        )
        .await?;
        if changed == 0 {
            return Ok(false);
        }
        if let Some(message) = message {
            enqueue(&mut tx, message).await?;
        }
        self.0.audit().append_row(&mut tx, said).await?;
        tx.commit().await?;
        Ok(true)
    }
}
