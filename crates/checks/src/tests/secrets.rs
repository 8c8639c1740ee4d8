//! Tests of credentials: every format by example, structured containers, assignments, and look-alikes.

use crate::{ScreenedEvent, SecretDigest, redact, rules::BUILT_IN, screen, screen_tagged, secrets};
use umbra_domain::{CheckName, Event, Sample, Severity, ToolCall};

use super::saying;

/// Returns the rules that find something in `text`, with severities, and the stored text.
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
fn each_format_finds_its_hits_in_any_position_and_no_misses() {
    let formats = BUILT_IN.iter().filter(|row| row.check() == CheckName::Secrets && row.has_patterns());
    let mut count = 0;
    for format in formats {
        let id = &format.id;
        count += 1;
        assert!(!format.hits.is_empty() && !format.misses.is_empty(), "{id} has no test");
        let long = format.keywords.iter().all(|keyword| keyword.len() >= 3);
        assert!(long && !format.keywords.is_empty(), "{id} has a keyword too short to look up, or none");
        for hit in format.hits.iter().map(Sample::text) {
            let apart = [format!("see {hit} there"), format!("\"{hit}\""), hit.clone()];
            for text in apart.into_iter().chain([format!("see-{hit}"), format!("see_{hit} there")]) {
                let found = secrets::find(&text);
                let own = found.iter().find(|found| found.rule == id);
                let whole =
                    own.is_some_and(|own| own.severity >= Severity::Warning && text.get(own.span.clone()).is_some());
                assert!(whole, "{id} does not find {text}: {found:?}");
            }
        }
        for miss in format.misses.iter().map(Sample::text) {
            let found = secrets::find(&format!("see {miss} there"));
            assert!(!found.iter().any(|found| found.rule == id), "{id} finds {miss}");
        }
    }
    assert_eq!(count, 213);
}

#[test]
fn credential_carriers_are_critical_and_redacted() {
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
    let rows: [(&str, String); 10] = [
        ("json_web_token", format!("token is {jwt}")),
        ("private_key", format!("key:\n{pem}\nbye")),
        ("private_key", format!("{{\"key\": \"{cut}")),
        ("url_credentials", concat!("postgres://svc:", "h7Gq2xLw9p", "@db.acme.io:5432/app").to_owned()),
        ("url_credentials", concat!("https://bot:", "k3y%40Zq81", "@git.acme.io/x.git").to_owned()),
        ("bearer_token", concat!("Authorization: Bearer ", "q8Zr1LmX0pTn5vKc2JhW").to_owned()),
        ("bearer_token", concat!("Authorization: Bearer ", "oKVkhVnZnLfRVmNBDyRjexuApbRzVKZSSic").to_owned()),
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
fn assignments_of_random_values_are_redacted() {
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
        "Token: \"#d8dee9\",",
        "let key = r\"SOFTWARE\\WOW6432Node\\Acme\\VisualStudio7\";",
        "rookTable = 00q8Zr1LmX0pTn5vKc2JhWq8Zr1LmX0pTn5vKcTn5v",
    ] {
        let (rules, stored) = seen(text);
        assert!(rules.is_empty() && stored == text, "{text}: {rules:?}");
    }
}

#[test]
fn key_severity_differs_for_live_test_and_example_keys() {
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
fn marker_written_by_an_agent_gives_no_mark_and_hides_nothing() {
    let (rules, stored) = seen("the key was [secret:aws_access_key] and password=[secret:generic_password]");
    assert_eq!(
        (rules.len(), stored.as_str()),
        (0, "the key was [secret:aws_access_key] and password=[secret:generic_password]")
    );
    // The colon of a marker does not separate a user from a password.
    let (rules, stored) = seen("curl -u app/v1?token=[secret:url_token] https://api.acme.io");
    assert_eq!((rules.len(), stored.as_str()), (0, "curl -u app/v1?token=[secret:url_token] https://api.acme.io"));
    let (rules, stored) = seen("password = \"[secret:x]h7Gq2xLw9pKt\"");
    assert!(rules.len() == 1 && !stored.contains("h7Gq2xLw9pKt"), "{stored}");
}

#[test]
fn overlapping_rules_make_one_mark_named_by_the_format() {
    let text = format!("GITHUB_TOKEN=\"{}\"", concat!("ghp_", "q8Zr1LmX0pTn5vKc2JhWq8Zr1LmX0p", "0HI14Y"));
    let (rules, stored) = seen(&text);
    assert_eq!(rules, [("github_token".to_owned(), Severity::Critical)]);
    assert_eq!(stored, "GITHUB_TOKEN=\"[secret:github_token]\"");
}

#[test]
fn repeated_names_hide_no_secret_after_them() {
    let shapes = [
        "pwd=Xk29vQm47Lp",
        "pwd=Xk29vQm47Lp,tail",
        "pwd=\"Xk29vQm47Lp\"",
        "pwd=\"9Kd! Xk29vQm47Lp\"",
        "pwd='Xk29vQm47Lp'\n",
        "pwd=x&pwd=Xk29vQm47Lp",
        "https://user:Xk29vQm47Lp@db.internal/x",
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANXk29vQm47LpBgkqhkiG9w0BAQEFAASCBKcwggSjAgEA\n-----END PRIVATE KEY-----",
    ];
    for shape in shapes {
        for opening in ["", "pwd=", "pwd: ", "export PWD="] {
            for name in ["pwd=", "api_key=", "pwd=a", "secret=b1,", "token=c"] {
                for names in [0, 15, 16, 17, 40, 95, 200] {
                    let redacted = redact(&format!("{opening}{}{shape}", name.repeat(names)));
                    let stays = redacted.as_str().contains("Xk29vQm47Lp");
                    assert!(!stays, "{names} of {name:?} behind {opening:?}: {}", redacted.as_str());
                }
            }
        }
    }
}

#[test]
fn nested_names_keep_their_severity() {
    let worst = |text: &str| seen(text).0.into_iter().map(|(_, severity)| severity).max();
    let long = format!("secret={}", "Zx9QmT4vKc2JhWp8".repeat(6));
    let crowd = format!("{}pwd=Tr0ub&4dor", "pwd=a##".repeat(38));
    assert_eq!((worst(&long), worst(&crowd)), (Some(Severity::Critical), Some(Severity::Warning)));
    assert_eq!(worst(&format!("{}{long}", "pwd=a##".repeat(38))), Some(Severity::Critical));
}

#[test]
fn redact_removes_secrets_and_hidden_characters() {
    let text = format!(
        "upstream said: bad key {}\u{200b}",
        concat!("sk-ant-api03-", "q8Zr1LmX0pTn5vKc2JhWq8Zr1LmX0pTn5vKcq8Zr1LmX0pTn5vKc2JhWq8Zr1LmX0pTn5vKc2JhW0aB3x9")
    );
    assert_eq!(redact(&text).as_str(), "upstream said: bad key [secret:anthropic_key]");
}

#[test]
fn token_with_a_wrong_checksum_is_only_a_warning() {
    let whole = concat!("ghp_", "q8Zr1LmX0pTn5vKc2JhWq8Zr1LmX0p", "0HI14Y");
    let (rules, _) = seen(whole);
    assert_eq!(rules, [("github_token".to_owned(), Severity::Critical)]);
    let (rules, stored) = seen(&whole.replace("14Y", "14Z"));
    assert_eq!(rules, [("github_token".to_owned(), Severity::Warning)]);
    assert_eq!(stored, "[secret:github_token]", "it is taken out all the same");
}

#[test]
fn credential_in_base64_is_redacted() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let inner = format!("[default]\naws_access_key_id = {}\n", concat!("AKIA", "QZ7T3WJ5XK2M4R9B"));
    for (wrapped, rule) in [
        (STANDARD.encode(&inner), Some("aws_access_key")),
        (STANDARD.encode(&inner).trim_end_matches('=').to_owned(), Some("aws_access_key")),
        (STANDARD.encode("All is well, and no secret is in this text at all."), None),
        (STANDARD.encode([200_u8; 60]), None),
    ] {
        let (rules, stored) = seen(&format!("data: {wrapped};"));
        assert_eq!(rules.first().map(|(rule, _)| rule.as_str()), rule, "{wrapped}");
        let expected = rule.map_or_else(|| format!("data: {wrapped};"), |rule| format!("data: [secret:{rule}];"));
        assert_eq!(stored, expected);
    }
}

#[test]
fn value_of_a_secret_named_member_is_redacted() {
    let args = serde_json::json!({"login": {"user": "svc", "password": "h7Gq2xLw9p"}, "tokens": ["q8Zr1LmX0pTn5vKc2JhW"],
        "path": "h7Gq2xLw9p"});
    let tool = ToolCall { name: "login".to_owned(), args, ..ToolCall::default() };
    let screened = screen(Event { tool: Some(tool), ..Event::default() });
    let args = screened.event.tool.unwrap().args;
    assert_eq!(args["login"]["password"], "[secret:generic_password]");
    assert_eq!(args["tokens"][0], "[secret:generic_token]");
    assert_eq!((&args["login"]["user"], &args["path"]), (&"svc".into(), &"h7Gq2xLw9p".into()));
}

#[test]
fn tags_distinguish_secrets_and_are_left_out_of_names() {
    let [a, b] = [concat!("glpat-", "2Hyuez1yFy4HRAYF41i1"), concat!("glpat-", "9Qkuez1yFy4HRAYF41i7")];
    let event = Event {
        agent: a.to_owned(),
        input: Some(format!("{a} or {b}")),
        output: Some(format!("used {b}")),
        ..Event::default()
    };
    let digest = |secret: &str| SecretDigest { tag: secret.as_bytes()[6], value: u64::from(secret.as_bytes()[6]) };
    let ScreenedEvent { event: screened, marks, .. } = screen_tagged(event, &digest);
    let values: Vec<_> = marks.iter().map(|mark| (mark.field.as_str(), mark.value.as_deref().unwrap_or("-"))).collect();
    let (first, second) = ("0000000000000032", "0000000000000039");
    assert_eq!(
        values,
        [("agent", first), ("input", first), ("input", second), ("output", second)],
        "names too have values"
    );
    assert_eq!(screened.agent, "[secret:gitlab_token]");
    assert_eq!(screened.input.as_deref(), Some("[secret:gitlab_token:32] or [secret:gitlab_token:39]"));
    assert_eq!(screened.output.as_deref(), Some("used [secret:gitlab_token:39]"));
}

#[test]
fn keys_after_a_service_name_are_redacted() {
    for (text, secret) in [
        ("pandadoc SECRET gHjrT345rflePOKazE2Bj47hF56U9d", "gHjrT345rflePOKazE2Bj47hF56U9d"),
        ("zenrows key 4f0c9a7be21d3586a4f3b9f8b2c7d1e6", "4f0c9a7be21d3586a4f3b9f8b2c7d1e6"),
        ("insightly_key = 7d9f2c41-3b6a-4e88-91d0-5a2c7e4f8b13", "7d9f2c41-3b6a-4e88-91d0-5a2c7e4f8b13"),
        ("screenshotapi KEY-Q7T3WJ5-XK2M4R9-B6H8PLN-C1V5ZD0", "Q7T3WJ5-XK2M4R9-B6H8PLN-C1V5ZD0"),
    ] {
        let (rules, stored) = seen(text);
        assert!(rules.len() == 1 && !stored.contains(secret), "{text} is stored as {stored}: {rules:?}");
    }
    for text in [
        "the sort key 7d9f2c41-3b6a-4e88-91d0-5a2c7e4f8b13",
        "primary key 4f0c9a7be21d3586a4f3b9f8b2c7d1e6",
        "key idempotency-key-for-orders-2024-01",
        "Access shared_library_version_2_0_1",
        "KEY MANAGEMENT_SERVICE_ENDPOINT",
        "-----END RSA KEY-----\nMIIEpAIBAAKCAQEAuVoGTaFSWp3Y",
    ] {
        let (rules, stored) = seen(text);
        assert!(rules.is_empty() && stored == text, "{text}: {rules:?}");
    }
}
