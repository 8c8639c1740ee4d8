//! Bodies that are slow, large or broken, or expand.

#![expect(clippy::unwrap_used, reason = "what fails here is to fail the test")]

use std::{io::Write as _, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{sleep, timeout},
};
use umbra_config::settings;

use super::server::{PATIENCE, Server, small_bodies};

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn zstd(plain: &[u8]) -> Vec<u8> {
    zstd::encode_all(plain, 3).unwrap()
}

#[tokio::test]
async fn slow_body_is_answered_by_408() {
    let server = Server::start(settings::Server::default(), small_bodies());
    let mut client = server.connect().await;
    client.write(b"POST /length HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n").await;
    let (mut reading, mut writing) = client.socket.into_split();
    let dripping = async {
        while writing.write_all(b"x").await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let mut text = vec![0_u8; 4096];
    let n = tokio::select! {
        n = timeout(PATIENCE, reading.read(&mut text)) => n.expect("not cut").unwrap(),
        () = dripping => panic!("cut without an answer"),
    };
    let text = String::from_utf8_lossy(&text[..n]);
    assert!(text.starts_with("HTTP/1.1 408") && text.contains("request_timeout"), "{text}");
    assert!(text.contains("connection: close"), "{text}");
}

#[tokio::test]
async fn compressed_bodies_are_decoded_and_their_memory_released() {
    let limits = settings::Server { max_in_flight_bytes: 256 * 1024, ..small_bodies() };
    let server = Server::start(settings::Server::default(), limits);
    let plain = b"what an agent did; ".repeat(10_000);
    for _ in 0..4 {
        for (encoding, body) in [("gzip", gzip(&plain)), ("zstd", zstd(&plain)), ("identity", plain.clone())] {
            let answer = server.ask(&format!("POST /length\ncontent-encoding: {encoding}"), &body).await;
            assert_eq!(String::from_utf8_lossy(&answer.body), plain.len().to_string(), "{encoding}");
        }
    }
    // Output of exactly one inner buffer, of several frames, and none at all.
    for size in [0, 1, 16 * 1024, 32 * 1024, 128 * 1024] {
        let twice = [zstd(&vec![7; size]), zstd(b"tail")].concat();
        let answer = server.ask("POST /length\ncontent-encoding: zstd", &twice).await;
        assert_eq!(String::from_utf8_lossy(&answer.body), (size + 4).to_string());
        let answer = server.ask("POST /length\ncontent-encoding: zstd", &zstd(&vec![7; size])).await;
        assert_eq!(String::from_utf8_lossy(&answer.body), size.to_string());
    }
}

#[tokio::test]
async fn bodies_in_flight_are_bounded_in_total() {
    let limits = settings::Server { max_in_flight_bytes: 128 * 1024, ..small_bodies() };
    let server = Server::start(settings::Server::default(), limits);
    let answer = server.ask("POST /length", &vec![b'x'; 200 * 1024]).await;
    answer.problem(503, "overloaded");
    assert_eq!(server.ask("POST /length", &vec![b'x'; 100 * 1024]).await.status, 200);
}

#[tokio::test]
async fn decompression_bomb_is_refused() {
    let server = Server::start(settings::Server::default(), settings::Server::default());
    let zeros = vec![0_u8; 64 * 1024 * 1024];
    for (encoding, bomb) in [("gzip", gzip(&zeros)), ("zstd", zstd(&zeros))] {
        let answer = server.ask(&format!("POST /length\ncontent-encoding: {encoding}"), &bomb).await;
        let problem = answer.problem(413, "body_too_large");
        assert!(problem["detail"].as_str().unwrap().contains("4194304"), "{problem}");
    }
    // Ten bytes that ask for a window of 2 GiB.
    let window = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00];
    server.ask("POST /length\ncontent-encoding: zstd", &window).await.problem(400, "bad_encoding");
}

#[tokio::test]
async fn oversized_body_gets_413_without_a_connection_reset() {
    let server = Server::start(settings::Server::default(), small_bodies());
    // With and without a declared length, before and after encoding; none of them is answered by a reset.
    let mut client = server.connect().await;
    client.write(b"POST /length HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1048576\r\n\r\n").await;
    for _ in 0..64 {
        client.socket.write_all(&[b'x'; 16 * 1024]).await.expect("reset while sending");
        sleep(Duration::from_millis(2)).await;
    }
    client.answer().await.unwrap().problem(413, "body_too_large");
    assert_eq!(client.socket.read(&mut [0_u8; 1]).await.expect("reset after the answer"), 0);
    let noise: Vec<u8> = (0_u32..40_000).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    server.ask("POST /length\ncontent-encoding: gzip", &gzip(&noise)).await.problem(413, "body_too_large");
    let mut client = server.connect().await;
    client.write(b"POST /length HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n").await;
    for _ in 0..10 {
        client.write(b"10000\r\n").await;
        client.write(&vec![b'x'; 0x1_0000]).await;
        client.write(b"\r\n").await;
    }
    client.answer().await.unwrap().problem(413, "body_too_large");
}

#[tokio::test]
async fn broken_encoding_gets_400_and_unknown_encoding_415() {
    let server = Server::start(settings::Server::default(), settings::Server::default());
    let (zipped, packed) = (gzip(b"plain text"), zstd(b"plain text"));
    let cut = |bytes: &[u8]| bytes[..bytes.len() - 3].to_vec();
    let mut wrong_sum = zipped.clone();
    let place = wrong_sum.len() - 6;
    wrong_sum[place] ^= 1;
    for (encoding, body) in [
        ("gzip", b"not gzip".to_vec()),
        ("gzip", cut(&zipped)),
        ("gzip", wrong_sum),
        ("gzip", [zipped.clone(), b"trailing".to_vec()].concat()),
        ("gzip", [zipped.clone(), zipped.clone()].concat()),
        ("gzip", Vec::new()),
        ("zstd", b"not zstd".to_vec()),
        ("zstd", cut(&packed)),
        ("zstd", [packed.clone(), b"trailing".to_vec()].concat()),
        ("zstd", Vec::new()),
    ] {
        server.ask(&format!("POST /length\ncontent-encoding: {encoding}"), &body).await.problem(400, "bad_encoding");
    }
    for encodings in ["gzip, gzip", "gzip\ncontent-encoding: gzip", "br", "deflate", "identity, gzip"] {
        let answer = server.ask(&format!("POST /length\ncontent-encoding: {encodings}"), &gzip(&zipped)).await;
        answer.problem(415, "unsupported_encoding");
        assert_eq!(answer.header("accept-encoding"), Some("gzip, zstd, identity"));
    }
}

#[tokio::test]
async fn json_needs_its_content_type_and_faults_have_pointers() {
    let server = Server::start(settings::Server::default(), settings::Server::default());
    let ask = async |media: &str, body: &str| server.ask(&format!("POST /json{media}"), body.as_bytes()).await;
    for media in ["\ncontent-type: application/json", "\ncontent-type: Application/JSON; charset=\"UTF-8\""] {
        assert_eq!(ask(media, r#"{"items": [1, 2]}"#).await.body, b"2");
    }
    for media in [
        "",
        "\ncontent-type: application/x-www-form-urlencoded",
        "\ncontent-type: text/plain",
        "\ncontent-type: application/json; charset=latin1",
        "\ncontent-type: application/x-protobuf",
    ] {
        let problem = ask(media, r#"{"items": []}"#).await.problem(415, "unsupported_media_type");
        assert!(problem["detail"].as_str().unwrap().contains("Content-Type: application/json"), "{problem}");
    }
    let media = "\ncontent-type: application/json";
    for (body, pointer) in [(r#"{"items": [1, -2]}"#, "/items/1"), (r#"{"items": 5}"#, "/items"), ("{}", "")] {
        let problem = ask(media, body).await.problem(400, "bad_json");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    for body in ["", "{", r#"{"items": []} x"#, &"[".repeat(200_000)] {
        ask(media, body).await.problem(400, "bad_json");
    }
}
