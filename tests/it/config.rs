//! The shipped configuration, from outside: the files of `config/` load, and faults look as tools expect.

use std::{collections::BTreeMap, path::Path, time::Duration};

use umbra_config::{Environment, Models, Settings, settings_schema, shadows, shadows_schema, sidecar, sidecar_schema};
use umbra_domain::{ModelKind, ModelSpec, PricePerMtok, Prices, Provider};

fn haiku() -> BTreeMap<String, ModelSpec> {
    let spec = ModelSpec {
        alias: "haiku".to_owned(),
        provider: Provider::Anthropic,
        kind: ModelKind::Chat,
        name: "claude-haiku".to_owned(),
        base_url: None,
        api_key_env: None,
        prices: Some(Prices { input: PricePerMtok(1_000_000_000), output: PricePerMtok(5_000_000_000) }),
        max_output_tokens: 1_024,
        timeout: Duration::from_mins(1),
    };
    BTreeMap::from([(spec.alias.clone(), spec)])
}

#[test]
fn shipped_files_load_without_warnings() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let settings =
        Settings::load(Some(&folder.join("umbra.default.yaml")), &Environment::default(), &|_, _| Ok(())).unwrap();
    assert!(settings.warnings.is_empty());
    let specs = haiku();
    let models = Models { specs: &specs, ceiling: settings.value.cheap_model.max_output_usd_per_mtok };
    let shadows = shadows::read(&folder.join("shadow-agents.example.yaml"), &models).unwrap();
    assert!(shadows.warnings.is_empty());
    assert_eq!(shadows.value.len(), 2);
    let rules = sidecar::read(&folder.join("sidecar.example.yaml"), sidecar::SidecarFileValidators::NONE).unwrap();
    assert!(rules.warnings.is_empty());
    assert_eq!(rules.value.names().count(), 7);
}

#[test]
fn embedding_model_must_be_single_free_and_no_reviewer() {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("umbra.yaml");
    let load = |models: &str| {
        std::fs::write(&file, format!("models: {{{models}}}\n")).unwrap();
        Settings::load(Some(&file), &Environment::default(), &|_, _| Ok(())).map_err(|report| report.to_string())
    };
    let local = "v: {provider: openai, kind: embedding, name: v, base_url: 'http://127.0.0.1:1/v1'}";
    let settings = load(local).unwrap().value;
    for (models, says) in [
        ("v: {provider: gemini, kind: embedding, name: v}", "write provider: openai"),
        ("v: {provider: openai, kind: embedding, name: v}", "the model must be free of charge"),
        (
            &format!("{local}, w: {{provider: openai, kind: embedding, name: w, base_url: 'http://[::1]:1'}}"),
            "keep one",
        ),
        ("v: {provider: openai, kind: vectors, name: v}", "embedding"),
    ] {
        let report = load(models).unwrap_err();
        assert!(report.contains(says), "{models}: {report}");
    }
    let free = "v: {provider: openai, kind: embedding, name: v, input_usd_per_mtok: 0, output_usd_per_mtok: 0}";
    assert_eq!(load(free).unwrap().value.models["v"].kind, ModelKind::Embedding);
    let specs = settings.all_models(Vec::new());
    let models = Models { specs: &specs, ceiling: settings.cheap_model.max_output_usd_per_mtok };
    let shadow = folder.path().join("shadows.yaml");
    std::fs::write(&shadow, "shadow_agents:\n  - {agent: a, model: v, triggers: [every_output]}\n").unwrap();
    let report = shadows::read(&shadow, &models).unwrap_err().to_string();
    assert!(report.contains("is an embedding model and cannot review"), "{report}");
}

#[test]
fn defaults_apply_without_a_settings_file() {
    let settings = Settings::load(None, &Environment::default(), &|_, _| Ok(())).unwrap().value;
    assert_eq!(settings.server.bind.to_string(), "127.0.0.1:7817");
    assert_eq!(settings.database.max_connections, 16);
    assert!(settings.database.url.is_none());
}

#[test]
fn every_fault_begins_with_file_line_and_column() {
    let specs = haiku();
    let models = Models { specs: &specs, ceiling: PricePerMtok(5_000_000_000) };
    let text = "shadow_agents:\n  - name: a\n    model: haiku\n    mode: x\n    watch: 5\n    cap: 1\n";
    let report = shadows::load("conf/shadows.yaml", text, &models).unwrap_err();
    let shown = report.to_string();
    let first_lines: Vec<&str> = shown.lines().filter(|line| line.starts_with("conf/")).collect();
    assert_eq!(first_lines.len(), 3, "{shown}");
    assert!(first_lines[0].starts_with("conf/shadows.yaml:4:11: "), "{shown}");
    assert!(first_lines[1].starts_with("conf/shadows.yaml:5:12: "), "{shown}");
    assert!(first_lines[2].starts_with("conf/shadows.yaml:6:5: "), "{shown}");
    assert_eq!(serde_json::json!(report)["faults"].as_array().map(Vec::len), Some(3));
}

#[test]
fn schemas_are_documents_of_draft_2020_12() {
    for schema in [settings_schema(), shadows_schema(), sidecar_schema()] {
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(schema["type"], "object");
    }
}
