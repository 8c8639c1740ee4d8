//! Documents as files: changes by agents and people count, no text is lost, nothing is written elsewhere, and no
//! request waits for a disk.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::RULES;
use crate::support::{
    Umbra,
    server::{Answered, Start},
    until,
};

/// Directory with a workspace in it, and one outside of the workspace.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        let place = Self(TempDir::new().expect("a directory"));
        fs::create_dir(place.work()).expect("a directory");
        fs::create_dir(place.outside()).expect("a directory");
        place
    }

    pub fn work(&self) -> PathBuf {
        self.0.path().join("work")
    }

    pub fn outside(&self) -> PathBuf {
        self.0.path().join("outside")
    }

    /// Returns a server that uses the workspace.
    pub fn server(&self) -> Start {
        Umbra::with().sidecar(RULES).env("UMBRA__SIDECAR__WORKSPACE", self.work().display().to_string())
    }

    /// Returns the path of a session's file.
    pub fn file(&self, id: &str, name: &str) -> PathBuf {
        self.work().join(".umbra").join(id).join(name)
    }
}

pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Saves a file like careful editors: writes beside it, and renames.
pub fn save(path: &Path, text: &str) {
    let beside = path.with_extension("saving");
    fs::write(&beside, text).expect("a file");
    fs::rename(&beside, path).expect("it is saved");
}

pub fn document(id: &str, name: &str) -> String {
    format!("/v1/sessions/{id}/documents/{name}")
}

pub async fn text_of(umbra: &Umbra, id: &str, name: &str) -> String {
    let found = umbra.send("GET".parse().unwrap_or_default(), &document(id, name), &[], None).await;
    found.body["text"].as_str().unwrap_or_default().to_owned()
}

pub async fn edit(umbra: &Umbra, id: &str, name: &str, edits: Value) -> Answered {
    let patched = umbra.document("PATCH", &document(id, name), None, &json!({"edits": edits})).await;
    assert_eq!(patched.status.as_u16(), 200, "{}", patched.body);
    patched
}

/// Waits until a document and its file both have this text.
pub async fn both_say(umbra: &Umbra, place: &Place, id: &str, text: &str) {
    until(text, async || {
        (text_of(umbra, id, "todo").await == text && read(&place.file(id, "todo.md")) == text).then_some(())
    })
    .await;
}

/// Returns the author of each version of a document.
pub async fn makers(umbra: &Umbra, id: &str, name: &str) -> Vec<String> {
    let items = umbra.items(&format!("{}/history", document(id, name))).await;
    items.iter().filter_map(|item| item["entry"]["by"].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn document_files_exist_from_attach_and_remain_after_close() {
    let place = Place::new();
    let umbra = place.server().go().await;
    let attached = umbra.post("/v1/sessions", &json!({"agent": "a", "documents": {"todo": "# T\n- [ ] one\n"}})).await;
    let id = attached.body["session"]["id"].as_str().unwrap_or_default().to_owned();
    let files = attached.body["session"]["files"].as_str().unwrap_or_default();
    assert_eq!((files, &attached.body["degraded"]), (&*format!(".umbra/{id}"), &json!(false)), "{}", attached.body);
    let todo = place.work().join(files).join("todo.md");
    assert_eq!(read(&todo), "# T\n- [ ] one\n");
    assert_eq!(fs::metadata(&todo).expect("it is there").permissions().mode() & 0o007, 0);
    assert_eq!(read(&place.work().join(".umbra/.gitignore")), "*\n");
    edit(&umbra, &id, "todo", json!([{"op": "append_item", "section": "t", "text": "two", "state": "open"}])).await;
    assert_eq!(read(&todo), "# T\n- [ ] one\n- [ ] two\n");
    let put = umbra.document("PUT", &document(&id, "plan.yaml"), None, &json!({"text": "steps:\n  - a\n"})).await;
    assert_eq!((put.status.as_u16(), &put.body["degraded"]), (201, &json!(false)), "{}", put.body);
    assert_eq!(read(&place.file(&id, "plan.yaml")), "steps:\n  - a\n");
    // A change at the last moment counts; one after the end does not, and is not overwritten.
    save(&todo, "# T\n- [x] one\n- [x] two\n");
    let closed = umbra.post(&format!("/v1/sessions/{id}/close"), &json!({})).await;
    assert_eq!((&closed.body["documents"][1]["done_items"], &closed.body["degraded"]), (&json!(2), &json!(false)));
    save(&todo, "# T\n");
    let other = umbra.attach(&json!({"agent": "a", "documents": {"todo": "# T\n"}})).await;
    save(&place.file(&other, "todo.md"), "# T\n- [ ] looked\n");
    both_say(&umbra, &place, &other, "# T\n- [ ] looked\n").await;
    assert_eq!(
        (read(&todo), text_of(&umbra, &id, "todo").await),
        ("# T\n".into(), "# T\n- [x] one\n- [x] two\n".into())
    );
}

#[tokio::test]
async fn file_change_becomes_a_document_change() {
    let place = Place::new();
    let umbra = place.server().go().await;
    let (first, second) = ("# T\n- [ ] one\n", "# T\n- [x] one\n");
    let id = umbra.attach(&json!({"agent": "a", "documents": {"todo": first}})).await;
    let todo = place.file(&id, "todo.md");
    save(&todo, second);
    both_say(&umbra, &place, &id, second).await;
    // Back to the first text: that is a change as well. In place, as simple editors write.
    fs::write(&todo, first).expect("a file");
    both_say(&umbra, &place, &id, first).await;
    assert_eq!(makers(&umbra, &id, "todo").await, ["workspace", "workspace"]);
    // A removed file is no change; a new one is a new document, and files with other names are ignored.
    fs::remove_file(&todo).expect("it is there");
    fs::write(place.file(&id, "notes.yaml"), "# mine\nfound: 1\n").expect("a file");
    fs::write(place.file(&id, "build.log"), "x").expect("a file");
    until("the file to be back", async || (read(&todo) == first).then_some(())).await;
    until("the new document", async || (text_of(&umbra, &id, "notes").await == "# mine\nfound: 1\n").then_some(()))
        .await;
    // The whole folder, as `git clean` takes it.
    fs::remove_dir_all(place.work().join(".umbra")).expect("it is there");
    until("the files to be back", async || {
        (read(&todo) == first && place.file(&id, "notes.yaml").exists()).then_some(())
    })
    .await;
    assert_eq!(makers(&umbra, &id, "todo").await.len(), 2);
    // A rule is judged by the file's present text, even before the change was noticed.
    let turn = json!({"route": "edit", "planned_calls": [{"tool": "files.edit_file"}]});
    let plan = umbra.attach(&json!({"agent": "a", "documents": {"todo": "# Todo\n## Plan\n- [ ] one\n"}})).await;
    assert_eq!(umbra.turn(&plan, &turn).await["decision"], "block");
    save(&place.file(&plan, "todo.md"), "# Todo\n## Plan\n- [ ] one\n- [ ] two\n");
    let judged = umbra.turn(&plan, &turn).await;
    assert_eq!((&judged["decision"], &judged["warnings"]), (&json!("allow"), &json!([])), "{judged}");
    let said = umbra.cli(&["sidecar", "replay", &plan, "--json"], None);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
}

#[tokio::test]
async fn concurrent_file_and_api_changes_are_merged() {
    let place = Place::new();
    let umbra = place.server().go().await;
    let id = umbra.attach(&json!({"agent": "a", "documents": {"todo": "# File\n- file\n# Api\n- api\n"}})).await;
    let todo = place.file(&id, "todo.md");
    let rounds = 40;
    for n in 0..rounds {
        // The editor's text is older than the one that it saves over, and that one changes again before the save is
        // read.
        let read = read(&todo);
        edit(&umbra, &id, "todo", json!([{"op": "append_item", "section": "api", "text": format!("api {n}")}])).await;
        save(&todo, &read.replace("# Api", &format!("- file {n}\n# Api")));
        edit(&umbra, &id, "todo", json!([{"op": "append_item", "section": "api", "text": format!("more {n}")}])).await;
    }
    until("both to be there", async || {
        let (file, text) = (read(&todo), text_of(&umbra, &id, "todo").await);
        let has = |what: &str| (0..rounds).all(|n| text.matches(&format!("- {what} {n}\n")).count() == 1);
        (file == text && has("api") && has("more") && has("file")).then_some(())
    })
    .await;
    let aside = fs::read_dir(place.work().join(".umbra").join(&id)).expect("it is there").flatten();
    assert!(!aside.into_iter().any(|entry| entry.file_name().to_string_lossy().contains('~')));
}

#[tokio::test]
async fn unacceptable_file_is_set_aside_and_reported() {
    let place = Place::new();
    let umbra = place.server().settings("sidecar: {max_documents: 2}").go().await;
    let id = umbra.attach(&json!({"agent": "a", "documents": {"todo": "# T\n- [ ] write tests\n"}})).await;
    let todo = place.file(&id, "todo.md");
    let beside = |name: &str| {
        let all = fs::read_dir(place.work().join(".umbra").join(&id)).expect("it is there").flatten();
        let stem = format!("{name}~conflict-");
        all.map(|entry| entry.path())
            .find(|path| path.file_name().is_some_and(|own| own.to_string_lossy().starts_with(&stem)))
    };
    let edits = json!([{"op": "append_item", "section": "t", "text": "deploy"},
        {"op": "replace_item", "section": "t", "item": {"index": 1}, "text": "write many tests"}]);
    edit(&umbra, &id, "todo", edits).await;
    let theirs = "# T\n- [ ] write no tests\n";
    save(&todo, theirs);
    let turn = umbra.turn(&id, &json!({})).await;
    let aside = beside("todo").expect("it is kept");
    let told = turn["directives"].to_string();
    assert!(
        told.contains("places conflict") && told.contains(&*aside.file_name().expect("a name").to_string_lossy()),
        "{turn}"
    );
    assert_eq!(read(&aside), theirs);
    assert_eq!(read(&todo), "# T\n- [ ] write many tests\n- [ ] deploy\n");
    assert_eq!(umbra.turn(&id, &json!({})).await["directives"], json!([]), "it is told once");
    fs::remove_file(aside).expect("it is there");
    // Not a text, too large, or one too many; found outside of a step, and reported with the next message and on the
    // stream.
    fs::write(&todo, b"\xff\xfe").expect("a file");
    until("it to be set aside", async || beside("todo")).await;
    until("the document to be back", async || read(&todo).contains("many tests").then_some(())).await;
    fs::write(place.file(&id, "large.md"), vec![b'x'; 700_000]).expect("a file");
    until("it to be set aside", async || beside("large")).await;
    fs::write(place.file(&id, "second.md"), "x").expect("a file");
    until("it to be taken", async || (text_of(&umbra, &id, "second").await == "x").then_some(())).await;
    fs::write(place.file(&id, "third.md"), "x").expect("a file");
    until("it to be set aside", async || beside("third")).await;
    let message = umbra.message(&id, &json!({"role": "user", "content": "go on"})).await;
    let warnings = message["warnings"].to_string();
    assert!(["UTF-8", "bytes", "2 documents at most"].iter().all(|part| warnings.contains(part)), "{message}");
    assert_eq!(message["degraded"], false, "{message}");
    umbra.post(&format!("/v1/sessions/{id}/close"), &json!({})).await;
    let path = format!("/v1/sessions/{id}/messages");
    let streamed = umbra.send("GET".parse().unwrap_or_default(), &path, &[("last-event-id", "0")], None).await;
    assert!(streamed.text.contains("places conflict") && streamed.text.contains("UTF-8"), "{}", streamed.text);
    let metrics = umbra.send("GET".parse().unwrap_or_default(), "/metrics", &[], None).await.text;
    assert!(metrics.contains("umbra_sidecar_files_total{result=\"aside\"} 4"), "{metrics}");
}

#[tokio::test]
async fn links_out_of_the_workspace_are_not_followed() {
    let place = Place::new();
    let umbra = place.server().go().await;
    let secret = "# T\n- [ ] a secret of others\n";
    let foreign = place.outside().join("foreign");
    fs::create_dir(&foreign).expect("a directory");
    fs::write(foreign.join("todo.md"), secret).expect("a file");
    let id = umbra.attach(&json!({"agent": "a", "documents": {"todo": "# T\n- zero\n"}})).await;
    let folder = place.work().join(".umbra").join(&id);
    let todo = place.file(&id, "todo.md");
    let add = async |text: &str| {
        edit(&umbra, &id, "todo", json!([{"op": "append_item", "section": "t", "text": text}])).await
    };
    // The file as a link to one outside: it is neither read nor written, and is set aside.
    fs::remove_file(&todo).expect("it is there");
    symlink(foreign.join("todo.md"), &todo).expect("a link");
    add("one").await;
    until("a file again", async || (!todo.is_symlink() && read(&todo) == "# T\n- zero\n- one\n").then_some(())).await;
    // The session's folder, and ours.
    for swapped in [folder.clone(), place.work().join(".umbra")] {
        fs::rename(&swapped, place.work().join("aside")).expect("it is moved");
        let target = if swapped == folder { foreign.clone() } else { place.outside() };
        symlink(&target, &swapped).expect("a link");
        let lacking = add("two").await;
        assert_eq!(
            (&lacking.body["stored"], &lacking.body["degraded"]),
            (&json!(true), &json!(true)),
            "{}",
            lacking.body
        );
        assert_eq!(umbra.turn(&id, &json!({})).await["degraded"], true);
        let other = umbra.post("/v1/sessions", &json!({"agent": "a", "documents": {"todo": "# T\n"}})).await;
        let is_other = other.body["degraded"] == json!(swapped != folder);
        assert!(other.status.as_u16() == 201 && is_other, "{}", other.body);
        fs::remove_file(&swapped).expect("it is a link");
        fs::rename(place.work().join("aside"), &swapped).expect("it is moved");
        until("the file to be written", async || read(&todo).contains("two").then_some(())).await;
    }
    // A pipe blocks nothing.
    fs::remove_file(&todo).expect("it is there");
    assert!(std::process::Command::new("mkfifo").arg(&todo).status().expect("mkfifo runs").success());
    add("three").await;
    until("a file again", async || todo.is_file().then(|| read(&todo).contains("three").then_some(())).flatten()).await;
    let kept = text_of(&umbra, &id, "todo").await;
    assert_eq!((kept.contains("secret"), read(&foreign.join("todo.md"))), (false, secret.to_owned()), "{kept}");
    let names = |dir: &Path| fs::read_dir(dir).expect("it is there").count();
    assert_eq!((names(&place.outside()), names(&foreign)), (1, 1));
}

#[tokio::test]
async fn edits_during_downtime_are_told_from_outdated_files() {
    let place = Place::new();
    let mut first = place.server().go().await;
    let elsewhere = Umbra::with().sidecar(RULES).on(&first.schema).go().await;
    let text = "# File\n- a\n# Api\n- z\n";
    let [edited, old] = [0, 1].map(|_| json!({"agent": "a", "documents": {"todo": text}}));
    let (edited, old) = (first.attach(&edited).await, first.attach(&old).await);
    first.unchecked();
    first.kill();
    for id in [&edited, &old] {
        let added = edit(&elsewhere, id, "todo", json!([{"op": "append_item", "section": "api", "text": "b"}])).await;
        assert_eq!(added.body["degraded"], false, "{}", added.body);
    }
    save(&place.file(&edited, "todo.md"), "# File\n- a\n- c\n# Api\n- z\n");
    assert_eq!(read(&place.file(&old, "todo.md")), text);
    let second = place.server().on(&first.schema).go().await;
    both_say(&second, &place, &edited, "# File\n- a\n- c\n# Api\n- z\n- b\n").await;
    both_say(&second, &place, &old, "# File\n- a\n# Api\n- z\n- b\n").await;
    assert_eq!(makers(&second, &edited, "todo").await, ["a", "workspace"]);
    assert_eq!(makers(&second, &old, "todo").await, ["a"], "an old file is no change");
    // Another server at the same directory, and one step there: both write, and neither takes the other's writes for
    // changes.
    let third = place.server().on(&first.schema).go().await;
    for (n, server) in [&second, &third, &elsewhere].into_iter().cycle().take(30).enumerate() {
        edit(server, &old, "todo", json!([{"op": "append_item", "section": "api", "text": format!("n{n}")}])).await;
    }
    let text = text_of(&second, &old, "todo").await;
    both_say(&third, &place, &old, &text).await;
    assert_eq!(makers(&third, &old, "todo").await, vec!["a"; 31]);
    assert!((0..30).all(|n| text.matches(&format!("- n{n}\n")).count() == 1), "{text}");
}

#[tokio::test]
async fn a_credential_in_a_file_is_kept_nowhere() {
    let place = Place::new();
    let umbra = place.server().go().await;
    let id = umbra.attach(&json!({"agent": "a", "documents": {"todo": "# T\n"}})).await;
    let secret = "AKIAQ7XJ3MZP4TVK2LWN";
    save(&place.file(&id, "todo.md"), &format!("# T\n- use {secret}\n"));
    fs::write(place.file(&id, "notes.md"), format!("# N\nthe key is {secret}\n")).expect("a file");
    until("the secret to be gone", async || {
        let texts = [text_of(&umbra, &id, "todo").await, text_of(&umbra, &id, "notes").await];
        let files = [read(&place.file(&id, "todo.md")), read(&place.file(&id, "notes.md"))];
        (texts == files && files.iter().all(|text| text.contains("[secret:") && !text.contains(secret))).then_some(())
    })
    .await;
    for table in ["SELECT text AS t FROM sidecar_document", "SELECT entry AS t FROM sidecar_change"] {
        let kept = umbra.schema.rows(&format!("SELECT 1 FROM ({table}) x WHERE t LIKE '%{secret}%'")).await;
        assert!(kept.is_empty(), "{table}");
    }
}

#[tokio::test]
async fn unwritable_workspace_degrades_answers_and_stops_no_step() {
    let place = Place::new();
    let umbra = place.server().go().await;
    let ours = place.work().join(".umbra");
    fs::write(&ours, "in the way").expect("a file");
    let attached = umbra.post("/v1/sessions", &json!({"agent": "a", "documents": {"todo": "# T\n- zero\n"}})).await;
    assert_eq!((attached.status.as_u16(), &attached.body["degraded"]), (201, &json!(true)), "{}", attached.body);
    let id = attached.body["session"]["id"].as_str().unwrap_or_default().to_owned();
    let turn = umbra.turn(&id, &json!({"planned_calls": [{"tool": "db.drop_table"}]})).await;
    assert_eq!((&turn["turn"], &turn["decisions"][0]["decision"]), (&json!(1), &json!("block")), "{turn}");
    assert!(turn["degraded"] == true && turn["warnings"].to_string().contains("files of this session"), "{turn}");
    let added = edit(&umbra, &id, "todo", json!([{"op": "append_item", "section": "t", "text": "one"}])).await;
    assert_eq!((&added.body["stored"], &added.body["degraded"]), (&json!(true), &json!(true)), "{}", added.body);
    until("the log to say so", async || umbra.log().contains("sidecar.workspace").then_some(())).await;
    let metrics = umbra.send("GET".parse().unwrap_or_default(), "/metrics", &[], None).await.text;
    assert!(metrics.contains("umbra_sidecar_missed_total{why=\"workspace\"}"), "{metrics}");
    assert!(metrics.contains("umbra_sidecar_files_total{result=\"failed\"}"), "{metrics}");
    fs::remove_file(&ours).expect("it is there");
    both_say(&umbra, &place, &id, "# T\n- zero\n- one\n").await;
    assert_eq!(umbra.turn(&id, &json!({})).await["degraded"], false);
    assert_eq!(umbra.log().matches("cannot be updated now").count(), 1, "{}", umbra.log());
}

#[tokio::test]
async fn missing_folder_degrades_and_missing_workspace_stops_start() {
    let place = Place::new();
    fs::create_dir_all(place.work().join("apps/site")).expect("a directory");
    let umbra = place.server().go().await;
    let attach = async |folder: &str| {
        let body = json!({"agent": "a", "folder": folder, "documents": {"todo": "# T\n"}});
        umbra.post("/v1/sessions", &body).await
    };
    let there = attach("apps/site").await.body;
    let files = there["session"]["files"].as_str().unwrap_or_default();
    assert!(files.starts_with("apps/site/.umbra/ses_") && there["warnings"] == json!([]), "{there}");
    let todo = place.work().join(files).join("todo.md");
    save(&todo, "# T\n- here\n");
    let id = there["session"]["id"].as_str().unwrap_or_default();
    until("it to be taken", async || (text_of(&umbra, id, "todo").await == "# T\n- here\n").then_some(())).await;
    let missing = attach("apps/none").await;
    assert_eq!(missing.status.as_u16(), 201, "{}", missing.body);
    assert!(missing.body["warnings"].to_string().contains("apps/none"), "{}", missing.body);
    assert_eq!(missing.body["degraded"], true, "{}", missing.body);
    symlink(place.outside(), place.work().join("apps/link")).expect("a link");
    let linked = attach("apps/link").await.body;
    let told = linked["warnings"].to_string();
    assert!(
        linked["degraded"] == true && told.contains("apps/link is a symbolic link, which is not followed"),
        "{linked}"
    );
    assert!(!place.work().join("apps/none").exists());
    for folder in ["../outside", "/etc", "apps//site", "..", "apps/../..", "", ".umbra/other"] {
        let refused = attach(folder).await;
        assert_eq!(
            (refused.status.as_u16(), &refused.body["errors"][0]["pointer"]),
            (400, &json!("/folder")),
            "{folder}"
        );
    }
    for wrong in ["missing", "file"] {
        fs::write(place.work().join("file"), "x").expect("a file");
        let path = place.work().join(wrong).display().to_string();
        for command in [&["check"][..], &["serve", "--bind", "127.0.0.1:0"]] {
            let said = umbra.cli_in(&[("UMBRA__SIDECAR__WORKSPACE", &path)], command, None);
            let told = String::from_utf8_lossy(&said.stderr).into_owned() + &String::from_utf8_lossy(&said.stdout);
            assert!(
                !said.status.success() && told.contains("sidecar.workspace") && told.contains("create the directory"),
                "{told}"
            );
        }
    }
}

#[tokio::test]
async fn files_are_deleted_with_their_session() {
    let place = Place::new();
    let first = place
        .server()
        .settings("retention: {idempotency_hours: 24, events_days: 2}")
        .clock("2026-03-01T12:00:00Z")
        .go()
        .await;
    let attach = async |agent: &str| first.attach(&json!({"agent": agent, "documents": {"todo": "# T\n"}})).await;
    let (erased, aged) = (attach("ann").await, attach("bob").await);
    fs::write(place.file(&erased, "draft.txt"), "x").expect("a file");
    fs::create_dir_all(place.file(&erased, "sub/deep")).expect("a directory");
    fs::write(place.file(&erased, "sub/deep/notes.md"), "x").expect("a file");
    let done = first.cli(&["erase", "--agent", "ann", "--yes", "--json"], None);
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("session_folders"), "{said}");
    let folder = |id: &str| place.work().join(".umbra").join(id);
    assert!(!folder(&erased).exists() && folder(&aged).exists());
    first.post(&format!("/v1/sessions/{aged}/close"), &json!({})).await;
    let schema = first.schema.clone();
    drop(first);
    let _second = place
        .server()
        .settings("retention: {idempotency_hours: 24, events_days: 2}")
        .on(&schema)
        .clock("2026-03-05T12:00:00Z")
        .go()
        .await;
    until("the files to go", async || (!folder(&aged).exists()).then_some(())).await;
    // Removed ones are forgotten in turn.
    let _third = place
        .server()
        .settings("retention: {idempotency_hours: 24, events_days: 2}")
        .on(&schema)
        .clock("2026-03-09T12:00:00Z")
        .go()
        .await;
    until("it to be forgotten", async || schema.rows("SELECT 1 FROM sidecar_gone").await.is_empty().then_some(()))
        .await;
}
