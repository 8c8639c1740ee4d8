//! `on_unavailable: allow`: a call that may run although no decision can be stored, where everything last seen was live.

use std::collections::BTreeSet;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    chaos::postgres,
    support::{Umbra, boundary::write, until},
};

const TOOLS: &str = "
tools:
  - {tool: pager.page, effect: write, on_unavailable: allow, responses: [{result: {paged: true}}]}
";

fn page(call_id: &str) -> Value {
    json!({"call_id": call_id, "agent": "oncall", "run": "r1", "tool": {"server": "pager", "name": "page"},
        "arguments": {"who": "anna"}})
}

/// From now on, or no longer, the audit takes nothing.
async fn refuse(umbra: &Umbra, refuses: bool) {
    let sql = if refuses {
        "CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN RAISE EXCEPTION ''could not extend file'' USING ERRCODE = ''53100''; END';
         CREATE TRIGGER full_disk BEFORE INSERT ON audit FOR EACH STATEMENT EXECUTE FUNCTION full_disk()"
    } else {
        "DROP TRIGGER full_disk ON audit"
    };
    umbra.schema.run(sql).await;
}

#[tokio::test]
async fn while_the_database_is_away_an_allowed_call_runs_and_is_merged_into_the_audit_later() {
    let files = TempDir::new().expect("a directory");
    let server = postgres(files.path()).await;
    let mut umbra = Umbra::with()
        .tools(TOOLS)
        .settings("boundary: {deadline: 500ms}")
        .env("UMBRA__STORAGE__DATA_DIR", files.path().display().to_string())
        .env("UMBRA__DATABASE__SCHEMA", "umbra")
        .go()
        .await;
    umbra.unchecked();
    assert_eq!(umbra.decide(&page("live")).await["decision"], "execute");
    let gone = |server: &umbra::store::postgres::PrivatePostgres| {
        let pid = server.status().pid.expect("a postmaster");
        kill(Pid::from_raw(i32::try_from(pid).expect("a pid")), Signal::SIGKILL).expect("it is killed");
    };
    gone(&server);
    let mut alone = BTreeSet::new();
    for n in 0..20 {
        let id = format!("away-{n}");
        let answer = umbra.decide(&page(&id)).await;
        assert_eq!(answer["decision"], "execute", "{answer}");
        if answer["warning"].is_string() {
            assert!(answer.get("audit_seq").is_none(), "{answer}");
            alone.insert(id);
        }
        // What its contract does not name is not run meanwhile, or was decided properly.
        let mail = umbra.decide(&write(&format!("mail-{n}"), "oncall")).await;
        assert!(mail["decision"] == "block" || mail["audit_seq"].is_i64(), "{mail}");
    }
    assert!(!alone.is_empty(), "the database was never away");
    let back = async || {
        until("the database to be back", async || {
            let answer = umbra.try_post("/v1/decide", &page("back")).await?.1;
            answer["audit_seq"].is_i64().then_some(())
        })
        .await;
    };
    back().await;
    let merged = until("the calls to be merged", async || {
        let rows = umbra.audit("kind=merged").await;
        (rows.len() >= alone.len()).then_some(rows)
    })
    .await;
    let ids: BTreeSet<String> =
        merged.iter().map(|row| row["call_id"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!((ids, merged.len()), (alone.clone(), alone.len()));
    assert!(merged.iter().all(|row| row["args"]["who"] == "anna" && row["decided_at"].is_string()), "{merged:?}");
    let verified = umbra.cli(&["audit", "verify"], None);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    // In shadow it does not run.
    let set = json!({"scope": "global", "execution": "shadow", "reason": "drill"});
    assert_eq!(umbra.put("/v1/execution", &set).await.status, 200);
    assert_eq!(umbra.decide(&page("shadow")).await["decision"], "stub");
    gone(&server);
    let mut refused = 0;
    for n in 0..20 {
        let answer = umbra.decide(&page(&format!("shadow-{n}"))).await;
        assert_ne!(answer["decision"], "execute", "{answer}");
        refused += usize::from(answer["decision"] == "block" && answer["reason"].is_string());
    }
    assert!(refused > 0, "the database was never away");
    back().await;
    assert_eq!(umbra.audit("kind=merged").await.len(), alone.len());
}

#[tokio::test]
async fn a_clock_that_jumped_ends_no_shadow_while_nothing_can_be_stored() {
    // The database's clock is far behind the machine's: by the latter the override has long expired.
    let umbra = Umbra::with().tools(TOOLS).clock("2020-03-01T12:00:00Z").go().await;
    let set =
        json!({"scope": "global", "execution": "shadow", "reason": "drill", "expires_at": "2999-01-01T00:00:00Z"});
    assert_eq!(umbra.put("/v1/execution", &set).await.status, 200);
    umbra.schema.run("UPDATE execution_override SET expires_at = '2020-03-01T13:00:00Z'").await;
    assert_eq!(umbra.decide(&page("before")).await["decision"], "stub");
    refuse(&umbra, true).await;
    let answer = umbra.decide(&page("away")).await;
    assert_eq!((&answer["decision"], &answer["reason"]), (&json!("block"), &json!("unavailable")), "{answer}");
    refuse(&umbra, false).await;
}

#[tokio::test]
async fn what_cannot_be_noted_first_does_not_run() {
    let umbra = Umbra::with().tools(TOOLS).go().await;
    assert_eq!(umbra.decide(&page("before")).await["decision"], "execute");
    refuse(&umbra, true).await;
    let noted = umbra.decide(&page("noted")).await;
    assert!(noted["decision"] == "execute" && noted["warning"].is_string(), "{noted}");
    // The audit's folder is none any more.
    let (folder, aside) = (umbra.file("audit"), umbra.file("aside"));
    std::fs::rename(&folder, &aside).expect("it is moved");
    std::fs::write(&folder, "a file").expect("a file");
    let refused = umbra.decide(&page("unnoted")).await;
    assert_eq!((&refused["decision"], &refused["reason"]), (&json!("block"), &json!("unavailable")), "{refused}");
    std::fs::remove_file(&folder).expect("it goes");
    std::fs::rename(&aside, &folder).expect("it is back");
    refuse(&umbra, false).await;
    let merged = until("the call to be merged", async || {
        let rows = umbra.audit("kind=merged").await;
        (!rows.is_empty()).then_some(rows)
    })
    .await;
    assert!(merged.len() == 1 && merged[0]["call_id"] == "noted", "{merged:?}");
}
