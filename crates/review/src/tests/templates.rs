//! Tests of our words to a model: they read as recorded, and no change goes without a new version.

use std::{fs, path::Path};

use serde_json::json;

use super::{shadow, subject, tool_event};
use crate::{
    PROMPT_VERSION, prompt,
    prompt::{BATCH, REPAIR, SYSTEM, TRAJECTORY, USER, system},
    rejection::QUOTES_WANTED,
    reply::schema,
};
use umbra_domain::{Datamark, ReviewScope, Shadow};

/// Returns the hash of all our words to a model.
fn sum() -> String {
    let schemas = ReviewScope::ALL.map(|scope| schema(scope).to_string());
    let words = [SYSTEM, USER, BATCH, TRAJECTORY, QUOTES_WANTED].into_iter();
    let words = words.chain(REPAIR).chain(schemas.iter().map(String::as_str));
    let mut hasher = blake3::Hasher::new();
    for part in words {
        hasher.update(&part.len().to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "whether to rewrite the list is said by the environment")]
fn changed_templates_need_a_new_prompt_version() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/templates/versions.txt");
    let known = fs::read_to_string(&path).unwrap_or_default();
    let version = PROMPT_VERSION.to_string();
    let line = format!("{version}  {}\n", sum());
    if std::env::var_os("UMBRA_UPDATE").is_some() && !known.lines().any(|line| line.starts_with(&format!("{version} ")))
    {
        fs::write(&path, format!("{known}{line}")).unwrap();
        return;
    }
    assert!(
        known.ends_with(&line),
        "the words that a model is given have changed: raise PROMPT_VERSION, then run UMBRA_UPDATE=1 cargo test"
    );
    let versions: Vec<&str> = known.lines().filter_map(|line| line.split("  ").next()).collect();
    let expected: Vec<String> = (1..=PROMPT_VERSION).map(|version| version.to_string()).collect();
    assert_eq!(versions, expected, "each version once, in order");
}

#[test]
fn request_for_quotes_fits_a_repair_message() {
    assert!(QUOTES_WANTED.len() <= 240, "{}", QUOTES_WANTED.len());
}

#[test]
fn system_prompts_match_their_snapshots() {
    let plain = Shadow { criteria: vec!["Sentences are short.".to_owned()], ..shadow() };
    let bare = Shadow { canary: false, datamark: Datamark::Off, ..shadow() };
    for (name, shadow, scope) in [
        ("rules_for_an_event", &plain, ReviewScope::Event),
        ("rules_for_a_batch", &plain, ReviewScope::Batch),
        ("rules_for_a_task", &plain, ReviewScope::Trajectory),
        ("rules_without_marks_and_canary", &bare, ReviewScope::Event),
    ] {
        insta::assert_snapshot!(name, system(shadow, scope).unwrap());
    }
}

#[test]
fn schemas_match_their_snapshot() {
    let schemas = ReviewScope::ALL.map(|scope| (scope.as_str(), schema(scope)));
    insta::assert_snapshot!("schemas", serde_json::to_string_pretty(&json!(schemas)).unwrap());
}

#[test]
fn marked_words_match_their_snapshot() {
    let shadow = Shadow { datamark: Datamark::Words, ..shadow() };
    let event = tool_event(json!({"path": "a b.txt"}));
    let written = prompt(&shadow, &subject(&event, &[]), super::NONCE).unwrap();
    insta::assert_snapshot!("data_with_marked_words", written.user);
}
