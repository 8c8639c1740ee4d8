//! The HTTP front: own accept loop and connections, so that no client can hold what others need.
//!
//! In: an address, a router, limits. Out: a served address that drains on the soft stop. Never: a wait without a
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
//! | `trace.rs` | the request's id and trace, panics, the line in the log |
//! | `guard.rs` | `Host` and `Origin` |
//! | `../admission.rs` | how many requests of a class at once |
//! | `../body.rs`, `decode.rs` | the body: time, size, encoding, memory |
//! | `pages.rs` | security headers |
//!
//! Streams that never end by themselves must watch `Tasks::soft`; else they are dropped when the drain is over.

mod accept;
mod connection;
pub(in crate::api) mod decode;
mod guard;
mod limits;
mod pages;
mod stream;
#[cfg(test)]
mod tests;
mod trace;

use std::{io, net::SocketAddr, sync::Arc};

use axum::{Router, middleware::from_fn_with_state};
use tokio::net::{TcpListener, TcpSocket};

pub use guard::HostGuard;
pub use limits::{BodyLimits, Limits};
pub use pages::page_headers;
pub use trace::{RequestId, TraceParent};

use super::problem::{method_not_allowed, not_found};
use crate::{clock::Clock, lifecycle::Tasks};

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

    /// Serves until the soft stop; open requests are finished after it, within the time that shutdown gives.
    pub fn serve(self, router: Router, tasks: &Tasks, limits: Limits) {
        tasks.spawn_essential("http front", accept::run(self.listener, router, tasks.clone(), limits));
    }
}

/// Puts around a router what every request passes: its id and trace, the catching of panics, the guard of `Host`
/// and `Origin`; and problems for paths and methods that are not there. Call it last, with all routes in place.
pub fn wrap(router: Router, guard: HostGuard, clock: Clock) -> Router {
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        // Together, since each `layer` boxes what is within it, and a request clones every box.
        .layer((from_fn_with_state(clock, trace::trace), from_fn_with_state(Arc::new(guard), guard::check)))
}
