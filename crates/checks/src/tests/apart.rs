//! Tests of values separated from their names, or broken by a sign within: the whole value is redacted, and nothing
//! else.

use serde_json::{Value, json};

use crate::{redact, screen};
use umbra_domain::{Event, ToolCall};

/// Returns the arguments of a tool as they are stored.
fn stored(args: Value) -> Value {
    let tool = ToolCall { name: "call".to_owned(), args, ..ToolCall::default() };
    let screened = screen(Event { agent: "writer-agent".to_owned(), tool: Some(tool), ..Event::default() });
    screened.event.tool.map(|tool| tool.args).unwrap_or_default()
}

#[test]
fn credential_apart_from_its_name_is_redacted() {
    const VALUE: &str = concat!("vX4tq9Lz", "Wm2RbK7u");
    for form in [
        "{\"name\": \"PG_PASSWORD\", \"value\": \"@\"}",
        "{\n  \"name\": \"PG_PASSWORD\",\n  \"value\": \"@\"\n}",
        "{\\\"name\\\":\\\"PG_PASSWORD\\\",\\\"value\\\":\\\"@\\\"}",
        "{\"Name\": \"/live/pg/password\", \"Type\": \"SecureString\", \"Value\": \"@\"}",
        "- name: PG_PASSWORD\n  value: @\n- name: PORT\n  value: 5432",
        "env {\n  name  = \"PG_PASSWORD\"\n  value = \"@\"\n}",
        "<string name=\"pg_password\">@</string>",
        "args: [\"--pg-password\", \"@\"]",
        "restore --password @ now",
        "password: |\n  @\n",
        "Password:\n  @\n",
        "| host | password |\n|------|----------|\n| pg-1 | @ |",
        " host | password \n------+----------\n pg-1 | @\n",
        "host,password,port\npg-1,@,5432",
        "host\tpassword\tport\npg-1\t@\t5432",
        "Key         Value\n---         -----\npassword    @",
        "Das Passwort für den Testserver lautet: @ und gilt bis Mai.",
        "La contraseña de la base nueva es @, no la compartas.",
        "Le mot de passe du serveur : @",
        "密码是@，请保密",
        "conn = mysqli_connect(\"pg-1\", \"app\", \"@\")",
        "curl_setopt($c, CURLOPT_USERPWD, \"app:@\");",
        "var token = []byte(\"@\")",
    ] {
        let text = form.replace('@', VALUE);
        let cleaned = redact(&text);
        assert!(!cleaned.as_str().contains(VALUE), "{form}: {}", cleaned.as_str());
        assert_eq!(redact(cleaned.as_str()), cleaned, "{form}");
    }
}

#[test]
fn credential_with_a_special_character_is_redacted_whole() {
    let (head, tail) = (concat!("vX4tq9", "Lz"), concat!("Wm2R", "bK7u"));
    for (form, sign) in [
        ("PG_PASSWORD=@", ";"),
        ("PG_PASSWORD=@", "&"),
        ("PG_PASSWORD=@", "<"),
        ("PG_PASSWORD=@", "$"),
        ("PG_PASSWORD=@", ","),
        ("PG_PASSWORD=@}", "{"),
        ("{\"password\": \"@\"}", "\\\""),
        ("{\"password\": \"@\"}", "\\u002B"),
        ("{\"password\": \"@\"}", "\\/"),
        ("https://api.acme.io/v1?access_token=@", "%2B"),
        ("password: \"@\"", " "),
        ("db.login(\"app\", \"@\")", "'"),
        ("postgres://app:@@pg-1.acme.io/app", "/"),
    ] {
        let text = form.replacen('@', &format!("{head}{sign}{tail}"), 1);
        let cleaned = redact(&text);
        let left = [head, tail].into_iter().find(|part| cleaned.as_str().contains(part));
        assert_eq!(left, None, "{text} is stored as {}", cleaned.as_str());
    }
}

#[test]
fn text_after_a_credential_is_kept() {
    for (text, kept) in [
        (concat!("PG_PASSWORD=vX4tq9Lz", "Wm2RbK7u;reboot"), ";reboot"),
        (concat!("PG_PASSWORD=vX4tq9Lz", "Wm2RbK7u; rm -rf /srv"), "; rm -rf /srv"),
        (concat!("PG_PASSWORD=vX4tq9Lz", "Wm2RbK7u && make"), " && make"),
        (concat!("Server=pg;Password=vX4tq9Lz", "Wm2RbK7u;Database=app2024b"), ";Database=app2024b"),
        (concat!("?password=vX4tq9Lz", "Wm2RbK7u&page=a1b2c3"), "&page=a1b2c3"),
        (concat!("<password>vX4tq9Lz", "Wm2RbK7u</password>"), "</password>"),
    ] {
        let cleaned = redact(text);
        assert!(cleaned.as_str().contains("[secret:") && cleaned.as_str().ends_with(kept), "{}", cleaned.as_str());
    }
}

#[test]
fn credential_names_beside_plain_words_are_kept() {
    for text in [
        "{\"name\": \"password\", \"value\": \"required\"}",
        "{\"label\": \"Password\", \"text\": \"At least 12 characters\"}",
        "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      name: db-secret2",
        "password:\n  - minLength: 12\n",
        "Password:\n  must have 12 characters",
        "user,password,role\nana,required,admin2",
        "token,count\nthe,4812\nof,3711",
        "| field | token |\n|---|---|\n| colour | primary |",
        "The password for the build is kept in the vault.",
        "Das Passwort für den Testserver steht im Tresor.",
        "password: \"at least 8 characters\"",
        "[\"username\", \"password\", \"email\"]",
    ] {
        assert_eq!(redact(text).as_str(), text);
    }
}

#[test]
fn tool_argument_credentials_are_recognised_by_their_neighbours() {
    const VALUE: &str = concat!("vX4tq9Lz", "Wm2RbK7u");
    for args in [
        json!({"env": [{"name": "PG_PASSWORD", "value": VALUE}]}),
        json!({"Key": "api_key", "Value": VALUE}),
        json!({"selector": "#password", "text": VALUE}),
        json!({"argv": ["restore", "--password", VALUE]}),
        json!({"argv": ["mysql", "-u", "app", format!("-p{VALUE}")]}),
        json!({"argv": ["docker", "login", "-u", "app", "-p", VALUE]}),
        json!({"argv": ["curl", "-u", format!("app:{VALUE}"), "https://api.acme.io"]}),
        json!({"headers": [["X-Api-Key", VALUE]]}),
        json!({"password": format!("vX4tq9Lz \"{VALUE}")}),
    ] {
        let stored = stored(args.clone()).to_string();
        assert!(!stored.contains(VALUE), "{args} is stored as {stored}");
    }
    let args =
        json!({"fields": ["username", "password", "email"], "argv": ["ls", "-l", "src"], "key": "a", "value": "b"});
    assert_eq!(stored(args.clone()), args);
}
