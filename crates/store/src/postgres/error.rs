//! Errors of the private Postgres, each with what to do about it.
//!
//! In: causes met by the other files of this folder. Out: one enum, whose messages are printed as they are.
//! Never: anything that agents wrote; the server's own output is quoted only from initdb and from a failed start.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nix::unistd::{Uid, User};

/// A reason why there is no private Postgres.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivateError {
    /// A file operation failed.
    #[error("cannot {action} {}: {cause}", path.display())]
    Io {
        /// The verb of the message: `create`, `read`, ...
        action: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// The system's answer; a part of the message, so not a separate source.
        cause: io::Error,
    },
    /// Postgres refuses to run as root, and there is no other user to run it.
    #[error(
        "PostgreSQL does not run as root, and none of the users umbra, postgres and nobody exists: create a user \
         (useradd --system umbra), or run umbra as an ordinary user"
    )]
    NoUser,
    /// The data belongs to another user.
    #[error(
        "{} belongs to the user {owner}: run umbra as that user (or as root, for an ordinary user's data), \
         or choose another --data-dir", path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Name or number of the owner.
        owner: String,
    },
    /// The user that Postgres runs as cannot get to the data directory.
    #[error(
        "PostgreSQL runs as the user {user}, who may not enter {}: run `chmod o+x {}`, or choose another --data-dir",
        dir.display(), dir.display()
    )]
    NotReachable {
        /// User that runs the server for root.
        user: String,
        /// The first directory on the way that is closed to that user.
        dir: PathBuf,
    },
    /// `UMBRA_PG_BIN` names a directory without usable binaries.
    #[error("UMBRA_PG_BIN={} cannot be used: {why}", dir.display())]
    BadBinaries {
        /// The directory named.
        dir: PathBuf,
        /// The fault.
        why: String,
    },
    /// No Postgres on this machine, and none was fetched.
    #[error(
        "no usable PostgreSQL ({why}). Install version 15 or newer, or set UMBRA_PG_BIN or DATABASE_URL:\n\
         \x20 Debian, Ubuntu:  apt-get install postgresql\n\
         \x20 Fedora, RHEL:    dnf install postgresql-server\n\
         \x20 Alpine:          apk add postgresql\n\
         \x20 Arch:            pacman -S postgresql\n\
         \x20 macOS:           brew install postgresql@18\n\
         \x20 with Python:     python3 and its pip are enough, where downloads are allowed"
    )]
    NoBinaries {
        /// The attempts and their results.
        why: String,
    },
    /// The data was written by another major version.
    #[error(
        "{path} holds data of PostgreSQL {major}, but {found}; data of another major version is never opened.\n\
         Where {major} is 15 or newer: install it, or set UMBRA_PG_BIN to its bin directory. Or move the data:\n\
         \x20 1. as the owner of {path}, with the old binaries:\n\
         \x20      pg_ctl -D {path} -o '-k {path}' -w start\n\
         \x20      pg_dump -h {path} -U postgres -Fc -f umbra.dump umbra\n\
         \x20      pg_ctl -D {path} -w stop\n\
         \x20 2. rename {path} to {path}.old and start umbra, which makes a new one beside it\n\
         \x20 3. pg_restore -h <the new one> -U postgres --clean --if-exists -d umbra umbra.dump\n\
         or run pg_upgrade from {path} into a new directory pg<major> beside it",
        path = cluster.display()
    )]
    OtherMajor {
        /// The data's directory.
        cluster: PathBuf,
        /// The major version that wrote the data.
        major: u32,
        /// Versions found instead.
        found: String,
    },
    /// A program of Postgres or Python failed.
    #[error("{what} failed: {output}")]
    Program {
        /// The program and its purpose.
        what: String,
        /// The end of its output, or the signal or limit that ended it.
        output: String,
    },
    /// The server did not come up.
    #[error("PostgreSQL did not start ({why}); its log is in {}. {tail}", log.display())]
    Start {
        /// The end of the last server, or the last failure to connect.
        why: String,
        /// The folder of the server's log.
        log: PathBuf,
        /// The last lines written before the log was opened.
        tail: String,
    },
    /// A server without an umbra uses the data.
    #[error("a PostgreSQL (pid {pid}) uses {} and does not stop: stop it with `kill -INT {pid}`", cluster.display())]
    StillRunning {
        /// The cluster's directory.
        cluster: PathBuf,
        /// Process id of the postmaster.
        pid: i32,
    },
    /// Another umbra holds the data directory and its server does not answer.
    #[error(
        "another umbra uses {}, but its PostgreSQL did not answer for {seconds} s ({why}); a first start may take that \
         long: try again, or stop that umbra",
        data_dir.display()
    )]
    Busy {
        /// The data directory.
        data_dir: PathBuf,
        /// Time waited, in seconds.
        seconds: u64,
        /// The last obstacle.
        why: String,
    },
    /// Every name for a short socket directory is taken by another user.
    #[error("no socket directory can be made in {}: other users own the names umbra-* there", dir.display())]
    NoSocketDirectory {
        /// Parent directory of the names that were tried.
        dir: PathBuf,
    },
    /// Role or database could not be made.
    #[error("cannot make the role and the database `umbra`: {0}")]
    Bootstrap(sqlx::Error),
    /// The thread that watches the server is gone.
    #[error("the thread that supervises PostgreSQL ended too early; this is a defect of umbra")]
    Supervisor,
    /// The server has not ended in time.
    #[error("PostgreSQL did not stop in time")]
    Unstopped,
}

impl PrivateError {
    /// Wraps an error of a file operation: `.map_err(PrivateError::io("create", &path))`.
    pub(super) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |cause| Self::Io { action, path, cause }
    }

    /// Makes the error of a directory of another user.
    pub(super) fn foreign(path: &Path) -> Self {
        let owner = fs::metadata(path).map_or_else(|_| String::from("another user"), |meta| user_name(meta.uid()));
        Self::Foreign { path: path.into(), owner }
    }
}

/// Returns a user's name, or the number if there is none.
fn user_name(uid: u32) -> String {
    User::from_uid(Uid::from_raw(uid)).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}
