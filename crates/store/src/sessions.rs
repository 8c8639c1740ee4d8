//! Sessions of the sidecar, their steps and their tools. A step locks its session's row, so concurrent steps run one
//! after the other, in whichever processes.

use jiff::Timestamp;
use sqlx::{Postgres, QueryBuilder};
use tokio::sync::OwnedMutexGuard;

use super::{
    StoreError,
    aggregates::SessionStore,
    documents::{NewDocument, StoredDocument, documents_of, insert_document},
    numbers::number_rows,
    paging::{Page, Seek, equals},
    pool::Connection,
    sql::{self, record},
    transaction::{Tx, begin},
};
use umbra_domain::{Session, SessionId, SessionState, StepKind, session::step_digest};

/// A set of tools, stored under the hash of its content.
#[derive(Debug, Clone, Copy)]
pub struct NewTools<'t> {
    /// Hash of the set.
    pub digest: &'t str,
    /// The tools, as JSON.
    pub body: &'t str,
}

/// A session locked for its next step, until this is written or dropped.
pub struct LockedSession {
    tx: Tx,
    /// In-process lock of the session.
    _turn: OwnedMutexGuard<()>,
    number: i32,
    /// Current state of the session.
    pub session: Session,
    /// Documents of the session, by name.
    pub documents: Vec<StoredDocument>,
    /// The database's time.
    pub now: Timestamp,
}

/// Filter and page of a list of sessions.
#[derive(Debug, Clone)]
pub struct SessionFilter {
    /// Of this agent; `None` for all.
    pub agent: Option<String>,
    /// In this state; `None` for all.
    pub state: Option<SessionState>,
    /// Page of the list.
    pub seek: Seek,
}

/// A stored step.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredStep {
    /// Number in the session, from 1.
    pub number: i32,
    /// Kind of the step.
    pub kind: StepKind,
    /// When the step was stored.
    pub at: Timestamp,
    /// Request and answer, as JSON.
    pub body: String,
    /// Chain hash over this step and all before it; `None` in steps from before these hashes.
    pub chain: Option<String>,
}

record!(StoredStep: number, kind, at, body, chain);

/// Result of opening a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenSessionOutcome {
    /// The session was opened.
    Opened,
    /// The agent has as many open sessions as it may have.
    TooMany,
}

impl SessionStore<'_> {
    /// Opens a session with its tools and documents, if its agent has fewer than `most` open ones.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn open(
        self,
        session: &Session,
        tools: Option<NewTools<'_>>,
        documents: &[NewDocument],
        most: u32,
    ) -> Result<OpenSessionOutcome, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        // Sessions of one agent are opened one after the other, so the count below is right.
        sql::execute(
            &mut *tx,
            "/* sessions.alone */ SELECT pg_advisory_xact_lock(7820, hashtext(current_schema() || $1))",
            (&session.agent,),
        )
        .await?;
        let open: i64 = sql::one(
            &mut *tx,
            "/* sessions.count */ SELECT count(*) FROM sidecar_session WHERE agent = $1 AND state = 'open'",
            (&session.agent,),
        )
        .await?;
        if open >= i64::from(most) {
            tx.rollback().await?;
            return Ok(OpenSessionOutcome::TooMany);
        }
        if let Some(tools) = tools {
            sql::execute(
                &mut *tx,
                "/* sessions.tools */ INSERT INTO sidecar_tools (digest, body) VALUES ($1, $2)
                 ON CONFLICT (digest) DO UPDATE SET seen_at = clock()",
                (tools.digest, tools.body),
            )
            .await?;
        }
        sql::execute(
            &mut *tx,
            "/* sessions.open */ INSERT INTO sidecar_session (id, agent, task_id, state, body, files)
             VALUES ($1, $2, $3, $4, $5, $6)",
            (session.id.0, &session.agent, &session.task_id, session.state.as_str(), written(session)?, &session.files),
        )
        .await?;
        for document in documents {
            insert_document(&mut tx, session.id, document).await?;
        }
        sql::execute(&mut *tx, number_rows!("sessions.number", "sidecar_session", "session"), ()).await?;
        tx.commit().await?;
        Ok(OpenSessionOutcome::Opened)
    }

    /// Returns a session with its documents; `None` if there is none.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn get(self, id: SessionId) -> Result<Option<(Session, Vec<StoredDocument>)>, StoreError> {
        let mut connection = self.0.read.acquire().await?;
        let one = "/* sessions.one */ SELECT body, seen_at FROM sidecar_session WHERE id = $1";
        let Some(row) = sql::optional(&mut connection, one, (id.0,)).await? else { return Ok(None) };
        Ok(Some((session_of(row)?, documents_of(&mut connection, id).await?)))
    }

    /// Locks a session for its next step; returns `None` if there is none.
    ///
    /// # Errors
    /// The database does not answer, or another step takes too long.
    pub async fn step(self, id: SessionId) -> Result<Option<LockedSession>, StoreError> {
        let turn = self.0.turns.take(id.0).await;
        let mut tx = begin(&self.0.work).await?;
        let lock =
            "/* sessions.lock */ SELECT body, seen_at, clock() AS now FROM sidecar_session WHERE id = $1 FOR UPDATE";
        let found: Option<(String, Timestamp, Timestamp)> = sql::optional(&mut *tx, lock, (id.0,)).await?;
        let Some((body, seen_at, now)) = found else { return Ok(None) };
        let session = session_of((body, seen_at))?;
        let number = sql::one(
            &mut *tx,
            "/* sessions.next */ SELECT coalesce(max(number), 0) + 1 FROM sidecar_step WHERE session = $1",
            (id.0,),
        )
        .await?;
        let documents = documents_of(&mut tx, id).await?;
        Ok(Some(LockedSession { tx, _turn: turn, number, session, documents, now }))
    }

    /// Returns a set of tools, as JSON.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn session_tools(self, digest: &str) -> Result<Option<String>, StoreError> {
        sql::optional(&self.0.read, "/* sessions.set */ SELECT body FROM sidecar_tools WHERE digest = $1", (digest,))
            .await
    }

    /// Returns the steps of a session after number `after`, in order, at most `limit`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn session_steps(self, id: SessionId, after: i32, limit: i64) -> Result<Vec<StoredStep>, StoreError> {
        sql::all(
            &self.0.read,
            "/* sessions.steps */ SELECT number, kind, at, body, chain FROM sidecar_step
             WHERE session = $1 AND number > $2 ORDER BY number LIMIT $3",
            (id.0, after, limit),
        )
        .await
    }

    /// Returns a page of sessions in their current state, in the order in which they were opened.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list(self, filter: &SessionFilter) -> Result<Page<Session>, StoreError> {
        let mut query = QueryBuilder::<Postgres>::new(
            "/* sessions.list */ SELECT seq, body, seen_at FROM sidecar_session WHERE seq IS NOT NULL",
        );
        equals(&mut query, "agent", filter.agent.as_deref());
        equals(&mut query, "state", filter.state.map(SessionState::as_str));
        filter.seek.push(&mut query, "seq");
        let rows: Vec<(i64, String, Timestamp)> = sql::built(&self.0.read, &mut query).await?;
        let listed = rows.into_iter().map(|(seq, body, seen_at)| Ok((seq, session_of((body, seen_at))?)));
        Ok(filter.seek.page(listed.collect::<Result<_, StoreError>>()?))
    }

    /// Returns the latest sessions, of one agent or of all.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn recent_sessions(self, agent: Option<&str>, most: u32) -> Result<Vec<SessionId>, StoreError> {
        sql::all(
            &self.0.read,
            "/* sessions.recent */ SELECT id FROM sidecar_session WHERE $1::text IS NULL OR agent = $1
             ORDER BY id DESC LIMIT $2",
            (agent, i64::from(most)),
        )
        .await
    }

    /// Returns the number of a session's last step; 0 before the first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn last_step(self, id: SessionId) -> Result<i32, StoreError> {
        sql::one(
            &self.0.read,
            "/* sessions.last */ SELECT coalesce(max(number), 0) FROM sidecar_step WHERE session = $1",
            (id.0,),
        )
        .await
    }

    /// Returns open sessions that were not used for `seconds`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn idle_sessions(self, seconds: f64, limit: i64) -> Result<Vec<SessionId>, StoreError> {
        sql::all(
            &self.0.control,
            "/* sessions.idle */ SELECT id FROM sidecar_session
             WHERE state = 'open' AND seen_at < clock() - make_interval(secs => $1) ORDER BY seen_at LIMIT $2",
            (seconds, limit),
        )
        .await
    }
}

impl LockedSession {
    /// Returns the number of this step.
    pub fn number(&self) -> i32 {
        self.number
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.tx
    }

    /// Returns request and answer of the last turn, as JSON.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn last_turn(&mut self) -> Result<Option<String>, StoreError> {
        sql::optional(
            &mut *self.tx,
            "/* sessions.last_turn */ SELECT body FROM sidecar_step WHERE session = $1 AND kind = 'turn'
             ORDER BY number DESC LIMIT 1",
            (self.session.id.0,),
        )
        .await
    }

    /// Stores the step and the changed session, and commits. For a turn, also records the documents' current texts as
    /// those of the turn. Returns the stored session.
    ///
    /// # Errors
    /// The database does not answer: the step may be stored all the same.
    pub async fn write(mut self, kind: StepKind, body: &str) -> Result<Session, StoreError> {
        let chain = step_digest(self.session.chain.as_deref(), self.number, kind, body);
        sql::execute(
            &mut *self.tx,
            "/* sessions.step */
             INSERT INTO sidecar_step (session, number, kind, body, chain) VALUES ($1, $2, $3, $4, $5)",
            (self.session.id.0, self.number, kind.as_str(), body, &chain),
        )
        .await?;
        self.session.chain = Some(chain);
        if kind == StepKind::Turn {
            sql::execute(
                &mut *self.tx,
                "/* sessions.turn */ UPDATE sidecar_document SET at_turn = text WHERE session = $1 AND at_turn <> text",
                (self.session.id.0,),
            )
            .await?;
        }
        let session = self.session.clone();
        self.keep().await?;
        Ok(session)
    }

    /// Stores the changed session and its documents' changes without a step, and commits.
    ///
    /// # Errors
    /// The database does not answer: the changes may be stored all the same.
    pub async fn keep(mut self) -> Result<(), StoreError> {
        self.session.seen_at = self.now;
        sql::execute(
            &mut *self.tx,
            "/* sessions.keep */ UPDATE sidecar_session SET state = $2, body = $3, seen_at = clock() WHERE id = $1",
            (self.session.id.0, self.session.state.as_str(), written(&self.session)?),
        )
        .await?;
        Ok(self.tx.commit().await?)
    }

    /// True if the session is open, so it takes steps.
    pub fn is_open(&self) -> bool {
        self.session.state == SessionState::Open
    }
}

fn written(session: &Session) -> Result<String, StoreError> {
    serde_json::to_string(session).map_err(|error| inconsistent(&error))
}

fn session_of((body, seen_at): (String, Timestamp)) -> Result<Session, StoreError> {
    let session: Session = serde_json::from_str(&body).map_err(|error| inconsistent(&error))?;
    Ok(Session { seen_at, ..session })
}

fn inconsistent(error: &serde_json::Error) -> StoreError {
    // Only the error's class is kept: its text may repeat an agent's text.
    StoreError::Inconsistent { table: "sidecar_session", problem: format!("no session: {:?}", error.classify()) }
}
