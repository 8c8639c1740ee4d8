//! Variables that are meant to keep calls from running: none is silently without effect.

use serde_json::json;

use crate::support::{
    Umbra,
    boundary::{read, write},
};

#[tokio::test]
async fn safe_mode_variable_counts_in_any_letter_case() {
    for (name, value, execution) in [
        ("agent_safe_mode", "1", "shadow"),
        ("Agent_Safe_Mode", "on", "shadow"),
        ("AGENT_SAFE_MODE", "enabled", "shadow"),
        ("AGENT_SAFE_MODE", " False ", "live"),
    ] {
        let umbra = Umbra::with().env(name, value).go().await;
        assert_eq!(umbra.decide(&write("c1", "a")).await["execution"], execution, "{name}={value}");
    }
    let both = Umbra::with().env("AGENT_SAFE_MODE", "0").env("agent_safe_mode", "yes").go().await;
    assert_eq!(both.get("/v1/execution").await["variable_says"], "shadow");
}

#[tokio::test]
async fn environment_names_match_in_any_letter_case() {
    let settings = "boundary: {environment: Staging, shadow_environments: [STAGING]}";
    let umbra = Umbra::with().settings(settings).go().await;
    assert_eq!(umbra.decide(&read("c1", "a")).await["execution"], "shadow");
    let live = json!({"scope": "environment", "value": "staging", "execution": "live", "reason": "release"});
    assert_eq!(umbra.put("/v1/execution", &live).await.status, 200);
    assert_eq!(umbra.decide(&write("c2", "a")).await["execution"], "live");
    let gate = umbra.get("/v1/gate?environment=sTaging").await;
    let rules: Vec<_> = gate["reasons"].as_array().into_iter().flatten().map(|reason| &reason["rule"]).collect();
    assert!(!rules.contains(&&json!("execution_shadow")), "{gate}");
}

#[tokio::test]
async fn misspelt_variable_is_refused_with_the_intended_name() {
    let umbra = Umbra::with().go().await;
    for (name, meant) in [
        ("UMBRA_BOUNDARY_EXECUTION", "UMBRA__BOUNDARY__EXECUTION"),
        ("umbra__boundary__execution", "UMBRA__BOUNDARY__EXECUTION"),
        ("UMBRA_EXECUTION", "UMBRA__BOUNDARY__EXECUTION"),
        ("UMBRA_SERVER_BIND", "UMBRA__SERVER__BIND"),
        ("Umbra_Boundary_Audit_Reads", "UMBRA__BOUNDARY__AUDIT__READS"),
    ] {
        let output = umbra.cli_in(&[(name, "shadow")], &["check"], None);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{name} was ignored");
        assert!(said.contains(&format!("{name}:1:1")) && said.contains(&format!("did you mean {meant}?")), "{said}");
    }
    // Variables of the client, the cluster and the settings.
    for (name, value) in [
        ("UMBRA_URL", "http://127.0.0.1:1"),
        ("UMBRA_PORT_7817_TCP_ADDR", "10.0.0.1"),
        ("UMBRA_DB_SERVICE_HOST", "10.0.0.2"),
        ("UMBRA_DB_PORT", "tcp://10.0.0.2:5432"),
        ("HOME", "/tmp"),
    ] {
        let output = umbra.cli_in(&[(name, value)], &["check"], None);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
