//! Fuzzes redaction, on any text in any field, with a planted credential: it never panics, leaves nothing of the
//! credential, reports the exact places of its markers, changes nothing else, and finds nothing in its own result.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use umbra_domain::{CheckName, Event, ToolCall};

/// Prefix of a drawn body, its length, and its alphabet.
const FORMATS: [(&str, usize, &[u8]); 8] = [
    ("AKIA", 16, UPPER),
    ("ghp_", 36, WORD),
    ("glpat-", 20, WORD),
    ("sk_live_", 24, WORD),
    ("AIza", 35, WORD),
    ("npm_", 36, WORD),
    ("hf_", 34, LETTERS),
    ("postgres://app:", 24, WORD),
];
const UPPER: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const WORD: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// Shortest run of a credential's drawn part that counts as a leak: shorter ones occur by chance.
const LEAK: usize = 6;

/// Draws a credential's body from a hash of the whole input: the input cannot contain it by itself.
fn credential(kind: u8, text: &str) -> (String, String) {
    let (prefix, length, alphabet) = FORMATS[usize::from(kind) % FORMATS.len()];
    let mut draw = blake3::Hasher::new().update(text.as_bytes()).finalize_xof();
    let mut bytes = vec![0; length];
    loop {
        draw.fill(&mut bytes);
        let body: String = bytes.iter().map(|byte| char::from(alphabet[usize::from(*byte) % alphabet.len()])).collect();
        // A password is distinguished from words by its digits.
        let has_digits = alphabet != WORD || body.bytes().filter(u8::is_ascii_digit).count() >= 3;
        if has_digits {
            let tail = if prefix.ends_with(':') { "@db.acme.io:5432/ledger" } else { "" };
            return (format!("{prefix}{body}{tail}"), body);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    // The first byte is the format; the credential is put at `@@`, or at the end.
    let Some((&kind, text)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(text);
    let (before, after) = text.split_once("@@").unwrap_or((&text, ""));
    let (secret, body) = credential(kind, &[before, after].concat());
    let text = format!("{before}\n{secret}\n{after}");

    let redacted = umbra_checks::redact(&text);
    let again = umbra_checks::redact(redacted.as_str());
    assert_eq!(again.as_str(), redacted.as_str(), "a second redaction changes the text");

    let args = json!({"command": text, text.clone(): [text]});
    let event = Event {
        agent: "fuzz".into(),
        task: Some(text.clone()),
        input: Some(before.to_owned()),
        output: Some(text.clone()),
        tool: Some(ToolCall { name: "bash".into(), args, result: Some(text.clone()), ..ToolCall::default() }),
        ..Event::default()
    };
    let screened = umbra_checks::screen(event);
    let stored = serde_json::to_string(&screened.event).expect("an event is JSON");
    for run in body.as_bytes().windows(LEAK) {
        let run = std::str::from_utf8(run).expect("a body is ASCII");
        assert!(!redacted.as_str().contains(run), "{run} of {secret} is left in {:?}", redacted.as_str());
        assert!(!stored.contains(run), "{run} of {secret} is left in {stored}");
    }

    let output = screened.event.output.as_deref().unwrap_or_default();
    let mut kept = 0;
    let mut rest = text.as_str();
    let hidden = screened.marks.iter().any(|mark| mark.check == CheckName::Hidden && mark.field.as_str() == "output");
    for mark in screened.marks.iter().filter(|mark| mark.field.as_str() == "output") {
        let quote = output.get(mark.start..mark.end).expect("a mark lies within its text");
        if mark.check == CheckName::Secrets {
            assert!(quote.starts_with("[secret:") && quote.ends_with(']'), "{quote:?} is no marker");
            // Text between two markers is text of the input.
            let between = &output[kept..mark.start];
            if !hidden {
                rest = &rest[rest.find(between).expect("text between markers is the sender's") + between.len()..];
            }
            kept = mark.end;
        }
    }
    assert!(hidden || rest.ends_with(&output[kept..]), "the end of the text was changed");

    let second = umbra_checks::screen(screened.event.clone());
    assert!(second.event == screened.event && second.marks.is_empty(), "a second screening finds {:?}", second.marks);
});
