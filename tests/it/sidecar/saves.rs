//! Saves of editors with an older text, and files that cannot be read or are not written yet: no change is undone
//! unnoticed, the result of a save is reported, and no rule goes by an unknown text.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::Path,
    time::Duration,
};

use serde_json::json;

use super::workspace::{Place, both_say, document, edit, makers, read, save, text_of};
use crate::support::until;

/// Returns the files that were set aside.
fn aside(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).expect("it is there").flatten();
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(|name| name.contains('~')).collect()
}

#[tokio::test]
async fn stale_save_is_merged_and_reported() {
    let place = Place::new();
    let umbra = place.server().go().await;
    let id = umbra.attach(&json!({"agent": "a", "documents": {"todo": "# Mine\n- a\n# Api\n- z\n"}})).await;
    let todo = place.file(&id, "todo.md");
    edit(&umbra, &id, "todo", json!([{"op": "append_item", "section": "api", "text": "api 0"}])).await;
    // The editor's text is older than that edit.
    save(&todo, "# Mine\n- a\n- A\n# Api\n- z\n");
    both_say(&umbra, &place, &id, "# Mine\n- a\n- A\n# Api\n- z\n- api 0\n").await;
    save(&todo, "# Mine\n- a\n- A\n- B\n# Api\n- z\n");
    let both = "# Mine\n- a\n- A\n- B\n# Api\n- z\n- api 0\n";
    both_say(&umbra, &place, &id, both).await;
    save(&todo, "# Mine\n- a\n- A\n- B\n# Api\n- z\n");
    both_say(&umbra, &place, &id, both).await;
    assert_eq!(makers(&umbra, &id, "todo").await, ["a", "workspace", "workspace"]);
    let told = umbra.turn(&id, &json!({})).await["directives"].to_string();
    assert!(told.matches("older text").count() == 2 && told.contains("todo.md") && told.contains("history"), "{told}");
    // Writing an older state back is intended, and the loss is reported.
    edit(&umbra, &id, "todo", json!([{"op": "append_item", "section": "api", "text": "api 1"}])).await;
    save(&todo, both);
    both_say(&umbra, &place, &id, both).await;
    let told = umbra.turn(&id, &json!({})).await["directives"].to_string();
    assert!(told.contains("without a line that others had added"), "{told}");
}

#[tokio::test]
async fn contradicting_stale_save_is_set_aside_and_reported_at_close() {
    let place = Place::new();
    let umbra = place.server().go().await;
    let text = |one: &str, two: &str| format!("# T\n- [ ] {one} <!-- id: one -->\n- [ ] {two} <!-- id: two -->\n");
    let (first, theirs) = (text("alpha", "beta"), text("uno", "dos"));
    let id = umbra.attach(&json!({"agent": "a", "documents": {"todo": first}})).await;
    let todo = place.file(&id, "todo.md");
    let put = umbra.document("PUT", &document(&id, "todo"), Some("*"), &json!({"text": theirs})).await;
    assert_eq!(put.status.as_u16(), 200, "{}", put.body);
    save(&todo, &text("mine", "beta"));
    let closed = umbra.post(&format!("/v1/sessions/{id}/close"), &json!({})).await.body;
    assert_eq!(text_of(&umbra, &id, "todo").await, theirs);
    let beside = aside(&place.work().join(".umbra").join(&id));
    assert!(beside.len() == 1 && closed["warnings"].to_string().contains(&beside[0]), "{closed}");
    assert_eq!(read(&todo), theirs);
}

#[tokio::test]
async fn rules_about_documents_are_skipped_while_files_are_unknown() {
    let place = Place::new();
    fs::create_dir_all(place.work().join("apps/site")).expect("a directory");
    let umbra = place.server().settings("sidecar: {deadline: 5s}").go().await;
    let planned = json!({"route": "edit", "planned_calls": [{"tool": "files.edit_file"}, {"tool": "db.drop_table"}]});
    let documents = json!({"todo": "# Todo\n## Plan\n- [ ] one\n"});
    let here = umbra.attach(&json!({"agent": "a", "documents": documents})).await;
    let there = umbra.attach(&json!({"agent": "a", "folder": "apps/site", "documents": documents})).await;
    let folder = place.work().join(".umbra").join(&here);
    let away = |name: &str| place.outside().join(name);
    let known = async |id: &str| {
        let turn = umbra.turn(id, &planned).await;
        assert_eq!((&turn["decision"], &turn["degraded"]), (&json!("block"), &json!(false)), "{turn}");
    };
    // No rule is lifted by such a change.
    let as_before = async |id: &str| {
        let turn = umbra.turn(id, &planned).await;
        assert_eq!((&turn["decision"], &turn["degraded"]), (&json!("block"), &json!(true)), "{turn}");
    };
    let unknown = async |id: &str| {
        let turn = umbra.turn(id, &planned).await;
        assert_eq!((&turn["decision"], &turn["degraded"]), (&json!("allow"), &json!(true)), "{turn}");
        assert_eq!(turn["decisions"][1]["decision"], "block", "rules about calls hold: {turn}");
        assert!(turn["warnings"].to_string().contains("rules about documents were not applied"), "{turn}");
    };
    known(&here).await;
    known(&there).await;
    // The session's folder is a link, and then that of another session: each is logged, with its path.
    fs::rename(&folder, away("folder")).expect("it is moved");
    symlink(away("folder"), &folder).expect("a link");
    as_before(&here).await;
    let link = format!(".umbra/{here} is a symbolic link, which is not followed");
    until("the log to say so", async || umbra.log().contains(&link).then_some(())).await;
    fs::rename(place.work().join("apps"), away("apps")).expect("it is moved");
    as_before(&there).await;
    until("the log to say so", async || umbra.log().contains("the folder apps was removed").then_some(())).await;
    fs::remove_file(&folder).expect("it is a link");
    fs::rename(away("folder"), &folder).expect("it is moved");
    fs::rename(away("apps"), place.work().join("apps")).expect("it is moved");
    known(&here).await;
    // The workspace is moved away, and then an empty one lies in its place.
    fs::rename(place.work(), away("work")).expect("it is moved");
    unknown(&here).await;
    fs::create_dir(place.work()).expect("a directory");
    unknown(&here).await;
    fs::remove_dir(place.work()).expect("nothing was written to it");
    fs::rename(away("work"), place.work()).expect("it is moved");
    known(&here).await;
    known(&there).await;
    for id in [&here, &there] {
        let said = umbra.cli(&["sidecar", "replay", id, "--json"], None);
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
    }
}

#[tokio::test]
async fn incomplete_new_file_content_is_not_taken_at_once() {
    let place = Place::new();
    let umbra = place.server().settings("sidecar: {deadline: 5s}").go().await;
    let documents = json!({"todo": "# T\n- one\n", "plan": {"format": "yaml", "text": "a: 1\n"}});
    let id = umbra.attach(&json!({"agent": "a", "documents": documents})).await;
    let folder = place.work().join(".umbra").join(&id);
    let (todo, plan) = (place.file(&id, "todo.md"), place.file(&id, "plan.yaml"));
    fs::write(&todo, "").expect("a file");
    fs::write(&plan, "a: [1,").expect("a file");
    fs::write(folder.join("notes.md"), b"caf\xc3").expect("a file");
    let turn = umbra.turn(&id, &json!({})).await;
    assert_eq!((&turn["directives"], &turn["degraded"]), (&json!([]), &json!(false)), "{turn}");
    assert_eq!((read(&todo), read(&plan)), (String::new(), "a: [1,".to_owned()));
    fs::write(&todo, "# T\n- one\n- two\n").expect("a file");
    fs::write(&plan, "a: [1, 2]\n").expect("a file");
    fs::write(folder.join("notes.md"), "caf\u{e9}\n").expect("a file");
    both_say(&umbra, &place, &id, "# T\n- one\n- two\n").await;
    until("all to be taken", async || {
        let texts = (text_of(&umbra, &id, "plan").await, text_of(&umbra, &id, "notes").await);
        (texts == ("a: [1, 2]\n".to_owned(), "caf\u{e9}\n".to_owned())).then_some(())
    })
    .await;
    assert_eq!((aside(&folder), makers(&umbra, &id, "todo").await.len()), (Vec::new(), 1));
    // A text that has stayed for a while, or is dated in the future, is intended.
    let hour = Duration::from_hours(1);
    for (text, is_old) in [("a: [3,", true), ("a: [4,", false)] {
        fs::write(&plan, text).expect("a file");
        let written = fs::metadata(&plan).and_then(|found| found.modified()).expect("it has a time");
        let at = if is_old { written - hour } else { written + hour };
        File::options().write(true).open(&plan).and_then(|file| file.set_modified(at)).expect("its time is set");
        let told = umbra.turn(&id, &json!({})).await["directives"].to_string();
        assert!(told.contains("plan.yaml could not be applied"), "{told}");
    }
    // An emptied file that stays empty is intended.
    fs::write(&todo, "").expect("a file");
    both_say(&umbra, &place, &id, "").await;
}
