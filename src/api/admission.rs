//! How many requests of a class may be worked on at once; the one too many is refused at once.
//!
//! In: a request and its class. Out: the request, with its place among the admitted; or a 503 with `Retry-After`,
//! before a byte of the body is read. Never: a queue. Who waits in one has mostly gone when its turn comes, and
//! the work is done for nobody.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Problem;

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

/// How many requests at once, by class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// See [`Class::Ingest`].
    pub ingest: usize,
    /// See [`Class::Read`].
    pub read: usize,
    /// See [`Class::Decide`].
    pub decide: usize,
    /// See [`Class::Mcp`].
    pub mcp: usize,
    /// See [`Class::Wait`].
    pub wait: usize,
    /// See [`Class::Stream`].
    pub stream: usize,
}

impl Default for AdmissionLimits {
    /// Ingest is carried in batches of 256, so two of them are under way; reads share few database connections;
    /// a decision takes microseconds; a wait takes a little memory, and a stream some more.
    fn default() -> Self {
        Self { ingest: 512, read: 64, decide: 256, mcp: 1024, wait: 4096, stream: 256 }
    }
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
    /// With these limits.
    pub fn new(limits: AdmissionLimits) -> Self {
        let places = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        Self {
            ingest: places(limits.ingest),
            read: places(limits.read),
            decide: places(limits.decide),
            mcp: places(limits.mcp),
            wait: places(limits.wait),
            stream: places(limits.stream),
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
