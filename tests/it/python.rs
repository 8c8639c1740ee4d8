//! The clients in `clients/python` against the real server: their own tests, and those of the boundary in a rehearsal
//! and live.

use std::{path::Path, process::Command};

use tempfile::TempDir;

use crate::support::Umbra;

#[tokio::test]
async fn decorator_follows_the_decisions_of_the_boundary() {
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/python");
    let tools = std::fs::read_to_string(client.join("tools.yaml")).expect("the tests' tools");
    for mode in ["shadow", "live"] {
        let umbra = Umbra::with().tools(&tools).settings(&format!("boundary: {{execution: {mode}}}\n")).go().await;
        let (client, base) = (client.clone(), umbra.base.clone());
        let tests = tokio::task::spawn_blocking(move || {
            Command::new("python3")
                .arg(client.join("test_umbra.py"))
                .env("PYTHONPATH", &client)
                .env("PYTHONDONTWRITEBYTECODE", "1")
                .env("UMBRA_URL", base)
                .env("UMBRA_MODE", mode)
                .env_remove("AGENT_SAFE_MODE")
                .output()
        });
        let output = tests.await.expect("it ends").expect("python3 is there");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("\nOK"), "{mode}: {said}");
        let outcomes = umbra.audit("agent=python-test&kind=outcome").await;
        assert!(!outcomes.is_empty(), "what ran was reported");
    }
}

#[tokio::test]
async fn sidecar_client_follows_the_rulings_of_the_sidecar() {
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/python");
    let rules = std::fs::read_to_string(client.join("sidecar.yaml")).expect("the tests' rules");
    let work = TempDir::new().expect("a directory");
    let place = work.path().display().to_string();
    let umbra = Umbra::with().sidecar(&rules).env("UMBRA__SIDECAR__WORKSPACE", &*place).go().await;
    for file in ["test_sidecar.py", "test_sidecar_away.py"] {
        let (client, base, place) = (client.clone(), umbra.base.clone(), place.clone());
        let tests = tokio::task::spawn_blocking(move || {
            Command::new("python3")
                .arg(client.join(file))
                .env("PYTHONPATH", &client)
                .env("PYTHONDONTWRITEBYTECODE", "1")
                .env("UMBRA_URL", base)
                .env("UMBRA_WORKSPACE", place)
                .env("UMBRA_BIN", env!("CARGO_BIN_EXE_umbra"))
                .env_remove("UMBRA_API_KEY")
                .env_remove("AGENT_SAFE_MODE")
                .output()
        });
        let output = tests.await.expect("it ends").expect("python3 is there");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("\nOK") && !said.contains("skipped"), "{file}: {said}");
    }
}
