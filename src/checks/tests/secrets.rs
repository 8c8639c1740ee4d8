//! Credentials: every format by example, what carries one by its form, assignments, and what is none.

use crate::{
    checks::{redact, screen, secrets},
    domain::{CheckName, Severity},
};

use super::saying;

/// The rule that finds something in `text`, and the stored text.
fn seen(text: &str) -> (Vec<(String, Severity)>, String) {
    let screened = screen(saying(text));
    let rules = screened
        .marks
        .into_iter()
        .filter(|mark| mark.check == CheckName::Secrets)
        .map(|mark| (mark.rule, mark.severity))
        .collect();
    (rules, screened.event.output.unwrap_or_default())
}

#[test]
fn every_format_finds_its_example_and_leaves_its_counter_example() {
    let rows = [super::cloud::ROWS, super::code::ROWS, super::services::ROWS].concat();
    for (rule, example, counter) in &rows {
        let glued = [format!("see-{example}"), format!("see_{example} there")];
        let apart = [format!("see {example} there"), format!("\"{example}\""), (*example).to_owned()];
        for text in apart.into_iter().chain(glued) {
            let found = secrets::find(&text);
            assert!(found.iter().any(|found| found.rule == *rule), "{rule} does not find its example: {found:?}");
        }
        let found = secrets::find(&format!("see {counter} there"));
        assert!(!found.iter().any(|found| found.rule == *rule), "{rule} finds its counter-example");
    }
    for format in secrets::formats() {
        assert!(rows.iter().any(|(rule, ..)| *rule == format.name), "{} has no example", format.name);
        assert!(
            format.needles.iter().all(|needle| needle.len() >= 3),
            "{} has a literal too short to look up",
            format.name
        );
    }
    assert!(rows.len() >= 40);
}

#[test]
fn what_carries_a_credential_is_found() {
    let jwt = concat!(
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9",
        ".",
        "eyJzdWIiOiIxMjM0NTY3ODkwIn0",
        ".",
        "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
    );
    let pem = concat!(
        "-----BEGIN RSA ",
        "PRIVATE KEY-----\nMIIEpAIBAAKCAQEAuVoGTaFSWp3Y\nN5JC8lOdL8wmWpaM73UaNzhYiqA7ZqijzVk\n-----END RSA ",
        "PRIVATE KEY-----"
    );
    let cut =
        concat!("-----BEGIN ", "PRIVATE KEY-----\\nMIIEpAIBAAKCAQEAuVoGTaFSWp3YN5JC8lOdL8wmWpaM73UaNzhYiqA7ZqijzVk");
    let rows: [(&str, String); 9] = [
        ("json_web_token", format!("token is {jwt}")),
        ("private_key", format!("key:\n{pem}\nbye")),
        ("private_key", format!("{{\"key\": \"{cut}")),
        ("url_credentials", concat!("postgres://svc:", "h7Gq2xLw9p", "@db.acme.io:5432/app").to_owned()),
        ("url_credentials", concat!("https://bot:", "k3y%40Zq81", "@git.acme.io/x.git").to_owned()),
        ("bearer_token", concat!("Authorization: Bearer ", "q8Zr1LmX0pTn5vKc2JhW").to_owned()),
        ("basic_auth", concat!("Authorization: Basic ", "c3ZjLXVzZXI6aDdHcTJ4THc5cA==").to_owned()),
        ("authorization_header", concat!("Authorization: token ", "q8Zr1LmX0pTn5vKc2JhW").to_owned()),
        ("curl_user", concat!("curl -u svc:", "h7Gq2xLw9p https://api.acme.io").to_owned()),
    ];
    for (rule, text) in rows {
        let (rules, stored) = seen(&text);
        assert!(
            rules.iter().any(|(seen, severity)| seen == rule && *severity == Severity::Critical),
            "{rule}: {rules:?}"
        );
        assert!(stored.contains(&format!("[secret:{rule}]")), "{stored}");
    }
    let (_, stored) = seen(&format!("key:\n{pem}\nbye"));
    assert_eq!(stored, "key:\n[secret:private_key]\nbye", "the whole block goes, with its last line");
}

#[test]
fn assignments_of_random_values_are_found() {
    for (text, secret) in [
        ("password = \"kT9#vLq2!x\"", "kT9#vLq2!x"),
        ("'db_password': 'xqzvwkprtj'", "xqzvwkprtj"),
        ("API_KEY=9f8b2c7d1e6a4f3b9f8b2c7d1e6a4f3b", "9f8b2c7d1e6a4f3b9f8b2c7d1e6a4f3b"),
        ("client_secret: \"aB3dE9fG2hJ5kL8mN1pQ4rS7\"", "aB3dE9fG2hJ5kL8mN1pQ4rS7"),
        ("--token q8Zr1LmX0pTn5vKc2JhW", "q8Zr1LmX0pTn5vKc2JhW"),
        ("<password>h7Gq2xLw9p</password>", "h7Gq2xLw9p"),
        ("{\\\"access_token\\\": \\\"q8Zr1LmX0pTn5vKc2JhW\\\"}", "q8Zr1LmX0pTn5vKc2JhW"),
        ("Server=db;Uid=app;Pwd=h7Gq2xLw9p;", "h7Gq2xLw9p"),
        ("CREATE USER app WITH PASSWORD 'h7Gq2xLw9p';", "h7Gq2xLw9p"),
    ] {
        let (rules, stored) = seen(text);
        assert!(!rules.is_empty() && !stored.contains(secret), "{text} is stored as {stored}");
    }
}

#[test]
fn placeholders_expressions_and_words_are_left_alone() {
    for text in [
        "password = \"changeme\"",
        "password: \"<your password>\"",
        "PASSWORD=${DB_PASSWORD}",
        "api_key = os.environ[\"API_KEY\"]",
        "token = process.env.TOKEN",
        "secret: \"xxxxxxxxxxxxxxxx\"",
        "password = getpass.getpass()",
        "token: String",
        "\"token\": \"string\"",
        "password_file: /run/secrets/db",
        "token_type: \"bearer\"",
        "max_tokens: 4096",
        "primary_key = \"user_id\"",
        "key: \"firstName\"",
        "the secret of good tea is patience",
        "passed 12 of 14 tests",
        "https://user:password@example.com",
        "redis://localhost:6379/0",
        "git@github.com:acme/app.git",
        "AKIAxxxxxxxxxxxxxxxx",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "Authorization: Bearer $TOKEN",
        "Authorization: Bearer <token>",
        "curl -u \"$USER:$PASS\" https://x.io",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
        "commit 4f3b9f8b2c7d1e6a4f3b9f8b2c7d1e6a4f3b9f8b",
        "id: 9e1112bb-4d07-7c49-3d14-babec0b921f8",
        "bypass = \"q8Zr1LmX0pTn\"",
        "user.password = new_password",
        "if (password === confirmPassword) {",
        "tokens.push({ kind: 'linkedin', accessToken })",
        "DB_PASSWORD=\nDB_HOST=db",
        "let t = syn::token::BracketedGroup2a1b();",
        "pub const PrivateKeyExportable: X509PrivateKeyFlag2a = 1;",
        "session_key: 0x80041064u32,",
    ] {
        let (rules, stored) = seen(text);
        assert!(rules.is_empty() && stored == text, "{text}: {rules:?}");
    }
}

#[test]
fn live_looking_keys_are_critical_examples_are_info_and_test_keys_are_warnings() {
    for (text, severity) in [
        (concat!("AKIA", "IOSFODNN7", "EXAMPLE"), Severity::Info),
        (concat!("AKIA", "QZ7T3WJ5XK2M4R9B"), Severity::Critical),
        (concat!("sk_test_", "4eC39HqLyjWDarjtT1zdp7dc"), Severity::Warning),
        (concat!("sk_live_", "4eC39HqLyjWDarjtT1zdp7dc"), Severity::Critical),
    ] {
        let (rules, stored) = seen(text);
        assert_eq!(rules.first().map(|(_, severity)| *severity), Some(severity), "{text}");
        assert!(stored.starts_with("[secret:"), "{text} is taken out all the same");
    }
}

#[test]
fn a_marker_that_an_agent_wrote_is_no_mark_and_hides_nothing() {
    let (rules, stored) = seen("the key was [secret:aws_access_key] and password=[secret:generic_password]");
    assert_eq!(
        (rules.len(), stored.as_str()),
        (0, "the key was [secret:aws_access_key] and password=[secret:generic_password]")
    );
    let (rules, stored) = seen("password = \"[secret:x]h7Gq2xLw9pKt\"");
    assert!(rules.len() == 1 && !stored.contains("h7Gq2xLw9pKt"), "{stored}");
}

#[test]
fn several_rules_on_the_same_bytes_make_one_mark_named_by_the_format() {
    let text = format!("GITHUB_TOKEN=\"{}\"", concat!("ghp_", "q8Zr1LmX0pTn5vKc2JhWq8Zr1LmX0pTn5vKc"));
    let (rules, stored) = seen(&text);
    assert_eq!(rules, [("github_token".to_owned(), Severity::Critical)]);
    assert_eq!(stored, "GITHUB_TOKEN=\"[secret:github_token]\"");
}

#[test]
fn redact_takes_secrets_and_hidden_characters_out_of_any_text() {
    let text = format!(
        "upstream said: bad key {}\u{200b}",
        concat!("sk-ant-api03-", "q8Zr1LmX0pTn5vKc2JhWq8Zr1LmX0pTn5vKcq8Zr1LmX0pTn5vKc2JhWq8Zr1LmX0pTn5vKc2JhW0aB3x9")
    );
    assert_eq!(redact(&text).as_str(), "upstream said: bad key [secret:anthropic_key]");
}
