//! Interpretation of names. In: a name such as `nextPageToken`, `PUBLIC_KEY` or `Idempotency-Key`, or the place of a
//! value. Out: true if it holds no credential, although a word in it says `token` or `key`. The words of a name decide:
//! the last one gives the noun, the one before it the kind.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::values;
use crate::word_lists;

/// Kinds of keys that look a thing up.
const LOOKUPS: &[&str] = &["site", "object", "row", "range", "hash", "lookup"];

/// Kinds of tokens that identify a call, if they are a UUID.
const CALLS: &[&str] = &["request", "trace", "span", "transaction", "message", "event", "job", "operation", "upload"];

fn has(list: &[&str], word: &str) -> bool {
    list.iter().any(|one| one.len() == word.len() && one.eq_ignore_ascii_case(word))
}

/// True if a name with this ending holds information about a credential.
pub(super) fn is_about(ending: &str) -> bool {
    word_lists::lists("about_credentials", &ending.to_ascii_lowercase())
}

/// True if a name, or the text before a key, means that the value is public.
pub(super) fn is_open(lower: &str) -> bool {
    static WORDS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
        AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).build(word_lists::words("public_names")).ok()
    });
    WORDS.as_ref().is_none_or(|words| words.is_match(lower))
}

/// True if a name means that this value finds a place, a thing or a call, and grants no access.
pub(super) fn is_lookup_name(name: &str, value: &str) -> bool {
    let Some((kind, noun)) = kind_and_noun(name) else { return false };
    match noun {
        Noun::Token => {
            word_lists::lists("place_tokens", &kind.to_ascii_lowercase()) || values::is_uuid(value) && has(CALLS, kind)
        }
        Noun::Key => has(LOOKUPS, kind),
    }
}

/// True if a name can only be that of a credential: `password`, `X-Api-Key`, `clientSecret`. Its value then is one,
/// whatever its form.
pub(super) fn is_credential(name: &str, value: &str) -> bool {
    let lower = name.to_lowercase();
    if is_open(&lower) || is_lookup_name(name, value) {
        return false;
    }
    let joined: String = lower.chars().filter(|c| c.is_alphanumeric()).collect();
    if word_lists::words("credential_names").any(|word| joined.ends_with(word)) {
        return true;
    }
    let begins_word = |(at, c): (usize, char)| c.is_uppercase().then_some(at);
    let tail = name.rsplit(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty()).unwrap_or_default();
    // The last word of `dbPass` is `Pass`; `PASS` is one word.
    let camel = tail.char_indices().filter_map(begins_word).next_back().and_then(|at| tail.get(at..)).unwrap_or(tail);
    [tail, camel].iter().any(|word| word_lists::lists("credential_words", &word.to_ascii_lowercase()))
}

enum Noun {
    Token,
    Key,
}

/// Returns the word before a final `token` or `key`, and that noun; both may be written as one, `pagetoken`.
fn kind_and_noun(name: &str) -> Option<(&str, Noun)> {
    let cut = |word: &str| {
        let end = name.len().checked_sub(word.len())?;
        name.get(end..)?.eq_ignore_ascii_case(word).then(|| name.get(..end))?
    };
    let (rest, noun) = cut("token").map(|rest| (rest, Noun::Token)).or_else(|| Some((cut("key")?, Noun::Key)))?;
    let rest = rest.trim_end_matches(['_', '-', '.']);
    let bytes = rest.as_bytes();
    // A word begins behind a sign, and at a capital next to a small letter.
    let begins = |at: usize| {
        let small = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_lowercase);
        let sign = at.checked_sub(1).and_then(|at| bytes.get(at)).is_some_and(|byte| !byte.is_ascii_alphanumeric());
        let capital = bytes.get(at).is_some_and(u8::is_ascii_uppercase);
        sign || capital && (small(at.checked_sub(1)) || small(Some(at + 1)))
    };
    let start = (0..rest.len()).rev().find(|at| begins(*at)).unwrap_or(0);
    Some((rest.get(start..)?, noun))
}

/// Longest resource name that is searched backwards, in bytes.
const LONGEST_RESOURCE: usize = 160;

/// True if a place is within the name of a resource, which names a secret and holds none: `arn:aws:secretsmanager:…`.
pub(super) fn within_resource(text: &str, at: usize) -> bool {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || b":/_.-+@*".contains(byte);
    let length = before.iter().rev().take(LONGEST_RESOURCE).take_while(|byte| part(byte)).count();
    let word = text.get(at - length..at).unwrap_or_default();
    ["arn:aws", "arn:minio", ".vault.azure.net/secrets/", "projects/"]
        .iter()
        .any(|head| word.find(head).is_some_and(|found| found == 0 || head.starts_with('.')))
}

/// True if a value is sealed: only a cluster, a key service or a vault can open it, so a repository may hold it. The
/// heads are those of sops, Jasypt, Vault's transit engine, AWS KMS, Spring Cloud, Ansible and Bitnami's sealed secrets
/// (the length of an encrypted session key of 512 bytes).
pub(super) fn is_sealed(value: &str) -> bool {
    let head = ["ENC[", "ENC(", "vault:v1:", "vault:v2:", "vault:v3:", "AQICAH", "{cipher}", "$ANSIBLE_VAULT;"]
        .iter()
        .any(|head| value.starts_with(head));
    let cluster = value.len() >= 100
        && ["AgA", "AgB", "AgC", "AgD"].iter().any(|head| value.starts_with(head))
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    head || cluster
}

/// True if a value is a point in time: `2026-11-20T08:00:00Z`.
pub(super) fn is_time(value: &str) -> bool {
    let form = |form: &str| {
        value.len() >= form.len()
            && value.bytes().zip(form.bytes()).all(|(byte, kind)| match kind {
                b'9' => byte.is_ascii_digit(),
                _ => byte == kind || kind == b'T' && byte == b' ',
            })
    };
    value.len() == 10 && form("9999-99-99") || value.len() <= 40 && form("9999-99-99T99:99")
}

/// True if a value is a digest with its algorithm: `sha256:9f86…`.
pub(super) fn is_digest(value: &str) -> bool {
    ["md5:", "sha1:", "sha256:", "sha384:", "sha512:", "SHA256:"].iter().any(|head| value.starts_with(head))
}

/// True if a value is the path of a file: `uploads/2026/11/IZ5DmZBfp0vL.png`.
pub(super) fn is_file(value: &str) -> bool {
    let Some((stem, ending)) = value.rsplit_once('.') else { return false };
    let letters = ending.bytes().any(|byte| byte.is_ascii_lowercase());
    let plain = ending.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let folders = stem.split('/').filter(|part| part.bytes().any(|byte| byte.is_ascii_lowercase())).count();
    (2..=5).contains(&ending.len()) && letters && plain && stem.contains('/') && folders >= 2
}
