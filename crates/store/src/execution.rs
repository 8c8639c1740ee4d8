//! What is laid over the settings at run time, and who approved which call: changed together with the audit row that says
//! so.

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use serde::{Deserialize, Serialize};
use sqlx::{PgConnection, Row};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    StoreError,
    aggregates::DecisionStore,
    decisions::{NewAudit, parse},
    transaction::begin,
};
use umbra_domain::{
    ApprovalId, Execution, Override, OverrideId, OverrideScope,
    audit::{Binding, Standing},
};

/// An approval, for who is to give it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Approval)]
pub struct ApprovalItem {
    /// Its id.
    #[schema(value_type = String, example = "apr_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub id: ApprovalId,
    /// Who calls.
    pub agent: String,
    /// Which tool.
    pub tool: String,
    /// The rule that asks.
    pub rule: Option<String>,
    /// Its reason.
    pub reason: Option<String>,
    /// `pending`, `approved`, `denied`, `used` or `expired`.
    pub state: String,
    /// When it was asked for.
    #[schema(value_type = String, format = DateTime)]
    pub asked_at: Timestamp,
    /// When it is worth nothing any more.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

/// An override as the database has it. Whether it counts, says who has the key.
#[derive(Debug, Clone, Deserialize)]
pub struct StoredOverride {
    /// What it says.
    #[serde(flatten)]
    pub said: Override,
    /// The keyed hash of that, in hex; none in rows of before there were such.
    pub mac: Option<String>,
    /// The audit says that it was lifted or replaced.
    pub ended: bool,
}

/// An approval as the database has it.
#[derive(Debug, Clone)]
pub struct StoredApproval {
    /// What it says to people.
    pub item: ApprovalItem,
    /// The same without regard to the time: `pending`, `approved`, `denied` or `used`.
    pub state: String,
    /// Keyed hash of agent, tool and arguments.
    pub digest: Vec<u8>,
    /// The keyed hash of what it says; none in rows of before there were such.
    pub mac: Option<Vec<u8>>,
}

/// What an approval becomes, and what of it must be as it was.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalChange<'c> {
    /// Which.
    pub id: ApprovalId,
    /// `approved` or `denied`.
    pub state: &'c str,
    /// Why.
    pub note: Option<&'c str>,
    /// The keyed hash that it has.
    pub from: Option<&'c [u8]>,
    /// The keyed hash that it gets.
    pub to: &'c [u8],
}

/// Whoever changes overrides does so alone. Each schema has a lock of its own.
const CHANGING: &str = "/* execution.change */ SELECT pg_advisory_xact_lock(7819, hashtext(current_schema()))";

type OverrideRow = (String, String, Uuid, String, String, jiff_sqlx::Timestamp, Option<jiff_sqlx::Timestamp>, bool);

impl DecisionStore<'_> {
    /// Sets an override in the place of the one that is there for its scope and value; `said` goes to the audit, behind what
    /// `replaced` makes of the other. When this answers, no decision is under way that has not seen it.
    ///
    /// # Errors
    /// The database does not answer, or decisions are under way that do not end: it may be in force all the same.
    pub async fn set_override(
        self,
        one: &Override,
        mac: &[u8],
        said: &NewAudit,
        replaced: impl FnOnce(&Override) -> NewAudit,
    ) -> Result<(), StoreError> {
        let mut tx = begin(&self.0.control).await?;
        sqlx::query(CHANGING).execute(&mut *tx).await?;
        self.end_override(&mut tx, one.scope, &one.value, replaced).await?;
        sqlx::query(
            "/* execution.set */
             INSERT INTO execution_override (scope, value, id, execution, reason, set_at, expires_at, mac)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(one.scope.as_str())
        .bind(&one.value)
        .bind(one.id.0)
        .bind(one.execution.as_str())
        .bind(&one.reason)
        .bind(one.set_at.to_sqlx())
        .bind(one.expires_at.map(ToSqlx::to_sqlx))
        .bind(mac)
        .execute(&mut *tx)
        .await?;
        self.0.audit().append_row(&mut tx, said).await?;
        tx.commit().await?;
        self.outwait_decisions().await
    }

    /// Lifts the override of a scope and value; answers which one, if there was one.
    ///
    /// # Errors
    /// As [`Store::set_override`].
    pub async fn lift_override(
        self,
        scope: OverrideScope,
        value: &str,
        said: impl FnOnce(&Override) -> NewAudit,
    ) -> Result<Option<Override>, StoreError> {
        let mut tx = begin(&self.0.control).await?;
        sqlx::query(CHANGING).execute(&mut *tx).await?;
        let Some(lifted) = self.end_override(&mut tx, scope, value, said).await? else { return Ok(None) };
        tx.commit().await?;
        self.outwait_decisions().await?;
        Ok(Some(lifted))
    }

    /// Takes an override away. The row of the audit that says so has the override's id, so that one that is put back is known
    /// as ended by looking it up.
    async fn end_override(
        self,
        tx: &mut PgConnection,
        scope: OverrideScope,
        value: &str,
        said: impl FnOnce(&Override) -> NewAudit,
    ) -> Result<Option<Override>, StoreError> {
        let row: Option<OverrideRow> = sqlx::query_as(
            "/* execution.end */ DELETE FROM execution_override o WHERE scope = $1 AND value = $2
             RETURNING scope, value, id, execution, reason, set_at, expires_at,
                 EXISTS (SELECT FROM audit e WHERE e.id = o.id)",
        )
        .bind(scope.as_str())
        .bind(value)
        .fetch_optional(&mut *tx)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let ended = row.7;
        let Some(one) = override_of(row) else { return Ok(None) };
        let mut said = said(&one);
        if !ended {
            said.id = one.id.0;
        }
        self.0.audit().append_row(tx, &said).await?;
        Ok(Some(one))
    }

    /// Overrides and approvals, with the last number that the audit had then.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn standing(self) -> Result<Standing, StoreError> {
        let (now, seq, overrides, approvals): (jiff_sqlx::Timestamp, i64, String, String) = sqlx::query_as(
            "/* execution.standing */ SELECT clock(), (SELECT last FROM feed WHERE name = 'audit'),
             (SELECT coalesce(json_agg(json_build_object('id', 'ovr_' || replace(id::text, '-', ''), 'scope', scope,
                  'value', value, 'execution', execution, 'reason', reason, 'set_at', set_at, 'expires_at', expires_at,
                  'keyed', mac IS NOT NULL)), '[]')::text FROM execution_override),
             (SELECT coalesce(json_agg(json_build_object('id', 'apr_' || replace(id::text, '-', ''), 'agent', agent,
                  'tool', tool, 'digest', encode(digest, 'hex'), 'state', state, 'expires_at', expires_at,
                  'keyed', mac IS NOT NULL)), '[]')::text FROM approval)",
        )
        .fetch_one(&self.0.read)
        .await?;
        let (overrides, approvals) = (parse("execution_override", &overrides)?, parse("approval", &approvals)?);
        Ok(Standing { now: now.to_jiff(), seq, overrides, approvals })
    }

    /// Waits until every decision that may have read an earlier state has ended.
    async fn outwait_decisions(self) -> Result<(), StoreError> {
        let mut tx = begin(&self.0.control).await?;
        sqlx::query("/* execution.outwait */ SELECT pg_advisory_xact_lock(7817, hashtext(current_schema()))")
            .execute(&mut *tx)
            .await?;
        Ok(tx.commit().await?)
    }

    /// The ways to write that nobody can intercept, of whichever agent's session of this name; also those that only the audit
    /// knows any more.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn uninterceptable(self, session: &str) -> Result<Vec<String>, StoreError> {
        let (mut paths, bodies): (Vec<String>, Vec<String>) = sqlx::query_as(
            "/* execution.uninterceptable */
             SELECT ARRAY(SELECT DISTINCT unnest(uninterceptable) FROM boundary_session WHERE session = $1),
                    ARRAY(SELECT body FROM audit WHERE session = $1 AND body LIKE '%\"labels\":{%' LIMIT 1024)",
        )
        .bind(session)
        .fetch_one(&self.0.read)
        .await?;
        let said = |body: &String| serde_json::from_str::<Binding>(body).ok()?.labels;
        paths.extend(bodies.iter().filter_map(said).flat_map(|labels| labels.uninterceptable));
        paths.sort_unstable();
        paths.dedup();
        Ok(paths)
    }

    /// An approval; `None` if there is none of this id.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn approval(self, id: ApprovalId) -> Result<Option<StoredApproval>, StoreError> {
        let row = sqlx::query(
            "/* execution.approval */ SELECT agent, tool, rule, reason, state, asked_at, expires_at, expires_at <= clock() AS past,
                 digest, mac FROM approval WHERE id = $1",
        )
        .bind(id.0)
        .fetch_optional(&self.0.control)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let state: String = row.try_get("state")?;
        let past = row.try_get("past")? && state != "used";
        let time = |name: &str| row.try_get::<jiff_sqlx::Timestamp, _>(name).map(jiff_sqlx::Timestamp::to_jiff);
        Ok(Some(StoredApproval {
            item: ApprovalItem {
                id,
                agent: row.try_get("agent")?,
                tool: row.try_get("tool")?,
                rule: row.try_get("rule")?,
                reason: row.try_get("reason")?,
                state: if past { "expired".to_owned() } else { state.clone() },
                asked_at: time("asked_at")?,
                expires_at: time("expires_at")?,
            },
            state,
            digest: row.try_get("digest")?,
            mac: row.try_get("mac")?,
        }))
    }

    /// Approves or denies a call that waits for it and is as it was; answers whether it did.
    ///
    /// # Errors
    /// The database does not answer: it may be so all the same.
    pub async fn answer_approval(self, change: ApprovalChange<'_>, said: &NewAudit) -> Result<bool, StoreError> {
        let ApprovalChange { id, state, note, from, to } = change;
        let mut tx = begin(&self.0.control).await?;
        let changed = sqlx::query(
            "/* execution.approve */ UPDATE approval SET state = $2, note = $3, mac = $5
             WHERE id = $1 AND state = 'pending' AND expires_at > clock() AND mac = $4",
        )
        .bind(id.0)
        .bind(state)
        .bind(note)
        .bind(from)
        .bind(to)
        .execute(&mut *tx)
        .await?;
        if changed.rows_affected() == 0 {
            return Ok(false);
        }
        self.0.audit().append_row(&mut tx, said).await?;
        tx.commit().await?;
        Ok(true)
    }
}

/// A row whose words are not known is not in force: a newer version wrote it.
fn override_of((scope, value, id, execution, reason, set_at, expires_at, _): OverrideRow) -> Option<Override> {
    Some(Override {
        id: OverrideId(id),
        scope: OverrideScope::parse(&scope)?,
        value,
        execution: Execution::parse(&execution)?,
        reason,
        set_at: set_at.to_jiff(),
        expires_at: expires_at.map(jiff_sqlx::Timestamp::to_jiff),
    })
}
