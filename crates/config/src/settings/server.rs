//! `server`: the HTTP front and its bounds.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use super::{
    super::{
        number::{Bytes, Time, whole},
        shape::List,
        text::{parse_bind, text},
    },
    KIB, MIB, ms, secs,
    section::section,
};

section! {
    /// The HTTP front and its bounds.
    Server {
        /// Address and port to listen on. Port 0 picks a free one, which is printed at start.
        /// Without keys only loopback addresses are served.
        bind: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7817),
            text("an address with a port", 64, parse_bind);
        /// Host names, besides loopback ones, by which browsers may reach the service.
        allowed_hosts: Vec<String> = Vec::new(),
            List { len: 0..=64, single: true, item: text("a host name", 253, super::outbound::host_name) };
        /// Most connections at a time; more are refused.
        max_connections: usize = 12_000, whole(1..=100_000);
        /// Longest silence before the first byte of a request.
        first_byte_timeout: Duration = secs(5), Time(ms(100)..=secs(600));
        /// Longest time in which a request's headers may arrive.
        header_timeout: Duration = secs(5), Time(ms(100)..=secs(600));
        /// Longest time in which a request's body may arrive.
        body_timeout: Duration = secs(10), Time(ms(100)..=secs(600));
        /// Bytes a second that must have arrived on average for a body to take longer than `body_timeout`.
        min_body_rate: usize = 64 * 1024, Bytes(KIB..=64 * MIB);
        /// Longest time that a connection may be idle between two requests. Clients' pools keep connections for 60 to
        /// 90 s.
        idle_timeout: Duration = secs(75), Time(ms(100)..=secs(3600));
        /// Longest time in which a client takes no byte of an answer.
        write_timeout: Duration = secs(30), Time(ms(100)..=secs(600));
        /// Largest head of a request (request line and headers).
        max_header_bytes: usize = 16 * 1024, Bytes(8 * KIB..=MIB);
        /// Most headers in a request.
        max_headers: usize = 64, whole(8..=1_000);
        /// Largest compressed body as it arrives.
        max_body_bytes: usize = 2 * 1024 * 1024, Bytes(KIB..=64 * MIB);
        /// Largest body after decompression, or as it arrives where it is not compressed.
        max_decoded_bytes: usize = 4 * 1024 * 1024, Bytes(KIB..=256 * MIB);
        /// Most bytes of all bodies in memory at a time; a request whose body does not fit is answered 503.
        max_in_flight_bytes: usize = 64 * 1024 * 1024, Bytes(64 * KIB..=16 * 1024 * MIB);
        /// Most bodies that one key, or one address without a key, may be sending at a time; one more is answered 429.
        max_bodies_per_caller: usize = 256, whole(1..=100_000);
        /// Largest single event, as JSON.
        max_event_bytes: usize = 256 * 1024, Bytes(KIB..=16 * MIB);
        /// Most events in one batch.
        max_batch_events: usize = 1_000, whole(1..=10_000);
        /// Deepest nesting of an event's JSON.
        json_depth: usize = 32, whole(4..=120);
        /// Most values (objects, lists, texts, numbers) in an event's JSON.
        json_nodes: usize = 20_000, whole(100..=1_000_000);
        /// Most requests that write events at a time; more are answered 503.
        ingest_concurrency: usize = 256, whole(1..=10_000);
        /// Most requests that read at a time; more are answered 503.
        read_concurrency: usize = 64, whole(1..=10_000);
        /// Most requests at a time that ask for decisions or belong to sessions; more are answered 503.
        decide_concurrency: usize = 256, whole(1..=10_000);
        /// Most requests of MCP clients at a time, each as long as its tool runs; more are answered 503.
        mcp_concurrency: usize = 1_024, whole(1..=100_000);
        /// Most requests at a time that wait for a review or a verdict; more are answered 503.
        wait_concurrency: usize = 4_096, whole(1..=100_000);
        /// Most streams at a time: of findings, of the audit, of sessions; more are answered 503.
        max_streams: usize = 256, whole(1..=10_000);
        /// Time between keep-alives of a stream that has nothing to send.
        stream_keep_alive: Duration = secs(15), Time(ms(100)..=secs(300));
        /// Longest time that requests and reviews under way have to end after SIGTERM.
        drain_timeout: Duration = secs(25), Time(secs(1)..=secs(600));
        /// Longest time after SIGTERM in which an idle connection may begin one more request.
        drain_idle_timeout: Duration = secs(1), Time(ms(0)..=secs(60));
        /// Longest time that a request may wait for a verdict (`Prefer: wait=N`).
        max_wait: Duration = secs(60), Time(ms(100)..=secs(60));
    }
    rules |server, keys| {
        if server.max_decoded_bytes < server.max_body_bytes {
            keys.fault(
                keys.first_of(["max_decoded_bytes", "max_body_bytes"]),
                "max_decoded_bytes is below max_body_bytes",
                "a body may be sent uncompressed: raise max_decoded_bytes or lower max_body_bytes",
            );
        }
        if server.max_in_flight_bytes < server.max_decoded_bytes {
            keys.fault(
                keys.first_of(["max_in_flight_bytes", "max_decoded_bytes"]),
                "max_in_flight_bytes is below max_decoded_bytes",
                "the largest body would never fit: raise max_in_flight_bytes or lower max_decoded_bytes",
            );
        }
        if server.max_event_bytes > server.max_decoded_bytes {
            keys.fault(
                keys.first_of(["max_event_bytes", "max_decoded_bytes"]),
                "max_event_bytes is above max_decoded_bytes",
                "an event is part of a body: lower max_event_bytes or raise max_decoded_bytes",
            );
        }
    };
}
