//! The private Postgres: starts, is shared, ends and comes back.
//!
//! The tests use servers of their own, each in a temporary directory, and check the promises of `store::postgres`. No
//! server outlives its test, and conditions are polled by `until` instead of sleeping.
#![expect(clippy::unwrap_used, reason = "a test that meets an error fails")]

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use sqlx::{ConnectOptions, Connection, PgConnection};
use tempfile::TempDir;
use umbra_store::postgres::{PrivateError, PrivateOptions, PrivatePostgres};

/// Longest wait for a condition, far above the usual.
const DEADLINE: Duration = Duration::from_mins(1);

fn options(data_dir: &Path) -> PrivateOptions {
    PrivateOptions {
        data_dir: data_dir.into(),
        search_path: Some("/usr/local/bin:/usr/bin:/bin".into()),
        allow_download: true,
        ..PrivateOptions::default()
    }
}

async fn open(data_dir: &Path) -> PrivatePostgres {
    PrivatePostgres::open(&options(data_dir), &|_| ()).await.unwrap()
}

async fn connect(server: &PrivatePostgres) -> PgConnection {
    server.connect_options().connect().await.unwrap()
}

async fn number(connection: &mut PgConnection, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
}

async fn text(connection: &mut PgConnection, sql: &'static str) -> String {
    sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
}

async fn add_row(server: &PrivatePostgres) {
    let mut connection = connect(server).await;
    sqlx::raw_sql("CREATE TABLE IF NOT EXISTS note (n bigint); INSERT INTO note VALUES (1)")
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

async fn rows(server: &PrivatePostgres) -> i64 {
    number(&mut connect(server).await, "SELECT count(*) FROM note").await
}

/// Polls a condition until it holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Returns the processes that work in a directory or below it.
fn processes_in(dir: &Path) -> Vec<PathBuf> {
    let dir = fs::canonicalize(dir).unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes.filter(|process| fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&dir))).collect()
}

fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
}

#[tokio::test]
async fn new_server_has_an_ordinary_role_and_safe_settings() {
    let data = TempDir::new().unwrap();
    let mode_before = fs::metadata(data.path()).unwrap().permissions().mode();
    let server = open(data.path()).await;
    assert!(server.is_owner());
    assert_eq!(server.status().restarts, 0);

    let mut connection = connect(&server).await;
    let mut check = async |sql: &'static str, expected: &str| {
        assert_eq!(text(&mut connection, sql).await, expected, "{sql}");
    };
    check("SELECT current_user || ' ' || current_database()", "umbra umbra").await;
    check("SELECT rolsuper || ' ' || rolcreaterole FROM pg_roles WHERE rolname = 'umbra'", "false false").await;
    check("SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'umbra'", "umbra").await;
    check("SHOW listen_addresses", "").await;
    check("SHOW fsync", "on").await;
    check("SHOW data_checksums", "on").await;
    check("SHOW server_encoding", "UTF8").await;
    check("SHOW lc_collate", "C").await;
    server.stop().await.unwrap();
    assert_eq!(fs::metadata(data.path()).unwrap().permissions().mode(), mode_before, "not ours to change");
}

#[tokio::test]
async fn server_processes_are_not_root_and_the_socket_is_private() {
    // A directory that only root may pass, and one that all users may: the server runs in both.
    for mode in [0o700, 0o755] {
        let data = TempDir::new().unwrap();
        fs::set_permissions(data.path(), fs::Permissions::from_mode(mode)).unwrap();
        let server = open(data.path()).await;
        add_row(&server).await;
        let processes = processes_in(data.path());
        assert!(processes.len() > 3, "postmaster and its children: {processes:?}");
        for process in processes {
            // One that served a connection may be gone by now.
            let Ok(status) = fs::read_to_string(process.join("status")) else { continue };
            let environment = fs::read_to_string(process.join("environ")).unwrap_or_default();
            let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
            let uids: Vec<u32> = line("Uid:").split_whitespace().map(|uid| uid.parse().unwrap()).collect();
            assert!(uids.iter().all(|uid| *uid != 0), "{uids:?}");
            if nix::unistd::geteuid().is_root() {
                assert_eq!(line("Groups:").trim(), "", "no supplementary group of root's is left");
                assert!(!environment.contains("CARGO"), "our environment");
            }
        }
        let socket = server.connect_options().get_socket().unwrap().clone();
        assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(socket.join(".s.PGSQL.5432")).unwrap().permissions().mode() & 0o777, 0o700);
        server.stop().await.unwrap();
    }
}

#[tokio::test]
async fn guest_shares_the_rows_and_leaves_the_server_running() {
    let data = TempDir::new().unwrap();
    let owner = open(data.path()).await;
    add_row(&owner).await;
    let guest = open(data.path()).await;
    assert!(!guest.is_owner());
    assert_eq!(rows(&guest).await, 1);
    assert_eq!(guest.status().pid, owner.status().pid);
    guest.stop().await.unwrap();
    add_row(&owner).await;
    assert_eq!(rows(&owner).await, 2);
    owner.stop().await.unwrap();
}

#[tokio::test]
async fn guest_becomes_owner_at_the_same_address() {
    let data = TempDir::new().unwrap();
    // The second path is too long for a socket, which then lies elsewhere and is removed with its owner.
    let deep = data.path().join("d".repeat(100)).join("e".repeat(100));
    for dir in [data.path(), &deep] {
        let owner = open(dir).await;
        add_row(&owner).await;
        let guest = open(dir).await;
        let first = owner.status().pid;
        let (stopped, ()) = tokio::join!(owner.stop(), guest.take_over_when_owner_exits());
        stopped.unwrap();
        assert!(guest.is_owner() && !owner.is_owner());
        assert_ne!(guest.status().pid, first);
        assert_eq!(rows(&guest).await, 1);
        let third = open(dir).await;
        assert_eq!((third.is_owner(), rows(&third).await), (false, 1));
        guest.stop().await.unwrap();
        assert_eq!(processes_in(dir), Vec::<PathBuf>::new());
    }
}

#[tokio::test]
async fn two_opens_at_once_make_one_owner() {
    let data = TempDir::new().unwrap();
    let (one, other) = tokio::join!(open(data.path()), open(data.path()));
    assert_eq!([one.is_owner(), other.is_owner()].iter().filter(|owner| **owner).count(), 1);
    add_row(&one).await;
    assert_eq!(rows(&other).await, 1);
    one.stop().await.unwrap();
    other.stop().await.unwrap();
}

#[tokio::test]
async fn stop_leaves_no_process_and_keeps_the_rows() {
    let data = TempDir::new().unwrap();
    for expected in 1..=3 {
        let server = open(data.path()).await;
        assert!(server.is_owner());
        add_row(&server).await;
        assert_eq!(rows(&server).await, expected);
        server.stop().await.unwrap();
        assert_eq!(processes_in(data.path()), Vec::<PathBuf>::new());
        assert!(!data.path().join("postgres.json").exists());
    }
    // Dropping stops as well.
    drop(open(data.path()).await);
    assert_eq!(processes_in(data.path()), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn killed_postgres_restarts_with_all_committed_rows() {
    let data = TempDir::new().unwrap();
    let server = open(data.path()).await;
    for round in 1..=3 {
        add_row(&server).await;
        let pid = server.status().pid.unwrap();
        signal(pid, Signal::SIGKILL);
        until("a new postmaster answers", async || {
            server.status().pid.is_some_and(|now| now != pid) && server.connect_options().connect().await.is_ok()
        })
        .await;
        assert_eq!(rows(&server).await, i64::from(round));
    }
    assert!(server.status().restarts >= 3);
    server.stop().await.unwrap();
    assert_eq!(processes_in(data.path()), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn killed_backend_does_not_restart_the_server() {
    let data = TempDir::new().unwrap();
    let server = open(data.path()).await;
    let mut victim = connect(&server).await;
    let pid = number(&mut victim, "SELECT pg_backend_pid()::bigint").await;
    signal(u32::try_from(pid).unwrap(), Signal::SIGKILL);
    until("it serves again", async || server.connect_options().connect().await.is_ok()).await;
    assert_eq!(server.status().restarts, 0, "the postmaster recovers by itself");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn killed_owner_ends_its_server_and_the_next_finds_the_rows() {
    // First the server is left to end by itself, then the next owner comes while it is still there.
    for comes_at_once in [false, true] {
        let data = TempDir::new().unwrap();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "postgres::child_process_that_holds_a_server", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The pipe stays open: at its end the child would stop by itself.
        let mut stdin = child.stdin.take().unwrap();
        writeln!(stdin, "{}", data.path().display()).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("the server is up")));
        assert!(!processes_in(data.path()).is_empty());

        let killed = Instant::now();
        child.kill().unwrap();
        child.wait().unwrap();
        if !comes_at_once {
            until("the server ends by itself", async || processes_in(data.path()).is_empty()).await;
        }
        let server = open(data.path()).await;
        assert!(killed.elapsed() < Duration::from_secs(15), "{:?}", killed.elapsed());
        assert!(server.is_owner(), "the lock died with its holder");
        assert_eq!(rows(&server).await, 1);
        server.stop().await.unwrap();
        assert_eq!(processes_in(data.path()), Vec::<PathBuf>::new());
        drop(stdin);
    }
}

/// Not a test: the process that the test above starts. Without input it does nothing.
#[tokio::test]
#[ignore = "run by killed_owner_ends_its_server_and_the_next_finds_the_rows"]
async fn child_process_that_holds_a_server() {
    let mut lines = std::io::stdin().lines();
    let Some(Ok(data_dir)) = lines.next() else { return };
    let server = open(Path::new(&data_dir)).await;
    add_row(&server).await;
    println!("the server is up");
    lines.next();
    server.stop().await.unwrap();
}

#[tokio::test]
async fn stale_lock_file_of_another_process_does_not_stop_the_start() {
    let data = TempDir::new().unwrap();
    let server = open(data.path()).await;
    add_row(&server).await;
    let cluster = server.connect_options().get_socket().unwrap().clone();
    server.stop().await.unwrap();
    // As after a kill in a container, where the number is soon another process's: here it is a process of the same
    // user, which Postgres would take for another postmaster.
    let mut stranger = std::process::Command::new("sleep");
    std::os::unix::process::CommandExt::uid(
        &mut stranger,
        std::os::unix::fs::MetadataExt::uid(&fs::metadata(&cluster).unwrap()),
    );
    let mut stranger = stranger.arg("600").current_dir("/").spawn().unwrap();
    fs::write(cluster.join("postmaster.pid"), format!("{}\n", stranger.id())).unwrap();
    let reopened = PrivatePostgres::open(&options(data.path()), &|_| ()).await;
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    let server = reopened.unwrap();
    assert_eq!(rows(&server).await, 1);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn data_of_another_major_version_is_refused_unchanged() {
    for (dir, version) in [("pg14", "14"), ("pgdata", "9.6"), ("pg99", "99")] {
        let data = TempDir::new().unwrap();
        fs::create_dir(data.path().join(dir)).unwrap();
        fs::write(data.path().join(dir).join("PG_VERSION"), version).unwrap();
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(data.path().join(dir), Some(65534), Some(65534)).unwrap();
        }
        let error = PrivatePostgres::open(&options(data.path()), &|_| ()).await.unwrap_err();
        assert!(matches!(error, PrivateError::OtherMajor { .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains(dir) && message.contains("pg_dump") && message.contains("pg_upgrade"), "{message}");
        let left: Vec<_> =
            fs::read_dir(data.path().join(dir)).unwrap().flatten().map(|file| file.file_name()).collect();
        assert_eq!(left, ["PG_VERSION"]);
        assert_eq!(processes_in(data.path()), Vec::<PathBuf>::new());
    }
}

#[tokio::test]
async fn a_path_too_long_for_a_socket_works() {
    let data = TempDir::new().unwrap();
    let deep = data.path().join("d".repeat(100)).join("e".repeat(100));
    let server = open(&deep).await;
    add_row(&server).await;
    let socket = server.connect_options().get_socket().unwrap().clone();
    assert!(!socket.starts_with(data.path()));
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o700);
    let guest = open(&deep).await;
    assert_eq!(rows(&guest).await, 1);
    server.stop().await.unwrap();
    assert!(!socket.exists(), "a temporary directory goes with its server");
}

#[tokio::test]
async fn incomplete_cluster_is_replaced() {
    let data = TempDir::new().unwrap();
    fs::create_dir(data.path().join("pg15.new")).unwrap();
    fs::write(data.path().join("pg15.new/PG_VERSION"), "15").unwrap();
    let server = open(data.path()).await;
    add_row(&server).await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_cluster_under_the_name_pgdata_is_opened_in_place() {
    let data = TempDir::new().unwrap();
    let server = open(data.path()).await;
    add_row(&server).await;
    let cluster = server.connect_options().get_socket().unwrap().clone();
    server.stop().await.unwrap();
    fs::rename(cluster, data.path().join("pgdata")).unwrap();
    let server = open(data.path()).await;
    assert_eq!(rows(&server).await, 1);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn failed_start_reports_the_message_of_postgres() {
    let data = TempDir::new().unwrap();
    let server = open(data.path()).await;
    let cluster = server.connect_options().get_socket().unwrap().clone();
    server.stop().await.unwrap();
    fs::OpenOptions::new()
        .append(true)
        .open(cluster.join("postgresql.conf"))
        .unwrap()
        .write_all(b"no_such_setting = 1\n")
        .unwrap();
    let error = PrivatePostgres::open(&options(data.path()), &|_| ()).await.unwrap_err();
    assert!(matches!(error, PrivateError::Start { .. }), "{error}");
    assert!(error.to_string().contains("no_such_setting"), "{error}");
    assert_eq!(processes_in(data.path()), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn missing_binaries_are_refused_naming_umbra_pg_bin() {
    let data = TempDir::new().unwrap();
    let mut options = options(data.path());
    options.pg_bin = Some(data.path().join("nothing"));
    let error = PrivatePostgres::open(&options, &|_| ()).await.unwrap_err();
    assert!(matches!(error, PrivateError::BadBinaries { .. }), "{error}");
    assert!(error.to_string().contains("UMBRA_PG_BIN"), "{error}");
}

#[tokio::test]
async fn stored_values_do_not_reach_the_server_log() {
    const CANARY: &str = "canary-3f9a";
    let data = TempDir::new().unwrap();
    let server = open(data.path()).await;
    let mut connection = connect(&server).await;
    let create = "CREATE TABLE secret (s text PRIMARY KEY, n int CHECK (n > 0))";
    sqlx::raw_sql(create).execute(&mut connection).await.unwrap();
    let insert = "INSERT INTO secret VALUES ($1, $2)";
    sqlx::query(insert).bind(CANARY).bind(1).execute(&mut connection).await.unwrap();
    // A duplicate key, a failed check and a bad cast: each error or its detail quotes the value.
    assert!(sqlx::query(insert).bind(CANARY).bind(1).execute(&mut connection).await.is_err());
    assert!(sqlx::query(insert).bind(CANARY).bind(0).execute(&mut connection).await.is_err());
    assert!(sqlx::query("SELECT $1::text::int").bind(CANARY).execute(&mut connection).await.is_err());
    let logs = server.connect_options().get_socket().unwrap().join("log");
    server.stop().await.unwrap();
    let written: String =
        fs::read_dir(&logs).unwrap().flatten().map(|file| fs::read_to_string(file.path()).unwrap()).collect();
    assert!(written.contains("ready to accept connections"), "the log is the one looked at");
    assert!(!written.contains(CANARY), "{written}");
}
