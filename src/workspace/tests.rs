//! Tests of files that other programs change at the same time, and of folders that are replaced.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, fs::symlink, net::UnixListener},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tempfile::TempDir;

use super::*;

const AT: &str = ".umbra/ses_1";
/// Longest wait for an expected change.
const IN_VAIN: Duration = Duration::from_secs(30);

fn all(name: &str) -> bool {
    !name.starts_with('.')
}

/// Returns a workspace, and a folder outside of it.
fn places() -> (TempDir, Workspace, PathBuf) {
    let dir = TempDir::new().expect("a directory");
    let (root, outside) = (dir.path().join("work"), dir.path().join("outside"));
    fs::create_dir_all(&root).expect("a directory");
    fs::create_dir_all(&outside).expect("a directory");
    (dir, Workspace::open(&root, 1_000).expect("a workspace"), outside)
}

fn bytes(text: &str) -> FileContent {
    FileContent::Bytes(text.as_bytes().to_vec())
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).expect("a directory").next().is_none()
}

#[test]
fn file_and_mark_are_written_read_and_replaced_by_digest() {
    let (_dir, workspace, _) = places();
    assert_eq!(workspace.folder(AT, false).expect_err("nothing is made").kind(), io::ErrorKind::NotFound);
    let folder = workspace.folder(AT, true).expect("a folder");
    assert!(folder.put("todo.md", b"one", None).expect("it is written"));
    let mark = Mark { version: 3, digest: digest(b"one") };
    folder.mark("todo.md", &mark).expect("it is marked");
    let seen = folder.read_files(all).expect("it is read");
    assert!(seen[0].modified > Timestamp::UNIX_EPOCH);
    let modified = seen[0].modified;
    let expected =
        FolderEntry { name: "todo.md".to_owned(), content: bytes("one"), mark: Some(mark.clone()), modified };
    assert_eq!(seen, std::slice::from_ref(&expected));
    // A file is not overwritten if no file, or another content, is expected.
    assert!(!folder.put("todo.md", b"two", None).expect("nothing is done"));
    assert!(!folder.put("todo.md", b"two", Some(&digest(b"other"))).expect("nothing is done"));
    assert_eq!(folder.read_files(all).expect("it is read"), [expected]);
    assert!(folder.put("todo.md", b"two", Some(&digest(b"one"))).expect("it is replaced"));
    assert_eq!(folder.read_files(all).expect("it is read")[0].content, bytes("two"));
    // If a file is expected and missing, it is written again.
    fs::remove_file(workspace.path().join(AT).join("todo.md")).expect("it is there");
    assert!(folder.put("todo.md", b"three", Some(&digest(b"two"))).expect("it is written"));
    folder.set_aside("todo.md", "todo~old.md").expect("it is renamed");
    assert_eq!(folder.read_files(all).expect("it is read")[0].name, "todo~old.md");
    // No other file is left behind, and git ignores the folder.
    let mut names: Vec<_> = fs::read_dir(workspace.path().join(AT)).expect("it is there").collect();
    names.retain(Result::is_ok);
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(fs::read_to_string(workspace.path().join(".umbra/.gitignore")).expect("it is there"), "*\n");
    assert!(workspace.remove(AT).expect("it is removed") && !workspace.remove(AT).expect("it is gone"));
    assert!(workspace.path().join(".umbra").exists());
}

#[test]
fn files_inherit_group_permissions_and_deny_others() {
    for (mode, of_folder, of_file) in [(0o755, 0o750, 0o640), (0o700, 0o700, 0o600), (0o777, 0o770, 0o660)] {
        let (_dir, workspace, _) = places();
        fs::set_permissions(workspace.path(), fs::Permissions::from_mode(mode)).expect("it is ours");
        let folder = workspace.folder(AT, true).expect("a folder");
        folder.put("todo.md", b"one", None).expect("it is written");
        let says = |path: &str| fs::metadata(workspace.path().join(path)).expect("it is there").permissions().mode();
        assert_eq!(says(".umbra") & 0o777, of_folder, "{mode:o}");
        assert_eq!(says(AT) & 0o777, of_folder, "{mode:o}");
        assert_eq!(says(".umbra/ses_1/todo.md") & 0o777, of_file, "{mode:o}");
        // A file without permissions for the group keeps its mode.
        fs::set_permissions(workspace.path().join(".umbra/ses_1/todo.md"), fs::Permissions::from_mode(0o600))
            .expect("ours");
        assert!(folder.put("todo.md", b"two", Some(&digest(b"one"))).expect("it is written"));
        assert_eq!(says(".umbra/ses_1/todo.md") & 0o777, 0o600, "{mode:o}");
    }
}

#[test]
fn paths_and_names_outside_the_workspace_are_refused() {
    let (dir, workspace, _) = places();
    for path in ["../outside/x", "/etc/x", ".umbra/..", "..", "", ".", "a//b", "./x/y", "x\0y/z"] {
        assert!(workspace.folder(path, true).is_err(), "{path:?}");
        assert!(!workspace.remove(path).is_ok_and(|removed| removed), "{path:?}");
    }
    let folder = workspace.folder(AT, true).expect("a folder");
    for file in ["../x", "..", ".", "", "a/b", "/etc/x", "x\0"] {
        assert!(folder.put(file, b"x", None).is_err(), "{file:?}");
        assert!(folder.set_aside("todo.md", file).is_err(), "{file:?}");
    }
    assert!(is_empty(&dir.path().join("outside")));
}

#[test]
fn symlinks_in_any_part_of_a_path_are_not_followed() {
    // A folder of the project, ours, the session's: each in turn is a link to a folder outside.
    for (at, path) in [("project", "project/.umbra/ses_1"), ("project/.umbra", "project/.umbra/ses_1"), (AT, AT)] {
        let (_dir, workspace, outside) = places();
        let place = workspace.path().join(at);
        fs::create_dir_all(place.parent().expect("a parent")).expect("a directory");
        fs::create_dir_all(outside.join(".umbra/ses_1")).expect("a directory");
        fs::write(outside.join(".umbra/ses_1/kept.md"), "theirs").expect("a file");
        symlink(&outside, &place).expect("a link");
        assert!(workspace.folder(path, true).is_err() && workspace.folder(path, false).is_err(), "{at}");
        assert!(workspace.remove(path).is_err(), "{at}");
        assert!(outside.join(".umbra/ses_1/kept.md").exists(), "{at}");
    }
    // The workspace itself was replaced by a link after the start.
    let (dir, workspace, outside) = places();
    fs::rename(workspace.path(), dir.path().join("elsewhere")).expect("it is moved");
    symlink(&outside, workspace.path()).expect("a link");
    assert!(workspace.folder(AT, true).is_err());
    assert!(is_empty(&outside));
    // An open folder stays the same.
    let (_dir, workspace, outside) = places();
    let folder = workspace.folder(AT, true).expect("a folder");
    fs::rename(workspace.path().join(AT), workspace.path().join("moved")).expect("it is moved");
    symlink(&outside, workspace.path().join(AT)).expect("a link");
    assert!(folder.put("todo.md", b"one", None).expect("it is written"));
    assert!(is_empty(&outside) && workspace.path().join("moved/todo.md").exists());
}

#[test]
fn folder_swapped_for_a_symlink_in_a_race_is_not_followed() {
    let (_dir, workspace, outside) = places();
    let (umbra, aside) = (workspace.path().join(".umbra"), workspace.path().join("aside"));
    let stop = AtomicBool::new(false);
    let wrote = thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if fs::rename(&umbra, &aside).is_ok() {
                    drop(symlink(&outside, &umbra));
                    thread::yield_now();
                    drop(fs::remove_file(&umbra));
                    drop(fs::remove_dir_all(&umbra));
                    drop(fs::rename(&aside, &umbra));
                }
            }
        });
        let (mut wrote, mut tried) = (0, 0);
        while tried < 1_000 || (wrote == 0 && tried < 1_000_000) {
            tried += 1;
            let written = workspace.folder(AT, true).and_then(|folder| {
                folder.put(&format!("{tried}.md"), b"one", None)?;
                folder.read_files(|name| name == "1.md").map(drop)
            });
            wrote += u32::from(written.is_ok());
        }
        stop.store(true, Ordering::Relaxed);
        wrote
    });
    assert!(wrote > 0, "nothing was ever written: the test shows nothing");
    assert!(is_empty(&outside));
}

#[test]
fn non_regular_files_are_neither_read_nor_overwritten() {
    let (_dir, workspace, outside) = places();
    let folder = workspace.folder(AT, true).expect("a folder");
    let (at, secret) = (workspace.path().join(AT), outside.join("secret"));
    fs::write(&secret, "secret").expect("a file");
    symlink(&secret, at.join("link.md")).expect("a link");
    fs::hard_link(&secret, at.join("hard.md")).expect("a link");
    fs::create_dir(at.join("folder.md")).expect("a folder");
    let _socket = UnixListener::bind(at.join("socket.md")).expect("a socket");
    let made = std::process::Command::new("mkfifo").arg(at.join("pipe.md")).status().expect("mkfifo runs");
    assert!(made.success());
    fs::write(at.join("large.md"), vec![b'x'; 1_001]).expect("a file");
    fs::write(at.join("whole.md"), vec![b'x'; 1_000]).expect("a file");
    fs::write(at.join("bytes.md"), b"\xff\xfe").expect("a file");
    let seen = folder.read_files(all).expect("it is read");
    let seen: Vec<_> = seen.iter().map(|entry| (entry.name.as_str(), &entry.content)).collect();
    let (whole, odd) = (FileContent::Bytes(vec![b'x'; 1_000]), FileContent::Bytes(b"\xff\xfe".to_vec()));
    let expected = [
        ("bytes.md", &odd),
        ("folder.md", &FileContent::Other("is a folder")),
        ("hard.md", &FileContent::Other("is a hard link to another file")),
        ("large.md", &FileContent::Large),
        ("link.md", &FileContent::Other("is a symbolic link")),
        ("pipe.md", &FileContent::Other("is not a regular file")),
        ("socket.md", &FileContent::Other("is not a regular file")),
        ("whole.md", &whole),
    ];
    assert_eq!(seen, expected);
    // None of them is written to, or overwritten, with any expected content.
    for name in ["link.md", "hard.md", "pipe.md", "socket.md", "folder.md"] {
        assert!(!folder.put(name, b"ours", None).expect("nothing is done"), "{name}");
        let over = folder.put(name, b"ours", Some(&digest(b"secret")));
        assert!(!over.expect("nothing is done"), "{name}");
        folder.set_aside(name, &format!("{name}~aside")).expect("it is renamed");
        assert!(folder.put(name, b"ours", None).expect("it is written"), "{name}");
    }
    assert_eq!(fs::read_to_string(&secret).expect("it is there"), "secret");
    assert!(workspace.remove(AT).expect("it is removed") && secret.exists() && !at.exists());
}

#[test]
fn folder_removal_deletes_contents_but_follows_no_symlink() {
    let (_dir, workspace, outside) = places();
    workspace.folder(AT, true).expect("a folder");
    let at = workspace.path().join(AT);
    let mut deep = at.join("todo~conflict-1a2b3c4d.md");
    for _ in 0..10 {
        fs::create_dir(&deep).expect("a folder");
        fs::write(deep.join("said"), "x").expect("a file");
        symlink(&outside, deep.join("link")).expect("a link");
        deep = deep.join("sub");
    }
    fs::write(outside.join("kept"), "theirs").expect("a file");
    assert!(workspace.remove(AT).expect("it is removed") && !at.exists());
    assert!(outside.join("kept").exists() && workspace.path().join(".umbra").exists());
}

#[test]
fn path_errors_name_the_part_and_the_reason() {
    let (_dir, workspace, outside) = places();
    let said = |path: &str| workspace.folder(path, true).expect_err("it is none").to_string();
    symlink(&outside, workspace.path().join("link")).expect("a link");
    fs::write(workspace.path().join("file"), "x").expect("a file");
    assert_eq!(said("link/.umbra/ses_1"), "link is a symbolic link, which is not followed");
    assert_eq!(said("file/.umbra/ses_1"), "file is not a folder");
    fs::create_dir(workspace.path().join(".umbra")).expect("a folder");
    symlink(&outside, workspace.path().join(AT)).expect("a link");
    assert_eq!(said(AT), ".umbra/ses_1 is a symbolic link, which is not followed");
    let folder = workspace.folder(".umbra/ses_2", true).expect("a folder");
    fs::create_dir(workspace.path().join(".umbra/ses_2/.todo.md.exported")).expect("a folder");
    let fault = folder.mark("todo.md", &Mark { version: 1, digest: digest(b"one") }).expect_err("it is in the way");
    assert!(fault.to_string().starts_with(".todo.md.exported cannot be written"), "{fault}");
}

#[test]
fn vanished_place_is_an_error_other_than_not_found() {
    let (dir, workspace, _) = places();
    let path = "apps/site/.umbra/ses_1";
    assert!(!workspace.has_place(path).expect("it is not there"));
    assert_eq!(workspace.folder(path, true).expect_err("it is not there").kind(), io::ErrorKind::NotFound);
    fs::create_dir_all(workspace.path().join("apps/site")).expect("a directory");
    assert!(workspace.has_place(path).expect("it is there"));
    fs::rename(workspace.path().join("apps"), dir.path().join("away")).expect("it is moved");
    for fault in [workspace.has_place(path).map(drop), workspace.folder(path, true).map(drop)] {
        let fault = fault.expect_err("it is gone");
        assert!(
            fault.kind() != io::ErrorKind::NotFound && fault.to_string() == "the folder apps was removed",
            "{fault}"
        );
    }
    // The workspace itself: gone, and then an empty directory in its place, as where a file system is no longer
    // mounted.
    fs::rename(workspace.path(), dir.path().join("elsewhere")).expect("it is moved");
    assert_ne!(workspace.folder(AT, false).expect_err("it is gone").kind(), io::ErrorKind::NotFound);
    fs::create_dir(workspace.path()).expect("a directory");
    assert!(workspace.folder(AT, true).expect_err("it is another one").to_string().contains("mounted"));
    fs::remove_dir(workspace.path()).expect("it is empty");
    fs::rename(dir.path().join("elsewhere"), workspace.path()).expect("it is back");
    assert!(workspace.folder(AT, true).is_ok());
}

#[test]
fn file_swapped_for_a_symlink_in_a_race_is_not_followed() {
    let (_dir, workspace, outside) = places();
    let folder = workspace.folder(AT, true).expect("a folder");
    let (at, secret) = (workspace.path().join(AT), outside.join("secret"));
    fs::write(&secret, "secret").expect("a file");
    let stop = AtomicBool::new(false);
    let (mut own, mut links, mut others) = (0, 0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                drop(symlink(&secret, at.join("link")));
                drop(fs::rename(at.join("link"), at.join("todo.md")));
                drop(fs::write(at.join("file"), "own"));
                drop(fs::rename(at.join("file"), at.join("todo.md")));
            }
        });
        let began = Instant::now();
        while (own < 2_000 || links < 2_000) && began.elapsed() < IN_VAIN {
            match folder.read_files(|name| name == "todo.md").expect("no fault").pop().map(|entry| entry.content) {
                Some(FileContent::Other(_)) => links += 1,
                Some(seen) if seen == bytes("own") || seen == bytes("") => own += 1,
                Some(_) => others += 1,
                None => {}
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(others, 0);
    assert!(own > 0 && links > 0, "it was never the one or the other: the test shows nothing");
}

#[test]
fn malformed_and_linked_marks_are_ignored() {
    let (_dir, workspace, outside) = places();
    let folder = workspace.folder(AT, true).expect("a folder");
    let at = workspace.path().join(AT);
    folder.put("todo.md", b"one", None).expect("it is written");
    let own = format!("7 {}", digest(b"one"));
    fs::write(outside.join("mark"), &own).expect("a file");
    for (mark, version) in [(own.as_str(), Some(7)), ("", None), ("7 x", None), ("7 *", None), (&own.repeat(9), None)] {
        fs::write(at.join(".todo.md.exported"), mark).expect("a file");
        let seen = folder.read_files(all).expect("it is read");
        assert_eq!(seen[0].mark.as_ref().map(|mark| mark.version), version, "{mark}");
    }
    fs::remove_file(at.join(".todo.md.exported")).expect("it is there");
    symlink(outside.join("mark"), at.join(".todo.md.exported")).expect("a link");
    assert_eq!(folder.read_files(all).expect("it is read")[0].mark, None);
    folder.mark("todo.md", &Mark { version: 8, digest: digest(b"one") }).expect("it is marked");
    assert_eq!(fs::read_to_string(outside.join("mark")).expect("it is there"), own);
}

#[test]
fn concurrent_writers_never_overwrite_each_other() {
    let (_dir, workspace, _) = places();
    let folder = workspace.folder(AT, true).expect("a folder");
    folder.put("n.md", b"0", None).expect("it is written");
    // Each writer adds to what it read, and tries again where another was quicker: no sum is lost.
    let (writers, each) = (4, 40);
    thread::scope(|scope| {
        for _ in 0..writers {
            scope.spawn(|| {
                let folder = workspace.folder(AT, false).expect("a folder");
                let mut done = 0;
                while done < each {
                    let Some(FolderEntry { content: FileContent::Bytes(was), .. }) =
                        folder.read_files(all).expect("it is read").pop()
                    else {
                        continue;
                    };
                    let number: u32 = std::str::from_utf8(&was).expect("a number").parse().expect("a number");
                    let next = (number + 1).to_string();
                    done += u32::from(folder.put("n.md", next.as_bytes(), Some(&digest(&was))).expect("no fault"));
                }
            });
        }
    });
    assert_eq!(folder.read_files(all).expect("it is read")[0].content, bytes(&(writers * each).to_string()));
}

#[test]
fn concurrent_editor_changes_are_never_lost() {
    let (_dir, workspace, _) = places();
    let folder = workspace.folder(AT, true).expect("a folder");
    folder.put("n.md", b"ours 0", None).expect("it is written");
    let (at, taken) = (workspace.path().join(AT), AtomicU32::new(0));
    let edits = 200;
    thread::scope(|scope| {
        // An editor, which writes without checks and waits until each change was noticed.
        scope.spawn(|| {
            for n in 1..=edits {
                let text = format!("theirs {n}");
                fs::write(at.join("editor"), &text).expect("a file");
                fs::rename(at.join("editor"), at.join("n.md")).expect("it is saved");
                let began = Instant::now();
                while taken.load(Ordering::Relaxed) < n {
                    assert!(began.elapsed() < IN_VAIN, "the change {n} was lost");
                    thread::yield_now();
                }
            }
        });
        let mut ours = 0;
        let began = Instant::now();
        while taken.load(Ordering::Relaxed) < edits && began.elapsed() < IN_VAIN {
            let Some(FileContent::Bytes(there)) =
                folder.read_files(|name| name == "n.md").expect("no fault").pop().map(|one| one.content)
            else {
                continue;
            };
            if let Some(n) = there.strip_prefix(b"theirs ") {
                let n = std::str::from_utf8(n).expect("a number").parse().expect("a number");
                taken.fetch_max(n, Ordering::Relaxed);
            }
            ours += 1;
            folder.put("n.md", format!("ours {ours}").as_bytes(), Some(&digest(&there))).expect("no fault");
        }
    });
    assert_eq!(taken.load(Ordering::Relaxed), edits);
}

#[test]
fn overfull_folder_is_not_read() {
    let (_dir, workspace, _) = places();
    let folder = workspace.folder(AT, true).expect("a folder");
    for n in 0..300 {
        fs::write(workspace.path().join(AT).join(format!("{n}.md")), "x").expect("a file");
    }
    assert!(folder.read_files(all).is_err());
    assert_eq!(folder.read_files(|name| name == "7.md").expect("it is read").len(), 1);
    let file = workspace.path().join("file");
    fs::write(&file, "x").expect("a file");
    assert!(Workspace::open(&file, 10).is_err() && Workspace::open(&workspace.path().join("none"), 10).is_err());
    assert!(workspace.folder("file/.umbra/ses_1", true).is_err());
}
