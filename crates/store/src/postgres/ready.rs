//! Asks a starting server whether it serves, and gives a new one its role and database.
//!
//! In: connection options. Out: an answer, or the role `umbra` (no superuser) owning the database `umbra`.
//! Never: a connection as superuser outside [`make_database`], or a statement that touches the service's tables.

use std::{io, time::Duration};

use sqlx::{ConnectOptions, Connection, PgConnection, postgres::PgConnectOptions};

use super::PrivateError;

/// A local socket answers in milliseconds; a server that is busy recovering refuses at once.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// What a server said to the service's own role.
#[derive(Debug)]
pub(super) enum Answer {
    /// It serves.
    Ready,
    /// It serves, but knows no such role or database: it is new.
    Empty,
    /// We may not open its socket.
    Forbidden,
    /// Not yet, with the reason.
    NotYet(String),
}

/// Connects once.
pub(super) async fn ask(options: &PgConnectOptions) -> Answer {
    let error = match tokio::time::timeout(ANSWER_LIMIT, options.connect()).await {
        Err(_) => return Answer::NotYet(format!("no answer within {} s", ANSWER_LIMIT.as_secs())),
        Ok(Ok(connection)) => {
            close(connection).await;
            return Answer::Ready;
        }
        Ok(Err(error)) => error,
    };
    match &error {
        sqlx::Error::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => Answer::Forbidden,
        // invalid_authorization_specification (no such role), invalid_catalog_name (no such database)
        _ => match error.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref() {
            Some("28000" | "3D000") => Answer::Empty,
            _ => Answer::NotYet(error.to_string()),
        },
    }
}

/// Makes what of role and database is missing; a crash between the two is repaired by the next start.
pub(super) async fn make_database(superuser: &PgConnectOptions) -> Result<(), PrivateError> {
    let mut connection = superuser.connect().await.map_err(PrivateError::Bootstrap)?;
    let steps = [
        ("SELECT 1 FROM pg_roles WHERE rolname = 'umbra'", "CREATE ROLE umbra LOGIN"),
        ("SELECT 1 FROM pg_database WHERE datname = 'umbra'", "CREATE DATABASE umbra OWNER umbra"),
    ];
    for (exists, make) in steps {
        let found = sqlx::query(exists).fetch_optional(&mut connection).await.map_err(PrivateError::Bootstrap)?;
        if found.is_none() {
            sqlx::raw_sql(make).execute(&mut connection).await.map_err(PrivateError::Bootstrap)?;
        }
    }
    close(connection).await;
    Ok(())
}

async fn close(connection: PgConnection) {
    if let Err(error) = connection.close().await {
        tracing::debug!(%error, "closing a connection");
    }
}
