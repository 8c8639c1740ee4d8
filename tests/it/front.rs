//! The HTTP front over real sockets: clients that are slow, silent, large or many, and a drain among them.
//!
//! The tests use a small router and small limits. None asserts speed: deadlines here only keep a broken front from
//! hanging the tests.

#[path = "front/bodies.rs"]
mod bodies;
#[path = "front/server.rs"]
mod server;
#[path = "front/tasks.rs"]
mod tasks;

use std::{sync::atomic::Ordering, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{sleep, timeout},
};
use umbra::{api::problem::KINDS, lifecycle::Drained};

use crate::support::sabotage;
use umbra_config::settings;

use self::server::{PATIENCE, SHORT, Server, short_limits};

#[tokio::test]
async fn keep_alive_connection_answers_requests_with_the_peer() {
    let server = Server::start(settings::Server::default(), settings::Server::default());
    let mut client = server.connect().await;
    let local = client.socket.local_addr().unwrap().to_string();
    for _ in 0..3 {
        client.send("GET /peer", b"").await;
        let answer = client.answer().await.unwrap();
        assert_eq!((answer.status, answer.body), (200, local.clone().into_bytes()));
    }
}

#[tokio::test]
async fn silent_socket_and_slow_headers_are_closed() {
    let server = Server::start(short_limits(), settings::Server::default());
    server.connect().await.closed().await;

    let mut dripping = server.connect().await;
    dripping.write(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n").await;
    let dripped = async {
        while dripping.socket.write_all(b"x").await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, dripped).await.expect("dripped headers were not cut");
}

#[tokio::test]
async fn idle_connection_is_closed_at_the_idle_not_header_deadline() {
    let idle = SHORT * 4;
    let server = Server::start(settings::Server { idle_timeout: idle, ..short_limits() }, settings::Server::default());
    let mut client = server.connect().await;
    for _ in 0..2 {
        client.send("GET /livez", b"").await;
        assert_eq!(client.answer().await.unwrap().status, 200);
        sleep(SHORT * 2).await;
    }
    client.closed().await;

    // The second request's headers have their deadline too.
    let server = Server::start(short_limits(), settings::Server::default());
    let mut client = server.connect().await;
    client.send("GET /livez", b"").await;
    assert_eq!(client.answer().await.unwrap().status, 200);
    client.write(b"GET /li").await;
    client.closed().await;
}

#[tokio::test]
async fn running_request_is_not_bound_by_connection_deadlines() {
    let server = Server::start(settings::Server { idle_timeout: SHORT, ..short_limits() }, settings::Server::default());
    let mut client = server.connect().await;
    client.send("GET /held", b"").await;
    server.wait_for_held(1).await;
    sleep(SHORT * 3).await;
    server.shared.go.add_permits(1);
    assert_eq!(client.answer().await.unwrap().body, b"done");
}

#[tokio::test]
async fn stalled_response_write_closes_the_connection() {
    let server =
        Server::start(settings::Server { write_timeout: SHORT, ..short_limits() }, settings::Server::default());
    let mut client = server.connect().await;
    client.send("GET /large", b"").await;
    sleep(SHORT * 5).await;
    let mut taken = Vec::new();
    let _ = timeout(PATIENCE, client.socket.read_to_end(&mut taken)).await.expect("still open");
    assert!(!taken.is_empty() && taken.len() < 32 * 1024 * 1024, "{} bytes came", taken.len());
}

#[tokio::test]
async fn oversized_headers_are_answered_by_431() {
    let server = Server::start(settings::Server::default(), settings::Server::default());
    let many = |count: usize| (0..count).fold("GET /livez".to_owned(), |all, n| format!("{all}\nx-{n}: 1"));
    assert_eq!(server.ask(&many(60), b"").await.status, 200);
    server.ask(&many(70), b"").await.problem(431, "headers_too_large");
    let long = |size: usize| format!("GET /livez\nx-long: {}", "y".repeat(size));
    assert_eq!(server.ask(&long(15 * 1024), b"").await.status, 200);
    server.ask(&long(17 * 1024), b"").await.problem(431, "headers_too_large");
    server.ask(&long(512 * 1024), b"").await.problem(431, "headers_too_large");
}

#[tokio::test]
async fn malformed_request_gets_a_400_problem() {
    let server = Server::start(settings::Server::default(), settings::Server::default());
    let tls: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on\r\n\r\n";
    for bytes in [tls, b"GET /livez HTTP/1.1\r\nhost localhost\r\n\r\n", b"nonsense\r\n\r\n"] {
        let mut client = server.connect().await;
        client.write(bytes).await;
        let answer = client.answer().await.expect("an answer");
        answer.problem(400, "bad_request");
        assert_eq!(answer.header("connection"), Some("close"));
        client.closed().await;
    }
    // After an answered request on the same connection, too.
    let mut client = server.connect().await;
    client.send("GET /livez", b"").await;
    assert_eq!(client.answer().await.expect("an answer").status, 200);
    client.write(b"nonsense\r\n\r\n").await;
    client.answer().await.expect("an answer").problem(400, "bad_request");
}

#[tokio::test]
async fn body_with_length_and_chunked_encoding_closes_the_connection() {
    let server = Server::start(settings::Server::default(), settings::Server::default());
    let mut client = server.connect().await;
    client.send("GET /livez", b"").await;
    assert_eq!(client.answer().await.expect("an answer").status, 200);
    // The second request hides in what the length calls a body.
    client
        .send("POST /livez\ntransfer-encoding: chunked", b"0\r\n\r\nGET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    client.answer().await.expect("an answer").problem(400, "bad_request");
    client.closed().await;
}

#[tokio::test]
async fn a_body_that_is_chunked_twice_is_refused() {
    let server = Server::start(settings::Server::default(), settings::Server::default());
    let once = if sabotage() { "transfer-encoding: chunked" } else { "transfer-encoding: chunked, chunked" };
    for twice in ["transfer-encoding: chunked\ntransfer-encoding: chunked", once] {
        let mut client = server.connect().await;
        client
            .write(
                format!("POST /length HTTP/1.1\r\nhost: localhost\r\n{}\r\n\r\n", twice.replace('\n', "\r\n"))
                    .as_bytes(),
            )
            .await;
        client.write(b"1\r\nx\r\n0\r\n\r\n").await;
        client.answer().await.expect("an answer").problem(400, "bad_request");
    }
}

#[tokio::test]
async fn connection_beyond_the_limit_gets_503_until_one_closes() {
    let server = Server::start(
        settings::Server { max_connections: 2, ..settings::Server::default() },
        settings::Server::default(),
    );
    let mut inside = Vec::new();
    for _ in 0..2 {
        let mut client = server.connect().await;
        client.send("GET /livez", b"").await;
        assert_eq!(client.answer().await.unwrap().status, 200);
        inside.push(client);
    }
    let mut third = server.connect().await;
    third.send("POST /length", &[b'x'; 5000]).await;
    third.answer().await.unwrap().problem(503, "overloaded");
    third.closed().await;
    drop(inside);
    let again = async {
        while server.ask("GET /livez", b"").await.status != 200 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, again).await.expect("no room again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drain_finishes_running_requests_and_drops_slow_senders() {
    const DRIPPING: usize = 100;
    let patient = Duration::from_mins(10);
    let limits = settings::Server {
        first_byte_timeout: patient,
        header_timeout: patient,
        idle_timeout: patient,
        ..short_limits()
    };
    let bodies = settings::Server { body_timeout: patient, ..settings::Server::default() };
    let server = Server::start(limits, bodies);

    let mut drips = JoinSet::new();
    for n in 0..DRIPPING {
        let mut client = server.connect().await;
        let opening: &[u8] = match n % 4 {
            0 => b"",
            1 => b"GET /livez HTTP/1.1\r\nhost: local",
            2 => b"POST /length HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999\r\n\r\n",
            _ => b"POST /length HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n5\r\n",
        };
        drips.spawn(async move {
            client.write(opening).await;
            while n % 4 != 0 && client.socket.write_all(b"x").await.is_ok() {
                sleep(Duration::from_millis(50)).await;
            }
        });
    }
    let mut slow = Vec::new();
    for _ in 0..2 {
        let mut client = server.connect().await;
        client.send("GET /held", b"").await;
        slow.push(client);
    }
    server.wait_for_held(2).await;
    let mut idle = server.connect().await;
    idle.send("GET /livez", b"").await;
    assert_eq!(idle.answer().await.unwrap().status, 200);

    let tasks = server.tasks.clone();
    let drain = Duration::from_secs(4);
    let mut stopping = JoinSet::new();
    stopping.spawn(async move { tasks.shutdown(drain).await });
    server.tasks.soft().cancelled().await;
    // A keep-alive client that was just sending is answered, and told to go.
    sleep(SHORT / 4).await;
    idle.send("GET /livez", b"").await;
    let answer = idle.answer().await.expect("an idle connection was cut under a request");
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    idle.closed().await;
    sleep(SHORT * 2).await;
    assert!(TcpStream::connect(server.addr).await.is_err(), "still accepting");
    server.shared.go.add_permits(2);
    for client in &mut slow {
        let answer = client.answer().await.expect("a request in flight failed");
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"done"[..]));
        assert_eq!(answer.header("connection"), Some("close"));
    }
    let drained = timeout(drain, stopping.join_next()).await.expect("longer than the drain may take");
    let Drained { dropped } = drained.unwrap().unwrap().unwrap();
    assert!(dropped > 0 && dropped <= DRIPPING, "{dropped} dropped");
    assert_eq!(server.tasks.shutdown(SHORT).await, Ok(Drained { dropped: 0 }), "tasks were left");
}

#[tokio::test]
async fn drain_with_idle_connections_ends_at_once() {
    let server = Server::start(short_limits(), settings::Server::default());
    let mut silent = server.connect().await;
    let mut idle = server.connect().await;
    idle.send("GET /livez", b"").await;
    assert_eq!(idle.answer().await.unwrap().status, 200);
    let drained = timeout(PATIENCE, server.tasks.shutdown(PATIENCE * 10)).await.expect("it waited");
    assert_eq!(drained, Ok(Drained { dropped: 0 }));
    silent.closed().await;
    idle.closed().await;
}

#[tokio::test]
async fn panic_gives_a_500_without_details_and_the_server_goes_on() {
    let server = Server::start(settings::Server::default(), settings::Server::default());
    let mut client = server.connect().await;
    for path in ["/panic", "/fault"] {
        client.send(&format!("GET {path}\nx-request-id: mine-7"), b"").await;
        let answer = client.answer().await.unwrap();
        let problem = answer.problem(500, "internal");
        assert_eq!(problem["instance"], "urn:umbra:request:mine-7");
        assert_eq!(answer.header("x-request-id"), Some("mine-7"));
        let shown = String::from_utf8_lossy(&answer.body);
        assert!(!shown.contains("secret") && !shown.contains("hunter2"), "{shown}");
    }
    client.send("GET /livez", b"").await;
    assert_eq!(client.answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn unknown_path_or_method_gets_a_problem_with_the_request_id() {
    let server = Server::start(settings::Server::default(), settings::Server::default());
    let answer = server.ask("GET /nowhere", b"").await;
    let id = answer.header("x-request-id").unwrap().to_owned();
    assert_eq!(answer.problem(404, "not_found")["instance"], format!("urn:umbra:request:{id}"));
    let answer = server.ask("DELETE /length", b"").await;
    answer.problem(405, "method_not_allowed");
    assert_eq!(answer.header("allow"), Some("post"));
    server.ask("GET /number/seven", b"").await.problem(400, "bad_path");
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused() {
    let server = Server::start(settings::Server::default(), settings::Server::default());
    let origin = server.ask("POST /length\norigin: https://evil.example", b"x").await;
    origin.problem(403, "bad_origin");
    for (host, status, code) in [
        ("host: evil.example:7817\r\n", 403, "bad_host"),
        ("", 400, "missing_host"),
        ("host: a\r\nhost: b\r\n", 403, "bad_host"),
    ] {
        let mut client = server.connect().await;
        client.write(format!("GET /livez HTTP/1.1\r\n{host}\r\n").as_bytes()).await;
        client.answer().await.unwrap().problem(status, code);
    }
}

#[tokio::test]
async fn full_admission_class_refuses_at_once_while_health_answers() {
    let server = Server::start(settings::Server::default(), settings::Server::default());
    let mut admitted = Vec::new();
    for _ in 0..2 {
        let mut client = server.connect().await;
        client.send("GET /held", b"").await;
        admitted.push(client);
    }
    server.wait_for_held(2).await;
    for _ in 0..20 {
        server.ask("GET /held", b"").await.problem(503, "overloaded");
        assert_eq!(server.ask("GET /livez", b"").await.status, 200);
    }
    assert_eq!(server.shared.held.load(Ordering::SeqCst), 2);
    server.shared.go.add_permits(2);
    for client in &mut admitted {
        assert_eq!(client.answer().await.unwrap().status, 200);
    }
    // Requests that give their place back early do not count.
    let mut waiting = Vec::new();
    for n in 3..=7 {
        let mut client = server.connect().await;
        client.send("GET /released", b"").await;
        server.wait_for_held(n).await;
        waiting.push(client);
    }
    server.shared.released.notify_waiters();
    for client in &mut waiting {
        assert_eq!(client.answer().await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn pages_carry_security_headers() {
    let server = Server::start(settings::Server::default(), settings::Server::default());
    let answer = server.ask("GET /page", b"").await;
    assert!(answer.header("content-security-policy").unwrap().contains("default-src 'self'"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("x-frame-options"), Some("deny"));
    assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
}

#[test]
fn every_kind_of_problem_has_a_code_of_its_own() {
    let mut codes: Vec<&str> = KINDS.iter().map(|kind| kind.code).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), KINDS.len());
    for kind in KINDS {
        assert!((400..=599).contains(&kind.status) && kind.urn.ends_with(kind.code), "{kind:?}");
    }
}
