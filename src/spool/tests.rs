//! Tests of the spool: appended lines come back once, in order, even after crashes; damaged ones are set aside alone.

use std::fs;

use super::*;

fn spool(dir: &Path, owner: u128) -> Spool {
    Spool::new(dir, 1 << 20, Uuid::from_u128(owner))
}

fn lines(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Files all that is in the spool.
fn filed(spool: &Spool) -> Vec<String> {
    spool.take_over().unwrap();
    let mut all = Vec::new();
    while let Some(mut segment) = spool.next().unwrap() {
        while let Some(line) = segment.line().unwrap() {
            all.push(String::from_utf8(line.json).unwrap());
        }
        segment.done().unwrap();
    }
    all
}

#[test]
fn lines_are_filed_once_in_order_and_leave_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let first = spool(dir.path(), 1);
    first.append(&lines(&["1", "2"])).unwrap();
    first.append(&lines(&["3"])).unwrap();
    assert!(first.bytes() > 0);
    assert_eq!(filed(&first), ["1", "2", "3"]);
    first.append(&lines(&["4"])).unwrap();
    assert_eq!(filed(&first), ["4"]);
    assert_eq!((filed(&first).len(), first.bytes()), (0, 0));
}

#[test]
fn an_interrupted_segment_is_filed_again() {
    let dir = tempfile::tempdir().unwrap();
    let first = spool(dir.path(), 1);
    first.append(&lines(&["1", "2"])).unwrap();
    let mut segment = first.next().unwrap().unwrap();
    assert_eq!(segment.line().unwrap().unwrap().json, b"1");
    drop(segment);
    first.append(&lines(&["3"])).unwrap();
    assert_eq!(filed(&first), ["1", "2", "3"]);
}

#[test]
fn segments_of_dead_processes_are_filed_first_and_live_ones_not() {
    let dir = tempfile::tempdir().unwrap();
    let (gone, live, own) = (spool(dir.path(), 1), spool(dir.path(), 2), spool(dir.path(), 3));
    for (spool, text) in [(&own, "own"), (&live, "live"), (&gone, "gone")] {
        spool.append(&lines(&[text])).unwrap();
    }
    assert!(abandoned_in(dir.path()).unwrap().is_empty());
    drop(gone);
    assert_eq!(abandoned_in(dir.path()).unwrap().len(), 1);
    assert_eq!(filed(&own), ["gone", "own"]);
    assert_eq!(filed(&live), ["live"]);
    drop((live, own));
    let last = spool(dir.path(), 4);
    assert!(filed(&last).is_empty());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "locks of processes that are gone stay behind");
}

#[test]
fn a_torn_end_is_skipped_and_a_damaged_line_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let gone = spool(dir.path(), 1);
    gone.append(&lines(&["\"one\"", "\"two\"", "\"three\""])).unwrap();
    drop(gone);
    let path = segments_in(dir.path()).unwrap().remove(0);
    let text = fs::read_to_string(&path).unwrap().replace("two", "tvo");
    fs::write(&path, format!("{text}0a0b0c0d \"fo")).unwrap();
    let next = spool(dir.path(), 2);
    assert_eq!(filed(&next), ["\"one\"", "\"three\""]);
    assert!(next.holds_refused());
    let aside = fs::read_to_string(dir.path().join(ASIDE)).unwrap();
    assert!(aside.ends_with("\"tvo\"\n") && aside.lines().count() == 1, "{aside}");
}

#[test]
fn full_spool_refuses_lines_and_loses_none() {
    let dir = tempfile::tempdir().unwrap();
    let small = Spool::new(dir.path(), 40, Uuid::from_u128(1));
    small.append(&lines(&["\"fits\""])).unwrap();
    let refused = small.append(&lines(&["\"does not fit any more\""])).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::QuotaExceeded);
    assert_eq!(filed(&small), ["\"fits\""]);
    small.append(&lines(&["\"fits again\""])).unwrap();
}

#[test]
fn erased_lines_are_gone_from_the_disk_and_others_stay() {
    let dir = tempfile::tempdir().unwrap();
    let own = spool(dir.path(), 1);
    own.append(&lines(&["\"anna\"", "\"bert\"", "\"anna\""])).unwrap();
    let path = segments_in(dir.path()).unwrap().remove(0);
    let erased = |json: &[u8]| (json == b"\"anna\"").then(|| b"0".to_vec());
    assert_eq!(erase(&path, erased, true).unwrap(), 2);
    assert_eq!(erase(&path, erased, false).unwrap(), 2);
    assert_eq!(erase(&path, erased, false).unwrap(), 0);
    assert!(!fs::read_to_string(&path).unwrap().contains("anna"));
    own.append(&lines(&["\"carl\""])).unwrap();
    let left: Vec<String> = filed(&own).iter().map(|json| json.trim_end().to_owned()).collect();
    assert_eq!(left, ["0", "\"bert\"", "0", "\"carl\""]);
    assert!(!own.holds_refused());
}

#[test]
fn a_segment_that_is_being_erased_is_not_filed_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let own = spool(dir.path(), 1);
    own.append(&lines(&["1"])).unwrap();
    let erasing = File::open(segments_in(dir.path()).unwrap().remove(0)).unwrap();
    erasing.lock().unwrap();
    assert!(own.next().unwrap().is_none());
    drop(erasing);
    assert_eq!(filed(&own), ["1"]);
}

#[test]
fn append_to_a_moved_folder_fails() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, aside) = (dir.path().join("spool"), dir.path().join("aside"));
    let own = spool(&folder, 1);
    own.append(&lines(&["1"])).unwrap();
    fs::rename(&folder, &aside).unwrap();
    fs::write(&folder, "no folder").unwrap();
    own.append(&lines(&["2"])).unwrap_err();
    fs::remove_file(&folder).unwrap();
    fs::rename(&aside, &folder).unwrap();
    assert_eq!(filed(&own), ["1"]);
    own.append(&lines(&["3"])).unwrap();
    assert_eq!(filed(&own), ["3"]);
}
