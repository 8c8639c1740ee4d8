//! Two editors of one document, each always behind the other.

use futures_util::future::join_all;
use serde_json::json;

use crate::support::Umbra;

#[tokio::test]
async fn two_editors_of_one_document_lose_nothing() {
    let umbra = Umbra::with().go().await;
    let id = umbra.attach(&json!({"agent": "a", "documents": {"todo": "# Left\n\n# Right\n"}})).await;
    let path = format!("/v1/sessions/{id}/documents/todo");
    let rounds: usize = 500;
    // Each puts whole texts, based on its last read: the other has always written since.
    let editor = async |section: &str, other: &str| {
        let first = umbra.get(&path).await;
        let mut text = first["text"].as_str().unwrap_or_default().to_owned();
        let mut seen = format!("\"{}\"", first["etag"].as_str().unwrap_or_default());
        for n in 0..rounds {
            let at = text.find(&format!("# {other}")).filter(|_| section == "Left").unwrap_or(text.len());
            text.insert_str(at, &format!("- [ ] {section} {n}\n"));
            let put = umbra.document("PUT", &path, Some(&seen), &json!({"text": text, "by": section})).await;
            assert_eq!((put.status.as_u16(), &put.body["stored"]), (200, &json!(true)), "{section} {n}: {}", put.body);
            seen = put.etag();
            text = put.body["text"].as_str().unwrap_or_default().to_owned();
        }
    };
    let both = join_all(vec![editor("Left", "Right"), editor("Right", "Left")]).await;
    assert_eq!(both.len(), 2);
    let text = umbra.get(&path).await["text"].as_str().unwrap_or_default().to_owned();
    for section in ["Left", "Right"] {
        for n in 0..rounds {
            assert_eq!(text.matches(&format!("- [ ] {section} {n}\n")).count(), 1, "{section} {n}");
        }
    }
    // The history has every edit once, and leads from the first text to the last.
    let (mut next, mut entries) = (Some(String::new()), Vec::new());
    while let Some(cursor) = next {
        let page = umbra.get(&format!("{path}/history?limit=500{cursor}")).await;
        entries.extend(page["items"].as_array().cloned().unwrap_or_default());
        next = page["next_cursor"].as_str().map(|cursor| format!("&cursor={cursor}"));
    }
    assert_eq!(entries.len(), 2 * rounds);
    let numbers: Vec<i64> = entries.iter().filter_map(|entry| entry["version"].as_i64()).collect();
    assert_eq!(numbers, (1..=i64::try_from(2 * rounds).unwrap_or_default()).collect::<Vec<_>>());
    for pair in entries.windows(2) {
        assert_eq!(pair[0]["entry"]["after"], pair[1]["entry"]["before"]);
    }
    let merged = entries.iter().filter(|entry| entry["entry"]["change"]["kind"] == "merge").count();
    assert!(merged > 0, "nobody was ever late: the test shows nothing");
}
