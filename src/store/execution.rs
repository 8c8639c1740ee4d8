//! What is laid over the settings at run time, and who approved which call: changed together with the audit row that says
//! so.

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{Store, StoreError, decisions::NewAudit, transaction::begin};
use crate::domain::{ApprovalId, Execution, Override, OverrideId, OverrideScope};

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

type OverrideRow = (String, String, Uuid, String, String, jiff_sqlx::Timestamp, Option<jiff_sqlx::Timestamp>);

impl Store {
    /// The overrides that are in force, from wide to narrow.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn overrides(&self) -> Result<Vec<Override>, StoreError> {
        let rows: Vec<OverrideRow> = sqlx::query_as(
            "/* execution.overrides */
             SELECT scope, value, id, execution, reason, set_at, expires_at FROM execution_override
             WHERE expires_at IS NULL OR expires_at > clock() ORDER BY set_at, id",
        )
        .fetch_all(&self.read)
        .await?;
        let mut overrides: Vec<Override> = rows.into_iter().filter_map(override_of).collect();
        overrides.sort_by_key(|one| one.scope);
        Ok(overrides)
    }

    /// Sets an override in the place of the one that is there for its scope and value; `said` goes to the audit. When this
    /// answers, no decision is under way that has not seen it.
    ///
    /// # Errors
    /// The database does not answer, or decisions are under way that do not end: it may be in force all the same.
    pub async fn set_override(&self, one: &Override, said: &NewAudit) -> Result<(), StoreError> {
        let mut tx = begin(&self.control).await?;
        sqlx::query(
            "/* execution.set */
             INSERT INTO execution_override (scope, value, id, execution, reason, set_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, clock(), $6)
             ON CONFLICT (scope, value) DO UPDATE SET id = excluded.id, execution = excluded.execution,
                 reason = excluded.reason, set_at = excluded.set_at, expires_at = excluded.expires_at",
        )
        .bind(one.scope.as_str())
        .bind(&one.value)
        .bind(one.id.0)
        .bind(one.execution.as_str())
        .bind(&one.reason)
        .bind(one.expires_at.map(ToSqlx::to_sqlx))
        .execute(&mut *tx)
        .await?;
        self.append_row(&mut tx, said).await?;
        tx.commit().await?;
        self.outwait_decisions().await
    }

    /// Lifts the override of a scope and value; answers which one, if there was one.
    ///
    /// # Errors
    /// As [`Store::set_override`].
    pub async fn lift_override(
        &self,
        scope: OverrideScope,
        value: &str,
        said: impl FnOnce(&Override) -> NewAudit,
    ) -> Result<Option<Override>, StoreError> {
        let mut tx = begin(&self.control).await?;
        let row: Option<OverrideRow> = sqlx::query_as(
            "/* execution.lift */ DELETE FROM execution_override WHERE scope = $1 AND value = $2
             RETURNING scope, value, id, execution, reason, set_at, expires_at",
        )
        .bind(scope.as_str())
        .bind(value)
        .fetch_optional(&mut *tx)
        .await?;
        let Some(lifted) = row.and_then(override_of) else { return Ok(None) };
        self.append_row(&mut tx, &said(&lifted)).await?;
        tx.commit().await?;
        self.outwait_decisions().await?;
        Ok(Some(lifted))
    }

    /// Waits until every decision that may have read an earlier state has ended.
    async fn outwait_decisions(&self) -> Result<(), StoreError> {
        let mut tx = begin(&self.control).await?;
        sqlx::query("/* execution.outwait */ SELECT pg_advisory_xact_lock(7817, hashtext(current_schema()))")
            .execute(&mut *tx)
            .await?;
        Ok(tx.commit().await?)
    }

    /// The ways to write that nobody can intercept, of whichever agent's session of this name.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn uninterceptable(&self, session: &str) -> Result<Vec<String>, StoreError> {
        let paths = sqlx::query_scalar(
            "/* execution.uninterceptable */
             SELECT DISTINCT unnest(uninterceptable) FROM boundary_session WHERE session = $1 ORDER BY 1",
        );
        Ok(paths.bind(session).fetch_all(&self.read).await?)
    }

    /// An approval; `None` if there is none of this id.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn approval(&self, id: ApprovalId) -> Result<Option<ApprovalItem>, StoreError> {
        type Row = (String, String, Option<String>, Option<String>, String, jiff_sqlx::Timestamp, jiff_sqlx::Timestamp);
        let row: Option<Row> = sqlx::query_as(
            "/* execution.approval */ SELECT agent, tool, rule, reason,
                 CASE WHEN state <> 'used' AND expires_at <= clock() THEN 'expired' ELSE state END, asked_at, expires_at
             FROM approval WHERE id = $1",
        )
        .bind(id.0)
        .fetch_optional(&self.control)
        .await?;
        Ok(row.map(|(agent, tool, rule, reason, state, asked_at, expires_at)| ApprovalItem {
            id,
            agent,
            tool,
            rule,
            reason,
            state,
            asked_at: asked_at.to_jiff(),
            expires_at: expires_at.to_jiff(),
        }))
    }

    /// Approves or denies a call that waits for it; answers whether it did.
    ///
    /// # Errors
    /// The database does not answer: it may be so all the same.
    pub async fn answer_approval(
        &self,
        id: ApprovalId,
        approve: bool,
        note: Option<&str>,
        said: &NewAudit,
    ) -> Result<bool, StoreError> {
        let mut tx = begin(&self.control).await?;
        let changed = sqlx::query(
            "/* execution.approve */ UPDATE approval SET state = $2, note = $3
             WHERE id = $1 AND state = 'pending' AND expires_at > clock()",
        )
        .bind(id.0)
        .bind(if approve { "approved" } else { "denied" })
        .bind(note)
        .execute(&mut *tx)
        .await?;
        if changed.rows_affected() == 0 {
            return Ok(false);
        }
        self.append_row(&mut tx, said).await?;
        tx.commit().await?;
        Ok(true)
    }
}

/// A row whose words are not known is not in force: a newer version wrote it.
fn override_of((scope, value, id, execution, reason, set_at, expires_at): OverrideRow) -> Option<Override> {
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
