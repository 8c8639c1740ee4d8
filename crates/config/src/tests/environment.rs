//! Tests of the environment: what it sets, its precedence, and the names in its faults.

use secrecy::ExposeSecret;

use super::{
    super::{Environment, Settings},
    faults, one_fault,
};
use umbra_domain::Provider;

fn env(variables: &[(&str, &str)]) -> Environment {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn over(file: &str, variables: &[(&str, &str)]) -> Result<Settings, super::Report> {
    Settings::parse("s.yaml", file, &env(variables), &|_, _| Ok(())).map(|loaded| loaded.value)
}

#[test]
fn variables_override_the_file_and_keep_other_settings() {
    let file = "server: {bind: '0.0.0.0:80', max_headers: 32}\noutbound: {allow: [a]}\n";
    let settings = over(
        file,
        &[
            ("UMBRA__SERVER__BIND", "127.0.0.1:0"),
            ("UMBRA__SHADOWS__PATH", "/etc/umbra/shadows.yaml"),
            ("UMBRA__STORAGE__DATA_DIR", "/var/lib/umbra"),
            ("UMBRA__STORAGE__DOWNLOAD_POSTGRES", "false"),
            ("UMBRA__OUTBOUND__ALLOW", "[ollama, 10.0.0.7]"),
            ("UMBRA__QUEUE__HEARTBEAT", "500ms"),
            ("UMBRA__MODELS__HOUSE__PROVIDER", "openai"),
            ("UMBRA__MODELS__HOUSE__NAME", "qwen"),
            ("UMBRA__LOGGING__LEVEL", ""),
            ("UMBRA_PG_BIN", "/opt/pg/bin"),
            ("HOME", "/root"),
        ],
    )
    .unwrap();
    assert_eq!(settings.server.bind, "127.0.0.1:0".parse().unwrap());
    assert_eq!(settings.server.max_headers, 32);
    assert_eq!(settings.shadows.path.unwrap().to_str(), Some("/etc/umbra/shadows.yaml"));
    assert_eq!(settings.storage.data_dir.to_str(), Some("/var/lib/umbra"));
    assert!(!settings.storage.download_postgres);
    assert_eq!(settings.storage.pg_bin.unwrap().to_str(), Some("/opt/pg/bin"));
    assert_eq!(settings.outbound.allow, ["ollama", "10.0.0.7"]);
    assert_eq!(settings.queue.heartbeat.as_millis(), 500);
    assert_eq!((settings.models["house"].provider, settings.models["house"].name.as_str()), (Provider::Openai, "qwen"));
}

/// A name, the variables, and what the fault says.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

#[test]
fn database_url_follows_the_precedence_of_its_sources() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "postgres://from-file/d").unwrap();
    let secret = file.path().to_str().unwrap();
    let in_file = "database: {url: 'postgres://settings/d'}";
    let twin = format!("database: {{url_file: '{secret}'}}");
    let cases: [Case<'_>; 6] = [
        (in_file, &[], "settings"),
        (in_file, &[("DATABASE_URL", "postgres://short/d")], "short"),
        (in_file, &[("DATABASE_URL", "postgres://short/d"), ("UMBRA__DATABASE__URL", "postgres://long/d")], "long"),
        (&twin, &[("DATABASE_URL", "postgres://short/d")], "short"),
        (in_file, &[("UMBRA__DATABASE__URL_FILE", secret)], "from-file"),
        (in_file, &[("DATABASE_URL", "postgres://short/d"), ("UMBRA__DATABASE__URL_FILE", secret)], "from-file"),
    ];
    for (file, variables, host) in cases {
        let settings = over(file, variables).unwrap();
        let url = settings.database.url.unwrap();
        assert_eq!(url.expose_secret(), format!("postgres://{host}/d"), "{file} {variables:?}");
    }
    let both = [("UMBRA__DATABASE__URL", "postgres://long/d"), ("UMBRA__DATABASE__URL_FILE", secret)];
    assert!(faults(over("{}", &both))[0].message.contains("both"));
}

#[test]
fn faults_name_the_variable() {
    let cases: [(&str, &str, &[&str]); 7] = [
        ("UMBRA__SERVER__BND", "127.0.0.1:1", &["UMBRA__SERVER__BND:1:1: server: unknown key", "`bind`"]),
        ("UMBRA__SERVR__BIND", "127.0.0.1:1", &["UMBRA__SERVR__BIND:1:1: unknown key", "`server`"]),
        ("UMBRA__SERVER__BIND", "[broken", &["UMBRA__SERVER__BIND:1:1: server.bind: \"[broken\" is not an address"]),
        ("UMBRA__QUEUE__WORKERS", "-1", &["UMBRA__QUEUE__WORKERS:1:1: queue.workers: -1 is out of bounds"]),
        ("UMBRA__SERVER", "x", &["UMBRA__SERVER:1:1: server: expected keys with values, found text"]),
        ("UMBRA__", "x", &["UMBRA__:1:1: unknown key"]),
        ("UMBRA__MODELS__HAIKU__NAME", "x", &["models.haiku: `provider` is missing"]),
    ];
    for (name, value, words) in cases {
        one_fault(name, &faults(over("{}", &[(name, value)])), 1, words);
    }
}

#[test]
fn a_key_within_a_value_without_keys_is_a_fault() {
    let found = faults(over("webhooks: []\n", &[("UMBRA__WEBHOOKS__NAME", "pager")]));
    one_fault("list", &found, 1, &["UMBRA__WEBHOOKS__NAME:1:1: `name` cannot be set within a list"]);
    let found = faults(over("{}", &[("UMBRA__SERVER", "x"), ("UMBRA__SERVER__BIND", "127.0.0.1:0")]));
    let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(shown[0].starts_with("UMBRA__SERVER:1:1: server: expected keys with values, found text"), "{shown:?}");
    assert!(shown[1].starts_with("UMBRA__SERVER__BIND:1:1: `bind` cannot be set within text"), "{shown:?}");
}

#[test]
fn fault_position_points_into_the_variable() {
    let found = faults(over("{}", &[("UMBRA__OUTBOUND__ALLOW", "[a, 'http://x']")]));
    one_fault("list", &found, 1, &["UMBRA__OUTBOUND__ALLOW:1:5: outbound.allow[1]"]);
}

#[test]
fn variable_values_are_never_shown() {
    for name in ["DATABASE_URL", "UMBRA__DATABASE__URL", "UMBRA__DATABASE__PASSWORD", "UMBRA__DATABSE__URL"] {
        let report = over("{}", &[(name, "hunter2 hunter2")]).unwrap_err();
        assert_eq!(report.faults.len(), 1);
        assert!(!format!("{report}{report:?}").contains("hunter2"), "{report}");
    }
    assert!(!format!("{:?}", env(&[("A", "hunter2")])).contains("hunter2"));
}

#[test]
fn a_broken_file_hides_no_fault_of_the_environment() {
    let found = faults(over("a: [", &[("UMBRA__QUEUE__WORKERS", "-1")]));
    assert_eq!(found.len(), 2);
}

#[test]
fn misspelt_setting_variable_is_a_fault() {
    for (name, value, meant) in [
        ("UMBRA_BOUNDARY_EXECUTION", "shadow", "`UMBRA__BOUNDARY__EXECUTION`"),
        ("umbra__boundary__execution", "shadow", "`UMBRA__BOUNDARY__EXECUTION`"),
        ("UMBRA_Server_Bind", "127.0.0.1:0", "`UMBRA__SERVER__BIND`"),
        ("UMBRA_SERVER_PORT", "8080", "UMBRA__SECTION__KEY"),
        ("UMBRA_SAFE_MODE", "1", "`UMBRA__BOUNDARY__SAFE_MODE_VARIABLE`"),
    ] {
        let found = faults(over("{}", &[(name, value)]));
        let meant = meant.trim_matches('`');
        one_fault(name, &found, 1, &[&format!("{name}:1:1"), "no setting", meant]);
        assert!(!found[0].to_string().contains("hunter2"));
    }
}

#[test]
fn a_variable_that_resembles_no_setting_is_a_warning() {
    let warnings = Settings::parse("s.yaml", "{}", &env(&[("UMBRA_ZZ", "hunter2")]), &|_, _| Ok(())).unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let told = warnings[0].to_string();
    assert!(
        told.contains("UMBRA_ZZ") && told.contains("no setting has this name") && !told.contains("hunter2"),
        "{told}"
    );
}

#[test]
fn variables_of_other_programs_are_ignored() {
    let settings =
        "models: {own: {provider: openai, name: x, base_url: 'http://127.0.0.1:1', api_key_env: UMBRA_OWN_KEY}}";
    let variables = [
        ("UMBRA_OWN_KEY", "k"),
        ("UMBRA_PG_BIN", "/opt/pg"),
        ("UMBRA_AGENT", "writer"),
        ("UMBRA_SERVICE_HOST", "10.0.0.1"),
        ("UMBRA_SERVICE_PORT_HTTP", "7817"),
        ("UMBRA_PORT", "tcp://10.0.0.1:7817"),
        ("UMBRA_PORT_7817_TCP", "tcp://10.0.0.1:7817"),
        ("UMBRA_DB_PORT_5432_TCP_PROTO", "tcp"),
        ("UMBRA_DB_PORT", "tcp://10.0.0.2:5432"),
        ("UMBRELLA", "x"),
    ];
    assert!(over(settings, &variables).is_ok(), "{:?}", faults(over(settings, &variables)));
    for name in ["Agent_safe_MODE", "AGENT_SAFEMODE", "agent-safe-mode"] {
        assert_eq!(env(&[(name, "1"), ("X", "2")]).spelled("AGENT_SAFE_MODE").collect::<Vec<_>>(), ["1"], "{name}");
    }
}
