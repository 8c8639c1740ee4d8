//! Command line of the server, with reasons for each setting.
//!
//! In: binaries, user, data and socket. Out: the command that becomes the postmaster, with settings that override
//! `postgresql.conf`. Never: sizes; memory, connections and WAL stay as initdb chose them for the machine, and are
//! tuned in `postgresql.conf` as with any Postgres.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::{Command, Stdio},
};

use super::{
    PORT_TEXT, PrivateError,
    account::{Account, ChildOptions, ReachablePath},
    binaries::Binaries,
    socket::SocketPlace,
};

/// Settings that override `postgresql.conf`.
const SETTINGS: [(&str, &str); 18] = [
    // The server listens on its socket alone.
    ("listen_addresses", ""),
    ("port", PORT_TEXT),
    ("unix_socket_permissions", "0700"),
    // An acknowledged event is durable.
    ("fsync", "on"),
    ("full_page_writes", "on"),
    // Our statements are short: compiling them costs more than it saves.
    ("jit", "off"),
    // Events are text, written once; compressing full pages saves more I/O than it costs CPU.
    ("wal_compression", "on"),
    // One file a weekday, written over a week later.
    ("logging_collector", "on"),
    ("log_directory", "log"),
    ("log_filename", "postgresql-%a.log"),
    ("log_truncate_on_rotation", "on"),
    ("log_rotation_age", "1d"),
    ("log_rotation_size", "0"),
    // Agents' texts must not reach a log line. An error's text may quote a value ("invalid input syntax ..."), its
    // detail quotes rows: both go to the client alone. `log` keeps LOG, FATAL and PANIC, and drops ERROR.
    ("log_min_messages", "log"),
    ("log_error_verbosity", "terse"),
    ("log_min_error_statement", "panic"),
    ("log_parameter_max_length", "0"),
    ("log_parameter_max_length_on_error", "0"),
];

/// Makes the command that becomes the postmaster.
pub(super) fn postmaster(
    binaries: &Binaries,
    account: &Account,
    reached: ReachablePath,
    socket: &SocketPlace,
    startup_log: &Path,
) -> Result<Command, PrivateError> {
    let mut log = fs::OpenOptions::new();
    let log = log.write(true).create(true).truncate(true).mode(0o600).open(startup_log);
    let log = log.map_err(PrivateError::io("create", startup_log))?;
    let ties = ChildOptions { keep: reached.held, ends_with_us: true };
    let mut command = account.command(&binaries.dir.join("postgres"), ties);
    command.arg("-D").arg(&reached.name);
    for (name, value) in SETTINGS {
        command.arg("-c").arg(format!("{name}={value}"));
    }
    let mut directories = OsString::from("unix_socket_directories=");
    directories.push(&socket.server);
    command.arg("-c").arg(directories).stdout(Stdio::null()).stderr(log);
    Ok(command)
}
