//! Stored facts about contracts: how well results of live calls fit them, which tools were seen, and which calls ran
//! against their decisions. One process of a cluster at a time reads the audit in order. Its facts commit together with
//! the number of the last row read, so each row counts exactly once.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use sqlx::AssertSqlSafe;

use super::{
    StoreError,
    aggregates::ContractStore,
    decisions::NewAudit,
    follow::{hold, move_on},
    sql::{self, column, record},
    transaction::{Tx, begin, begin_with},
    webhooks,
};
use umbra_domain::{
    Effect,
    contract::{ContractState, StaleSince},
};

/// Begins a transaction whose commit is not synchronous. After a crash its rows are read again.
const LAZY: &str = "BEGIN; SET LOCAL synchronous_commit = off";
/// Most states that are read: as many contracts as a file may have, in ten versions each.
const MOST_STATES: i64 = 10_000;

/// A call that ran, with the payloads of its decision and its outcome.
#[derive(Debug, Clone)]
pub struct LiveResult {
    /// Number of the outcome in the audit.
    pub seq: i64,
    /// When the outcome was reported.
    pub at: Timestamp,
    /// The tool.
    pub tool: String,
    /// The contract that was in force, as `tool@version`.
    pub contract: Option<String>,
    /// Payload of the decision, as JSON.
    pub decision: String,
    /// Payload of the outcome, as JSON.
    pub outcome: String,
}

record!(LiveResult: seq, at, tool, contract, decision, outcome);

/// A call that ran although its decision forbade it.
#[derive(Debug, Clone)]
pub struct UnexpectedCall {
    /// Number of the outcome in the audit.
    pub seq: i64,
    /// When the outcome was reported.
    pub at: Timestamp,
    /// The agent that called.
    pub agent: String,
    /// The tool.
    pub tool: String,
}

record!(UnexpectedCall: seq, at, agent, tool);

/// A page of audit rows that this process reads. Dropping it leaves the rows to be read again.
pub struct ContractPage {
    tx: Tx,
    until: i64,
    seen: BTreeMap<String, (Effect, i64, Timestamp, Timestamp)>,
    /// The database's time.
    pub now: Timestamp,
    /// Results of calls that ran, in order of the audit.
    pub results: Vec<LiveResult>,
    /// Calls that ran against their decisions, in order of the audit.
    pub unexpected: Vec<UnexpectedCall>,
    /// True if more rows are there already.
    pub more: bool,
}

const STATES: &str =
    "SELECT tool, version, since, results, misfits, last_at, fit_at, misfit, recent, stale_since, stale_why,
    confirmed_at FROM contract_state";

record! {
    ContractState, row: tool, since, results, misfits, last_at, fit_at, misfit, recent, confirmed_at;
    version: u32::try_from(column::<i64>(row, "version")?).unwrap_or(u32::MAX),
    stale: column::<Option<_>>(row, "stale_since")?
        .zip(column::<Option<_>>(row, "stale_why")?)
        .map(|(since, reason)| StaleSince { since, reason }),
}

impl ContractStore<'_> {
    /// Returns the states of contracts by live results, newest versions first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn states(self) -> Result<Vec<ContractState>, StoreError> {
        let query = format!("/* contracts.states */ {STATES} ORDER BY since DESC, tool, version LIMIT {MOST_STATES}");
        sql::all(&self.0.read, AssertSqlSafe(query), ()).await
    }

    /// Records versions of contracts that are in force, each as tool and version. Known ones stay unchanged.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn record_editions(self, editions: &[(String, u32)]) -> Result<(), StoreError> {
        let (tools, versions): (Vec<&str>, Vec<i64>) =
            editions.iter().map(|(tool, version)| (tool.as_str(), i64::from(*version))).unzip();
        sql::execute(
            &self.0.work,
            "/* contracts.know */ INSERT INTO contract_state (tool, version)
             SELECT tool, version FROM unnest($1::text[], $2::bigint[]) e(tool, version) ORDER BY tool, version
             ON CONFLICT (tool, version) DO NOTHING",
            (tools, versions),
        )
        .await
    }

    /// Confirms a version of a contract by hand, which ends its stale state and resets its counts. `said` is the audit
    /// row about it. Returns false if the version was never in force.
    ///
    /// # Errors
    /// The database does not answer: it may be confirmed all the same.
    pub async fn confirm(self, tool: &str, version: u32, said: &NewAudit) -> Result<bool, StoreError> {
        let mut tx = begin(&self.0.control).await?;
        let is_known = sql::changed(
            &mut *tx,
            "/* contracts.confirm */ UPDATE contract_state SET confirmed_at = clock(), misfits = 0, misfit = NULL,
                 recent = '{}', stale_since = NULL, stale_why = NULL WHERE tool = $1 AND version = $2",
            (tool, i64::from(version)),
        )
        .await?;
        if !is_known {
            return Ok(false);
        }
        self.0.audit().append_row(&mut tx, said).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Returns results of calls that ran, by their numbers in the audit. Erased ones are missing.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn live_results(self, seqs: &[i64]) -> Result<Vec<LiveResult>, StoreError> {
        let query = format!("/* contracts.results */ {RESULTS} AND o.seq = ANY($1) ORDER BY o.seq");
        sql::all(&self.0.read, AssertSqlSafe(query), (seqs,)).await
    }

    /// Returns the last results of a tool's calls that ran, by this agent or by any, at most `most`, oldest first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn recorded_calls(
        self,
        agent: Option<&str>,
        tool: &str,
        most: i64,
    ) -> Result<Vec<LiveResult>, StoreError> {
        let query = format!(
            "/* contracts.recorded */ {RESULTS} AND ($1::text IS NULL OR o.agent = $1) AND o.tool = $2 ORDER BY o.seq DESC LIMIT $3"
        );
        let mut calls: Vec<_> = sql::all(&self.0.read, AssertSqlSafe(query), (agent, tool, most)).await?;
        calls.reverse();
        Ok(calls)
    }

    /// Begins to read the next rows of the audit, at most `most`; returns `None` while another process reads them.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn begin_learning(self, most: i64) -> Result<Option<ContractPage>, StoreError> {
        let tx = begin_with(&self.0.work, LAZY).await?;
        let Some((mut tx, from)) = hold(tx, "contracts").await? else { return Ok(None) };
        let (last, now): (i64, Timestamp) =
            sql::one(&mut *tx, "/* contracts.last */ SELECT last, clock() FROM feed WHERE name = 'audit'", ()).await?;
        // The numbers have no gap.
        let until = last.min(from.saturating_add(most));
        let (seen, results, unexpected) = Default::default();
        let mut learning = ContractPage { tx, until, seen, now, results, unexpected, more: until < last };
        if from < until {
            learning.read(from, until).await?;
        }
        Ok(Some(learning))
    }
}

/// Query for results of calls that ran. Payloads of more than 72 KiB are left out, to bound the memory for a page.
const RESULTS: &str = "SELECT o.seq, o.at, o.tool, d.body::json ->> 'contract' AS contract, dp.body AS decision,
    op.body AS outcome FROM audit o
    JOIN call c ON (c.agent, c.call_id) = (o.agent, o.call_id) AND c.outcome_seq = o.seq AND c.decision = 'execute'
    JOIN audit d ON d.seq = c.seq JOIN audit_payload dp ON dp.seq = d.seq JOIN audit_payload op ON op.seq = o.seq
    WHERE o.kind = 'outcome' AND o.tool IS NOT NULL AND octet_length(dp.body) <= 73728 AND octet_length(op.body) <= 73728";

impl ContractPage {
    async fn read(&mut self, from: i64, until: i64) -> Result<(), StoreError> {
        let decided: Vec<(String, Option<Effect>, Timestamp)> = sql::all(
            &mut *self.tx,
            "/* contracts.decided */ SELECT tool, body::json ->> 'effect', at FROM audit
             WHERE seq > $1 AND seq <= $2 AND kind IN ('decision', 'merged') AND tool IS NOT NULL ORDER BY seq",
            (from, until),
        )
        .await?;
        for (tool, effect, at) in decided {
            let effect = effect.unwrap_or(Effect::Destructive);
            let seen = self.seen.entry(tool).or_insert((effect, 0, at, at));
            *seen = (effect, seen.1 + 1, seen.2, at);
        }
        let query = format!("/* contracts.outcomes */ {RESULTS} AND o.seq > $1 AND o.seq <= $2 ORDER BY o.seq");
        self.results = sql::all(&mut *self.tx, AssertSqlSafe(query), (from, until)).await?;
        self.unexpected = sql::all(
            &mut *self.tx,
            "/* contracts.unexpected */ SELECT seq, at, agent, tool FROM audit WHERE seq > $1 AND seq <= $2
             AND kind = 'outcome' AND tool IS NOT NULL AND body::json ->> 'expected' = 'false' ORDER BY seq",
            (from, until),
        )
        .await?;
        Ok(())
    }

    /// Counts a call that ran against its decision; returns the time of the previous one of this tool by this agent.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn note_unexpected(&mut self, call: &UnexpectedCall) -> Result<Option<Timestamp>, StoreError> {
        sql::one(
            &mut *self.tx,
            "/* contracts.note */ INSERT INTO unexpected_call (agent, tool, calls, first_at, last_at, last_seq)
             VALUES ($1, $2, 1, $3, $3, $4)
             ON CONFLICT (agent, tool) DO UPDATE SET calls = unexpected_call.calls + 1, last_at = excluded.last_at,
                 last_seq = excluded.last_seq
             RETURNING (SELECT last_at FROM unexpected_call o WHERE o.agent = $1 AND o.tool = $2)",
            (&call.agent, &call.tool, call.at.to_sqlx(), call.seq),
        )
        .await
    }

    /// Reads and locks the states of these contracts until this transaction ends.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn states(&mut self, editions: &[(String, u32)]) -> Result<Vec<ContractState>, StoreError> {
        let (tools, versions): (Vec<&str>, Vec<i64>) =
            editions.iter().map(|(tool, version)| (tool.as_str(), i64::from(*version))).unzip();
        let query = format!(
            "/* contracts.lock */ {STATES} WHERE (tool, version) IN (SELECT * FROM unnest($1::text[], $2::bigint[]))
             ORDER BY tool, version FOR UPDATE"
        );
        sql::all(&mut *self.tx, AssertSqlSafe(query), (tools, versions)).await
    }

    /// Stores the state of a contract.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn keep(&mut self, state: &ContractState) -> Result<(), StoreError> {
        sql::execute(
            &mut *self.tx,
            "/* contracts.keep */ UPDATE contract_state SET results = $3, misfits = $4, last_at = $5, fit_at = $6,
                 misfit = $7, recent = $8, stale_since = $9, stale_why = $10 WHERE tool = $1 AND version = $2",
            (
                &state.tool,
                i64::from(state.version),
                state.results,
                state.misfits,
                state.last_at.map(ToSqlx::to_sqlx),
                state.fit_at.map(ToSqlx::to_sqlx),
                &state.misfit,
                &state.recent,
                state.stale.map(|stale| stale.since.to_sqlx()),
                state.stale.map(|stale| stale.reason.as_str()),
            ),
        )
        .await
    }

    /// Stores a message in this transaction.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn enqueue(&mut self, message: &webhooks::OutgoingMessage) -> Result<(), StoreError> {
        webhooks::enqueue(&mut self.tx, message).await
    }

    /// Commits what was stored, the tools seen, and the follower's new number.
    ///
    /// # Errors
    /// The database does not answer: the rows may come again.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        let mut columns: (Vec<&str>, Vec<&str>, Vec<i64>, Vec<_>, Vec<_>) = Default::default();
        for (tool, (effect, calls, first, last)) in &self.seen {
            columns.0.push(tool);
            columns.1.push(effect.as_str());
            columns.2.push(*calls);
            columns.3.push(first.to_sqlx());
            columns.4.push(last.to_sqlx());
        }
        if !self.seen.is_empty() {
            sql::execute(
                &mut *self.tx,
                "/* contracts.seen */ INSERT INTO tool_seen (tool, effect, calls, first_at, last_at)
                 SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::timestamptz[], $5::timestamptz[])
                 ON CONFLICT (tool) DO UPDATE SET effect = excluded.effect, calls = tool_seen.calls + excluded.calls,
                     last_at = excluded.last_at",
                (columns.0, columns.1, columns.2, columns.3, columns.4),
            )
            .await?;
        }
        move_on(self.tx, "contracts", self.until).await
    }
}
