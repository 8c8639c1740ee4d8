//! Accept loop: takes connections, counts them, and refuses those above the limit.
//!
//! Each connection is a task, bounded in time. The loop does not end when the process runs out of descriptors: it
//! pauses and goes on.

use std::{fmt::Write, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};

use super::connection;
use crate::{
    api::problem::Problem,
    lifecycle::{self, Tasks},
};
use umbra_config::settings;

/// Most connections being refused at once; connections beyond are closed without an answer.
const REFUSALS: usize = 128;
/// Longest time of a refusal.
const REFUSAL: Duration = Duration::from_secs(1);
/// Pause after an accept that failed for want of descriptors or memory.
const PACE: Duration = Duration::from_millis(100);
/// Descriptors left for the database, files and calls to models.
const RESERVED: usize = 256;

/// Accepts connections until the soft stop, then those that the system had already accepted.
pub(super) async fn run(
    listener: TcpListener,
    (routes, exports): (Router, Router),
    tasks: Tasks,
    settings: settings::Server,
) {
    let room = within_descriptors(settings.max_connections);
    let door = Acceptor {
        room: Arc::new(Semaphore::new(room.min(Semaphore::MAX_PERMITS))),
        refusals: Arc::new(Semaphore::new(REFUSALS)),
        settings: Arc::new(settings),
        routes,
        exports,
        tasks,
    };
    let soft = door.tasks.soft().clone();
    while let Some(accepted) = soft.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((socket, peer)) => door.admit(socket, peer),
            Err(fault) if of_one_connection(&fault) => {}
            Err(fault) => {
                tracing::warn!(%fault, "connections cannot be accepted; trying again");
                soft.run_until_cancelled(sleep(PACE)).await;
            }
        }
    }
    // The system has accepted these on our behalf: closing now would reset clients that have done no wrong.
    while let Ok(Ok((socket, peer))) = timeout(Duration::ZERO, listener.accept()).await {
        door.admit(socket, peer);
    }
}

/// True for faults of a single connection, which do not concern the listener.
fn of_one_connection(fault: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(fault.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Lowers a number of connections to what the process may open.
fn within_descriptors(wanted: usize) -> usize {
    let Some(granted) = lifecycle::allow_open_files(wanted.saturating_add(RESERVED)) else { return wanted };
    // Where hardly any descriptors can be had, half of them serve clients.
    let room = wanted.min(granted.saturating_sub(RESERVED).max(granted / 2)).max(1);
    if room < wanted {
        tracing::warn!(
            wanted,
            room,
            "the limit of open files permits fewer connections than configured: raise it (ulimit -n)"
        );
    }
    room
}

/// State shared by all connections.
struct Acceptor {
    room: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    settings: Arc<settings::Server>,
    routes: Router,
    /// Routes over HTTP/2.
    exports: Router,
    tasks: Tasks,
}

impl Acceptor {
    fn admit(&self, socket: TcpStream, peer: SocketAddr) {
        // A verdict is one small write: waiting to fill a packet would delay it by up to 40 ms.
        if socket.set_nodelay(true).is_err() {
            return;
        }
        let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else { return self.refuse(socket) };
        let routes = (self.routes.clone(), self.exports.clone());
        let served = connection::serve(socket, peer, routes, Arc::clone(&self.settings), self.tasks.clone());
        self.tasks.spawn("http connection", async move {
            served.await;
            drop(place);
        });
    }

    fn refuse(&self, socket: TcpStream) {
        if let Ok(place) = Arc::clone(&self.refusals).try_acquire_owned() {
            self.tasks.spawn("http refusal", async move {
                let _ = timeout(REFUSAL, refusal(socket, place)).await;
            });
        }
    }
}

/// Writes a 503 without reading the request, then reads until the client has seen it.
async fn refusal(mut socket: TcpStream, _place: OwnedSemaphorePermit) -> io::Result<()> {
    let problem = Problem::overloaded("Too many connections are open: try again later, and reuse connections.");
    let body = problem.to_json(None);
    let mut text = format!(
        "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\n",
        body.len()
    );
    for (name, value) in problem.headers() {
        let _ = write!(text, "{name}: {}\r\n", value.to_str().unwrap_or_default());
    }
    socket.write_all(format!("{text}\r\n{body}").as_bytes()).await?;
    socket.shutdown().await?;
    let mut scrap = [0_u8; 1024];
    while socket.read(&mut scrap).await? > 0 {}
    Ok(())
}
