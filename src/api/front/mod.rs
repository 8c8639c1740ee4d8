//! The HTTP front: own accept loop and connections, so that no client can hold what others need.
//!
//! In: an address, routes, limits. Out: a served address that drains on the soft stop. Never: a wait without a
//! deadline, a request lost in a drain, a panic that ends more than its own request.
//!
//! `axum::serve` has no deadline for headers and never ends while one client drips bytes; hyper's own deadline
//! for headers would also be the one for idle connections. Hence, outside in:
//!
//! | file | holds |
//! | --- | --- |
//! | `accept.rs` | connections at once, pauses when descriptors run out, drains the queue of the system |
//! | `connection.rs` | first byte, hyper, `Connection: close` while draining |
//! | `stream.rs` | headers, idle, stalled answers, a close that does not reset |
//! | `raw.rs` | what hyper keeps to itself: a length given twice, answers of its own |
//! | `layers.rs` | the tower layers around the routes, in their order; panics, security headers |
//! | `trace.rs` | the layer of the request's id and trace, the line in the log |
//! | `guard.rs` | the layer of `Host` and `Origin` |
//! | `../entrance.rs` | the layer of each route: who is calling, and how many requests of a class at once |
//! | `../body.rs`, `decode.rs` | the body: time, size, encoding, memory |
//!
//! Streams that never end by themselves must watch `Tasks::soft`; else they are dropped when the drain is over.

mod accept;
mod connection;
pub(in crate::api) mod decode;
mod guard;
mod layers;
mod limits;
mod raw;
mod stream;
#[cfg(test)]
mod tests;
mod trace;

use std::{io, net::SocketAddr};

use axum::Router;
use tokio::net::{TcpListener, TcpSocket};

pub use guard::HostGuard;
pub use limits::{BodyLimits, Limits};
pub use trace::{RequestId, TraceParent};

use crate::lifecycle::Tasks;
use umbra_domain::clock::Clock;

/// Connections that the system may hold for us before they are accepted.
const BACKLOG: u32 = 4096;

/// A bound address, not yet served.
#[derive(Debug)]
pub struct Front {
    listener: TcpListener,
    local_addr: SocketAddr,
}

impl Front {
    /// Takes the address; port 0 picks a free one. From here on clients connect and wait for
    /// [`Front::serve`]. Fails where the address is taken; panics outside of a tokio runtime.
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Otherwise a restart would have to wait for the old connections' time to pass.
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        let listener = socket.listen(BACKLOG)?;
        let local_addr = listener.local_addr()?;
        Ok(Self { listener, local_addr })
    }

    /// The address with the port that was picked.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Serves these routes until the soft stop, behind the layers that every request passes; open requests are finished
    /// after it, within the time that shutdown gives. The clock names requests.
    pub fn serve(self, routes: Router, guard: HostGuard, clock: Clock, tasks: &Tasks, limits: Limits) {
        let routes = layers::around(routes, guard, clock);
        tasks.spawn_essential("http front", accept::run(self.listener, routes, tasks.clone(), limits));
    }
}
