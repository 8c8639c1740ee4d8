//! Tests of the files of reviews: pages and the observations log.

use std::{fs, path::Path, sync::Arc};

use proptest::prelude::*;

use super::{Artifacts, Observation, journal::ObservationsLog, page, pages};
use umbra_domain::{
    Assessment, EventId, FindingId, Mode, ReviewId, ReviewState, Reviewer, Severity, TokenCount, Trigger,
};
use umbra_store::{findings::FindingItem, reviews::Review};

fn review(n: u128, agent: &str) -> Review {
    let at = "2026-02-28T14:30:00Z".parse().expect("a time");
    Review {
        id: ReviewId(uuid::Uuid::from_u128(n)),
        shadow: "security-shadow".into(),
        shadow_version: "v".into(),
        agent: agent.into(),
        task_id: Some("t-1".into()),
        trigger: Some(Trigger::TaskComplete),
        mode: Some(Mode::Review),
        state: Some(ReviewState::Done),
        decided_by: None,
        assessment: Some(Assessment::Flag),
        score: None,
        recommendation: Some("Do not --> run it.".into()),
        reviewer: Some(Reviewer::Checks),
        model: None,
        usage: TokenCount { input: 0, output: 0 },
        cost_usd: 0.0,
        prompt_version: Some(1),
        latency_ms: Some(1),
        notes: vec![],
        reason: None,
        failure: None,
        scope: None,
        assessments: Vec::new(),
        events: vec![EventId(uuid::Uuid::from_u128(7))],
        created_at: at,
        started_at: Some(at),
        finished_at: Some(at),
        released: false,
        findings: None,
    }
}

fn finding(severity: Severity, description: &str) -> FindingItem {
    FindingItem {
        id: FindingId(uuid::Uuid::from_u128(1)),
        shadow: "security-shadow".into(),
        watched_agent: "a".into(),
        trigger: None,
        mode: None,
        severity,
        category: "security".into(),
        description: description.into(),
        recommendation: String::new(),
        evidence: None,
        verified: true,
        about: umbra_domain::FindingSubject::Agent,
        source: "check".into(),
        rule: "r".into(),
        fingerprint: "f".into(),
        occurrences: 1,
        review_id: Some(ReviewId(uuid::Uuid::from_u128(1))),
        event_id: EventId(uuid::Uuid::from_u128(7)),
        task_id: None,
        timestamp: "2026-02-28T14:30:00Z".parse().expect("a time"),
        status: "open".into(),
        note: None,
        task_type: None,
        of_look: false,
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    names.into_iter().map(|name| name.into_string().expect("UTF-8")).collect()
}

fn lines(path: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn page_shows_the_three_gravest_findings_and_counts_the_rest() {
    let mut review = review(1, "writer-agent");
    review.findings = Some(vec![
        finding(Severity::Info, "one"),
        finding(Severity::Critical, "two"),
        finding(Severity::Warning, "three"),
        finding(Severity::Warning, "four"),
    ]);
    insta::assert_snapshot!(page(&review));
}

#[test]
fn page_names_are_numbered_and_rewrites_make_no_new_page() {
    let dir = tempfile::tempdir().expect("a folder");
    for n in [1, 2, 1, 3, 2] {
        pages::write(dir.path(), &review(n, "writer-agent")).expect("written");
    }
    let stem = "2026-02-28-writer-agent-task_complete-143000";
    assert_eq!(names(dir.path()), [format!("{stem}-2.md"), format!("{stem}-3.md"), format!("{stem}.md")]);
}

proptest! {
    #[test]
    fn any_agent_name_gives_a_page_in_the_folder_with_one_comment(agent in "\\PC{0,40}|.{0,40}|[./\\\\-]{1,20}|(-->|--!>|->|<script>|\u{202e}|\"){1,4}") {
        let dir = tempfile::tempdir().expect("a folder");
        let mut review = review(1, &agent);
        review.task_id = Some(agent.clone());
        review.findings = Some(vec![finding(Severity::Critical, &agent)]);
        pages::write(dir.path(), &review).expect("written");
        let names = names(dir.path());
        prop_assert_eq!(names.len(), 1);
        prop_assert!(names[0].bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c)), "{}", names[0]);
        prop_assert!(!names[0].contains(".."));
        let text = fs::read_to_string(dir.path().join(&names[0])).expect("a page");
        prop_assert_eq!(text.matches("<!--").count(), 1);
        let (comment, rest) = text.split_once("\n-->\n").expect("a comment");
        prop_assert!(!rest.contains("-->") && !rest.contains("<script"), "{}", rest);
        let yaml = comment.strip_prefix("<!-- umbra-review\n").expect("metadata");
        prop_assert!(!yaml.contains("--"), "{}", yaml);
        let fields: serde_json::Value = serde_saphyr::from_str(yaml).expect("YAML");
        prop_assert_eq!(&fields["watched_agent"], &serde_json::json!(agent));
        prop_assert_eq!(&fields["event_ids"], &serde_json::json!(review.events));
        prop_assert_eq!(pages::named(&dir.path().join(&names[0])).and_then(|named| named.review_id), Some(review.id));
    }
}

#[test]
fn page_with_older_encoded_metadata_is_still_recognised() {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    let dir = tempfile::tempdir().expect("a folder");
    let review = review(1, "writer-agent");
    let encoded = URL_SAFE_NO_PAD.encode(serde_json::json!({"review_id": review.id}).to_string());
    let path = dir.path().join("2026-02-28-writer-agent-task_complete-143000.md");
    fs::write(&path, format!("<!-- umbra-review {encoded} -->\n# security-shadow on writer-agent\n")).expect("written");
    assert_eq!(pages::write(dir.path(), &review).expect("known"), path);
    assert_eq!(names(dir.path()).len(), 1);
}

#[test]
fn log_rotation_loses_no_line_and_repeats_none() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("observations.jsonl");
    let observations =
        |ids: std::ops::Range<u128>| -> Vec<Observation> { ids.map(|n| Observation::from(review(n, "a"))).collect() };
    let open = || ObservationsLog::new(path.clone(), 2_000, 100);
    let mut journal = open();
    journal.append(&observations(0..10)).expect("written");
    journal.append(&observations(5..12)).expect("written");
    // A crash in the middle of a line.
    let mut torn = fs::read(&path).expect("the log");
    torn.extend_from_slice(b"{\"shadow\": \"secu");
    fs::write(&path, &torn).expect("torn");
    open().append(&observations(8..20)).expect("written");
    let files = names(dir.path());
    assert!(files.len() > 3, "{files:?}");
    let mut found: Vec<String> = Vec::new();
    for name in &files {
        let text = fs::read_to_string(dir.path().join(name)).expect("a file");
        assert!(text.len() <= 2_000 + 20, "{name} holds {} bytes", text.len());
        let whole = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        found.extend(whole.map(|line| line["review_id"].as_str().expect("an id").to_owned()));
    }
    found.sort();
    let expected: Vec<String> = (0..20).map(|n| ReviewId(uuid::Uuid::from_u128(n)).to_string()).collect();
    assert_eq!(found, expected);
}

#[test]
fn rotated_files_beyond_the_limit_are_deleted() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("observations.jsonl");
    let mut journal = ObservationsLog::new(path, 1_000, 2);
    for n in 0..30 {
        journal.append(&[Observation::from(review(n, "a"))]).expect("written");
    }
    assert_eq!(names(dir.path()), ["observations.jsonl", "observations.jsonl.1", "observations.jsonl.2"]);
}

#[tokio::test]
async fn unwritable_page_is_an_error_and_is_written_on_retry() {
    let dir = tempfile::tempdir().expect("a folder");
    let (log, pages) = (dir.path().join("log/observations.jsonl"), dir.path().join("pages"));
    fs::write(&pages, "in the way").expect("a file");
    let artifacts = Arc::new(Artifacts::new(log.clone(), 1 << 20, 3, Some(pages.clone())));
    let reviews = [review(1, "a"), review(2, "a")];
    let error = artifacts.write(&reviews, &[]).await.expect_err("a file is in the way");
    assert!(error.to_string().contains(&pages.display().to_string()), "{error}");
    fs::remove_file(&pages).expect("removed");
    for _ in 0..2 {
        artifacts.write(&reviews, &[]).await.expect("written");
    }
    assert_eq!(names(&pages).len(), 2);
    assert_eq!(lines(&log).len(), 2);
    let line = &lines(&log)[0];
    assert_eq!(line["watched_agent"], "a");
    assert_eq!(line["timestamp"], "2026-02-28T14:30:00Z");
}
