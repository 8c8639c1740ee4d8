//! The built-in checks look at every event that a shadow watches: budgets hold back only models.
//!
//! `UMBRA_SABOTAGE=1` makes the database lose what looks find, and the test of the kill must fail.

use serde_json::{Value, json};
use sqlx::Executor;

use crate::support::{
    Schema, Umbra,
    model_server::{Answer, ModelServer},
    sabotage,
    stream::Reader,
    until,
};

/// One shadow for each budget that holds something back.
const SHADOWS: &str = "
shadow_agents:
  - {name: floor, model: checks, mode: review, watch: [{agent: 'f*', triggers: [all]}],
     cost_control: {skip_if_task_cost_below: 0.01, cooldown: 0s}}
  - {name: cooling, model: checks, mode: review, watch: [{agent: 'c*', triggers: [all]}], cost_control: {cooldown: 2h}}
  - {name: capped, model: checks, mode: review, watch: [{agent: 'd*', triggers: [all]}],
     cost_control: {max_reviews_per_day: 1, cooldown: 0s}}
  - {name: sampled, model: checks, mode: review, watch: [{agent: 's*', triggers: [all]}], cost_control: {sample: 0}}
  - {name: quiet, model: checks, mode: passive, watch: [{agent: 'p*', triggers: [all]}], cost_control: {sample: 0}}
  - {name: off, model: checks, mode: review, watch: [{agent: 'o*', triggers: [all]}], enabled: false}
";

/// Returns a live-looking key; put together here so that scanners of this repository are not alarmed.
fn key(last: &str) -> String {
    ["AKIA", "Q3EGVZ7X", "KD2MWT", last].concat()
}

fn destructive(agent: &str, task: &str, folder: &str) -> Value {
    json!({"agent": agent, "task_id": task, "cost_usd": 0.001,
        "output": format!("```bash\nrm -rf / /srv/{folder} --no-preserve-root\n```")})
}

fn leaking(agent: &str, task: &str, key: &str) -> Value {
    json!({"agent": agent, "task_id": task, "cost_usd": 0.001, "output": format!("Use {key} for the upload.")})
}

fn reason(accepted: &Value) -> &str {
    let disposition = &accepted["dispositions"][0];
    disposition["reason"].as_str().or(disposition["outcome"].as_str()).unwrap_or("-")
}

async fn findings(umbra: &Umbra, query: &str) -> Vec<Value> {
    umbra.items(&format!("/v1/findings{query}")).await
}

async fn count(umbra: &Umbra, table: &str) -> i64 {
    umbra.schema.one(&format!("SELECT count(*) FROM {table}")).await
}

fn log(umbra: &Umbra) -> Vec<Value> {
    let text = std::fs::read_to_string(umbra.file("observations.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[tokio::test]
async fn event_below_the_cost_floor_gives_a_finding_without_a_review() {
    let umbra = Umbra::with().shadows(SHADOWS).go().await;
    let mut stream = Reader::open(&umbra, "", None).await;
    let accepted = umbra.event(&destructive("f1", "t", "a")).await;
    assert_eq!(reason(&accepted), "cost_below_floor", "{accepted}");
    let streamed = stream.finding().await;
    umbra.looked().await;
    let found = findings(&umbra, "?agent=f1&severity=critical").await;
    assert_eq!(found.len(), 1, "{found:?}");
    let finding = &found[0];
    assert_eq!(finding["rule"], "commands.recursive_delete");
    assert_eq!((&finding["shadow"], &finding["event_id"]), (&json!("floor"), &accepted["id"]));
    assert_eq!((&finding["review_id"], &finding["verified"]), (&Value::Null, &json!(true)));
    assert_eq!(streamed["id"], finding["id"], "streams tell of it as well");

    let event = umbra.get(&format!("/v1/events/{}", accepted["id"].as_str().unwrap_or_default())).await;
    assert_eq!((&event["findings"][0]["id"], &event["reviews"]), (&finding["id"], &json!([])), "{event}");
    assert_eq!(reason(&event), "cost_below_floor", "a look changes no disposition");
    let task = umbra.get("/v1/trajectories/t").await;
    assert_eq!(task["events"][0]["findings"][0]["id"], finding["id"], "{task}");
    let observed = umbra.items("/v1/observations").await;
    assert_eq!(observed.len(), 1, "{observed:?}");
    assert_eq!((&observed[0]["review_id"], &observed[0]["assessment"]), (&Value::Null, &Value::Null));
    assert_eq!(observed[0]["findings"][0]["id"], finding["id"]);
    assert_eq!((&observed[0]["shadow"], &observed[0]["watched_agent"]), (&json!("floor"), &json!("f1")));
    let line = until("a line in the observations log", async || log(&umbra).into_iter().next()).await;
    assert_eq!(line, observed[0]);
    // No review, no unit, no page.
    assert_eq!((count(&umbra, "review").await, count(&umbra, "meter").await), (0, 0));
    let pages = std::fs::read_dir(umbra.file("memory/shadow-reviews")).into_iter().flatten().count();
    assert_eq!(pages, 0);
    let status = umbra.get("/v1/status").await;
    assert_eq!(status["shadows"][0]["reviews_today"], 0, "{status}");
    // A clean event leaves nothing behind.
    umbra.event(&json!({"agent": "f1", "task_id": "u", "cost_usd": 0.001, "output": "All parts are done."})).await;
    umbra.looked().await;
    assert_eq!((findings(&umbra, "?task_id=u").await.len(), umbra.items("/v1/observations").await.len()), (0, 1));
}

#[tokio::test]
async fn looks_run_despite_budgets_but_not_for_disabled_shadows() {
    let umbra = Umbra::with().shadows(SHADOWS).go().await;
    for agent in ["c1", "d1"] {
        umbra
            .event(&json!({"agent": agent, "triggers": ["code_written", "security_risk"], "output": "All is done."}))
            .await;
    }
    for (agent, expected) in [
        ("f1", "cost_below_floor"),
        ("c1", "cooldown"),
        ("d1", "daily_cap"),
        ("s1", "not_sampled"),
        ("o1", "shadow_disabled"),
    ] {
        let accepted = umbra.event(&destructive(agent, "t", "a")).await;
        assert_eq!(reason(&accepted), expected, "{accepted}");
    }
    let cut_off = |metadata: Value| json!({"agent": "s2", "output": "```python\nprint(", "metadata": metadata});
    let own = umbra.event(&cut_off(json!({"umbra.origin": "header"}))).await;
    assert_eq!(reason(&own), "loop_guard", "{own}");
    let other = umbra.event(&cut_off(json!({}))).await;
    umbra.looked().await;
    let agents: Vec<Value> =
        findings(&umbra, "?severity=critical").await.iter().map(|one| one["watched_agent"].clone()).collect();
    assert_eq!(agents, ["f1", "c1", "d1", "s1"].map(Value::from), "{agents:?}");
    let of_s2 = findings(&umbra, "?agent=s2").await;
    assert!(!of_s2.is_empty() && of_s2.iter().all(|one| one["event_id"] == other["id"]), "{of_s2:?}");
}

#[tokio::test]
async fn repeat_within_an_hour_is_an_occurrence_of_the_finding() {
    let start = Umbra::with().shadows(SHADOWS).clock("2026-03-01T12:10:00Z");
    let umbra = start.go().await;
    let first = umbra.event(&destructive("f1", "t", "a")).await;
    let again = umbra.event(&destructive("f1", "t", "a")).await;
    let other = umbra.event(&destructive("f1", "t", "b")).await;
    umbra.event(&destructive("f1", "t2", "a")).await;
    umbra.event(&destructive("f2", "t", "a")).await;
    umbra.looked().await;
    let of = |event: &Value| event["id"].clone();
    let found = findings(&umbra, "?severity=critical").await;
    assert_eq!(found.len(), 4, "another folder, task or agent is another finding: {found:?}");
    assert_eq!([&found[0]["event_id"], &found[1]["event_id"]], [&of(&first), &of(&other)]);
    let counted = found.iter().filter(|one| one["watched_agent"] == "f1").map(|one| one["occurrences"].as_i64());
    assert_eq!(counted.max(), Some(Some(4)), "events of the agent that show the fault, repeats among them: {found:?}");
    // The repeat is shown where it happened, and is no new item of the feed.
    let path = format!("/v1/events/{}", again["id"].as_str().unwrap_or_default());
    let shown = umbra.get(&path).await["findings"].clone();
    assert_eq!((&shown[0]["id"], &shown[0]["event_id"]), (&found[0]["id"], &of(&first)), "{shown}");
    let task = umbra.get("/v1/trajectories/t").await;
    assert_eq!(task["events"][1]["findings"][0]["id"], found[0]["id"], "{task}");
    assert_eq!(count(&umbra, "finding_occurrence").await, 1);
    // The hour is over.
    umbra.schema.set_clock("2026-03-01T13:00:01Z").await;
    until("the process to follow the clock", async || {
        umbra.event(&destructive("f1", "t", "a")).await;
        umbra.looked().await;
        (findings(&umbra, "?severity=critical").await.len() == 5).then_some(())
    })
    .await;
}

#[tokio::test]
async fn second_secret_value_breaks_the_cooldown_once() {
    let umbra = Umbra::with().shadows(SHADOWS).go().await;
    let post = async |agent: &str, key: &str| reason(&umbra.event(&leaking(agent, "t", key)).await).to_owned();
    // Under a cooldown.
    assert_eq!(post("c1", &key("LP")).await, "queued");
    assert_eq!(post("c1", &key("LP")).await, "cooldown", "it was queued already");
    assert_eq!(post("c1", &key("Q7")).await, "queued", "another key");
    assert_eq!(post("c1", &key("Q7")).await, "cooldown");
    assert_eq!(post("c1", &key("LP")).await, "cooldown");
    // Below a floor, where no cooldown holds.
    assert_eq!(post("f1", &key("LP")).await, "queued");
    assert_eq!(post("f1", &key("LP")).await, "cost_below_floor");
    assert_eq!(post("f1", &key("Q7")).await, "queued");
    // Under all caps.
    assert_eq!(post("d1", &key("Q7")).await, "queued");
    assert_eq!(post("d1", &key("LP")).await, "daily_cap");
    umbra.drain().await;
    umbra.looked().await;
    let looks = |found: Vec<Value>| found.iter().filter(|one| one["review_id"].is_null()).count();
    assert_eq!(looks(findings(&umbra, "?agent=c1").await), 2, "each key once, be it repeated");
    assert_eq!((looks(findings(&umbra, "?agent=f1").await), looks(findings(&umbra, "?agent=d1").await)), (1, 1));
    let stored: Vec<u8> = umbra.schema.one("SELECT payload FROM event WHERE agent = 'c1' ORDER BY seq LIMIT 1").await;
    let stored: Value = serde_json::from_slice(&stored).unwrap_or_default();
    assert_eq!(stored["marks"][0]["value"].as_str().map(str::len), Some(16), "{stored}");
    let event = umbra.items("/v1/events?agent=c1").await.remove(0);
    assert_eq!(event["marks"][0]["value"], Value::Null, "it is nothing for a reader: {event}");
}

#[tokio::test]
async fn looks_of_a_passive_shadow_give_passive_findings() {
    let receiver = ModelServer::start(|_| Answer::Status(204, vec![], String::new())).await;
    let hook = format!("webhooks: [{{name: hook, url: '{}', secret_env: HOOK}}]\n", receiver.url());
    let secret = ["whsec_", "C2FVsBQIhrscChlQIMV+b5sSYspob7oDazfjcmAM"].concat();
    let umbra = Umbra::with().shadows(SHADOWS).settings(&hook).env("HOOK", secret).go().await;
    let accepted = umbra.event(&destructive("p1", "t", "a")).await;
    umbra.looked().await;
    assert_eq!(findings(&umbra, "?agent=p1").await.len(), 0);
    let passive = findings(&umbra, "?agent=p1&mode=passive").await;
    assert_eq!((passive.len(), &passive[0]["mode"]), (1, &json!("passive")), "{passive:?}");
    let event = umbra.get(&format!("/v1/events/{}", accepted["id"].as_str().unwrap_or_default())).await;
    assert_eq!(event["findings"], json!([]), "{event}");
    assert_eq!(umbra.get("/v1/trajectories/t").await["events"][0]["findings"], json!([]));
    let shown = umbra.get("/v1/trajectories/t?mode=passive").await;
    assert_eq!(shown["events"][0]["findings"].as_array().map(Vec::len), Some(1), "{shown}");
    // Messages of every mode come the same way, and later; each finding is sent once.
    umbra.event(&destructive("s1", "u", "a")).await;
    umbra.event(&destructive("s1", "u", "a")).await;
    umbra.looked().await;
    let told = until("the last message", async || {
        let waiting = umbra.get("/v1/webhooks").await["items"][0]["waiting"].clone();
        let told: Vec<Value> = receiver.seen().into_iter().map(|seen| seen.body["data"].clone()).collect();
        (waiting == 0 && !told.is_empty()).then_some(told)
    })
    .await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((&told[0]["watched_agent"], &told[0]["review_id"]), (&json!("s1"), &Value::Null), "{told:?}");
    until("both in the log", async || (log(&umbra).len() == 2).then_some(())).await;
}

#[tokio::test]
async fn repeated_look_findings_open_a_reflexion_and_no_breaker() {
    let umbra = Umbra::with().shadows(SHADOWS).go().await;
    for _ in 0..5 {
        umbra.event(&destructive("f1", "t", "a")).await;
    }
    umbra.looked().await;
    let reflexions = until("a reflexion of five events", async || {
        let items = umbra.items("/v1/reflexions?agent=f1").await;
        items.first().is_some_and(|one| one["events"] == 5).then_some(items)
    })
    .await;
    assert_eq!(reflexions[0]["rule"], "commands.recursive_delete", "{reflexions:?}");
    let events: std::collections::BTreeSet<_> = reflexions[0]["occurrences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["event_id"].as_str())
        .collect();
    assert_eq!(events.len(), 5, "{reflexions:?}");
    let breaker = umbra.get("/v1/breakers/f1").await;
    assert_eq!((&breaker["recommendation"], &breaker["consecutive_rejections"]), (&json!("closed"), &json!(0)));
    let briefing = umbra
        .get(&format!(
            "/v1/briefings/{}",
            umbra.get("/v1/status").await["shadows"][0]["day"].as_str().unwrap_or_default()
        ))
        .await;
    assert_eq!(briefing["totals"]["findings"]["critical"], 1, "{briefing}");
    assert_eq!(briefing["agents"][0]["agent"], "f1", "{briefing}");
    assert_eq!(briefing["recurring"][0]["times"], 5, "{briefing}");
    // People's ratings count like those of any other finding.
    let finding = findings(&umbra, "?agent=f1").await.remove(0);
    let path = format!("/v1/findings/{}", finding["id"].as_str().unwrap_or_default());
    let body = serde_json::to_vec(&json!({"status": "false_positive"})).unwrap_or_default();
    umbra.send(reqwest::Method::PATCH, &path, &[("content-type", "application/json")], Some(body)).await;
    let shadow = umbra.get("/v1/shadows/floor").await;
    assert_eq!(shadow["precision"]["in_force"]["false_positives"], 1, "{shadow}");
}

#[tokio::test]
async fn review_of_a_task_adopts_the_findings_of_its_looks() {
    let shadows = "
shadow_agents:
  - {name: whole, model: checks, mode: review, scope: trajectory, watch: [{agent: '*', triggers: [task_complete]}],
     cost_control: {cooldown: 0s}}
";
    let umbra = Umbra::with().shadows(shadows).go().await;
    let step = umbra.event(&destructive("a", "t", "a")).await;
    umbra.event(&destructive("a", "t", "a")).await;
    assert_eq!(step["dispositions"], json!([]), "a step matches nothing by itself");
    umbra.looked().await;
    let before = findings(&umbra, "?task_id=t&severity=critical").await;
    assert_eq!((before.len(), &before[0]["review_id"]), (1, &Value::Null), "{before:?}");
    let done = json!({"agent": "a", "task_id": "t", "output": "The work is complete.", "triggers": ["task_complete"]});
    let review = umbra.event(&done).await["dispositions"][0]["review_id"].clone();
    umbra.drain().await;
    let after = findings(&umbra, "?task_id=t&severity=critical").await;
    assert_eq!((after.len(), &after[0]["review_id"]), (1, &review), "the review has made it its own: {after:?}");
    let shown = umbra.get(&format!("/v1/reviews/{}", review.as_str().unwrap_or_default())).await;
    assert_eq!((&shown["assessment"], &shown["findings"][0]["id"]), (&json!("FLAG"), &before[0]["id"]), "{shown}");
    // The other way round: a review that was faster than the looks.
    let mut holder = umbra.schema.connect().await;
    holder.execute("BEGIN; SELECT FROM follower WHERE name = 'looks' FOR UPDATE").await.expect("it is held");
    umbra.event(&destructive("a", "u", "a")).await;
    umbra.event(&json!({"agent": "a", "task_id": "u", "output": "Done with it.", "triggers": ["task_complete"]})).await;
    umbra.drain().await;
    holder.execute("COMMIT").await.expect("it is free");
    umbra.looked().await;
    let found = findings(&umbra, "?task_id=u&severity=critical").await;
    assert_eq!((found.len(), found[0]["review_id"].is_null()), (1, false), "{found:?}");
}

#[tokio::test]
async fn later_batch_review_adopts_the_finding_of_a_look() {
    let umbra = Umbra::with().shadows(SHADOWS).go().await;
    umbra.event(&destructive("s1", "t", "a")).await;
    umbra.looked().await;
    let answer = umbra.post("/v1/reviews/batch", &json!({})).await.body;
    umbra.drain().await;
    let found = findings(&umbra, "?severity=critical").await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["review_id"], answer["items"][0]["review_id"], "{found:?}");
    let observed = umbra.items("/v1/observations").await;
    assert_eq!(observed.len(), 2, "the look stays what it was: {observed:?}");
    let first = umbra.get("/v1/observations?limit=1").await;
    let cursor = first["next_cursor"].as_str().unwrap_or_default();
    let second = umbra.get(&format!("/v1/observations?limit=1&cursor={cursor}")).await;
    assert_eq!([&first["items"][0], &second["items"][0]], [&observed[0], &observed[1]]);
    assert_eq!(second["next_cursor"], Value::Null);
    assert_eq!(umbra.items("/v1/observations?assessment=FLAG").await.len(), 1);
}

#[tokio::test]
async fn oldest_events_beyond_the_backlog_are_shed_and_reported() {
    let settings = "looks: {max_backlog: 100}\n";
    let umbra = Umbra::with().shadows(SHADOWS).settings(settings).go().await;
    let mut holder = umbra.schema.connect().await;
    holder.execute("BEGIN; SELECT FROM follower WHERE name = 'looks' FOR UPDATE").await.expect("it is held");
    for part in 0..4 {
        let events: Vec<Value> =
            (0..100).map(|n| destructive("s1", &format!("t{part}-{n}"), &format!("f{part}-{n}"))).collect();
        assert_eq!(umbra.post("/v1/events/batch", &json!({"events": events})).await.body["accepted"], 100);
    }
    let status = umbra.get("/v1/status").await["check_backlog"].clone();
    assert_eq!((&status["waiting"], &status["shed"]), (&json!(400), &json!(0)), "{status}");
    holder.execute("COMMIT").await.expect("it is free");
    umbra.looked().await;
    let status = umbra.get("/v1/status").await["check_backlog"].clone();
    let shed = status["shed"].as_i64().unwrap_or_default();
    assert!((300..400).contains(&shed), "{status}");
    let range = &status["ranges"][0];
    assert!(range["events"] == shed && range["from"].as_str() <= range["until"].as_str(), "{status}");
    let found: i64 = umbra.schema.one("SELECT count(DISTINCT event_id) FROM finding").await;
    assert_eq!(found, 400 - shed, "the newest are looked at");
    let metrics = umbra.send(reqwest::Method::GET, "/metrics", &[], None).await.text;
    assert!(metrics.contains(&format!("umbra_check_backlog_shed_total {shed}")), "{metrics}");
    let said = umbra.cli(&["status"], None);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains(&format!("{shed} skipped within a day")), "{said}");
    // It is no disposition: each event still has the reason why no model saw it.
    let skips: i64 = umbra.schema.one("SELECT count(*) FROM event WHERE outcomes = ARRAY[12::int2]").await;
    assert_eq!(skips, 400);
}

#[tokio::test]
async fn each_event_is_looked_at_once_over_two_servers_and_a_kill() {
    const EVENTS: usize = 600;
    let schema = Schema::fresh().await;
    let start = || Umbra::with().shadows(SHADOWS).on(&schema);
    let (mut first, second) = (start().go().await, start().go().await);
    if sabotage() {
        schema
            .run(
                "CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS
                     'BEGIN IF NEW.seq % 5 = 0 THEN RETURN NULL; END IF; RETURN NEW; END';
                 CREATE TRIGGER lose BEFORE INSERT ON finding FOR EACH ROW EXECUTE FUNCTION lose()",
            )
            .await;
    }
    for part in 0..EVENTS / 50 {
        let events: Vec<Value> =
            (0..50).map(|n| destructive("s1", &format!("t{part}-{n}"), &format!("f{n}"))).collect();
        let server = if part % 2 == 0 || part > EVENTS / 100 { &second } else { &first };
        assert_eq!(server.post("/v1/events/batch", &json!({"events": events})).await.body["accepted"], 50);
        if part == EVENTS / 100 {
            first.kill();
            first.unchecked();
        }
    }
    second.looked().await;
    let found: i64 =
        schema.one("SELECT count(DISTINCT event_id) FROM finding WHERE rule = 'commands.recursive_delete'").await;
    assert_eq!(found, i64::try_from(EVENTS).unwrap_or_default());
    let twice = "SELECT count(*) FROM (SELECT FROM finding GROUP BY event_id, rule, quote HAVING count(*) > 1) d";
    assert_eq!(schema.one::<i64>(twice).await, 0);
}

#[tokio::test]
async fn findings_of_looks_are_deleted_by_age_and_on_erasure() {
    let keep = "retention: {idempotency_hours: 24, events_days: 2, reviews_days: 10, counts_days: 30}\n";
    let schema = Schema::fresh().await;
    let start = |clock: &str| Umbra::with().shadows(SHADOWS).settings(keep).on(&schema).clock(clock);
    let first = start("2026-03-01T12:00:00Z").go().await;
    for agent in ["s1", "s1", "s2"] {
        first.event(&destructive(agent, "t", "kanarienvogel")).await;
    }
    keep_a_tasks_cost(&first).await;
    first.looked().await;
    assert_eq!((count(&first, "finding_occurrence").await, count(&first, "task_cost").await), (1, 1));
    until("the log", async || (log(&first).len() == 2).then_some(())).await;
    let erased = first.cli(&["erase", "--agent", "s1", "--yes"], None);
    assert!(erased.status.success(), "{}", String::from_utf8_lossy(&erased.stderr));
    let texts: Vec<String> = findings(&first, "").await.iter().map(ToString::to_string).collect();
    let (mine, others): (Vec<_>, Vec<_>) = texts.iter().partition(|text| text.contains("\"s1\""));
    assert!(mine.iter().all(|text| !text.contains("kanarienvogel")), "{mine:?}");
    assert!(others.iter().any(|text| text.contains("kanarienvogel")), "{others:?}");
    assert_eq!(log(&first).iter().filter(|line| line.to_string().contains("kanarienvogel")).count(), 1);
    drop(first);
    let last = start("2026-03-20T12:00:00Z").go().await;
    for table in ["finding", "finding_occurrence", "task_cost"] {
        until(table, async || (count(&last, table).await == 0).then_some(())).await;
    }
}

/// Posts an event whose task's cost is stored.
async fn keep_a_tasks_cost(umbra: &Umbra) {
    let event = json!({"agent": "f1", "task_id": "dear", "cost_usd": 0.001, "output": "A first part."});
    assert_eq!(reason(&umbra.event(&event).await), "cost_below_floor");
}

#[tokio::test]
async fn a_cost_floor_compares_the_task_and_not_the_step() {
    let umbra = Umbra::with().shadows(SHADOWS).go().await;
    let step = |task: Option<&str>, cost: Value, whole: Value| {
        json!({"agent": "f1", "task_id": task, "cost_usd": cost, "task_cost_usd": whole, "output": "A part of it."})
            .as_object()
            .map(|event| event.iter().filter(|(_, value)| !value.is_null()).map(|(k, v)| (k.clone(), v.clone())))
            .map(|event| Value::Object(event.collect()))
            .unwrap_or_default()
    };
    let post = async |event: Value| reason(&umbra.event(&event).await).to_owned();
    let (none, floor, queued) = (Value::Null, "cost_below_floor", "queued");
    // Three steps of 0.006 under a floor of 0.01.
    for expected in [floor, queued, queued] {
        assert_eq!(post(step(Some("t"), json!(0.006), none.clone())).await, expected);
    }
    // The cost that the event states of its task goes first, and an event without a task has only its own cost.
    assert_eq!(post(step(Some("t"), json!(0.02), json!(0.009))).await, floor);
    assert_eq!(post(step(Some("u"), json!(0.001), json!(0.5))).await, queued);
    assert_eq!(post(step(None, json!(0.006), none.clone())).await, floor);
    assert_eq!(post(step(None, json!(0.006), none.clone())).await, floor);
    assert_eq!(post(step(None, json!(0.01), none.clone())).await, queued, "exactly the floor");
    // An unknown cost passes; the costs of the task's other events make it known.
    assert_eq!(post(step(Some("v"), none.clone(), none.clone())).await, queued);
    assert_eq!(post(step(Some("v"), json!(0.001), none.clone())).await, floor);
    assert_eq!(post(step(Some("v"), none.clone(), none.clone())).await, floor);
    assert_eq!(post(step(Some("v"), json!(0.009), none.clone())).await, queued);
    // Events that match no trigger add to the cost as well, of any agent; all events of a batch in their order.
    let events = json!({"events": [
        step(Some("w"), json!(0.004), none.clone()), step(Some("w"), json!(0.004), none.clone()),
        step(Some("w"), json!(0.004), none.clone()), step(Some("x"), json!(0.004), none.clone())]});
    let answer = umbra.post("/v1/events/batch", &events).await.body;
    let reasons: Vec<&str> = answer["results"].as_array().into_iter().flatten().map(reason).collect();
    assert_eq!(reasons, [floor, floor, queued, floor], "{answer}");
    // A replay adds nothing.
    let mut once = step(Some("y"), json!(0.006), none.clone());
    once["id"] = json!("one");
    assert_eq!((post(once.clone()).await.as_str(), post(once).await.as_str()), (floor, floor));
    assert_eq!(post(step(Some("y"), json!(0.003), none.clone())).await, floor);
}

#[tokio::test]
async fn batch_keeps_the_cost_floor_unless_told_to_ignore_it() {
    let umbra = Umbra::with().shadows(SHADOWS).go().await;
    let part = |task: &str, cost: f64| json!({"agent": "f1", "task_id": task, "cost_usd": cost, "output": "A part of the work."});
    let cheap = umbra.event(&part("t", 0.001)).await;
    let sum = [umbra.event(&part("u", 0.006)).await, umbra.event(&part("u", 0.006)).await];
    assert_eq!((reason(&sum[0]), reason(&sum[1])), ("cost_below_floor", "queued"));
    umbra.drain().await;
    let answer = umbra.cli(&["batch", "--agent", "f1", "--json"], None);
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
    assert_eq!(answer["queued"], 1, "the task has cost enough by now: {answer}");
    assert_eq!(answer["items"][0]["event_id"], sum[0]["id"], "{answer}");
    let path = format!("/v1/events/{}", cheap["id"].as_str().unwrap_or_default());
    assert_eq!(reason(&umbra.get(&path).await), "cost_below_floor");
    let named = umbra.post("/v1/reviews/batch", &json!({"shadow": "floor"})).await.body;
    assert_eq!(named["queued"], 0, "{named}");
    let answer = umbra.cli(&["batch", "--ignore-floor", "--json"], None);
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
    assert_eq!(answer["items"][0]["event_id"], cheap["id"], "{answer}");
    assert_eq!(reason(&umbra.get(&path).await), "queued");
}

#[tokio::test]
async fn disposition_names_the_trigger_without_a_cooldown() {
    let shadows = "
shadow_agents:
  - {name: guard, model: checks, mode: review, watch: [{agent: '*', triggers: [code_written, security_risk]}],
     cost_control: {cooldown: 2h}}
";
    let umbra = Umbra::with().shadows(shadows).go().await;
    let post = async |triggers: Value| {
        let accepted = umbra.event(&json!({"agent": "a", "triggers": triggers, "output": "Some work."})).await;
        let disposition = &accepted["dispositions"][0];
        (reason(&accepted).to_owned(), disposition["trigger"].as_str().unwrap_or_default().to_owned(), accepted)
    };
    let is = |one: &(String, String, Value), reason: &str, trigger: &str| {
        assert_eq!((one.0.as_str(), one.1.as_str()), (reason, trigger), "{}", one.2);
    };
    is(&post(json!(["code_written"])).await, "queued", "code_written");
    let both = post(json!(["code_written", "security_risk"])).await;
    is(&both, "queued", "security_risk");
    let review = both.2["dispositions"][0]["review_id"].as_str().unwrap_or_default().to_owned();
    assert_eq!(umbra.get(&format!("/v1/reviews/{review}")).await["trigger"], "security_risk");
    is(&post(json!(["security_risk", "code_written"])).await, "cooldown", "security_risk");
    is(&post(json!(["security_risk"])).await, "cooldown", "security_risk");
}
