//! HTTP front with its own accept loop and connections: no client can hold resources that others need.
//!
//! Every wait has a deadline, a drain loses no request, and a panic ends only its own request.
//!
//! `axum::serve` has no deadline for headers and never ends while one client drips bytes; hyper's own deadline
//! for headers would also be the one for idle connections. Hence, outside in:
//!
//! | file | holds |
//! | --- | --- |
//! | `accept.rs` | connections at once, pauses when descriptors run out, drains the queue of the system |
//! | `connection.rs` | first bytes, hyper, `Connection: close` while draining |
//! | `http2.rs` | connections of HTTP/2, with exports of OpenTelemetry alone |
//! | `stream.rs` | deadlines of headers, idle connections and stalled answers; a close that does not reset |
//! | `wire_checks.rs` | requests whose length is given twice, and problems in place of hyper's own answers |
//! | `layers.rs` | tower layers around the routes, in their order; panics, security headers |
//! | `trace.rs` | layer of the request's id and trace, and the line in the log |
//! | `origin_check.rs` | layer of `Host` and `Origin` |
//! | `../entrance.rs` | layer of each route: authentication, and how many requests of a class run at once |
//! | `../body.rs`, `decode.rs` | body: time, size, encoding, memory |
//!
//! Streams that never end by themselves must watch `Tasks::soft`; otherwise they are dropped when the drain is over.

mod accept;
mod connection;
pub(in crate::api) mod decode;
mod http2;
mod layers;
mod origin_check;
mod stream;
#[cfg(test)]
mod tests;
mod trace;
mod wire_checks;

use std::{io, net::SocketAddr};

use axum::Router;
use tokio::net::{TcpListener, TcpSocket};

pub use origin_check::HostGuard;
pub use trace::RequestId;

use crate::lifecycle::Tasks;
use umbra_config::settings;
use umbra_domain::clock::Clock;

/// Connections that the system may hold for us before they are accepted.
const BACKLOG: u32 = 4096;

/// Bound address that is not served yet.
#[derive(Debug)]
pub struct Front {
    listener: TcpListener,
    local_addr: SocketAddr,
}

impl Front {
    /// Binds the address; port 0 picks a free one. From here on clients connect and wait for [`Front::serve`]. Fails
    /// where the address is taken; panics outside of a tokio runtime.
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Without this, a restart would have to wait until the old connections have timed out.
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        let listener = socket.listen(BACKLOG)?;
        let local_addr = listener.local_addr()?;
        Ok(Self { listener, local_addr })
    }

    /// Returns the address with the port that was picked.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Serves these routes, behind the layers of every request, until the soft stop; open requests are finished after
    /// it, within the time that shutdown gives. The clock makes request ids. `exports` are the routes over HTTP/2.
    pub fn serve(
        self,
        (routes, exports): (Router, Router),
        guard: HostGuard,
        clock: Clock,
        tasks: &Tasks,
        settings: settings::Server,
    ) {
        let routes = (layers::around(routes, guard, clock), exports);
        tasks.spawn_essential("http front", accept::run(self.listener, routes, tasks.clone(), settings));
    }
}
