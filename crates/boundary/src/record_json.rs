//! A row of the audit as a line of JSON, identical in `GET /v1/audit`, in the files and in `umbra audit export`.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::seal::leaf;
use umbra_domain::audit::AuditRecord;

/// Members that come from the payload and are removed when it is erased.
pub const ERASABLE: [&str; 7] =
    ["args", "args_sha256", "stub_response", "outcome", "detail", "explain", "stub_override"];

/// Builds the line, without its line end.
pub fn line(record: &AuditRecord) -> Value {
    let AuditRecord { row, payload } = record;
    let mut line = Map::new();
    let mut put = |key: &str, value: Value| drop(line.insert(key.to_owned(), value));
    put("seq", json!(row.seq));
    put("timestamp", json!(row.at));
    put("kind", json!(row.kind));
    put("id", json!(row.id.simple().to_string()));
    for (key, value) in [
        ("call_id", &row.call_id),
        ("agent", &row.agent),
        ("session", &row.session),
        ("run", &row.run),
        ("tool", &row.tool),
    ] {
        put(key, json!(value));
    }
    for said in [Some(&row.body), payload.as_ref().map(|payload| &payload.body)].into_iter().flatten() {
        if let Ok(Value::Object(members)) = serde_json::from_str(said) {
            for (key, value) in members {
                if key == "args" {
                    put("args_sha256", json!(hex::encode(Sha256::digest(value.to_string()))));
                }
                put(&key, value);
            }
        }
    }
    if row.payload_mac.is_some() && payload.is_none() {
        put("erased", json!(true));
    }
    put("hash", json!(hex::encode(leaf(row))));
    Value::Object(line)
}
