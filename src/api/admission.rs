//! Admission control: bounds the requests of each class that are under way, as the section `server` of the settings says.
//!
//! In: a request and its class. Out: the request, with its place among the admitted; or a 503 with `Retry-After`,
//! before a byte of the body is read. There is no queue: a client that waits in one has mostly gone when its turn comes.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Problem;
use umbra_config::settings::Server;

/// What kind of work a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Events and whatever else is stored.
    Ingest,
    /// Questions to the database.
    Read,
    /// Decisions that an agent waits for: neither ingest nor reads can crowd them out.
    Decide,
    /// Requests of MCP clients: as long as a tool runs. A place is held until the answer's last byte.
    Mcp,
    /// Waiting for a verdict: long, but nearly free.
    Wait,
    /// A stream: without end. Its place is held until its last byte.
    Stream,
    /// Health and metrics: always admitted.
    Health,
}

/// Admits requests. Cheap to clone; all clones count together.
#[derive(Debug, Clone)]
pub struct Admission {
    ingest: Arc<Semaphore>,
    read: Arc<Semaphore>,
    decide: Arc<Semaphore>,
    mcp: Arc<Semaphore>,
    wait: Arc<Semaphore>,
    stream: Arc<Semaphore>,
}

/// A place among the admitted; dropping it frees the place. Health has none.
#[derive(Debug)]
pub struct Place(
    #[expect(dead_code, reason = "it is held, and counts until it is dropped")] Option<OwnedSemaphorePermit>,
);

impl Admission {
    /// With the bounds of these settings.
    pub fn new(server: &Server) -> Self {
        let places = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        Self {
            ingest: places(server.ingest_concurrency),
            read: places(server.read_concurrency),
            decide: places(server.decide_concurrency),
            mcp: places(server.mcp_concurrency),
            wait: places(server.wait_concurrency),
            stream: places(server.max_streams),
        }
    }

    /// A place in a class, or `overloaded`.
    pub fn enter(&self, class: Class) -> Result<Place, Problem> {
        let (places, what) = match class {
            Class::Ingest => (&self.ingest, "events"),
            Class::Read => (&self.read, "reads"),
            Class::Decide => (&self.decide, "decisions"),
            Class::Mcp => (&self.mcp, "MCP requests"),
            Class::Wait => (&self.wait, "waiting requests"),
            Class::Stream => (&self.stream, "streams"),
            Class::Health => return Ok(Place(None)),
        };
        match Arc::clone(places).try_acquire_owned() {
            Ok(permit) => Ok(Place(Some(permit))),
            Err(_) => Err(Problem::overloaded(format!("As many {what} as the server can carry are under way."))),
        }
    }
}
