//! Tests of names with `token` or `key`, with a credential and without; of sealed values, and of samples in standards.

use crate::redact;

fn is_taken(text: &str) -> bool {
    redact(text).as_str() != text
}

#[test]
fn page_tokens_request_ids_and_public_keys_are_kept() {
    for text in [
        "Idempotency-Key: 0f8e2c41-7a3b-4d59-9c16-5be2a7d3f048",
        "{\"idempotencyKey\": \"k3v9Qm2xTz7LbW4y\"}",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==",
        "correlation-token: 0f8e2c41-7a3b-4d59-9c16-5be2a7d3f048",
        "request_token=0f8e2c41-7a3b-4d59-9c16-5be2a7d3f048",
        "traceToken: 0f8e2c41-7a3b-4d59-9c16-5be2a7d3f048",
        "{\"nextToken\": \"k3v9Qm2xTz7LbW4yRd81\"}",
        "\"next_page_token\": \"CAEQ7b3K9xTz\"",
        "\"nextpagetoken\": \"CAEQ7b3K9xTz\"",
        "ContinuationToken = \"k3v9Qm2xTz7LbW4yRd81\"",
        "page_token=k3v9Qm2xTz7LbW4yRd81",
        "resumeToken: \"k3v9Qm2xTz7LbW4yRd81\"",
        "{\"uploadSequenceToken\": \"49640873195281\", \"sync_token\": \"k3v9Qm2xTz7LbW4y\"}",
        "<div data-sitekey=\"6LdQmXsUAAAAAKz3vN9yTb41WcRf8hGqLp27xJwE\"></div>",
        "VITE_SITE_KEY=k3v9Qm2xTz7LbW4y",
        "{\"publishable_key\": \"k3v9Qm2xTz7LbW4y\"}",
        "{\"object_key\": \"uploads/2026/11/k3v9Qm2xTz7L.png\"}",
        "{\"key\": \"media/avatars/k3v9Qm2xTz7LbW4yRd81.webp\"}",
        "{\"access_key_last_used\": \"2026-11-20T08:00:00Z\"}",
        "\"token\": \"2026-11-20T08:00:00+01:00\"",
        "{\"token_fingerprint\": \"SHA256:k3v9Qm2xTz7LbW4yRd81Hs6PfNc0Jg5A\"}",
        "arn:aws:secretsmanager:eu-west-1:210987654321:secret:prod/db-password-k3V9qM",
        "SecretArn: arn:aws:secretsmanager:eu-west-1:210987654321:secret:prod/api-token-k3v9Qm2xTz7LbW4yRd81",
        "\"password\": \"s3cr3t\"",
    ] {
        assert!(!is_taken(text), "{text} became {}", redact(text).as_str());
    }
}

#[test]
fn access_tokens_with_similar_names_are_redacted() {
    for text in [
        "{\"page_access_token\": \"k3v9Qm2xTz7LbW4yRd81\"}",
        "{\"exchangeToken\": \"k3v9Qm2xTz7LbW4yRd81\"}",
        "session_token=k3v9Qm2xTz7LbW4yRd81",
        "{\"site_token\": \"k3v9Qm2xTz7LbW4yRd81\"}",
        "NEXT_AUTH_TOKEN=k3v9Qm2xTz7LbW4yRd81",
        "{\"storage_key\": \"k3v9Qm2xTz7LbW4yRd81Hs6P\"}",
        "request_token=k3v9Qm2xTz7LbW4yRd81",
        "password: hT7qPz2026",
    ] {
        assert!(is_taken(text), "{text}");
    }
}

#[test]
fn sealed_values_and_samples_of_standards_are_kept() {
    let sealed = format!("encryptedData:\n  password: AgB{}", "k3v9Qm2xTz7LbW4yRd81Hs6PfNc0Jg5A".repeat(12));
    let sample = concat!(
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.",
        "eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ.",
        "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
    );
    let claimed = concat!(
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.",
        "eyJzdWIiOiI4MTcyNjM1NCIsIm5hbWUiOiJNYXJ0YSIsImlhdCI6MTUxNjIzOTAyMn0.",
        "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
    );
    for text in [
        sealed.as_str(),
        sample,
        "password: ENC[AES256_GCM,data:k3v9Qm2xTz7LbW4y,iv:Rd81Hs6PfNc0Jg5A=,tag:k3v9Qm2x==,type:str]",
        "\"db_password\": \"vault:v1:k3v9Qm2xTz7LbW4yRd81Hs6PfNc0Jg5A\"",
        "{\"access_token\": \"2YotnFZFEjr1zCsicMWpAA\"}",
        "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
    ] {
        assert!(!is_taken(text), "{text} became {}", redact(text).as_str());
    }
    assert!(is_taken(claimed), "a token with claims of its own is a credential");
}
