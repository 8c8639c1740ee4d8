//! Tests of placeholders: a manual's placeholder stays, and a credential that contains such a word by chance is
//! redacted.

use proptest::{prelude::*, sample::Index, string::string_regex};

use crate::{redact, rules::BUILT_IN, secrets};
use umbra_domain::CheckName;

/// Short placeholder words, which random values contain by chance.
const WORDS: [&str; 4] = ["your", "YOUR", "xxxx", "XXXX"];

#[test]
fn placeholder_credentials_are_kept() {
    for text in [
        "export GITHUB_TOKEN=YOUR_API_KEY",
        "api_key: <your-key>",
        "OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "OPENAI_API_KEY=sk-proj-xxxx-xxxx-xxxx-xxxx-xxxx-xxxx",
        "token = \"your_token_here\"",
        "hf_yourTokenGoesHere",
        "ghp_YOURPERSONALACCESSTOKENGOESHERE12345",
        "GITHUB_TOKEN=ghp_your_personal_access_token_here",
        "sk_live_your_secret_key_here",
        "sk_live_YOURSECRETKEYHERE",
        "aws_access_key_id = AKIAXXXXXXXXXXXXXXXX",
        "aws_access_key_id = AKIAYOURACCESSKEYID1",
        "glpat-xxxxxxxxxxxxxxxxxxxx",
        "Authorization: Bearer your-api-key-1234567890-here",
        "postgres://app:your_password_123456@db.acme.io:5432/ledger",
        "password: 'test-1234567890-abcdefgh'",
        "password = \"xxxyourpassword\"",
        "password = \"my_fake_password_12\"",
        "    --- PASS: TestFormat/valid_RFC3339_with_offset_-_useUTC_true (0.00s)",
        "\tinputTokensTotal  metric.Int64Counter",
    ] {
        assert_eq!(redact(text).as_str(), text);
    }
}

#[test]
fn random_credential_with_a_placeholder_word_is_redacted() {
    for (lead, body, tail) in [
        ("hf_", "kQzWbTnRvLxGpREMVSyourgNDcHmJfKsYw", ""),
        ("hf_", "yourgNDcHmJfKsYwkQzWbTnRvLxGpREMVS", ""),
        ("hf_", "kQzWbTnRvLxGpREMVSgNDcHmJfKsYwyour", ""),
        ("glpat-", "Tq7YOURk9ZpW3mXb5LcR", ""),
        ("AKIA", "QZ7YOUR3WJ5XK2M4", ""),
        ("AKIA", "QZ7XXXX3WJ5TK2M4", ""),
        ("npm_", "q8Zr1LmXxxxxTn5vKc2JhWq8Zr1LmX0pTn5v", ""),
        ("AIza", "SyD4kQ9mZr1LmX0pTn5vYouRJhWq8Zr1LmX", ""),
        ("postgres://app:", "q8Zr1LmXxxpTn5vKc2JhWq8Z", "@db.acme.io:5432/ledger"),
        ("postgres://app:", "testZr1LmX0pTn5vKc2JhWq8", "@db.acme.io:5432/ledger"),
        ("Authorization: Bearer ", "q8Zr1LmyourTn5vKc2JhW", ""),
        ("Authorization: Bearer ", "kvHlJSTXFsDjhSWPXRxuVPHqnfqOaeHlXxxRHWa", ""),
        ("DB_PASSWORD=\"", "fVXXXzbRvsd4diBVABIvRsxN", "\""),
        ("DB_PASSWORD=\"", "XXXwd0VbAnllXSl4PNojvrCg", "\""),
        ("postgres://svc:", "8yCN6MdTXXXxEH9V", "@db.acme.io:5432/app"),
    ] {
        let stored = redact(&format!("{lead}{body}{tail}"));
        assert!(!stored.as_str().contains(body), "{body} is stored as {}", stored.as_str());
    }
}

/// Returns the patterns from which values can be drawn: those without word boundaries.
fn drawable() -> Vec<(&'static str, String)> {
    let formats = BUILT_IN.iter().filter(|row| row.check() == CheckName::Secrets);
    let rows = formats.filter_map(|row| Some((row.id.as_str(), secrets::pattern(row)?)));
    rows.filter(|(_, pattern)| string_regex(pattern).is_ok()).collect()
}

#[test]
fn at_least_100_formats_can_be_drawn() {
    assert!(drawable().len() >= 100, "{} formats", drawable().len());
}

/// Returns the values with the word written over letters and digits, where the value still matches the pattern.
fn places(pattern: &str, value: &str, word: &str) -> Vec<String> {
    let Ok(whole) = regex::Regex::new(&format!("^(?:{pattern})$")) else { return Vec::new() };
    // In a short credential, the word is a large enough part to be a real placeholder.
    let credential = whole.captures(value).and_then(|parts| parts.iter().flatten().last());
    if credential.is_none_or(|part| part.len() < 4 * word.len()) {
        return Vec::new();
    }
    let amid = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() && !matches!(b, b'x' | b'X'));
    let starts = (1..value.len().saturating_sub(word.len()))
        .filter(|at| amid(value.as_bytes().get(at - 1)) && amid(value.as_bytes().get(at + word.len())));
    let written = starts.filter_map(|at| Some(format!("{}{word}{}", value.get(..at)?, value.get(at + word.len()..)?)));
    written.filter(|text| whole.is_match(text)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn placeholder_word_hides_no_credential_of_a_known_format(
        ((name, pattern), value) in proptest::sample::select(drawable())
            .prop_flat_map(|row| (string_regex(&row.1).unwrap(), Just(row)).prop_map(|(value, row)| (row, value))),
        word in proptest::sample::select(WORDS.to_vec()),
        place in any::<Index>(),
    ) {
        let places = places(&pattern, &value, word);
        if !places.is_empty() && secrets::find(&value).iter().any(|found| found.rule == name) {
            let text = place.get(&places);
            let found = secrets::find(text);
            prop_assert!(found.iter().any(|found| found.rule == name), "{name}: {text} {found:?}");
        }
    }

    #[test]
    fn placeholder_word_hides_no_url_password(
        body in "[A-Za-z0-9]{20,30}",
        digits in "[0-9]{3}",
        word in proptest::sample::select(vec!["your", "xxx", "xxxx", "test", "todo", "null", "mock", "fake"]),
        place in any::<Index>(),
    ) {
        let body = body.replace(['x', 'X'], "k");
        let (before, after) = body.split_at(place.index(body.len()));
        let password = format!("{digits}{before}{word}{after}");
        let stored = redact(&format!("postgres://app:{password}@db.acme.io:5432/ledger"));
        prop_assert!(!stored.as_str().contains(&password), "{}", stored.as_str());
    }
}
