//! Credentials in structured containers: private key blocks, JSON web tokens, URLs and `Authorization` headers. In: a
//! text and the place of a literal. Out: the credential there. Signatures are not verified.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use super::{Needles, SecretFinding, encoded::decode, gibberish::is_gibberish, samples, values};
use umbra_domain::Severity;

/// Literals, each with its rule.
pub(super) const NEEDLES: Needles = &[
    ("-----BEGIN |---- BEGIN ", private_key),
    ("MIIEpAIBAAKCAQEA|MIIEowIBAAKCAQEA|MIIEogIBAAKCAQEA", bare_key),
    ("MIIJKAIBAAKCAgEA|MIIJKQIBAAKCAgEA|MIIJJwIBAAKCAgEA", bare_key),
    ("MIIEvgIBADANBgkqhkiG9w0BAQEFAASC|MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", bare_key),
    ("MIIEvAIBADANBgkqhkiG9w0BAQEFAASC", bare_key),
    ("PuTTY-User-Key-File-", putty_key),
    ("eyJ", json_web_token),
    ("://", url_credentials),
    ("signature=|?sig=|&sig=", signature),
    ("bearer ", bearer),
    ("basic ", basic),
    ("authorization", authorization),
    (" pass:", openssl_password),
    ("\"auth\":", registry_auth),
    (" -u|--user", curl_user),
];

/// Longest private key block that is searched, in bytes (an RSA key of 16,384 bits takes 13 KB).
const LONGEST_KEY: usize = 16 * 1024;

fn private_key(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    let window = text.get(hit.start..text.floor_char_boundary(hit.start + LONGEST_KEY))?;
    let head = window.get(..window.floor_char_boundary(120))?;
    // The label ends with the dashes behind it, all on one line.
    let label_end = head.get(11..)?.find("--").map(|at| at + 11)?;
    let label = head.get(11..label_end)?;
    if !(label.contains("PRIVATE KEY") && label.len() < 60) {
        return None;
    }
    let after = label_end + head.get(label_end..)?.bytes().take_while(|b| *b == b'-').count();
    let body = window.get(after..)?;
    // Another key begins there; otherwise a text of beginnings alone would be read to its end for each of them.
    let body = body.get(..body.find("-----BEGIN ").unwrap_or(body.len()))?;
    let (body_end, whole) = match body.find("-- END ").or_else(|| body.find("--END ")) {
        Some(at) => (at, true),
        None => (body.bytes().take_while(|b| is_key_byte(*b)).count(), false),
    };
    let inner = body.get(..body_end)?;
    let letters = inner.bytes().filter(u8::is_ascii_alphanumeric).count();
    if letters < 40 || values::entropy(inner) < 3.5 {
        return None;
    }
    let mut end = hit.start + after + body_end;
    if whole {
        let tail = text.get(end..text.floor_char_boundary(end + 120))?;
        let end_label = tail.find("KEY").map_or(0, |at| at + 3);
        let close =
            tail.get(end_label..)?.bytes().take_while(|b| matches!(b, b'-' | b' ') || b.is_ascii_uppercase()).count();
        end += end_label + close;
    }
    Some(SecretFinding::new(hit.start..end, "private_key", "a private key", Severity::Critical))
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'+' | b'/' | b'=' | b'\\' | b'\n' | b'\r' | b' ' | b'\t' | b'"' | b',' | b':' | b'-')
}

/// Finds an RSA key of 2,048 or 4,096 bits without its first line, by the head of its encoding (RFC 8017, A.1.2, and
/// RFC 5208): its lines of base64.
fn bare_key(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    let window = text.as_bytes().get(hit.start..text.len().min(hit.start + LONGEST_KEY))?;
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let run = |from: usize| window.get(from..).unwrap_or_default().iter().take_while(|byte| part(byte)).count();
    if !values::starts_word(text, hit.start) {
        return None;
    }
    let mut end = run(0);
    // Lines follow each other, the last one shorter.
    while let Some(gap) = line_end(window.get(end..).unwrap_or_default()) {
        let next = run(end + gap);
        let ends =
            window.get(end + gap + next).is_none_or(|byte| !byte.is_ascii_graphic() || b"\\\"'<-".contains(byte));
        let line = window.get(end + gap..end + gap + next).unwrap_or_default();
        // Another key begins there, and is found separately.
        if line.starts_with(b"MII")
            || next < 2
            || !ends
            || next < 40 && !line.iter().any(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'/' | b'='))
        {
            break;
        }
        end += gap + next;
    }
    let body = text.get(hit.start..hit.start + end)?;
    let found = SecretFinding::new(hit.start..hit.start + end, "private_key", "a private key", Severity::Critical);
    (end >= 60 && values::entropy(body) >= 4.0).then_some(found)
}

/// Returns the length of a line's end, plain or escaped, with the blanks of the next line.
fn line_end(rest: &[u8]) -> Option<usize> {
    let end = [b"\r\n".as_slice(), b"\n", b"\\r\\n", b"\\n"].iter().find(|end| rest.starts_with(end))?.len();
    Some(end + rest.get(end..)?.iter().take(40).take_while(|byte| matches!(byte, b' ' | b'\t')).count())
}

fn putty_key(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    let window = text.get(hit.start..text.floor_char_boundary(hit.start + LONGEST_KEY))?;
    let at = window.find("Private-Lines:")?;
    let body = window.get(at..)?;
    let length = body.find("Private-MAC:").unwrap_or_else(|| body.bytes().take_while(|b| is_key_byte(*b)).count());
    let span = hit.start + at..hit.start + at + length;
    let found = SecretFinding::new(span, "putty_private_key", "a PuTTY private key", Severity::Critical);
    (length > 60).then_some(found)
}

fn json_web_token(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    if !values::starts_word(text, hit.start) {
        return None;
    }
    let run = |from: usize| {
        let tail = text.as_bytes().get(from..).unwrap_or_default();
        tail.iter()
            .take(8192)
            .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'=' | b'/' | b'+'))
            .count()
    };
    let dot = |at: usize| text.as_bytes().get(at) == Some(&b'.');
    let header_end = hit.start + run(hit.start);
    if header_end - hit.start < 16 || !dot(header_end) {
        return None;
    }
    let header = decode(text.get(hit.start..header_end)?)?;
    // A token edited by hand is not JSON any more, and may still carry a session.
    let header = serde_json::from_slice::<serde_json::Value>(&header).or_else(|error| {
        let named = [b"\"alg\"".as_slice(), b"\"typ\""].iter().any(|name| header.windows(5).any(|five| five == *name));
        if named && header.starts_with(b"{\"") { Ok(serde_json::json!({"typ": "JWT"})) } else { Err(error) }
    });
    let header = header.ok()?;
    let payload_end = header_end + 1 + run(header_end + 1);
    let signed = dot(payload_end) && run(payload_end + 1) >= 16;
    if !signed || header.get("alg").is_none() && header.get("typ").is_none() && header.get("enc").is_none() {
        return None;
    }
    if samples::is_sample_claim(text.get(header_end + 1..payload_end)?) {
        return None;
    }
    // An encrypted token (JWE) has five parts.
    let mut end = payload_end;
    for _ in 0..3 {
        if dot(end) && run(end + 1) > 0 {
            end += 1 + run(end + 1);
        }
    }
    let alg = header.get("alg").and_then(serde_json::Value::as_str).unwrap_or_default();
    let severity = if alg.eq_ignore_ascii_case("none") { Severity::Warning } else { Severity::Critical };
    Some(SecretFinding::new(hit.start..end, "json_web_token", "a JSON web token", severity))
}

fn url_credentials(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    let tail = text.get(hit.end..text.floor_char_boundary(hit.end + 400))?;
    let authority_len = tail
        .bytes()
        .position(|b| b.is_ascii_whitespace() || matches!(b, b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\' | b','))
        .unwrap_or(tail.len());
    let authority = tail.get(..authority_len)?;
    // A password may itself hold `@` or `/`, as long as a host follows the last `@`.
    let path = authority.find(['/', '?', '#']).unwrap_or(authority.len());
    let at = authority.get(..path)?.rfind('@').or_else(|| {
        let at = authority.rfind('@')?;
        // The path of a page may hold an `@`, that of a database does not.
        let page = text.get(..hit.start)?.ends_with("http") || text.get(..hit.start)?.ends_with("https");
        let host = authority.get(at + 1..)?;
        let port = host.contains(':') || !page && host.split('/').next()?.contains('.');
        (port && !authority.get(..at)?.contains("://")).then_some(at)
    })?;
    let (user, password) = authority.get(..at)?.split_once(':')?;
    if values::is_marker(password) || password.len() < 3 || !is_password(password) || user == password {
        return None;
    }
    let host = authority.get(at + 1..)?;
    let local = ["localhost", "127.0.0.1", "0.0.0.0", "example.", "db:", "postgres:", "redis:", "mysql:"];
    let weak = password.len() < 6 || local.iter().any(|name| host.starts_with(name)) || host.contains("example.");
    let start = hit.end + user.len() + 1;
    let severity = if weak { Severity::Warning } else { Severity::Critical };
    Some(SecretFinding::new(start..hit.end + at, "url_credentials", "a password in a URL", severity))
}

/// True if the text in a password's place is a password, and not a variable or the word itself.
pub(super) fn is_password(value: &str) -> bool {
    const WORDS: [&str; 14] = [
        "password", "passwd", "pass", "pwd", "pw", "secret", "token", "user", "admin", "root", "guest", "test",
        "postgres", "mysql",
    ];
    let template = value.contains(['{', '<', '*', '[', '('])
        || ["%s", "%d"].iter().any(|sign| value.contains(sign))
        || is_variable(value);
    !template && !WORDS.iter().any(|word| value.eq_ignore_ascii_case(word)) && !values::is_placeholder(value)
}

/// True for a variable alone: `$DB_PASS`, `%PASS%`, `$1`.
fn is_variable(value: &str) -> bool {
    let name = value.strip_prefix(['$', '%', '@']).map(|name| name.trim_end_matches('%'));
    name.is_some_and(|name| {
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        plain && (!values::is_mixed(name) || name.bytes().all(|byte| !byte.is_ascii_lowercase()))
    })
}

/// True if a header's value is a credential: digits among letters, or letters unlike a word.
fn is_random(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    (digits >= 2 || is_gibberish(value)) && values::entropy(value) > 3.0 && !values::is_placeholder(value)
}

fn bearer(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    static TOKEN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[A-Za-z0-9_~+/.-]{16,1500}=*").ok());
    let window = text.get(hit.end..text.floor_char_boundary(hit.end + 1600))?;
    let token = TOKEN.as_ref()?.find(window)?;
    let value = token.as_str().trim_end_matches('.');
    let span = hit.end..hit.end + value.len();
    is_random(value).then_some(SecretFinding::new(span, "bearer_token", "a bearer token", Severity::Critical))
}

fn basic(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    let span = encoded_pair(text, hit.end)?;
    Some(SecretFinding::new(span, "basic_auth", "a password in a Basic Authorization header", Severity::Critical))
}

/// Finds `"auth": "…"` of a container registry's settings.
fn registry_auth(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    let lead = text.get(hit.end..)?.bytes().take(8).take_while(|b| matches!(b, b' ' | b'"')).count();
    let span = encoded_pair(text, hit.end + lead)?;
    Some(SecretFinding::new(span, "registry_auth", "a container registry's password", Severity::Critical))
}

/// Returns the range of a user and a password in base64 that begin at `at`.
fn encoded_pair(text: &str, at: usize) -> Option<Range<usize>> {
    let window = text.get(at..text.floor_char_boundary(at + 600))?;
    let length = window.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=')).count();
    let value = window.get(..length)?;
    let decoded = String::from_utf8(decode(value)?).ok()?;
    let (user, password) = decoded.split_once(':')?;
    let clean = length >= 8 && user.bytes().chain(password.bytes()).all(|b| (0x20..0x7f).contains(&b));
    if !clean || user == password || !is_password(password) || password.is_empty() {
        return None;
    }
    Some(at..at + length)
}

/// Finds `Authorization: token …`, `Authorization: …` and headers whose names end in it.
fn authorization(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    static LEAD: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#"^(?i:authorization)\\?["']?[ \t]{0,3}(?::|=>|=|,)[ \t]{0,3}\\?["']?(?i:(?:token|ssws|apikey|key|digest|hmac|oauth|sso-key|genie-?key|splunk|snip|ghost|bot)[ \t]+(?:token=)?)?\\?["']?"#).ok()
    });
    let window = text.get(hit.start..text.floor_char_boundary(hit.start + 1700))?;
    let lead = LEAD.as_ref()?.find(window)?.end();
    // The value is measured here: in a text of headers alone, the expression would run on through the next ones.
    let run = |from: usize, most: usize, of: fn(&u8) -> bool| {
        window.as_bytes().get(from..).unwrap_or_default().iter().take(most).take_while(|b| of(b)).count()
    };
    let body = run(lead, 1500, |b| b.is_ascii_alphanumeric() || b"_~+/.:-".contains(b));
    if body < 16 {
        return None;
    }
    let end = lead + body + run(lead + body, usize::MAX, |b| *b == b'=');
    let value = window.get(lead..end)?;
    let span = hit.start + lead..hit.start + end;
    let title = "a credential in an Authorization header";
    is_random(value).then_some(SecretFinding::new(span, "authorization_header", title, Severity::Critical))
}

/// Finds `&X-Amz-Signature=…`, `&Signature=…`, `&sig=…`. A signed URL grants access without a key while it is valid
/// (`SigV4` of AWS, Google's V2 and V4, Azure's shared access signatures, `CloudFront`).
fn signature(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    const LONGEST: usize = 1024;
    let before = text.get(text.floor_char_boundary(hit.start.saturating_sub(16))..hit.start)?;
    let named = text.get(hit.clone())?.starts_with(['?', '&']);
    let in_query = named || before.ends_with(['?', '&']) || before.ends_with("X-Amz-") || before.ends_with("X-Goog-");
    let rest = text.as_bytes().get(hit.end..)?;
    let part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"%+/_=~-".contains(byte);
    let length = rest.iter().take(LONGEST).take_while(part).count();
    let value = text.get(hit.end..hit.end + length)?;
    let span = hit.end..hit.end + length;
    let found = SecretFinding::new(span, "signed_url", "the signature of a signed URL", Severity::Warning);
    (in_query && length >= 32 && is_random(value)).then_some(found)
}

/// Finds `openssl … -passin pass:PASSWORD`.
fn openssl_password(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    let before = text.get(text.floor_char_boundary(hit.start.saturating_sub(8))..hit.start)?;
    let rest = text.as_bytes().get(hit.end..)?;
    let length = rest.iter().take(128).take_while(|b| b.is_ascii_graphic() && !b"\"'`;$<".contains(*b)).count();
    let value = text.get(hit.end..hit.end + length)?;
    let span = hit.end..hit.end + length;
    let title = "an OpenSSL password on a command line";
    let found = SecretFinding::new(span, "openssl_password", title, Severity::Warning);
    (before.contains("-pass") && length >= 4 && is_password(value)).then_some(found)
}

/// Finds `curl -u user:password`, and wget's `--user`.
fn curl_user(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    static USER: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#"^(?:=|[ \t]{0,4})(?:["']?([^\s"':$]{0,100}):([^\s"'$]{3,200})["']?)(?:\s|$)"#).ok()
    });
    // A line that ends with a backslash continues on the next.
    let before = text.as_bytes().get(..hit.start)?;
    let line_start = (hit.start.saturating_sub(400)..hit.start)
        .rev()
        .find(|at| before.get(*at) == Some(&b'\n') && before.get(at.saturating_sub(1)) != Some(&b'\\'))
        .unwrap_or_else(|| hit.start.saturating_sub(400));
    let line = text.get(text.ceil_char_boundary(line_start)..hit.start)?;
    if !line.contains("curl") && !line.contains("http") {
        return None;
    }
    let window = text.get(hit.end..text.floor_char_boundary(hit.end + 400))?;
    let captures = USER.as_ref()?.captures(window)?;
    let password = captures.get(2)?;
    let user = captures.get(1).map_or("", |user| user.as_str());
    // The first colon of the argument may be that of a marker: `-u app/v1?token=[secret:url_token]`.
    let marked = user.ends_with("[secret");
    if marked || !is_password(password.as_str()) || password.as_str().starts_with("//") || user == password.as_str() {
        return None;
    }
    let span = hit.end + password.start()..hit.end + password.end();
    Some(SecretFinding::new(span, "curl_user", "a password on a curl command line", Severity::Critical))
}
