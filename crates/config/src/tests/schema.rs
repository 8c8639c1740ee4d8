//! Tests of the JSON Schemas for editors.

use serde_json::Value;

use super::super::{settings_schema, shadows_schema, sidecar_schema, tools_schema};

/// Calls `visit` with every object schema and its path.
fn each_object(schema: &Value, path: &str, visit: &mut dyn FnMut(&str, &Value)) {
    if schema["properties"].is_object() {
        visit(path, schema);
    }
    for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
        each_object(inner, &format!("{path}.{key}"), visit);
    }
    for inner in ["items", "additionalProperties"].iter().map(|key| &schema[key]).filter(|inner| inner.is_object()) {
        each_object(inner, &format!("{path}[]"), visit);
    }
}

#[test]
fn schemas_describe_every_key_and_allow_no_other() {
    let mut keys = 0;
    for schema in [settings_schema(), shadows_schema(), sidecar_schema(), tools_schema()] {
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        each_object(&schema, "", &mut |path, object| {
            assert_eq!(object["additionalProperties"], false, "{path}");
            for (key, property) in object["properties"].as_object().unwrap() {
                keys += 1;
                let about = property["description"].as_str().unwrap_or_default();
                assert!(about.ends_with('.') && about.len() > 10, "{path}.{key}: {about:?}");
            }
        });
    }
    assert!(keys > 80, "{keys} keys");
}

#[test]
fn the_shadows_schema_has_every_key_of_the_manual() {
    let schema = shadows_schema();
    let keys = |pointer: &str| -> Vec<String> {
        let object = schema.pointer(pointer).and_then(Value::as_object);
        object.into_iter().flatten().map(|(key, _)| key.clone()).collect()
    };
    let shadow = "/properties/shadow_agents/items/properties";
    assert_eq!(keys("/properties"), ["shadow_agents"]);
    assert_eq!(
        keys(shadow),
        [
            "allowed_hosts",
            "canary",
            "checks",
            "cost_control",
            "criteria",
            "datamark",
            "enabled",
            "flag_at",
            "max_input_chars",
            "mode",
            "model",
            "name",
            "on_inconclusive",
            "on_timeout",
            "on_unfounded",
            "redact",
            "scope",
            "verdict_within",
            "watch",
        ]
    );
    assert_eq!(
        keys(&format!("{shadow}/cost_control/properties")),
        [
            "allow_costly_model",
            "batch",
            "cooldown",
            "max_reviews_per_day",
            "max_reviews_per_target_per_day",
            "max_tokens_per_day",
            "max_usd_per_day",
            "sample",
            "skip_if_task_cost_below",
            "time_zone",
        ]
    );
    assert_eq!(
        keys(&format!("{shadow}/watch/items/properties")),
        ["agent", "except", "metadata", "min_cost", "task_type", "triggers"]
    );
    assert_eq!(
        schema["properties"]["shadow_agents"]["items"]["required"],
        serde_json::json!(["name", "model", "mode", "watch"])
    );
}
