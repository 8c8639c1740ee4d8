//! Sessions with document files in a workspace, and deleted sessions that had some.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use uuid::Uuid;

use super::{
    StoreError,
    aggregates::SessionStore,
    sessions::LockedSession,
    sql::{self, record},
};
use umbra_domain::{SessionId, SessionState};

/// A session whose documents are files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiledSession {
    /// Session id.
    pub id: SessionId,
    /// Folder in a workspace.
    pub files: String,
    /// True if the session is open, so its documents take changes.
    pub is_open: bool,
    /// Documents: name, format and version.
    pub documents: Vec<(String, String, i32)>,
}

/// A deleted session with files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoneSession {
    /// Session id.
    pub id: SessionId,
    /// Folder in a workspace.
    pub files: String,
    /// When the session was deleted.
    pub at: Timestamp,
}

record!(GoneSession: id, files, at);

impl SessionStore<'_> {
    /// Returns sessions with files after an id, in order, at most `limit`: open ones, and those closed within
    /// `ended_within` seconds.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn filed_sessions(
        self,
        ended_within: f64,
        after: Option<SessionId>,
        limit: i64,
    ) -> Result<Vec<FiledSession>, StoreError> {
        type Row = (SessionId, String, String, Option<String>, Option<String>, Option<i32>);
        let rows: Vec<Row> = sql::all(
            &self.0.read,
            "/* files.sessions */ SELECT s.id, s.files, s.state, d.name, d.format, d.version FROM
                 (SELECT id, files, state FROM sidecar_session
                  WHERE files IS NOT NULL AND id > $2
                    AND (state = 'open' OR (state = 'closed' AND seen_at > clock() - make_interval(secs => $1)))
                  ORDER BY id LIMIT $3) s
             LEFT JOIN sidecar_document d ON d.session = s.id ORDER BY s.id, d.name",
            (ended_within, after.map_or(Uuid::nil(), |id| id.0), limit),
        )
        .await?;
        let mut sessions: BTreeMap<SessionId, FiledSession> = BTreeMap::new();
        for (id, files, state, name, format, version) in rows {
            let is_open = state == SessionState::Open.as_str();
            let session = sessions.entry(id).or_insert(FiledSession { id, files, is_open, documents: Vec::new() });
            if let (Some(name), Some(format), Some(version)) = (name, format, version) {
                session.documents.push((name, format, version));
            }
        }
        Ok(sessions.into_values().collect())
    }

    /// Returns deleted sessions after a time and an id, in order of both, at most `limit`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn gone_sessions(
        self,
        from: (Timestamp, Option<SessionId>),
        limit: i64,
    ) -> Result<Vec<GoneSession>, StoreError> {
        sql::all(
            &self.0.read,
            "/* files.gone */ SELECT session AS id, files, at FROM sidecar_gone WHERE (at, session) > ($1, $2)
             ORDER BY at, session LIMIT $3",
            (from.0.to_sqlx(), from.1.map_or(Uuid::nil(), |id| id.0), limit),
        )
        .await
    }
}

impl LockedSession {
    /// Returns the last version of a document with this etag; `None` if there is none.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn version_of(&mut self, name: &str, etag: &str) -> Result<Option<i32>, StoreError> {
        let session = self.session.id;
        sql::one(
            self.connection(),
            "/* documents.when */ SELECT max(version) FROM sidecar_change
             WHERE session = $1 AND name = $2 AND after = $3",
            (session.0, name, etag),
        )
        .await
    }
}
