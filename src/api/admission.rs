//! Admission control: bounds the requests of each class that are under way, and the bodies that each caller may be
//! sending at a time, as the section `server` of the settings says.
//!
//! A request takes its place once its body is complete: a slow body keeps no other request out. A class that is full
//! answers 503 with `Retry-After` before the body is read. There is no queue: a client that waits in one has mostly
//! gone when its turn comes.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Problem;
use umbra_config::settings::Server;
use umbra_domain::KeyId;

/// Class of requests that share one bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Events and whatever else is stored.
    Ingest,
    /// Exports of OpenTelemetry, with events in one bound. Their senders give their keys in other forms.
    Telemetry,
    /// Reads of stored data.
    Read,
    /// Decisions that an agent waits for: neither ingest nor reads can crowd them out.
    Decide,
    /// Requests of MCP clients, which last as long as a tool runs. A place is held until the last byte of the answer.
    Mcp,
    /// Requests that wait for a verdict: long, but nearly free.
    Wait,
    /// Streams without an end. A place is held until the last byte.
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
    bodies: Arc<BodiesByCaller>,
}

/// Sender of a request: its key, or its address where it needs none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sender {
    /// Key that came with the request.
    Key(KeyId),
    /// Peer of the connection.
    Peer(IpAddr),
}

/// Bodies on their way to the server, by sender.
#[derive(Debug)]
struct BodiesByCaller {
    limit: usize,
    arriving: Mutex<HashMap<Sender, usize>>,
}

/// One body that is arriving; dropped when it is complete or given up.
#[derive(Debug)]
pub struct ArrivingBody {
    bodies: Arc<BodiesByCaller>,
    sender: Sender,
}

impl Drop for ArrivingBody {
    fn drop(&mut self) {
        let mut arriving = self.bodies.arriving.lock();
        if let Entry::Occupied(mut count) = arriving.entry(self.sender) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// Admission of one request: travels with it, and takes the place of its class when [`Ticket::admit`] is called. The
/// place is free again when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Ticket(Arc<TicketState>);

#[derive(Debug)]
struct TicketState {
    admission: Admission,
    class: Class,
    sender: Sender,
    place: OnceLock<OwnedSemaphorePermit>,
}

impl Ticket {
    /// Counts a body that begins to arrive.
    ///
    /// # Errors
    /// `rate_limited`: the sender has as many on their way as the settings permit.
    pub fn begin_body(&self) -> Result<ArrivingBody, Problem> {
        let TicketState { admission, sender, .. } = &*self.0;
        let bodies = Arc::clone(&admission.bodies);
        let mut arriving = bodies.arriving.lock();
        let count = arriving.entry(*sender).or_default();
        if *count >= bodies.limit {
            return Err(Problem::rate_limited(format!(
                "{} bodies from this sender are still arriving, the most that `server.max_bodies_per_caller` permits: \
                 finish sending them first",
                bodies.limit
            )));
        }
        *count += 1;
        drop(arriving);
        Ok(ArrivingBody { bodies, sender: *sender })
    }

    /// Takes the place, unless it is taken already.
    ///
    /// # Errors
    /// `overloaded`: the class is full.
    pub fn admit(&self) -> Result<(), Problem> {
        let TicketState { admission, class, place, .. } = &*self.0;
        if place.get().is_none()
            && let Some(permit) = admission.enter(*class)?
        {
            // A second call at the same time would give its own place back.
            drop(place.set(permit));
        }
        Ok(())
    }
}

impl Admission {
    /// Returns an admission with the bounds of these settings.
    pub fn new(server: &Server) -> Self {
        let places = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        Self {
            ingest: places(server.ingest_concurrency),
            read: places(server.read_concurrency),
            decide: places(server.decide_concurrency),
            mcp: places(server.mcp_concurrency),
            wait: places(server.wait_concurrency),
            stream: places(server.max_streams),
            bodies: Arc::new(BodiesByCaller { limit: server.max_bodies_per_caller, arriving: Mutex::default() }),
        }
    }

    /// Returns a ticket for one request.
    ///
    /// # Errors
    /// `overloaded`: the class is full, so its body is not worth reading.
    pub fn ticket(&self, class: Class, sender: Sender) -> Result<Ticket, Problem> {
        match self.places(class) {
            Some((places, what)) if places.available_permits() == 0 => Err(full(what)),
            _ => {
                let admission = self.clone();
                Ok(Ticket(Arc::new(TicketState { admission, class, sender, place: OnceLock::new() })))
            }
        }
    }

    /// Takes a place in a class, free again when the permit is dropped; health has none.
    ///
    /// # Errors
    /// `overloaded`: the class is full.
    pub fn enter(&self, class: Class) -> Result<Option<OwnedSemaphorePermit>, Problem> {
        let Some((places, what)) = self.places(class) else { return Ok(None) };
        Arc::clone(places).try_acquire_owned().map(Some).map_err(|_| full(what))
    }

    /// Returns the places of a class and the word for its requests; `None` for health.
    fn places(&self, class: Class) -> Option<(&Arc<Semaphore>, &'static str)> {
        Some(match class {
            Class::Ingest | Class::Telemetry => (&self.ingest, "events"),
            Class::Read => (&self.read, "reads"),
            Class::Decide => (&self.decide, "decisions"),
            Class::Mcp => (&self.mcp, "MCP requests"),
            Class::Wait => (&self.wait, "waiting requests"),
            Class::Stream => (&self.stream, "streams"),
            Class::Health => return None,
        })
    }
}

fn full(what: &str) -> Problem {
    Problem::overloaded(format!("The server's limit of concurrent {what} is reached: send the request again later."))
}
