//! The OpenAPI document in the repository is the one that the code makes. `UMBRA_UPDATE=1` writes it.

#![expect(clippy::disallowed_methods, reason = "UMBRA_UPDATE is a switch of the tests")]

use std::path::Path;

#[test]
fn the_committed_document_is_the_codes_own() {
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
