//! Tests: a disk that hangs, and the writes to each file.

use std::sync::mpsc;

use jiff::Timestamp;

use super::*;
use crate::workspace::{FileContent, Mark, digest};
use umbra_sidecar::document::revision::Etag;
use umbra_store::documents::StoredDocument;

fn files() -> (tempfile::TempDir, WorkspaceFiles) {
    let dir = tempfile::TempDir::new().expect("a directory");
    let workspace = Workspace::open(dir.path(), 100).expect("a workspace");
    (dir, WorkspaceFiles::new(workspace))
}

#[tokio::test]
async fn hanging_disk_occupies_only_a_bounded_number_of_workers() {
    let (_dir, files) = files();
    let soon = || Instant::now() + Duration::from_millis(20);
    let (let_go, hanging) = mpsc::channel::<()>();
    let hanging = Arc::new(std::sync::Mutex::new(hanging));
    let (say, heard) = mpsc::channel();
    for _ in 0..AT_A_TIME + 5 {
        let (hanging, say) = (Arc::clone(&hanging), say.clone());
        let hangs = files.work(soon(), move |_| {
            say.send(()).expect("somebody counts");
            // Held up until the sender is gone.
            let _ = hanging.lock().expect("no poison").recv();
            Ok(())
        });
        assert!(matches!(hangs.await, Err(FilesError::Late)));
    }
    for _ in 0..AT_A_TIME {
        heard.recv_timeout(Duration::from_mins(1)).expect("it began");
    }
    assert!(heard.try_recv().is_err(), "more do not even begin");
    drop(let_go);
    let again = files.work(Instant::now() + Duration::from_mins(1), |_| Ok(7)).await;
    assert_eq!(again.expect("it answers again"), 7);
}

/// Returns a file that has one content, and was given another.
fn seen(says: &str, given: &str, said: FileState) -> SessionFiles {
    let mark = Some(Mark { version: 1, digest: digest(given.as_bytes()) });
    let entry = FolderEntry {
        name: "todo.md".to_owned(),
        content: FileContent::Bytes(says.as_bytes().to_vec()),
        mark,
        modified: Timestamp::UNIX_EPOCH,
    };
    let seen = WorkspaceFile { said, ..WorkspaceFile::of(entry).expect("a document's") };
    SessionFiles { seen: vec![seen], ..SessionFiles::new(Some(".umbra/ses_1".to_owned())) }
}

#[test]
fn file_with_unmerged_changes_is_not_overwritten() {
    let (dir, files) = files();
    let document = |text: &str, version| StoredDocument {
        name: "todo".to_owned(),
        format: "markdown".to_owned(),
        version,
        first: String::new(),
        text: text.to_owned(),
        at_turn: String::new(),
    };
    assert_eq!(digest(b"one"), Etag::of("one").to_string());
    assert!(seen("one", "one", FileState::Known).plan(&[document("one", 1)]).is_none(), "nothing is lacking");
    assert!(seen("mine", "one", FileState::Changed).plan(&[document("two", 2)]).is_none());
    assert!(seen("mine", "one", FileState::Moving).plan(&[document("two", 2)]).is_none());
    assert!(SessionFiles::default().plan(&[document("two", 2)]).is_none(), "it was not seen");
    let write = |mut held: SessionFiles, text: &str, version| {
        let writes = held.plan(&[document(text, version)]).expect("something is lacking");
        assert!(writes.carry_out(&files.workspace).expect("it is written"));
        let folder = files.workspace.folder(".umbra/ses_1", false).expect("it is there");
        folder
            .read_files(|_| true)
            .expect("it is read")
            .into_iter()
            .find(|entry| entry.name == "todo.md")
            .expect("a file")
    };
    let first = write(SessionFiles::new(Some(".umbra/ses_1".to_owned())), "one", 1);
    assert_eq!((first.content, first.mark.map(|mark| mark.version)), (FileContent::Bytes(b"one".to_vec()), Some(1)));
    // The mark alone is written, since the file has the text already.
    let second = write(seen("one", "one", FileState::Known), "one", 2);
    assert_eq!((second.content, second.mark.map(|mark| mark.version)), (FileContent::Bytes(b"one".to_vec()), Some(2)));
    let third = write(seen("one", "one", FileState::Known), "two", 3);
    assert_eq!((third.content, third.mark.map(|mark| mark.version)), (FileContent::Bytes(b"two".to_vec()), Some(3)));
    // The file was changed after it was read.
    let fourth = write(seen("one", "one", FileState::Known), "three", 4);
    assert_eq!((fourth.content, fourth.mark.map(|mark| mark.version)), (FileContent::Bytes(b"two".to_vec()), Some(3)));
    drop(dir);
}
