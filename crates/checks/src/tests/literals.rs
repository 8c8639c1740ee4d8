//! Tests of passwords in the places where people and agents write them: command lines, calls, documents, sentences.

use crate::redact;

/// Contexts of a password: the text before it and behind it.
const PLACES: &[(&str, &str)] = &[
    ("sshpass -p '", "' ssh root@10.0.0.7"),
    ("mysqldump -uroot -p", " shop > shop.sql"),
    ("docker login -u acme --password ", ""),
    ("docker login -u acme -p ", " registry.acme.io"),
    ("redis-cli -h cache -a ", " ping"),
    ("sqlcmd -S db -U sa -P \"", "\""),
    ("gpg --batch --passphrase ", " -d a.gpg"),
    ("ldapsearch -x -D cn=admin \\\n  -w ", " -b dc=acme"),
    ("7z x a.7z -p", ""),
    ("htpasswd -b .htpasswd bob ", ""),
    ("echo 'bob:", "' | sudo chpasswd"),
    ("echo ", " | docker login -u bob --password-stdin"),
    ("gh secret set DEPLOY --body ", ""),
    ("openssl enc -aes-256-cbc -k ", " -in a"),
    ("CREATE USER app IDENTIFIED BY '", "';"),
    ("ALTER USER app IDENTIFIED WITH caching_sha2_password BY '", "';"),
    ("ConvertTo-SecureString -String \"", "\" -AsPlainText -Force"),
    ("requests.get(url, auth=('bob', '", "'))"),
    ("smtp.login(\"bob@acme.io\", \"", "\")"),
    ("base64.b64encode(b'bob:", "')"),
    ("<add key=\"DbPassword\" value=\"", "\"/>"),
    ("<key>api_secret</key>\n  <string>", "</string>"),
    ("| password | ", " |"),
    ("the token: **", "**"),
    ("**Password:** ", "\n"),
    ("The admin password is ", ", do not share it."),
    ("the access token is ", ".\n"),
    ("contrase\u{f1}a: ", ""),
    ("mot de passe : ", ""),
    ("Kennwort=", ""),
    ("\u{43f}\u{430}\u{440}\u{43e}\u{43b}\u{44c}: ", ""),
    ("\u{5bc6}\u{7801}\u{ff1a}", ""),
    ("\u{30d1}\u{30b9}\u{30ef}\u{30fc}\u{30c9}: ", ""),
    ("{\"kty\": \"EC\", \"d\": \"hT7qPz2WmLk9Rd81vNcXs5Gy", "\", \"x\": \"a\"}"),
];

#[test]
fn password_alone_is_redacted_in_every_place() {
    let password = concat!("hT7qPz2W", "mLk9Rd81vNcXs5Gy");
    for (before, after) in PLACES {
        let cleaned = redact(&format!("{before}{password}{after}"));
        assert!(!cleaned.as_str().contains(password), "{before}…{after} is stored as {}", cleaned.as_str());
        let kept = before.strip_suffix(password).unwrap_or(before);
        assert!(cleaned.as_str().starts_with(&format!("{kept}[secret:")), "{}", cleaned.as_str());
        assert!(cleaned.as_str().ends_with(&format!("]{after}")), "{}", cleaned.as_str());
        assert_eq!(redact(cleaned.as_str()), cleaned);
    }
}

#[test]
fn words_variables_and_numbers_in_password_places_are_kept() {
    for text in [
        "The password is case-sensitive and must contain at least 8 characters.",
        "The token is valid for 3600s.",
        "The API key is v2-compatible with v1.",
        "The token is sha256:e3b0c44298fc1c14",
        "Das Passwort ist mindestens 12 Zeichen lang.",
        "mysql -P3306 -h db1 -u root -p app",
        "docker run --name mysql -p3306:3306 mysql",
        "docker login -u bob -p \"${REGISTRY_PASSWORD}\"",
        "redis-cli -a \"$REDIS_PASS\" ping",
        "echo \"$PASS1\" | docker login --password-stdin",
        "client.login('admin@acme.io', password1)",
        "requests.get(url, auth=('user', 'pass'))",
        "btoa(\"data:text/plain\")",
        "CREATE USER x IDENTIFIED BY 'password';",
        "accounts: [process.env.PRIVATE_KEY1]",
        "| token | string | required | v2 |",
        "| password | varchar(255) | not null |",
        "cat passwords | grep root2 | sort",
        "<add key=\"ApiKeyHeader\" value=\"X-Api-Key1\"/>",
        "prog --password-file /run/secrets/x1 --token-ttl 24h --api-key-name my-key-2024",
        "apt-key adv --recv-keys 9DC858229FC7DD38854AE2D88D81803C0EBFCD88",
        "<key>passwordLength</key>\n<string>12</string>",
        "Access token is RS256-signed.",
        "[('algorithm', 'd'), (\"d\": \"q8Zr1LmX0pTn5vKc2JhW\")]",
    ] {
        assert_eq!(redact(text).as_str(), text);
    }
}

#[test]
fn long_value_is_redacted_to_its_end() {
    let digit =
        |at: u32| char::from(b"q8Zr1LmX0pTn5vKc2JhWd3Fg7Ys9BtRe"[(at.wrapping_mul(2_654_435_761) >> 27) as usize]);
    let key: String = (0..3000).map(digit).collect();
    assert_eq!(
        redact(&format!("SIGNING_KEY={key}==\nPORT=1")).as_str(),
        "SIGNING_KEY=[secret:generic_api_key]\nPORT=1"
    );
}
