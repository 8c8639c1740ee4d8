//! Tests if a starting server accepts connections, and makes role and database on a new one.
//!
//! In: connection options. Out: an answer, or the role `umbra` (no superuser) owning the database `umbra`.
//! Never: a connection as superuser outside [`make_database`], or a statement that touches the service's tables.

use std::{io, time::Duration};

use sqlx::{ConnectOptions, Connection, PgConnection, postgres::PgConnectOptions};

use super::PrivateError;

/// Longest wait for an answer. A local socket answers in milliseconds; a recovering server refuses at once.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Answer of a server to a connection as the service's own role.
#[derive(Debug)]
pub(super) enum ConnectionAnswer {
    /// The server accepts the connection.
    Ready,
    /// The server is new: it has no such role or database.
    Empty,
    /// The socket may not be opened by this user.
    Forbidden,
    /// The server does not accept connections yet, for this reason.
    NotYet(String),
}

/// Tries to connect, once.
pub(super) async fn ask(options: &PgConnectOptions) -> ConnectionAnswer {
    let error = match tokio::time::timeout(ANSWER_LIMIT, options.connect()).await {
        Err(_) => return ConnectionAnswer::NotYet(format!("no answer within {} s", ANSWER_LIMIT.as_secs())),
        Ok(Ok(connection)) => {
            close(connection).await;
            return ConnectionAnswer::Ready;
        }
        Ok(Err(error)) => error,
    };
    match &error {
        sqlx::Error::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => ConnectionAnswer::Forbidden,
        // invalid_authorization_specification (no such role), invalid_catalog_name (no such database)
        _ => match error.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref() {
            Some("28000" | "3D000") => ConnectionAnswer::Empty,
            _ => ConnectionAnswer::NotYet(error.to_string()),
        },
    }
}

/// Makes role and database if they are missing; after a crash between the two, the next start completes them.
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
