//! The audit in the database: appends rows, reads pages, seals blocks, erases payloads.

use sqlx::{Postgres, QueryBuilder, Row, postgres::PgRow};

use super::{
    StoreError,
    aggregates::AuditStore,
    decisions::NewAudit,
    erasure::ErasureScope,
    paging::{Span, equals, push_span},
    pool::Connection,
    transaction::{Tx, begin},
};
use umbra_domain::audit::{AuditKind, AuditPayload, AuditRecord, AuditRow, AuditSeal};

/// Filter of audit rows. A field that is `None` or empty admits all.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// Agents.
    pub agents: Option<Vec<String>>,
    /// Tools, as the rows spell them.
    pub tools: Option<Vec<String>>,
    /// Of this session.
    pub session: Option<String>,
    /// Of this run.
    pub run: Option<String>,
    /// Of this call.
    pub call_id: Option<String>,
    /// Decisions with this word: `execute`, `stub`, `ask` or `block`.
    pub decision: Option<String>,
    /// Decisions about calls of this effect.
    pub effect: Option<String>,
    /// Decisions under this execution.
    pub execution: Option<String>,
    /// Of these kinds.
    pub kinds: Vec<AuditKind>,
    /// Written in this span.
    pub span: Span,
}

/// A sealing transaction: holds the row lock of follower `seal`, with the rows to seal next.
pub struct Sealing {
    tx: Tx,
    /// The newest block; `None` before the first.
    pub last: Option<AuditSeal>,
    /// The rows after the newest block, in order, at most as many as were asked for.
    pub rows: Vec<AuditRow>,
}

impl AuditFilter {
    fn push(&self, query: &mut QueryBuilder<Postgres>) {
        for (column, value) in [("a.session", &self.session), ("a.run", &self.run), ("a.call_id", &self.call_id)] {
            equals(query, column, value.as_deref());
        }
        let kinds: Vec<String> = self.kinds.iter().map(|kind| kind.as_str().to_owned()).collect();
        let kinds = (!kinds.is_empty()).then_some(kinds);
        for (column, names) in [("a.agent", self.agents.clone()), ("a.tool", self.tools.clone()), ("a.kind", kinds)] {
            if let Some(names) = names {
                query.push(format_args!(" AND {column} = ANY(")).push_bind(names).push(")");
            }
        }
        for (member, value) in [("decision", &self.decision), ("effect", &self.effect), ("execution", &self.execution)]
        {
            if let Some(value) = value {
                query.push(format_args!(" AND a.body::jsonb ->> '{member}' = ")).push_bind(value);
            }
        }
        push_span(query, "a.at", self.span);
    }
}

const COLUMNS: &str =
    "SELECT a.seq, a.id, a.at, a.kind, a.agent, a.session, a.run, a.call_id, a.tool, a.body, a.payload_mac,
    a.stamp, p.salt, p.body AS payload FROM audit a LEFT JOIN audit_payload p ON p.seq = a.seq WHERE true";

/// Query for the rows of a run that are about calls. Outcomes come without their payloads.
pub(super) const COLUMNS_OF_RUN: &str =
    "/* runs.rows */ SELECT a.seq, a.id, a.at, a.kind, a.agent, a.session, a.run, a.call_id, a.tool, a.body, a.payload_mac,
    a.stamp, p.salt, p.body AS payload FROM audit a LEFT JOIN audit_payload p ON p.seq = a.seq AND a.kind <> 'outcome'
    WHERE a.run = $1 AND a.seq > $2 AND a.kind IN ('decision', 'merged', 'outcome') ORDER BY a.seq LIMIT $3";

pub(super) fn record(row: &PgRow) -> Result<AuditRecord, StoreError> {
    let kind: String = row.try_get("kind")?;
    let kind = AuditKind::parse(&kind)
        .ok_or_else(|| StoreError::Inconsistent { table: "audit", problem: "unknown kind".into() })?;
    let salt: Option<Vec<u8>> = row.try_get("salt")?;
    let payload: Option<String> = row.try_get("payload")?;
    Ok(AuditRecord {
        row: AuditRow {
            seq: row.try_get("seq")?,
            id: row.try_get("id")?,
            at: row.try_get::<jiff_sqlx::Timestamp, _>("at")?.to_jiff(),
            kind,
            agent: row.try_get("agent")?,
            session: row.try_get("session")?,
            run: row.try_get("run")?,
            call_id: row.try_get("call_id")?,
            tool: row.try_get("tool")?,
            body: row.try_get("body")?,
            payload_mac: row.try_get("payload_mac")?,
            signature: row.try_get("stamp")?,
        },
        payload: salt.zip(payload).map(|(salt, body)| AuditPayload { salt, body }),
    })
}

impl AuditStore<'_> {
    /// Returns the rows after number `after`, in order, at most `limit`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list(self, filter: &AuditFilter, after: i64, limit: i64) -> Result<Vec<AuditRecord>, StoreError> {
        let mut query = QueryBuilder::<Postgres>::new("/* audit.page */ ");
        query.push(COLUMNS).push(" AND a.seq > ").push_bind(after);
        filter.push(&mut query);
        query.push(" ORDER BY a.seq LIMIT ").push_bind(limit);
        query.build().fetch_all(&self.0.read).await?.iter().map(record).collect()
    }

    /// Returns the newest rows, newest first, at most `limit`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn newest(self, filter: &AuditFilter, limit: i64) -> Result<Vec<AuditRecord>, StoreError> {
        let mut query = QueryBuilder::<Postgres>::new("/* audit.newest */ ");
        query.push(COLUMNS);
        filter.push(&mut query);
        query.push(" ORDER BY a.seq DESC LIMIT ").push_bind(limit);
        query.build().fetch_all(&self.0.read).await?.iter().map(record).collect()
    }

    /// Returns the distinct pairs of agent and tool in the rows after number `after`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn names(
        self,
        filter: &AuditFilter,
        after: i64,
    ) -> Result<Vec<(Option<String>, Option<String>)>, StoreError> {
        let mut query = QueryBuilder::<Postgres>::new(
            "/* audit.names */ SELECT DISTINCT a.agent, a.tool FROM audit a WHERE a.seq > ",
        );
        query.push_bind(after);
        filter.push(&mut query);
        Ok(query.build_query_as().fetch_all(&self.0.read).await?)
    }

    /// Returns the blocks after number `after`, in order, at most `limit`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn seals(self, after: i64, limit: i64) -> Result<Vec<AuditSeal>, StoreError> {
        let rows: Vec<(i64, i64, i64, Vec<u8>)> = sqlx::query_as(
            "/* audit.seals */ SELECT block, first, last, hash FROM audit_seal WHERE block > $1 ORDER BY block LIMIT $2",
        )
        .bind(after)
        .bind(limit)
        .fetch_all(&self.0.read)
        .await?;
        Ok(rows.into_iter().map(seal).collect())
    }

    /// Returns the newest block.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn newest_seal(self) -> Result<Option<AuditSeal>, StoreError> {
        let row: Option<(i64, i64, i64, Vec<u8>)> = sqlx::query_as(
            "/* audit.seal */ SELECT block, first, last, hash FROM audit_seal ORDER BY block DESC LIMIT 1",
        )
        .fetch_optional(&self.0.work)
        .await?;
        Ok(row.map(seal))
    }

    /// Begins to seal up to `most` rows; returns `None` while another process seals, or if no row is unsealed.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn begin_sealing(self, most: i64) -> Result<Option<Sealing>, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        let held: Option<i64> =
            sqlx::query_scalar("/* audit.hold */ SELECT seq FROM follower WHERE name = 'seal' FOR UPDATE SKIP LOCKED")
                .fetch_optional(&mut *tx)
                .await?;
        if held.is_none() {
            tx.rollback().await?;
            return Ok(None);
        }
        let last: Option<(i64, i64, i64, Vec<u8>)> =
            sqlx::query_as("SELECT block, first, last, hash FROM audit_seal ORDER BY block DESC LIMIT 1")
                .fetch_optional(&mut *tx)
                .await?;
        let last = last.map(seal);
        let mut query = QueryBuilder::<Postgres>::new("/* audit.unsealed */ ");
        query.push(COLUMNS).push(" AND a.seq > ").push_bind(last.as_ref().map_or(0, |seal| seal.last));
        // Rows beyond the last number that was drawn are not ours.
        query.push(" AND a.seq <= (SELECT last FROM feed WHERE name = 'audit') ORDER BY a.seq LIMIT ").push_bind(most);
        let rows: Result<Vec<AuditRecord>, StoreError> =
            query.build().fetch_all(&mut *tx).await?.iter().map(record).collect();
        let rows: Vec<AuditRow> = rows?.into_iter().map(|record| record.row).collect();
        if rows.is_empty() {
            tx.rollback().await?;
            return Ok(None);
        }
        Ok(Some(Sealing { tx, last, rows }))
    }

    /// Counts the payloads that [`AuditStore::erase_audit`] would erase.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn count_audit(self, whose: &ErasureScope) -> Result<u64, StoreError> {
        let ErasureScope::Agent(agent) = whose else { return Ok(0) };
        let count: i64 = sqlx::query_scalar(
            "/* audit.count */ SELECT count(*) FROM audit_payload p JOIN audit a USING (seq) WHERE a.agent = $1",
        )
        .bind(agent)
        .fetch_one(&self.0.work)
        .await?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// Erases up to `most` payloads of an agent's rows, with the stored answers to its calls and the state of its runs.
    /// `said` makes the audit row about it, from the numbers and keyed hashes of the erased payloads. Returns how many
    /// were erased.
    ///
    /// # Errors
    /// The database does not answer, or is busy: try again, erased payloads stay erased.
    pub async fn erase_audit(
        self,
        agent: &str,
        most: i64,
        said: impl FnOnce(&[(i64, Vec<u8>)]) -> Result<NewAudit, StoreError>,
    ) -> Result<u64, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        let mut gone: Vec<(i64, Vec<u8>)> = sqlx::query_as(
            "/* audit.erase */ DELETE FROM audit_payload p USING (
                 SELECT seq, payload_mac FROM audit_payload JOIN audit a USING (seq) WHERE a.agent = $1
                 ORDER BY seq LIMIT $2) a
             WHERE p.seq = a.seq RETURNING p.seq, coalesce(a.payload_mac, '')",
        )
        .bind(agent)
        .bind(most)
        .fetch_all(&mut *tx)
        .await?;
        for sql in [
            "/* audit.erase_answers */ UPDATE call SET answer = NULL WHERE agent = $1 AND answer IS NOT NULL",
            "/* audit.erase_runs */ UPDATE boundary_run SET state = NULL WHERE agent = $1 AND state IS NOT NULL",
        ] {
            sqlx::query(sql).bind(agent).execute(&mut *tx).await?;
        }
        if !gone.is_empty() {
            gone.sort_unstable();
            self.append_row(&mut tx, &said(&gone)?).await?;
        }
        tx.commit().await?;
        Ok(gone.len() as u64)
    }

    /// Appends a row and returns its number. Called last before the commit.
    pub(super) async fn append_row(self, tx: &mut Connection, row: &NewAudit) -> Result<i64, StoreError> {
        let seq: i64 = sqlx::query_scalar(
            "/* audit.append */
             WITH f AS (UPDATE feed SET last = last + 1 WHERE name = 'audit' RETURNING last)
             INSERT INTO audit (seq, id, at, kind, agent, session, run, call_id, tool, body, payload_mac, stamp)
             SELECT f.last, $1, clock(), $2, $3, $4, $5, $6, $7, $8, $9, $10 FROM f RETURNING seq",
        )
        .bind(row.id)
        .bind(row.kind.as_str())
        .bind(&row.agent)
        .bind(&row.session)
        .bind(&row.run)
        .bind(&row.call_id)
        .bind(&row.tool)
        .bind(&row.body)
        .bind(row.payload.as_ref().map(|payload| &*payload.mac))
        .bind(self.0.stamper.stamp(std::slice::from_ref(row)))
        .fetch_one(&mut *tx)
        .await?;
        if let Some(payload) = &row.payload {
            sqlx::query("INSERT INTO audit_payload (seq, salt, body) VALUES ($1, $2, $3)")
                .bind(seq)
                .bind(&*payload.salt)
                .bind(&payload.body)
                .execute(tx)
                .await?;
        }
        Ok(seq)
    }
}

impl Sealing {
    /// Stores a block and commits.
    ///
    /// # Errors
    /// The database does not answer: it may be stored all the same.
    pub async fn seal(mut self, block: &AuditSeal) -> Result<(), StoreError> {
        sqlx::query("/* audit.sealed */ INSERT INTO audit_seal (block, first, last, hash) VALUES ($1, $2, $3, $4)")
            .bind(block.block)
            .bind(block.first)
            .bind(block.last)
            .bind(&block.hash)
            .execute(&mut *self.tx)
            .await?;
        Ok(self.tx.commit().await?)
    }
}

fn seal((block, first, last, hash): (i64, i64, i64, Vec<u8>)) -> AuditSeal {
    AuditSeal { block, first, last, hash }
}
