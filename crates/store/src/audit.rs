//! The audit in the database: appends rows, reads pages, seals blocks, erases payloads.

use sqlx::{Postgres, QueryBuilder};

use super::{
    StoreError,
    aggregates::AuditStore,
    decisions::NewAudit,
    erasure::ErasureScope,
    follow::hold,
    paging::{Span, equals, push_span},
    pool::Connection,
    sql::{self, column, record},
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

record! {
    AuditRow, row: seq, id, at, kind, agent, session, run, call_id, tool, body, payload_mac;
    signature: column(row, "stamp")?,
}

record! {
    AuditRecord, row: ;
    row: AuditRow::read(row)?,
    payload: column::<Option<_>>(row, "salt")?
        .zip(column::<Option<_>>(row, "payload")?)
        .map(|(salt, body)| AuditPayload { salt, body }),
}

record!(AuditSeal: block, first, last, hash);

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
        sql::built(&self.0.read, &mut query).await
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
        sql::built(&self.0.read, &mut query).await
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
        sql::built(&self.0.read, &mut query).await
    }

    /// Returns the blocks after number `after`, in order, at most `limit`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn seals(self, after: i64, limit: i64) -> Result<Vec<AuditSeal>, StoreError> {
        sql::all(
            &self.0.read,
            "/* audit.seals */
             SELECT block, first, last, hash FROM audit_seal WHERE block > $1 ORDER BY block LIMIT $2",
            (after, limit),
        )
        .await
    }

    /// Returns the newest block.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn newest_seal(self) -> Result<Option<AuditSeal>, StoreError> {
        sql::optional(
            &self.0.work,
            "/* audit.seal */ SELECT block, first, last, hash FROM audit_seal ORDER BY block DESC LIMIT 1",
            (),
        )
        .await
    }

    /// Begins to seal up to `most` rows; returns `None` while another process seals, or if no row is unsealed.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn begin_sealing(self, most: i64) -> Result<Option<Sealing>, StoreError> {
        let Some((mut tx, _)) = hold(begin(&self.0.work).await?, "seal").await? else { return Ok(None) };
        let last: Option<AuditSeal> =
            sql::optional(&mut *tx, "SELECT block, first, last, hash FROM audit_seal ORDER BY block DESC LIMIT 1", ())
                .await?;
        let mut query = QueryBuilder::<Postgres>::new("/* audit.unsealed */ ");
        query.push(COLUMNS).push(" AND a.seq > ").push_bind(last.as_ref().map_or(0, |seal| seal.last));
        // Rows beyond the last number that was drawn are not ours.
        query.push(" AND a.seq <= (SELECT last FROM feed WHERE name = 'audit') ORDER BY a.seq LIMIT ").push_bind(most);
        let rows: Vec<AuditRow> = sql::built(&mut *tx, &mut query).await?;
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
        let count: i64 = sql::one(
            &self.0.work,
            "/* audit.count */ SELECT count(*) FROM audit_payload p JOIN audit a USING (seq) WHERE a.agent = $1",
            (agent,),
        )
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
        let mut gone: Vec<(i64, Vec<u8>)> = sql::all(
            &mut *tx,
            "/* audit.erase */ DELETE FROM audit_payload p USING (
                 SELECT seq, payload_mac FROM audit_payload JOIN audit a USING (seq) WHERE a.agent = $1
                 ORDER BY seq LIMIT $2) a
             WHERE p.seq = a.seq RETURNING p.seq, coalesce(a.payload_mac, '')",
            (agent, most),
        )
        .await?;
        for sql in [
            "/* audit.erase_answers */ UPDATE call SET answer = NULL WHERE agent = $1 AND answer IS NOT NULL",
            "/* audit.erase_runs */ UPDATE boundary_run SET state = NULL WHERE agent = $1 AND state IS NOT NULL",
        ] {
            sql::execute(&mut *tx, sql, (agent,)).await?;
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
        let seq: i64 = sql::one(
            &mut *tx,
            "/* audit.append */
             WITH f AS (UPDATE feed SET last = last + 1 WHERE name = 'audit' RETURNING last)
             INSERT INTO audit (seq, id, at, kind, agent, session, run, call_id, tool, body, payload_mac, stamp)
             SELECT f.last, $1, clock(), $2, $3, $4, $5, $6, $7, $8, $9, $10 FROM f RETURNING seq",
            (
                row.id,
                row.kind.as_str(),
                &row.agent,
                &row.session,
                &row.run,
                &row.call_id,
                &row.tool,
                &row.body,
                row.payload.as_ref().map(|payload| &*payload.mac),
                self.0.stamper.stamp(std::slice::from_ref(row)),
            ),
        )
        .await?;
        if let Some(payload) = &row.payload {
            sql::execute(
                tx,
                "INSERT INTO audit_payload (seq, salt, body) VALUES ($1, $2, $3)",
                (seq, &*payload.salt, &payload.body),
            )
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
        sql::execute(
            &mut *self.tx,
            "/* audit.sealed */ INSERT INTO audit_seal (block, first, last, hash) VALUES ($1, $2, $3, $4)",
            (block.block, block.first, block.last, &block.hash),
        )
        .await?;
        Ok(self.tx.commit().await?)
    }
}
