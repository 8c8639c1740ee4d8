//! The settings: defaults, bounds, rules between keys, models.

use std::{collections::BTreeSet, time::Duration};

use secrecy::ExposeSecret;

use super::{
    super::{
        DEFAULT_SETTINGS, Environment, Settings,
        fault::Faults,
        quantity::{parse_bytes, parse_duration, show_bytes, show_duration},
        settings_schema,
        tree::{Node, NodeValue, parse},
    },
    faults, model, one_fault,
};
use umbra_domain::{PricePerMtok, Prices, Provider};

fn read(text: &str) -> Result<Settings, super::Report> {
    Settings::parse("s.yaml", text, &Environment::default(), &|_, _| Ok(())).map(|loaded| loaded.value)
}

#[test]
fn default_file_gives_exactly_the_default_settings() {
    let loaded =
        Settings::parse("umbra.default.yaml", DEFAULT_SETTINGS, &Environment::default(), &|_, _| Ok(())).unwrap();
    assert!(loaded.warnings.is_empty());
    assert_eq!(format!("{:#?}", loaded.value), format!("{:#?}", Settings::default()));
}

/// Every `section.key` of a tree of two levels.
fn keys_of(root: &Node) -> BTreeSet<String> {
    let NodeValue::Map(sections) = &root.kind else { panic!("no map") };
    let mut keys = BTreeSet::new();
    for section in sections {
        if let NodeValue::Map(entries) = &section.value.kind {
            keys.extend(entries.iter().map(|entry| format!("{}.{}", section.key, entry.key)));
        }
    }
    keys
}

#[test]
fn default_file_names_every_key() {
    let root = parse(0, DEFAULT_SETTINGS, &mut Faults::default()).unwrap();
    let schema = settings_schema();
    let mut described = BTreeSet::new();
    for (section, schema) in schema["properties"].as_object().unwrap() {
        for key in schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key) {
            described.insert(format!("{section}.{key}"));
        }
    }
    assert_eq!(keys_of(&root), described);
}

#[test]
fn bind_address_accepts_localhost_and_no_other_name() {
    let bind =
        |text: &str| read(&format!("server: {{bind: '{text}'}}")).map(|settings| settings.server.bind.to_string());
    assert_eq!(bind("localhost:8080").unwrap(), "127.0.0.1:8080");
    assert_eq!(bind("[::1]:0").unwrap(), "[::1]:0");
    for text in ["example.com:80", "localhost", "localhost:", ":8080", "localhost:99999"] {
        one_fault(text, &faults(bind(text)), 1, &["not an address", "localhost:7817"]);
    }
}

#[test]
fn invalid_settings_are_faults_with_line_and_reason() {
    let cases: [(&str, usize, &[&str]); 59] = [
        ("telemetry: {otlp: {endpoint: \"http://LOCALHOST.:7817\"}}", 1, &["this service itself"]),
        ("telemetry: {otlp: {endpoint: \"http://127.0.0.1:4318/v1/logs/\"}}", 1, &["leave /v1/logs and ?.. out"]),
        ("telemetry: {otlp: {endpoint: \"http://127.0.0.1:4318?x=1\"}}", 1, &["leave /v1/logs and ?.. out"]),
        ("telemetry: {otlp: {endpoint: \"http://127.0.0.1:7817\"}}", 1, &["this service itself"]),
        ("server: {bind: \"0.0.0.0:99\"}\ntelemetry: {otlp: {endpoint: \"http://[::1]:99/x\"}}", 2, &["itself"]),
        ("telemetry: {otlp: {endpoint: \"127.0.0.1:4318\"}}", 1, &["endpoint", "http://"]),
        (
            "telemetry: {otlp: {endpoint: \"http://127.0.0.1:1\", headers_env: {x-key: NOT_SET}}}",
            1,
            &["NOT_SET is not set"],
        ),
        ("server: {bind: localhost}", 1, &["not an address", "127.0.0.1:7817"]),
        ("server: {bind: 7817}", 1, &["not text"]),
        ("server: {allowed_hosts: [\"http://x\"]}", 1, &["allowed_hosts[0]", "host name"]),
        ("server:\n  max_connections: 0", 2, &["0 is out of bounds", "1 to 100000"]),
        ("server:\n  max_connections: many", 2, &["not a whole number"]),
        ("server:\n  header_timeout: 5", 2, &["5 is not a duration", "30s"]),
        ("server:\n  header_timeout: 1d", 2, &["out of bounds"]),
        ("server:\n  max_body_bytes: 1MB", 2, &["not a size"]),
        ("server:\n  max_body_bytes: -1", 2, &["out of bounds"]),
        ("server:\n  max_body_bytes: 8MiB", 2, &["max_decoded_bytes is below"]),
        ("server:\n  max_decoded_bytes: 2MiB\n  max_event_bytes: 3MiB", 3, &["max_event_bytes is above"]),
        ("server:\n  max_in_flight_bytes: 1MiB", 2, &["max_in_flight_bytes is below"]),
        ("server:\n  decide_concurrency: 0", 2, &["out of bounds", "1 to 10000"]),
        ("server:\n  max_wait: 2m", 2, &["out of bounds"]),
        ("server: [a]", 1, &["expected keys with values, found a list"]),
        ("servr: {}", 1, &["unknown key", "`server`"]),
        ("storage: {download_postgres: yes}", 1, &["is not true or false"]),
        ("storage: {data_dir: ''}", 1, &["characters"]),
        ("database: {schema: Public}", 1, &["a-z"]),
        ("database: {schema: pg_umbra}", 1, &["pg_"]),
        ("database: {url: 'postgres://a b'}", 1, &["not the URL of a Postgres"]),
        ("database:\n  url: postgres://h/d\n  url_file: /x", 3, &["both"]),
        ("database: {url_file: /nowhere/at/all}", 1, &["cannot be read"]),
        ("cheap_model: {max_output_usd_per_mtok: -1}", 1, &["out of bounds"]),
        ("cheap_model: {max_output_usd_per_mtok: .nan}", 1, &["not a price"]),
        ("outbound: {allow: ['http://x']}", 1, &["host"]),
        ("outbound: {allow: [169.254.169.254]}", 1, &["link-local"]),
        ("outbound: {allow: ['::ffff:127.0.0.1']}", 1, &["IPv4-mapped"]),
        ("queue:\n  workers: 1\n  active_slots: 1", 3, &["at most 0"]),
        ("queue:\n  fence_after: 15s", 2, &["heartbeat < fence_after < dead_after"]),
        ("queue:\n  heartbeat: 9s", 2, &["in order"]),
        ("ingest:\n  queue_events: 10", 2, &["flush_events is above"]),
        ("retention: {idempotency_hours: 1e12}", 1, &["out of bounds"]),
        ("sidecar: {deadline: 5ms}", 1, &["out of bounds", "10ms to 1m"]),
        ("sidecar: {max_sessions_per_agent: 0}", 1, &["1 to 10000"]),
        ("sidecar: {idle_close: 30}", 1, &["not a duration"]),
        ("breaker: {threshold: 0}", 1, &["out of bounds", "1 to 20"]),
        ("breaker: {cool_off: 15}", 1, &["not a duration"]),
        ("reflexion: {threshold: 1}", 1, &["out of bounds"]),
        ("baseline: {spreads: many}", 1, &["a number of spreads"]),
        ("promote: {floor: 80}", 1, &["out of bounds", "a share from 0 to 1"]),
        ("retention: {events_days: -1}", 1, &["out of bounds"]),
        ("retention: {events_days: forever}", 1, &["not a number of days", "never"]),
        ("retention: {events_days: 2}", 1, &["before their ids are forgotten", "idempotency_hours"]),
        ("retention:\n  reviews_days: 29", 2, &["before their events"]),
        ("retention: {events_days: never}", 1, &["before their events", "reviews_days"]),
        ("retention: {counts_days: 6}", 1, &["not over", "7 or more"]),
        ("logging: {level: inof}", 1, &["did you mean `info`"]),
        ("logging: {format: xml}", 1, &["text or json"]),
        ("storage: {download_postgres: 1}", 1, &["is not true or false"]),
        ("auth: {allow_open_bind: true}", 1, &["unknown key"]),
        ("just text", 1, &["keys with values"]),
    ];
    for (text, line, words) in cases {
        one_fault(text, &faults(read(text)), line, words);
    }
}

#[test]
fn invalid_models_are_faults() {
    let cases: [(&str, &[&str]); 13] = [
        ("{name: x}", &["`provider` is missing", "wire protocol"]),
        ("{provider: openai}", &["`name` is missing"]),
        ("{provider: opnai, name: x}", &["did you mean `openai`"]),
        ("{provider: openai, name: x, input_usd_per_mtok: 1}", &["only one of the two prices"]),
        ("{provider: openai, name: x, base_url: llm.internal}", &["http://"]),
        ("{provider: openai, name: x, base_url: 'ftp://h/'}", &["http://"]),
        ("{provider: openai, name: x, base_url: 'http:///v1'}", &["a host"]),
        ("{provider: openai, name: x, base_url: 'http://h:99999/v1'}", &["a port"]),
        ("{provider: openai, name: x, base_url: 'http://h/v1?key=1'}", &["a path"]),
        ("{provider: openai, name: x, max_output_tokens: 0}", &["out of bounds"]),
        ("{provider: openai, name: x, timeout: 1h}", &["out of bounds"]),
        ("{provider: checks, base_url: 'http://h'}", &["calls no model"]),
        ("{provider: openai, name: x, price: 3}", &["unknown key"]),
    ];
    for (model, words) in cases {
        one_fault(model, &faults(read(&format!("models:\n  m: {model}\n"))), 2, words);
    }
    one_fault("alias", &faults(read("models: {'a b': {provider: checks}}")), 1, &["not an allowed name"]);
}

#[test]
fn a_declared_alias_replaces_a_built_in_one_whole() {
    let text = "models:
  haiku: {provider: openai, name: house, base_url: 'http://[::1]:8080/v1/'}
  Own.v2: {provider: gemini, name: flash, api_key_env: OWN_KEY, input_usd_per_mtok: 0.1, output_usd_per_mtok: 0.4, timeout: 5s}
";
    let mut builtin =
        vec![model("haiku", Provider::Anthropic, Some((1.0, 5.0))), model("checks", Provider::Checks, None)];
    builtin[0].api_key_env = Some("ANTHROPIC_API_KEY".to_owned());
    let settings = read(text).unwrap();
    let all = settings.all_models(builtin.clone());
    assert_eq!(all.keys().map(String::as_str).collect::<Vec<_>>(), ["Own.v2", "checks", "haiku"]);
    let haiku = &all["haiku"];
    // On this machine, so free of charge.
    let free = Prices { input: PricePerMtok(0), output: PricePerMtok(0) };
    assert_eq!((haiku.alias.as_str(), haiku.provider, haiku.prices), ("haiku", Provider::Openai, Some(free)));
    assert_eq!(haiku.base_url.as_deref(), Some("http://[::1]:8080/v1"));
    assert_eq!(haiku.api_key_env, None);
    assert_eq!(all["Own.v2"].prices.unwrap().output, PricePerMtok::from_usd(0.4).unwrap());
    assert_eq!((all["Own.v2"].timeout, all["Own.v2"].max_output_tokens), (Duration::from_secs(5), 1_024));

    let env: Environment = [("OWN_KEY", " k1\n"), ("ANTHROPIC_API_KEY", "k2")]
        .map(|(n, v)| (n.to_owned(), v.to_owned()))
        .into_iter()
        .collect();
    let keys = env.provider_keys(settings.all_models(builtin).values());
    assert_eq!(keys.len(), 1, "a replaced model's key is not needed");
    assert_eq!(keys["OWN_KEY"].expose_secret(), "k1");
}

#[test]
fn few_workers_lower_the_default_of_active_slots() {
    for (workers, slots) in [(0, 0), (1, 0), (2, 1), (3, 2), (8, 2)] {
        let settings = read(&format!("queue: {{workers: {workers}}}")).unwrap();
        assert_eq!(settings.queue.active_slots, slots, "{workers} workers");
    }
}

#[test]
fn database_url_is_read_from_url_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("url");
    std::fs::write(&path, "postgres://app:pw@db/umbra\n").unwrap();
    let settings = read(&format!("database: {{url_file: '{}'}}", path.display())).unwrap();
    assert_eq!(settings.database.url.unwrap().expose_secret(), "postgres://app:pw@db/umbra");
    std::fs::write(&path, "mysql://app:hunter2@db").unwrap();
    let found = faults(read(&format!("database: {{url_file: '{}'}}", path.display())));
    one_fault("url_file", &found, 1, &["has no URL"]);
    assert!(!found[0].to_string().contains("hunter2"));
}

#[test]
fn all_faults_are_reported_at_once_in_order() {
    let text =
        "server:\n  bind: x\n  max_headers: 0\nqueue:\n  pol: 1s\nlogging: 7\nstorage:\n  download_postgres: no\n";
    let lines: Vec<usize> = faults(read(text)).iter().map(|fault| fault.line).collect();
    assert_eq!(lines, [2, 3, 5, 6, 8]);
}

#[test]
fn durations_and_sizes_are_parsed_and_formatted() {
    for (text, seconds) in [("2h", 7_200.0), ("1h30m", 5_400.0), ("500ms", 0.5), ("1d", 86_400.0), ("0s", 0.0)] {
        let duration = parse_duration(text).unwrap();
        assert!((duration.as_secs_f64() - seconds).abs() < f64::EPSILON, "{text}");
        assert_eq!(parse_duration(&show_duration(duration)), Some(duration), "{text}");
    }
    for text in ["", "5", "s", "5 s", "-1s", "1.5h", "5x", "99999999999999999999s", "9999999999999d", "5é", "5m5"] {
        assert_eq!(parse_duration(text), None, "{text}");
    }
    for (text, bytes) in [("4MiB", 4 << 20), ("16 KiB", 16 << 10), ("1GiB", 1 << 30), ("7B", 7)] {
        assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        assert_eq!(parse_bytes(&show_bytes(bytes)), Some(bytes), "{text}");
    }
    for text in ["", "4", "4MB", "MiB", "-4MiB", "99999999999GiB"] {
        assert_eq!(parse_bytes(text), None, "{text}");
    }
}
