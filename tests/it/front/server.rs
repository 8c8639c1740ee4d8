//! Front with a small router, and a client that speaks HTTP by hand.
//!
//! A client library would hide how a connection ends.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "what fails here is to fail the test")]

use std::{
    fmt::Write as _,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::{ConnectInfo, Path, Request, State},
    routing::{get, post},
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{Notify, Semaphore},
    time::{sleep, timeout},
};
use umbra::{
    api::{
        admission::{Admission, Class},
        body::{BodyReader, Media, expect_media, from_json},
        front::{Front, HostGuard},
        problem::Problem,
    },
    lifecycle::Tasks,
};
use umbra_config::settings;
use umbra_domain::clock::Clock;

/// Longer than any step takes; only a fault reaches it.
pub const PATIENCE: Duration = Duration::from_secs(20);
pub const SHORT: Duration = Duration::from_millis(200);

pub fn short_limits() -> settings::Server {
    settings::Server {
        first_byte_timeout: SHORT,
        header_timeout: SHORT,
        drain_idle_timeout: SHORT,
        ..settings::Server::default()
    }
}

pub fn small_bodies() -> settings::Server {
    settings::Server {
        max_body_bytes: 64 * 1024,
        max_decoded_bytes: 256 * 1024,
        body_timeout: SHORT,
        ..settings::Server::default()
    }
}

/// State shared by the handlers.
#[derive(Clone)]
pub struct Shared {
    pub bodies: BodyReader,
    pub admission: Admission,
    /// Number of requests that have come to `/held`.
    pub held: Arc<AtomicUsize>,
    /// One permit for each of them that may go on.
    pub go: Arc<Semaphore>,
    pub released: Arc<Notify>,
}

pub struct Server {
    pub addr: SocketAddr,
    pub tasks: Tasks,
    pub shared: Shared,
}

impl Server {
    pub fn start(limits: settings::Server, bodies: settings::Server) -> Self {
        let shared = Shared {
            bodies: BodyReader::new(bodies),
            admission: Admission::new(&settings::Server { read_concurrency: 2, ..settings::Server::default() }),
            held: Arc::default(),
            go: Arc::new(Semaphore::new(0)),
            released: Arc::default(),
        };
        let routes = Router::new()
            .route("/held", get(held))
            .route("/released", get(released))
            .route("/livez", get(livez))
            .route("/length", post(length))
            .route("/json", post(json))
            .route("/panic", get(panics))
            .route("/fault", get(|| async { Problem::internal("password=hunter2") }))
            .route("/number/{n}", get(|path: Result<Path<u32>, _>| async { number(path) }))
            .route("/peer", get(|ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { peer.to_string() }))
            .route("/large", get(|| async { vec![b'x'; 32 * 1024 * 1024] }))
            .route("/page", get(|| async { "page" }))
            .with_state(shared.clone());
        let clock = Clock::manual("2026-02-28T14:30:00Z".parse().unwrap());
        let tasks = Tasks::new();
        let front = Front::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let addr = front.local_addr();
        front.serve((routes, axum::Router::new()), HostGuard::loopback([]), clock, &tasks, limits);
        Self { addr, tasks, shared }
    }

    pub async fn connect(&self) -> Client {
        Client { socket: TcpStream::connect(self.addr).await.unwrap(), rest: Vec::new() }
    }

    /// Sends one request on a connection of its own.
    pub async fn ask(&self, head: &str, body: &[u8]) -> Answer {
        let mut client = self.connect().await;
        client.send(head, body).await;
        client.answer().await.expect("no answer")
    }

    pub async fn wait_for_held(&self, count: usize) {
        let arrived = async {
            while self.shared.held.load(Ordering::SeqCst) < count {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, arrived).await.expect("the requests did not arrive");
    }
}

async fn held(State(shared): State<Shared>) -> Result<&'static str, Problem> {
    let _place = shared.admission.enter(Class::Read)?;
    shared.held.fetch_add(1, Ordering::SeqCst);
    shared.go.acquire().await.unwrap().forget();
    Ok("done")
}

async fn livez(State(shared): State<Shared>) -> Result<&'static str, Problem> {
    shared.admission.enter(Class::Health).map(|_place| "ok")
}

/// Gives its place back, then waits.
async fn released(State(shared): State<Shared>) -> Result<&'static str, Problem> {
    drop(shared.admission.enter(Class::Read)?);
    shared.held.fetch_add(1, Ordering::SeqCst);
    shared.released.notified().await;
    Ok("done")
}

async fn length(State(shared): State<Shared>, request: Request) -> Result<String, Problem> {
    shared.bodies.read(request).await.map(|body| body.len().to_string())
}

async fn json(State(shared): State<Shared>, request: Request) -> Result<String, Problem> {
    #[derive(serde::Deserialize)]
    struct Input {
        items: Vec<u32>,
    }
    expect_media(request.headers(), &[Media::Json, Media::Ndjson])?;
    let input: Input = from_json(&shared.bodies.read(request).await?)?;
    Ok(input.items.len().to_string())
}

async fn panics() -> &'static str {
    let text = String::from("secret");
    assert!(text.is_empty(), "{text}");
    "unreached"
}

fn number(path: Result<Path<u32>, axum::extract::rejection::PathRejection>) -> Result<String, Problem> {
    Ok(path?.0.to_string())
}

pub struct Client {
    pub socket: TcpStream,
    pub rest: Vec<u8>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: String,
    pub body: Vec<u8>,
}

impl Client {
    /// Sends a request. `head` is the request line without its version, and further header lines.
    pub async fn send(&mut self, head: &str, body: &[u8]) {
        let (line, headers) = head.split_once('\n').unwrap_or((head, ""));
        let mut text = format!("{line} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", body.len());
        for header in headers.lines() {
            write!(text, "{header}\r\n").unwrap();
        }
        self.write(format!("{text}\r\n").as_bytes()).await;
        self.write(body).await;
    }

    /// Writes bytes. The front may close before all are written; the answer shows it.
    pub async fn write(&mut self, bytes: &[u8]) {
        let _ = timeout(PATIENCE, self.socket.write_all(bytes)).await.expect("the front does not read");
    }

    /// Returns the next answer; `None` when the connection was closed instead.
    pub async fn answer(&mut self) -> Option<Answer> {
        timeout(PATIENCE, self.read_answer()).await.expect("neither answer nor close")
    }

    async fn read_answer(&mut self) -> Option<Answer> {
        loop {
            if let Some(answer) = self.whole() {
                return Some(answer);
            }
            let mut piece = [0_u8; 4096];
            match self.socket.read(&mut piece).await {
                Ok(0) | Err(_) => return None,
                Ok(n) => self.rest.extend_from_slice(&piece[..n]),
            }
        }
    }

    fn whole(&mut self) -> Option<Answer> {
        let end = self.rest.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let headers = String::from_utf8(self.rest[..end].to_vec()).unwrap().to_ascii_lowercase();
        let status = headers[9..12].parse().unwrap();
        let mut answer = Answer { status, headers, body: Vec::new() };
        let length: usize = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        answer.body = self.rest.get(end..end + length)?.to_vec();
        self.rest.drain(..end + length);
        Some(answer)
    }

    pub async fn closed(&mut self) {
        assert!(self.answer().await.is_none(), "an answer where a close was due");
    }
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem: Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem["code"], code);
        assert_eq!(problem["status"], status);
        assert_eq!(problem["type"], format!("urn:umbra:problem:{code}"));
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
        if matches!(status, 429 | 503) {
            let wait: u32 = self.header("retry-after").expect("no Retry-After").parse().unwrap();
            assert!((1..=5).contains(&wait), "{wait}");
        }
        problem
    }
}
