//! Documents of a session: conditions, merges, histories, names.

use serde_json::{Value, json};

use crate::support::Umbra;

#[tokio::test]
async fn write_needs_its_base_etag_and_merges_or_is_refused() {
    let umbra = Umbra::with().go().await;
    let id = umbra.attach(&json!({"agent": "a"})).await;
    let path = format!("/v1/sessions/{id}/documents/plan.md");
    assert_eq!(umbra.send("GET".parse().unwrap_or_default(), &path, &[], None).await.status.as_u16(), 404);
    let made = umbra.document("PUT", &path, None, &json!({"text": "# A\n- [ ] one\n"})).await;
    assert_eq!((made.status.as_u16(), &made.body["version"]), (201, &json!(1)), "{}", made.body);
    let first = made.etag();
    let blind = umbra.document("PUT", &path, None, &json!({"text": "# B\n"})).await;
    assert_eq!(blind.status.as_u16(), 412, "{}", blind.body);
    let again = umbra
        .send(
            "PUT".parse().unwrap_or_default(),
            &path,
            &[("content-type", "application/json"), ("if-none-match", "*")],
            Some(br##"{"text": "# B"}"##.to_vec()),
        )
        .await;
    assert_eq!(again.status.as_u16(), 412, "{}", again.body);
    let put = umbra.document("PUT", &path, Some(&first), &json!({"text": "# A\n- [ ] one, and more\n"})).await;
    assert_eq!((put.status.as_u16(), &put.body["merged"]), (200, &json!(false)), "{}", put.body);
    // From the first state: another item is merged, other words for the same one are not.
    let other = umbra.document("PUT", &path, Some(&first), &json!({"text": "# A\n- [ ] one\n- [ ] two\n"})).await;
    assert_eq!(
        (other.status.as_u16(), &other.body["merged"], &other.body["text"]),
        (200, &json!(true), &json!("# A\n- [ ] one, and more\n- [ ] two\n")),
        "{}",
        other.body
    );
    let clash = umbra.document("PUT", &path, Some(&first), &json!({"text": "# A\n- [ ] one, otherwise\n"})).await;
    assert_eq!((clash.status.as_u16(), &clash.body["code"]), (409, &json!("conflict")), "{}", clash.body);
    assert!(clash.body["errors"][0]["pointer"].to_string().contains("a / one"), "{}", clash.body);
    // The same text is no change.
    let now = umbra.get(&path).await;
    let same = umbra.document("PUT", &path, Some("*"), &json!({"text": now["text"]})).await;
    assert_eq!((same.status.as_u16(), &same.body["version"]), (200, &now["version"]), "{}", same.body);
    let unknown =
        umbra.document("PUT", &path, Some("\"00000000000000000000000000000000\""), &json!({"text": "x"})).await;
    assert_eq!(unknown.status.as_u16(), 412, "{}", unknown.body);
    // Edits that cannot be made name the place; none is made.
    let edits = json!({"edits": [{"op": "append_item", "section": "a", "text": "x"}, {"op": "remove_item", "section": "b", "item": {"index": 1}}]});
    let wrong = umbra.document("PATCH", &path, None, &edits).await;
    assert_eq!(
        (wrong.status.as_u16(), &wrong.body["errors"][0]["pointer"]),
        (400, &json!("/edits/1")),
        "{}",
        wrong.body
    );
    for (edit, expected) in [
        (json!("x"), "expected an object"),
        (
            json!({"op": "remove_item", "section": "a", "item": "one"}),
            r#"expected an item, such as {"text": "find the bug"} or {"index": 1}"#,
        ),
    ] {
        let refused = umbra.document("PATCH", &path, None, &json!({"edits": [edit]})).await;
        let detail = refused.body["errors"][0]["detail"].as_str().unwrap_or_default();
        assert!(detail.ends_with(expected), "{}", refused.body);
    }
    assert_eq!(umbra.get(&path).await["version"], 3);
    for name in ["..%2F..%2Fetc", "a%2Fb", "con", ".hidden", "%00", "%E2%80%AE"] {
        let path = format!("/v1/sessions/{id}/documents/{name}");
        let refused = umbra.document("PUT", &path, None, &json!({"text": "x"})).await;
        assert!([400, 404].contains(&refused.status.as_u16()), "{name}: {}", refused.body);
    }
    // No version contains a credential.
    let secret = json!({"edits": [{"op": "append_item", "section": "a", "text": "use AKIAQ7XJ3MZP4TVK2LWN"}]});
    assert_eq!(umbra.document("PATCH", &path, None, &secret).await.status.as_u16(), 200);
    for table in ["SELECT text AS t FROM sidecar_document", "SELECT entry AS t FROM sidecar_change"] {
        let kept = umbra.schema.rows(&format!("SELECT 1 FROM ({table}) x WHERE t LIKE '%AKIAQ7XJ3MZP4TVK2LWN%'")).await;
        assert!(kept.is_empty(), "{table}");
    }
}

#[tokio::test]
async fn edited_yaml_keeps_comments_and_order() {
    let umbra = Umbra::with().go().await;
    let text = "# the plan\nsteps:  # in order\n  - one\n  - two\nowner: ann\n";
    let id = umbra.attach(&json!({"agent": "a", "documents": {"plan": {"format": "yaml", "text": text}}})).await;
    let path = format!("/v1/sessions/{id}/documents/plan");
    let edits = json!({"edits": [{"op": "append_item", "section": "steps", "text": "three"}, {"op": "set_key", "key": "owner", "value": "bob"}]});
    let patched = umbra.document("PATCH", &path, None, &edits).await;
    assert_eq!(patched.status.as_u16(), 200, "{}", patched.body);
    let raw = umbra.send("GET".parse().unwrap_or_default(), &path, &[("accept", "application/yaml")], None).await;
    let expected: Value = json!("# the plan\nsteps:  # in order\n  - one\n  - two\n  - three\nowner: bob\n");
    assert_eq!(patched.body["text"], expected, "{}", patched.body);
    assert_eq!(raw.headers.get("content-type").and_then(|value| value.to_str().ok()), Some("application/yaml"));
    // The text that it was attached with is no change either; invalid YAML is refused with its line.
    let attached = umbra.attach(&json!({"agent": "a", "documents": {"plan.yaml": text}})).await;
    let path = format!("/v1/sessions/{attached}/documents/plan");
    let same = umbra.document("PUT", &path, Some("*"), &json!({"text": text})).await;
    assert_eq!((same.status.as_u16(), &same.body["version"]), (200, &json!(0)), "{}", same.body);
    for (path, if_match) in [(path.clone(), Some("*")), (format!("/v1/sessions/{attached}/documents/new.yaml"), None)] {
        let refused = umbra.document("PUT", &path, if_match, &json!({"text": "a: 1\na: 2\n"})).await;
        assert_eq!((refused.status.as_u16(), &refused.body["errors"][0]["pointer"]), (400, &json!("/text")), "{path}");
        assert!(refused.body["errors"][0].to_string().contains("line 2"), "{}", refused.body);
    }
}
