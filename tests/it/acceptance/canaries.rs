//! Five hundred secrets of twenty formats, posted in every field of an event and by every way in: none of them may be
//! found afterwards in any file of the database, column, log, page, prompt or webhook.
//!
//! `UMBRA_SABOTAGE=1` writes one of them around the redaction, and the search must find it.

#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails, and finds Postgres as others do"
)]

use std::{
    collections::{BTreeSet, hash_map::RandomState},
    hash::BuildHasher,
    path::Path,
};

use aho_corasick::AhoCorasick;
use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, Row};
use tempfile::TempDir;
use umbra_store::postgres::{PrivateOptions, PrivatePostgres};

use crate::support::{
    Umbra,
    judge::verdict,
    model_server::{Answer, ModelServer},
    sabotage, until,
};

const SHADOWS: &str = "
shadow_agents:
  - {name: judge, model: judge, mode: active, watch: [{agent: '*', triggers: [security_risk]}],
     cost_control: {cooldown: 0s, max_reviews_per_day: 10000}}
  - {name: checks, model: checks, mode: review, watch: [{agent: '*', triggers: [security_risk]}],
     cost_control: {cooldown: 0s, max_reviews_per_day: 10000}}
";

const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HEX: &str = "0123456789abcdef";
const MIXED: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Prefix of the random part (in two pieces, so that scanners of this repository find nothing), its alphabet and
/// length, and its suffix.
const FORMATS: [([&str; 2], &str, usize, &str); 20] = [
    (["AK", "IA"], UPPER, 16, ""),
    (["gh", "p_"], MIXED, 36, ""),
    (["glp", "at-"], MIXED, 20, ""),
    (["np", "m_"], MIXED, 36, ""),
    (["pypi-", "AgE"], MIXED, 80, ""),
    (["xoxb-", "1234567890-"], MIXED, 24, ""),
    (["sk_li", "ve_"], MIXED, 24, ""),
    (["S", "G.q8Zr1LmX0pTn5vKc2JhWaa."], MIXED, 43, ""),
    (["AI", "za"], MIXED, 35, ""),
    (["sk-pr", "oj-"], MIXED, 64, ""),
    (["sk-a", "nt-api03-"], MIXED, 95, ""),
    (["h", "f_"], LETTERS, 34, ""),
    (["dop", "_v1_"], HEX, 64, ""),
    (["shp", "at_"], HEX, 32, ""),
    (["eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", ".eyJzdWIiOiIxMjM0NTY3ODkwIn0."], MIXED, 43, ""),
    (["-----BEGIN PRIV", "ATE KEY-----\\nMIIE"], MIXED, 120, "\\n-----END PRIVATE KEY-----"),
    (["postgres://svc:", ""], MIXED, 16, "@db.acme.io:5432/app"),
    (["DB_PASSWORD=", "\""], MIXED, 24, "\""),
    (["Authorization: Bea", "rer "], MIXED, 40, ""),
    (["base64 of ", ""], MIXED, 36, ""),
];
/// Number of canaries of each format.
const EACH: usize = 25;

/// Canaries of one format, returned one by one.
struct Canaries<'a> {
    format: usize,
    made: usize,
    /// All random parts so far.
    planted: &'a mut Vec<String>,
    random: &'a RandomState,
}

impl Canaries<'_> {
    /// Returns the random part of the next one, and the whole.
    fn pair(&mut self) -> (String, String) {
        let ([a, b], alphabet, length, end) = FORMATS[self.format];
        self.made += 1;
        let letter = |at: usize| {
            let hash = self.random.hash_one((self.format, self.made, at));
            char::from(alphabet.as_bytes()[usize::try_from(hash % alphabet.len() as u64).expect("a small number")])
        };
        let mut core: String = (0..length).map(letter).collect();
        if self.format == 19 {
            // A token in base64: the search is for the token, and its base64.
            let token = ["export GITHUB_TOKEN=gh", "p_", &core].concat();
            self.planted.push(core);
            core = STANDARD.encode(token);
            // All begin alike; the search is for the rest.
            self.planted.push(core[32..].to_owned());
            return (core.clone(), format!("{a}{b}{core}{end}"));
        }
        self.planted.push(core.clone());
        (core.clone(), format!("{a}{b}{core}{end}"))
    }

    fn next(&mut self) -> String {
        self.pair().1
    }

    /// Returns the value to put beside a name, where the name makes it a secret.
    fn bare(&mut self) -> String {
        let (core, whole) = self.pair();
        if self.format == 17 { core } else { whole }
    }
}

/// Nests a text within JSON, in a text within JSON, and so on.
fn nested(text: &str, depth: usize) -> String {
    (0..depth).fold(text.to_owned(), |inner, _| json!({"body": inner, "done": true}).to_string())
}

/// Returns an event with a canary in every field that takes text.
fn full(c: &mut Canaries<'_>) -> Value {
    json!({
        "id": c.next(), "agent": c.next(), "task_id": c.next(), "session_id": c.next(), "task": c.next(),
        "task_type": c.next(), "status": c.next(), "stop_reason": c.next(),
        "input": nested(&format!("use {} now", c.next()), 3), "output": format!("I used\n{}\nand it worked", c.next()),
        "tool": {"name": c.next(), "result": c.next(), "error": c.next(),
            "args": {"command": c.next(), "deep": [1, {"er": [c.next()]}], "password": c.bare(), c.next(): 1}},
        "metadata": {"note": {"client_secret": [c.bare()]}, c.next(): true},
    })
}

/// Posts a format's canaries by every way in.
async fn post(umbra: &Umbra, c: &mut Canaries<'_>) {
    let sent = full(c);
    let first = umbra.event(&sent).await;
    let again = umbra.event(&sent).await;
    assert_eq!(first["id"], again["id"], "a repeat is replayed");

    // Values that are no text become their JSON.
    let values =
        json!({"agent": "writer", "task_id": "t-1", "output": {"api_key": c.bare()}, "input": [{"x": c.next()}]});
    let batch =
        umbra.post("/v1/events/batch", &json!({"events": [values, {"agent": "writer", "output": c.next()}]})).await;
    assert_eq!(batch.status, 200, "{}", batch.text);
    let line = json!({"agent": "writer", "task_id": "t-1", "output": c.next()});
    // A long text is screened elsewhere, and a prompt holds a part of it.
    let long = json!({"agent": "writer", "output": format!("{}{}", "All is well. ".repeat(2_000), c.next())});
    let lines = format!("{line}\n{long}\n").into_bytes();
    let media = [("content-type", "application/x-ndjson")];
    let ndjson = umbra.send(Method::POST, "/v1/events/batch", &media, Some(lines)).await;
    assert_eq!(ndjson.status, 200, "{}", ndjson.text);

    // Outside of the event: a header, the path, and refused requests.
    let canary = c.next();
    let headers = [
        ("content-type", "application/json"),
        ("x-request-id", canary.as_str()),
        ("user-agent", &canary),
        ("idempotency-key", &canary),
    ];
    let body = json!({"agent": "writer", "output": "All is well."}).to_string().into_bytes();
    assert_eq!(umbra.send(Method::POST, "/v1/events", &headers, Some(body)).await.status, 202);
    let mut url = reqwest::Url::parse("http://h/v1/breakers/x").expect("a URL");
    url.path_segments_mut().expect("a path").pop().push(&canary);
    url.query_pairs_mut().append_pair("agent", &canary);
    umbra.send(Method::GET, &format!("{}?{}", url.path(), url.query().unwrap_or_default()), &[], None).await;
    let wrong = umbra.post("/v1/events", &json!({"agent": 5, "output": canary, canary: 1})).await;
    assert_eq!(wrong.status, 400, "{}", wrong.text);
}

/// Patterns of the search: both halves of each random part, which also match where only a piece leaks.
struct Search {
    patterns: AhoCorasick,
    found: BTreeSet<String>,
    bytes: usize,
}

impl Search {
    fn new(planted: &[String]) -> Self {
        let halves = planted.iter().flat_map(|core| [&core[..core.len() / 2], &core[core.len() / 2..]]);
        let patterns = AhoCorasick::new(halves).expect("patterns");
        Self { patterns, found: BTreeSet::new(), bytes: 0 }
    }

    fn look(&mut self, place: &str, bytes: &[u8]) {
        self.bytes += bytes.len();
        if let Some(hit) = self.patterns.find(bytes) {
            let around = &bytes[hit.start().saturating_sub(120)..bytes.len().min(hit.end() + 40)];
            self.found.insert(format!("{place}: {}", String::from_utf8_lossy(around)));
        }
    }

    fn files(&mut self, dir: &Path) {
        for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                self.files(&path);
            } else if let Ok(bytes) = std::fs::read(&path) {
                self.look(&path.display().to_string(), &bytes);
                self.look("a file's name", path.as_os_str().as_encoded_bytes());
            }
        }
    }

    /// Searches every column of every table.
    async fn tables(&mut self, connection: &mut PgConnection, schema: &str) {
        let columns = "SELECT table_name::text, column_name::text, data_type::text FROM information_schema.columns
             WHERE table_schema = $1";
        let columns = sqlx::query(columns).bind(schema).fetch_all(&mut *connection).await.expect("columns");
        assert!(columns.len() > 100, "{schema} has {} columns", columns.len());
        for column in columns {
            let (table, name): (String, String) = (column.get(0), column.get(1));
            let text = if column.get::<String, _>(2) == "bytea" {
                format!("encode(\"{name}\", 'escape')")
            } else {
                format!("\"{name}\"::text")
            };
            let sql = format!("SELECT string_agg({text}, E'\\n') FROM \"{schema}\".\"{table}\"");
            let all: Option<String> =
                sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&mut *connection).await.expect("a column");
            self.look(&format!("{table}.{name}"), all.unwrap_or_default().as_bytes());
        }
    }
}

/// Waits until the receiver has all messages.
async fn told(umbra: &Umbra) {
    until("the outbox to be empty", async || {
        (umbra.get("/v1/webhooks").await["items"][0]["waiting"] == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn five_hundred_canaries_are_found_nowhere() {
    // The model repeats its input, as models do.
    let model = ModelServer::start(|seen| {
        let said: String = seen.user.chars().filter(|c| !c.is_control()).take(1_500).collect();
        let findings = json!([{"severity": "warning", "category": "quality", "description": said,
            "evidence_quote": "All is well.", "checklist_item": "consistent"}]);
        Answer::Json(verdict(seen, "SUGGEST", 60, &findings))
    })
    .await;
    let receiver = ModelServer::start(|_| Answer::Status(204, vec![], String::new())).await;
    let settings = format!(
        "models:\n  judge: {{provider: openai, name: judge-1, base_url: '{}', max_output_tokens: 800, timeout: 30s}}\n\
         webhooks:\n  - {{url: '{}/hook', secret_env: HOOK}}\nlogging: {{level: debug}}\n",
        model.openai_url(),
        receiver.url()
    );
    let data = TempDir::new().expect("a directory");
    let hook = ["whsec_", "C2FVsBQIhrscChlQIMV+b5sSYspob7oDazfjcmAM"].concat();
    let start = Umbra::with().shadows(SHADOWS).settings(&settings).env("HOOK", hook).env("RUST_LOG", "debug");
    let umbra = start.env("UMBRA__STORAGE__DATA_DIR", data.path().display().to_string()).go().await;

    let (mut planted, random) = (Vec::new(), RandomState::new());
    for format in 0..FORMATS.len() {
        let mut canaries = Canaries { format, made: 0, planted: &mut planted, random: &random };
        post(&umbra, &mut canaries).await;
        assert_eq!(canaries.made, EACH);
    }
    // Those in base64 are searched in two forms.
    assert_eq!(planted.len(), FORMATS.len() * EACH + EACH);
    umbra.drain().await;
    told(&umbra).await;
    assert!(model.count() > 20 && receiver.count() > 20, "{} prompts, {} messages", model.count(), receiver.count());

    let options = PrivateOptions {
        data_dir: data.path().to_path_buf(),
        pg_bin: std::env::var_os("UMBRA_PG_BIN").map(Into::into),
        search_path: std::env::var_os("PATH"),
        ..PrivateOptions::default()
    };
    let postgres = PrivatePostgres::open(&options, &|_| ()).await.expect("the server's own Postgres");
    let mut connection =
        PgConnection::connect_with(&postgres.superuser_options().database("umbra")).await.expect("a connection");
    let schema = &umbra.schema.name;
    if sabotage() {
        let sql = format!(
            "UPDATE {schema}.review SET failure = '{}' WHERE id IN (SELECT id FROM {schema}.review LIMIT 1)",
            planted[7]
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await.expect("the sabotage");
    }
    let mut search = Search::new(&planted);
    search.tables(&mut connection, schema).await;
    sqlx::raw_sql("CHECKPOINT").execute(&mut connection).await.expect("a checkpoint");
    search.files(data.path());
    assert!(search.bytes > 16_000_000, "{} bytes are not the database and its WAL", search.bytes);
    search.look("the log", umbra.log().as_bytes());
    assert!(umbra.log().contains("DEBUG"), "the log is captured at debug");
    search.files(&umbra.file("memory"));
    search.look("the observations", &std::fs::read(umbra.file("observations.jsonl")).expect("the log of observations"));
    for (what, server) in [("a prompt", &model), ("a webhook", &receiver)] {
        server.seen().iter().for_each(|seen| search.look(what, seen.raw.as_bytes()));
    }
    for page in ["/v1/events", "/v1/findings", "/v1/reviews", "/v1/status", "/metrics"] {
        search.look(page, umbra.send(Method::GET, page, &[], None).await.text.as_bytes());
    }
    assert!(search.found.is_empty(), "{} leaks: {:#?}", search.found.len(), search.found);
    drop(connection);
    postgres.stop().await.expect("it lets go");
}
