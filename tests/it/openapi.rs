//! The OpenAPI document in the repository is the one that the code makes. `UMBRA_UPDATE=1` writes it.

#![expect(clippy::disallowed_methods, reason = "UMBRA_UPDATE is a switch of the tests")]

use std::path::Path;

use serde_json::Value;

#[test]
fn committed_document_matches_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi/umbra.json");
    let mut made = umbra::api::openapi_document().to_pretty_json().unwrap_or_default();
    made.push('\n');
    if std::env::var_os("UMBRA_UPDATE").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(path.parent().unwrap_or(&path)).ok();
        std::fs::write(&path, &made).ok();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == made, "openapi/umbra.json is stale: run UMBRA_UPDATE=1 cargo test openapi and commit it");
}

#[test]
fn operations_list_the_statuses_they_can_return() {
    let document = serde_json::to_value(umbra::api::openapi_document()).unwrap_or_default();
    let mut operations = 0;
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        let methods = item.as_object().into_iter().flatten();
        for (method, operation) in methods.filter(|(_, operation)| operation["responses"].is_object()) {
            operations += 1;
            let has = |status: &str| operation["responses"][status].is_object();
            let reads_body = operation["requestBody"].is_object();
            for status in ["408", "413", "415"] {
                assert_eq!(has(status), reads_body, "{method} {path}: {status}");
            }
            let one = format!("{method} {path}");
            let execution = ["put /v1/execution", "get /v1/execution/effective"].contains(&one.as_str());
            let of_session = ["post /v1/guard", "post /v1/tools/select"].contains(&one.as_str());
            let named = path.contains('{') || one.starts_with("post /v1/reviews") || execution || of_session;
            assert_eq!(has("404"), named, "{one}: 404");
            // A request with an id of the caller's own may reuse the id for another body.
            let keyed = ["post /v1/events", "post /v1/decide", "post /v1/calls/{call_id}/outcome"];
            assert_eq!(has("422"), keyed.contains(&one.as_str()), "{one}: 422");
            let capped = ["post /v1/reviews", "post /v1/sessions"].contains(&one.as_str());
            assert_eq!(has("429"), capped, "{one}: 429");
            assert_eq!(has("401"), path.starts_with("/v1/") || path.starts_with("/mcp/"), "{one}: 401");
        }
    }
    assert!(operations > 15, "{operations} operations");
}

#[test]
fn operation_ids_are_unique_and_tags_declared() {
    let document = serde_json::to_value(umbra::api::openapi_document()).unwrap_or_default();
    let declared: Vec<&Value> = document["tags"].as_array().into_iter().flatten().map(|tag| &tag["name"]).collect();
    let paths = document["paths"].as_object().into_iter().flatten();
    let operations: Vec<&Value> =
        paths.flat_map(|(_, path)| path.as_object().into_iter().flatten()).map(|(_, one)| one).collect();
    let mut names: Vec<&str> = operations.iter().filter_map(|one| one["operationId"].as_str()).collect();
    assert!(names.len() > 70 && names.len() == operations.len(), "{}", names.len());
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a generated client would have one twice: {names:?}");
    let strange = operations
        .iter()
        .flat_map(|one| one["tags"].as_array().into_iter().flatten())
        .find(|tag| !declared.contains(tag));
    assert_eq!(strange, None, "a tag without a description");
    assert_eq!(document["servers"][0]["url"], "/");
}
