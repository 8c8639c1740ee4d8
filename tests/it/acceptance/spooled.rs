//! Five thousand events wait on the local disk, and the server is killed twice: each is stored once, in order.
//!
//! `UMBRA_SABOTAGE=1` takes the spool's files away, and the story must fail.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::Row;

use crate::{
    outage::{SHADOWS, external, spooled_text},
    support::{outage::on, sabotage, until},
};

/// Returns a step of an agent; the shadow watches one in ten.
fn step(agent: usize, n: usize) -> Value {
    let mut event = json!({"agent": format!("agent-{agent}"), "output": format!("part {n}")});
    if n.is_multiple_of(10) {
        event["triggers"] = json!(["error"]);
    }
    event
}

#[tokio::test]
async fn spooled_events_are_filed_once_and_in_order_over_two_kills() {
    for keys in [false, true] {
        let (mut database, data) = external().await;
        let mut umbra = on(&database.url(), data.path()).shadows(SHADOWS).go().await;
        let key = if keys {
            let made = umbra.cli(&["keys", "create", "--name", "k", "--scope", "ingest,read", "--json"], None);
            let made: Value = serde_json::from_slice(&made.stdout).expect("a key");
            format!("Bearer {}", made["key"].as_str().unwrap_or_default())
        } else {
            String::new()
        };
        let headers = |key: &str| -> Vec<(String, String)> {
            let json = ("content-type".to_owned(), "application/json".to_owned());
            let key = (!key.is_empty()).then(|| ("authorization".to_owned(), key.to_owned()));
            [json].into_iter().chain(key).collect()
        };
        let headers = headers(&key);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        until("the keys to be known", async || {
            let body = json!({"agent": "warm", "output": "x"}).to_string().into_bytes();
            (umbra.send(Method::POST, "/v1/events", &headers, Some(body)).await.status == 202).then_some(())
        })
        .await;
        database.stop().await;
        // Ten agents, each posting one event after the other.
        let agent = async |name: usize| {
            for n in 0..500 {
                let body = step(name, n).to_string().into_bytes();
                let answered = umbra.send(Method::POST, "/v1/events", &headers, Some(body)).await;
                assert_eq!(
                    (answered.status.as_u16(), &answered.body["spooled"]),
                    (202, &json!(true)),
                    "{}",
                    answered.text
                );
            }
        };
        join_all((0..10).map(agent)).await;
        umbra.kill();
        if sabotage() {
            std::fs::remove_dir_all(data.path().join("spool")).expect("it goes");
        }
        database.resume().await;
        // Killed again while it files.
        umbra.restart().await;
        let mut connection = database.connect().await;
        let stored = async |connection: &mut sqlx::PgConnection| {
            let row = sqlx::query("SELECT count(*) FROM event WHERE agent LIKE 'agent-%'").fetch_one(connection).await;
            row.map_or(0, |row| row.get::<i64, _>(0))
        };
        until("some to be filed", async || (stored(&mut connection).await > 0 || sabotage()).then_some(())).await;
        umbra.kill();
        umbra.restart().await;
        until("all to be filed", async || (stored(&mut connection).await >= 5_000 || sabotage()).then_some(())).await;
        let rows = sqlx::query(
            "SELECT agent, convert_from(payload, 'UTF8') FROM event WHERE agent LIKE 'agent-%' ORDER BY seq",
        );
        let rows = rows.fetch_all(&mut connection).await.expect("rows");
        for name in 0..10 {
            let agent = format!("agent-{name}");
            let of: Vec<String> = rows
                .iter()
                .filter(|row| row.get::<&str, _>(0) == agent)
                .map(|row| serde_json::from_str::<Value>(row.get(1)).expect("JSON")["event"]["output"].to_string())
                .collect();
            let expected: Vec<String> = (0..500).map(|n| step(name, n)["output"].to_string()).collect();
            assert_eq!(of, expected, "{agent}: lost, stored twice, or not in order");
        }
        // As without an outage: each event that a shadow watches was reviewed.
        until("every review", async || {
            let done = sqlx::query("SELECT count(*) FROM review WHERE agent LIKE 'agent-%' AND state = 'done'");
            let done: i64 = done.fetch_one(&mut connection).await.ok()?.get(0);
            (done == 500).then_some(())
        })
        .await;
        assert_eq!(spooled_text(data.path()), "");
        drop(connection);
        umbra.stop();
        umbra.doctor();
    }
}
