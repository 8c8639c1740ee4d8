//! Errors of the database, by what the caller can do about them.

use std::io;

/// A failed database operation.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No connection was available: nothing happened. Try again.
    #[error("the database cannot be reached")]
    Unreached(#[source] sqlx::Error),
    /// The connection broke, or no answer came in time: it is unknown if a commit happened. Try again.
    #[error("the database does not answer")]
    Unavailable(#[source] sqlx::Error),
    /// A lock, a deadlock or a time limit: nothing happened. Try again.
    #[error("the database is busy ({sqlstate})")]
    Contended {
        /// The five-character SQLSTATE.
        sqlstate: String,
    },
    /// The database refuses these values: the same rows will fail again.
    #[error("the database refuses a value ({sqlstate}{})", constraint.as_deref().map(|c| format!(", {c}")).unwrap_or_default())]
    Data {
        /// The five-character SQLSTATE.
        sqlstate: String,
        /// The violated constraint, if any.
        constraint: Option<String>,
    },
    /// Umbra will not use this database; the text says why and what to do.
    #[error("{0}")]
    Refused(String),
    /// A row contradicts what the schema promises.
    #[error("table {table}: {problem}")]
    Inconsistent {
        /// The table.
        table: &'static str,
        /// Description of the fault.
        problem: String,
    },
    /// A defect of Umbra: a value has no JSON. Nothing happened.
    #[error("{what} cannot be written as JSON: this is a fault in Umbra, please report it")]
    Unserialisable {
        /// Name of the value.
        what: &'static str,
        /// The serializer's reason.
        #[source]
        error: serde_json::Error,
    },
    /// A defect of Umbra: the statement does not fit the schema.
    #[error("a statement failed")]
    Statement(#[source] sqlx::Error),
}

impl StoreError {
    /// Returns the error of a database that did not answer before the deadline.
    pub fn late() -> Self {
        Self::Unavailable(sqlx::Error::PoolTimedOut)
    }

    /// Returns the error of a statement that was not sent, since the caller's deadline had passed.
    pub fn not_tried() -> Self {
        Self::Unreached(sqlx::Error::PoolTimedOut)
    }

    /// True if nothing was sent.
    pub fn is_unreached(&self) -> bool {
        matches!(self, Self::Unreached(_))
    }

    /// True if the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreached(_) | Self::Unavailable(_) | Self::Contended { .. })
    }

    /// True if a value is at fault, such as a text that cannot be stored.
    pub fn is_value(&self) -> bool {
        matches!(self, Self::Data { sqlstate, .. } if sqlstate.starts_with("22"))
    }

    /// True if a stored row cannot be read, or a value cannot be serialized for one.
    pub fn is_inconsistent(&self) -> bool {
        matches!(self, Self::Inconsistent { .. } | Self::Unserialisable { .. })
    }

    /// True if a value or a constraint is at fault.
    pub fn is_data(&self) -> bool {
        matches!(self, Self::Data { .. })
    }
}

/// Marks an error of a statement that was not sent.
#[derive(Debug, thiserror::Error)]
#[error("nothing was sent: {0}")]
struct NotSent(#[source] sqlx::Error);

/// Returns the error of a statement that was not sent, for lack of a connection.
pub(super) fn unreached(cause: sqlx::Error) -> sqlx::Error {
    sqlx::Error::Io(io::Error::new(io::ErrorKind::NotConnected, NotSent(cause)))
}

/// True if the error says that there is no database, or that a connection to it broke.
pub(super) fn is_absence(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(database) => {
            let sqlstate = database.code().unwrap_or_default();
            // 57P0x starting up or shutting down, 25P03/25P04 session ended by a timeout, 08 connection
            matches!(&*sqlstate, "25P03" | "25P04") || sqlstate.starts_with("57P") || sqlstate.starts_with("08")
        }
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => true,
        _ => false,
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        if is_absence(&error) {
            return match error {
                sqlx::Error::Io(error) => match error.downcast() {
                    Ok(NotSent(cause)) => Self::Unreached(cause),
                    Err(error) => Self::Unavailable(error.into()),
                },
                error => Self::Unavailable(error),
            };
        }
        let sqlx::Error::Database(database) = &error else { return Self::Statement(error) };
        let sqlstate = database.code().unwrap_or_default().into_owned();
        match sqlstate.get(..2).unwrap_or_default() {
            // 22 data exception, 23 integrity constraint
            "22" | "23" => Self::Data { sqlstate, constraint: database.constraint().map(ToOwned::to_owned) },
            // 40 rollback (deadlock), 53 resources, 55P03 lock not available, 57014 statement timeout
            "40" | "53" => Self::Contended { sqlstate },
            _ if matches!(&*sqlstate, "55P03" | "57014") => Self::Contended { sqlstate },
            _ => Self::Statement(error),
        }
    }
}
