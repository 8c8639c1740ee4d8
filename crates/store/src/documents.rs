//! Documents of sessions: their first text, their current text, and each version between.

use jiff::Timestamp;
use sqlx::{Postgres, QueryBuilder, Row, postgres::PgRow};

use super::{
    StoreError,
    aggregates::SessionStore,
    paging::{Page, Seek},
    pool::Connection,
    sessions::LockedSession,
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
    let rows = sqlx::query(
        "/* documents.all */ SELECT name, format, version, first, text, at_turn FROM sidecar_document
         WHERE session = $1 ORDER BY name",
    )
    .bind(session.0)
    .fetch_all(connection)
    .await?;
    rows.iter().map(document_of).collect()
}

pub(super) async fn insert_document(
    connection: &mut Connection,
    session: SessionId,
    document: &NewDocument,
) -> Result<(), StoreError> {
    sqlx::query(
        "/* documents.new */ INSERT INTO sidecar_document (session, name, format, version, first, text, at_turn)
         VALUES ($1, $2, $3, 0, $4, $5, $4)",
    )
    .bind(session.0)
    .bind(&document.name)
    .bind(document.format)
    .bind(&document.first)
    .bind(&document.text)
    .execute(connection)
    .await?;
    Ok(())
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
        let version: i32 = sqlx::query_scalar(
            "/* documents.change */ UPDATE sidecar_document SET text = $3, version = version + 1
             WHERE session = $1 AND name = $2 RETURNING version",
        )
        .bind(session.0)
        .bind(name)
        .bind(text)
        .fetch_one(self.connection())
        .await?;
        sqlx::query(
            "/* documents.history */ INSERT INTO sidecar_change (session, name, version, before, after, entry)
             VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(session.0)
        .bind(name)
        .bind(version)
        .bind(change.before)
        .bind(change.after)
        .bind(change.entry)
        .execute(self.connection())
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
        let rows = sqlx::query(
            "/* documents.until */ SELECT version, at, entry FROM sidecar_change
             WHERE session = $1 AND name = $2 AND version <= $3 ORDER BY version",
        )
        .bind(session.0)
        .bind(name)
        .bind(last)
        .fetch_all(self.connection())
        .await?;
        rows.iter().map(change_of).collect::<Result<_, _>>().map(Some)
    }
}

impl SessionStore<'_> {
    /// Returns one document; `None` if there is none.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn document(self, session: SessionId, name: &str) -> Result<Option<StoredDocument>, StoreError> {
        let row = sqlx::query(
            "/* documents.one */ SELECT name, format, version, first, text, at_turn FROM sidecar_document
             WHERE session = $1 AND name = $2",
        )
        .bind(session.0)
        .bind(name)
        .fetch_optional(&self.0.read)
        .await?;
        row.as_ref().map(document_of).transpose()
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
            "/* documents.changes */ SELECT version, at, entry FROM sidecar_change WHERE session = ",
        );
        query.push_bind(session.0).push(" AND name = ").push_bind(name);
        seek.push(&mut query, "version");
        let rows = query.build().fetch_all(&self.0.read).await?;
        let numbered = |row| change_of(row).map(|change| (i64::from(change.version), change));
        Ok(seek.page(rows.iter().map(numbered).collect::<Result<_, StoreError>>()?))
    }
}

fn document_of(row: &PgRow) -> Result<StoredDocument, StoreError> {
    Ok(StoredDocument {
        name: row.try_get("name")?,
        format: row.try_get("format")?,
        version: row.try_get("version")?,
        first: row.try_get("first")?,
        text: row.try_get("text")?,
        at_turn: row.try_get("at_turn")?,
    })
}

fn change_of(row: &PgRow) -> Result<StoredChange, StoreError> {
    let at: jiff_sqlx::Timestamp = row.try_get("at")?;
    Ok(StoredChange { version: row.try_get("version")?, at: at.to_jiff(), entry: row.try_get("entry")? })
}
