//! Databases that fail: stopped, frozen, or behind a cut network.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use sqlx::Connection;
use tempfile::TempDir;
use umbra_store::postgres::PrivatePostgres;

use super::{Umbra, server::Start};
use crate::acceptance::chaos::postgres;

/// Postgres of one test, which the service knows by its URL.
pub struct External {
    files: TempDir,
    server: Option<PrivatePostgres>,
}

impl External {
    /// Starts a Postgres.
    pub async fn start() -> Self {
        let files = TempDir::new().expect("a directory");
        let server = Some(postgres(files.path()).await);
        Self { files, server }
    }

    fn server(&self) -> &PrivatePostgres {
        self.server.as_ref().expect("it runs")
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.server().connect_options().get_socket().expect("a socket").join(".s.PGSQL.5432")
    }

    /// Returns the address by which the service connects to it.
    pub fn url(&self) -> String {
        let dir = self.socket().parent().expect("a directory").display().to_string().replace('/', "%2F");
        format!("postgres://umbra@localhost/umbra?host={dir}")
    }

    /// Returns the process id of its postmaster.
    pub fn pid(&self) -> u32 {
        self.server().status().pid.expect("a postmaster")
    }

    /// Stops it like an operator; connections are refused from then on.
    pub async fn stop(&mut self) {
        self.server.take().expect("it runs").stop().await.expect("it stops");
    }

    /// Starts it again.
    pub async fn resume(&mut self) {
        self.server = Some(postgres(self.files.path()).await);
    }

    /// Returns a connection that sees the service's schema.
    pub async fn connect(&self) -> sqlx::PgConnection {
        let options = self.server().connect_options().options([("search_path", "umbra")]);
        sqlx::PgConnection::connect_with(&options).await.expect("it answers")
    }
}

/// Returns a server on this database, with the deadlines of the product and files of its own in `data`.
pub fn on(url: &str, data: &Path) -> Start {
    Umbra::with()
        .env("DATABASE_URL", url)
        .env("UMBRA__DATABASE__SCHEMA", "umbra")
        .env("UMBRA__DATABASE__DEADLINE", "2s")
        .env("UMBRA__STORAGE__DATA_DIR", data.display().to_string())
}

/// Postgres whose processes are all stopped by a signal; they continue when this is dropped.
pub struct Frozen(Vec<Pid>);

impl Frozen {
    /// Freezes a postmaster and its backends.
    pub fn freeze(postmaster: u32) -> Self {
        let postmaster = postmaster.to_string();
        let of = |entry: std::io::Result<std::fs::DirEntry>| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let stat = std::fs::read_to_string(format!("/proc/{name}/stat")).ok()?;
            let parent = stat.rsplit(')').next()?.split_whitespace().nth(1)?.to_owned();
            (parent == postmaster || name == postmaster).then(|| name.parse().ok()).flatten().map(Pid::from_raw)
        };
        let processes: Vec<Pid> = std::fs::read_dir("/proc").expect("it is Linux").filter_map(of).collect();
        // A backend may have ended by itself.
        let stopped = processes.iter().filter(|pid| kill(**pid, Signal::SIGSTOP).is_ok()).count();
        assert!(stopped > 3, "nothing was stopped");
        Self(processes)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = kill(*pid, Signal::SIGCONT);
        }
    }
}

/// Relay from TCP to a database's socket, which stops forwarding when it is cut: connections stay open and silent.
#[derive(Clone)]
pub struct Relay {
    cut: Arc<AtomicBool>,
    address: SocketAddr,
}

impl Relay {
    /// Relays from a port of this machine.
    pub fn to(socket: &Path) -> Self {
        Self::of(TcpListener::bind("127.0.0.1:0").expect("a port"), socket)
    }

    /// Relays connections of this listener.
    pub fn of(listener: TcpListener, socket: &Path) -> Self {
        let relay = Self { cut: Arc::default(), address: listener.local_addr().expect("an address") };
        let (of_thread, socket) = (relay.clone(), socket.to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (relay, socket) = (of_thread.clone(), socket.clone());
                std::thread::spawn(move || relay.serve(&client, &socket));
            }
        });
        relay
    }

    /// Returns the address by which the service connects to the database behind it.
    pub fn url(&self) -> String {
        format!("postgres://umbra@{}/umbra?sslmode=disable", self.address)
    }

    /// Cuts the network, or mends it.
    pub fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::Relaxed);
    }

    fn serve(&self, client: &TcpStream, socket: &Path) {
        self.wait();
        let Ok(server) = UnixStream::connect(socket) else { return };
        let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else { return };
        let relay = self.clone();
        std::thread::spawn(move || {
            relay.copy(from_client, &to_server);
            drop(to_server.shutdown(Shutdown::Both));
        });
        if let Ok(to_client) = client.try_clone() {
            self.copy(server, to_client);
        }
        drop(client.shutdown(Shutdown::Both));
    }

    fn wait(&self) {
        while self.cut.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn copy(&self, mut from: impl Read, mut to: impl Write) {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            self.wait();
            if to.write_all(buffer.get(..read).unwrap_or_default()).is_err() {
                return;
            }
        }
    }
}
