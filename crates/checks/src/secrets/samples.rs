//! Sample credentials of standards and their tools, which grant no access. In: a credential. Out: true for a sample.

use serde_json::Value;

use super::encoded::decode;
use crate::word_lists;

/// Claims of the sample tokens of jwt.io and RFC 7519.
const CLAIMED: [(&str, &str); 6] = [
    ("sub", "\"1234567890\""),
    ("name", "\"John Doe\""),
    ("iat", "1516239022"),
    ("iss", "\"joe\""),
    ("exp", "1300819380"),
    ("http://example.com/is_root", "true"),
];

/// True if a value is a sample printed in a standard.
pub(super) fn is_printed(value: &str) -> bool {
    word_lists::lists("sample_credentials", value)
}

/// True if the payload of a JSON web token holds only claims of samples.
pub(super) fn is_sample_claim(payload: &str) -> bool {
    let claims = decode(payload).and_then(|json| serde_json::from_slice::<Value>(&json).ok());
    let Some(Value::Object(claims)) = claims else { return false };
    let known = |(name, value): (&String, &Value)| {
        let text = value.to_string();
        name == "admin" && value.is_boolean() || CLAIMED.iter().any(|(claim, said)| claim == name && *said == text)
    };
    claims.len() >= 3 && claims.iter().all(known)
}
