//! Signature of Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`, in base64 behind `v1,`.

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use umbra_config::settings::Secret;

/// Returns the value of `webhook-signature`: one signature for each secret, so receivers can change theirs at any time.
pub fn sign(secrets: &[Secret], id: &str, timestamp: i64, body: &str) -> String {
    let signatures: Vec<String> = secrets
        .iter()
        // HMAC accepts a key of any length.
        .filter_map(|secret| Hmac::<Sha256>::new_from_slice(secret.expose()).ok())
        .map(|mut mac| {
            mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
            format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
        })
        .collect();
    signatures.join(" ")
}
