//! Exports in any order, twice, over two servers of which one is killed: the same calls.

#![expect(clippy::expect_used, reason = "a test that meets an error fails")]

use std::collections::BTreeMap;

use serde_json::Value;

use super::{ExportedBody, assembled, calls, capture, names};
use crate::support::{Schema, Umbra};

/// Returns the identity of each call with the number of its events: kind, texts, tool, and id.
fn identities(events: &[Value]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for event in events {
        let (tool, otel) = (&event["tool"], &event["metadata"]["otel"]);
        let id = if otel["call_id"].is_null() { &otel["response_id"] } else { &otel["call_id"] };
        let parts =
            [&otel["kind"], &event["output"], &tool["name"], &tool["args"], &tool["result"], &tool["error"], id];
        let whole = parts.map(ToString::to_string).join(" | ");
        // Each installation has tags of its own.
        let texts: Vec<&str> = whole.split("[secret:aws_access_key:").collect();
        let untagged = texts.iter().enumerate().map(|(at, text)| if at == 0 { *text } else { &text[2..] });
        *found.entry(untagged.collect::<Vec<_>>().join("[key")).or_default() += 1;
    }
    found
}

/// Puts items into an order that depends on the seed alone.
fn shuffle<T>(items: &mut [T], mut seed: u64) {
    for last in (1..items.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(last, usize::try_from(seed >> 33).expect("31 bits") % (last + 1));
    }
}

fn bodies() -> Vec<ExportedBody> {
    names().iter().flat_map(|name| capture(name).bodies).collect()
}

async fn in_order() -> BTreeMap<String, usize> {
    let schema = Schema::fresh().await;
    let umbra = Umbra::with().on(&schema).go().await;
    for body in bodies() {
        assert_eq!(umbra.export(&body).await.0, 200);
    }
    assembled(&schema).await;
    identities(&calls(&umbra).await)
}

#[tokio::test]
async fn order_repetition_and_a_killed_server_change_no_call() {
    let wanted = in_order().await;
    for seed in [7, 77, 777] {
        let schema = Schema::fresh().await;
        let mut first = Umbra::with().on(&schema).go().await;
        let second = Umbra::with().on(&schema).go().await;
        let mut sent = [bodies(), bodies()].concat();
        shuffle(&mut sent, seed);
        let half = sent.len() / 2;
        for (at, body) in sent.iter().enumerate() {
            if at == half {
                first.unchecked();
                first.kill();
            }
            let to = if at < half && at % 2 == 0 { &first } else { &second };
            assert_eq!(to.export(body).await.0, 200);
        }
        assembled(&schema).await;
        let found = identities(&calls(&second).await);
        let differs = |one: &BTreeMap<String, usize>, other: &BTreeMap<String, usize>| {
            let differs = one.iter().filter(|(call, count)| other.get(*call) != Some(count));
            differs.map(|(call, count)| format!("{count} x {call}")).collect::<Vec<_>>().join("\n")
        };
        assert!(
            found == wanted,
            "seed {seed}\nmissing:\n{}\nmore:\n{}",
            differs(&wanted, &found),
            differs(&found, &wanted)
        );
    }
}
