//! Clean code of twelve public repositories, declared as written by an agent: 300 snippets in six languages, listed in
//! tests/data/snippets.jsonl. Their texts are not part of this repository: `scripts/draw_snippets.py` draws them from
//! clones, and `UMBRA_SNIPPETS` names the file.

use std::{env, fs};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::{review, screen};
use umbra_domain::{CheckName, Event, Severity, Trigger};

const LIST: &str = include_str!("../../../../tests/data/snippets.jsonl");

/// Most hits of at least a warning in all snippets together.
const MOST_WARNINGS: usize = 1;

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    path: String,
    sha256: String,
    #[serde(default)]
    text: String,
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the texts lie where a variable says")]
fn declared_clean_snippets_give_at_most_one_warning() {
    let Some(file) = env::var_os("UMBRA_SNIPPETS") else {
        eprintln!("skipped: no data; scripts/draw_snippets.py draws it");
        return;
    };
    let rows = |text: &str| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Row>>();
    let (listed, drawn) = (rows(LIST), rows(&fs::read_to_string(file).unwrap()));
    assert_eq!((listed.len(), drawn.len()), (300, 300), "every drawn row counts");
    let mut warnings = Vec::new();
    for (listed, row) in listed.iter().zip(&drawn) {
        let digest = Sha256::digest(&row.text).iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        assert_eq!((&listed.id, &listed.sha256), (&row.id, &digest), "{} is not the row that was drawn", row.id);
        let event = Event { triggers: vec![Trigger::CodeWritten], output: Some(row.text.clone()), ..Event::default() };
        let screened = screen(event);
        let hits = review(&screened.event, &screened.marks, &CheckName::ALL.into_iter().collect());
        warnings.extend(
            hits.into_iter().filter(|hit| hit.severity >= Severity::Warning).map(|hit| {
                format!("{} {}: {} {}: {}", row.id, row.path, hit.check.as_str(), hit.rule, hit.description)
            }),
        );
    }
    let told = format!("{} warnings in {} snippets\n{}", warnings.len(), drawn.len(), warnings.join("\n"));
    eprintln!("{told}");
    assert!(warnings.len() <= MOST_WARNINGS, "{told}");
}
