//! Documents of sessions: their first text, their current text, and each version between.

use jiff::Timestamp;
use sqlx::{Postgres, QueryBuilder};

use super::{
    StoreError,
    aggregates::SessionStore,
    paging::{Page, Seek},
    pool::Connection,
    sessions::LockedSession,
    sql::{self, record},
};
use umbra_domain::SessionId;

/// A document that is added to a session.
#[derive(Debug, Clone)]
pub struct NewDocument {
    /// Document name.
    pub name: String,
    /// `markdown` or `yaml`.
    pub format: &'static str,
    /// Text before version 1; empty for a document that is added later.
    pub first: String,
    /// Current text.
    pub text: String,
}

/// A stored document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDocument {
    /// Document name.
    pub name: String,
    /// `markdown` or `yaml`.
    pub format: String,
    /// Number of changes.
    pub version: i32,
    /// Text before version 1.
    pub first: String,
    /// Current text.
    pub text: String,
    /// Text when the last turn began.
    pub at_turn: String,
}

record!(StoredDocument: name, format, version, first, text, at_turn);

/// One version of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredChange {
    /// Counted from 1.
    pub version: i32,
    /// When the version was stored.
    pub at: Timestamp,
    /// Description of the change, as JSON.
    pub entry: String,
}

record!(StoredChange: version, at, entry);

/// A version to store.
#[derive(Debug, Clone, Copy)]
pub struct NewChange<'c> {
    /// Etag of the text before.
    pub before: &'c str,
    /// Etag of the text after.
    pub after: &'c str,
    /// Description of the change, as JSON.
    pub entry: &'c str,
}

pub(super) async fn documents_of(
    connection: &mut Connection,
    session: SessionId,
) -> Result<Vec<StoredDocument>, StoreError> {
    sql::all(
        connection,
        "/* documents.all */ SELECT name, format, version, first, text, at_turn FROM sidecar_document
         WHERE session = $1 ORDER BY name",
        (session.0,),
    )
    .await
}

pub(super) async fn insert_document(
    connection: &mut Connection,
    session: SessionId,
    document: &NewDocument,
) -> Result<(), StoreError> {
    sql::execute(
        connection,
        "/* documents.new */ INSERT INTO sidecar_document (session, name, format, version, first, text, at_turn)
         VALUES ($1, $2, $3, 0, $4, $5, $4)",
        (session.0, &document.name, document.format, &document.first, &document.text),
    )
    .await
}

impl LockedSession {
    /// Adds a document, without a version.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn add_document(&mut self, document: &NewDocument) -> Result<(), StoreError> {
        let session = self.session.id;
        insert_document(self.connection(), session, document).await
    }

    /// Stores the next version of a document and returns its number.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn change_document(&mut self, name: &str, text: &str, change: NewChange<'_>) -> Result<i32, StoreError> {
        let session = self.session.id;
        let version: i32 = sql::one(
            self.connection(),
            "/* documents.change */ UPDATE sidecar_document SET text = $3, version = version + 1
             WHERE session = $1 AND name = $2 RETURNING version",
            (session.0, name, text),
        )
        .await?;
        sql::execute(
            self.connection(),
            "/* documents.history */ INSERT INTO sidecar_change (session, name, version, before, after, entry)
             VALUES ($1, $2, $3, $4, $5, $6)",
            (session.0, name, version, change.before, change.after, change.entry),
        )
        .await?;
        Ok(version)
    }

    /// Returns the versions of a document up to the last one with this etag, in order; `None` if no version has it.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn changes_to(&mut self, name: &str, etag: &str) -> Result<Option<Vec<StoredChange>>, StoreError> {
        let session = self.session.id;
        let Some(last) = self.version_of(name, etag).await? else { return Ok(None) };
        sql::all(
            self.connection(),
            "/* documents.until */ SELECT version, at, entry FROM sidecar_change
             WHERE session = $1 AND name = $2 AND version <= $3 ORDER BY version",
            (session.0, name, last),
        )
        .await
        .map(Some)
    }
}

impl SessionStore<'_> {
    /// Returns one document; `None` if there is none.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn document(self, session: SessionId, name: &str) -> Result<Option<StoredDocument>, StoreError> {
        sql::optional(
            &self.0.read,
            "/* documents.one */ SELECT name, format, version, first, text, at_turn FROM sidecar_document
             WHERE session = $1 AND name = $2",
            (session.0, name),
        )
        .await
    }

    /// Returns a page of the versions of a document, each under its number.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn document_changes(
        self,
        session: SessionId,
        name: &str,
        seek: Seek,
    ) -> Result<Page<StoredChange>, StoreError> {
        let mut query = QueryBuilder::<Postgres>::new(
            "/* documents.changes */ SELECT version::bigint AS seq, version, at, entry FROM sidecar_change
             WHERE session = ",
        );
        query.push_bind(session.0).push(" AND name = ").push_bind(name);
        seek.fetch(&mut query, "version", &self.0.read).await
    }
}
