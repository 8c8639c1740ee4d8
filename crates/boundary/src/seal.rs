//! Seals of the audit: a row becomes a hash, rows become a block, each block covers the one before, and a signature
//! over the newest block lies outside the database. In: rows, hashes, a key. Out: hashes and checkpoints. Pure. A row's
//! stamp, which the hash covers, proves that one of our processes wrote it ([`super::row_signature`]).
//!
//! Each field goes in with its length before it, so that no two rows read alike. Payloads go in by their MAC: an erased
//! one leaves the chain whole.

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use umbra_domain::audit::{AuditPayload, AuditRow, AuditSeal};

/// A 256-bit hash.
pub type Hash = [u8; 32];

/// Hash in the place of a block before the first.
pub const GENESIS: Hash = [0; 32];

/// Hasher of fields, each with its length; a missing field differs from an empty one.
#[derive(Debug)]
pub(super) struct Fields(Sha256);

impl Fields {
    pub fn of(what: &str) -> Self {
        Self(Sha256::new()).field(what.as_bytes())
    }

    pub fn field(mut self, bytes: &[u8]) -> Self {
        self.0.update([1]);
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
        self
    }

    pub fn optional(mut self, bytes: Option<impl AsRef<[u8]>>) -> Self {
        if let Some(bytes) = bytes {
            return self.field(bytes.as_ref());
        }
        self.0.update([0]);
        self
    }

    pub fn hash(self) -> Hash {
        self.0.finalize().into()
    }
}

/// Hash of a row.
pub fn leaf(row: &AuditRow) -> Hash {
    let fields = Fields::of("umbra-audit-row")
        .field(&row.seq.to_be_bytes())
        .field(row.id.as_bytes())
        .field(&row.at.as_microsecond().to_be_bytes())
        .field(row.kind.as_str().as_bytes());
    let names = [&row.agent, &row.session, &row.run, &row.call_id, &row.tool];
    let fields = names.iter().fold(fields, |fields, name| fields.optional(name.as_deref()));
    let fields = fields.field(row.body.as_bytes()).optional(row.payload_mac.as_deref());
    // Rows from before there were stamps keep their hashes.
    match &row.signature {
        Some(stamp) => fields.field(stamp).hash(),
        None => fields.hash(),
    }
}

/// Hash of a block: of the previous block's hash, its own number and its rows, in order.
pub fn block(previous: &[u8], number: i64, rows: &[AuditRow]) -> Hash {
    let start = Fields::of("umbra-audit-block")
        .field(previous)
        .field(&number.to_be_bytes())
        .field(&(rows.len() as u64).to_be_bytes());
    rows.iter().fold(start, |fields, row| fields.field(&leaf(row))).hash()
}

/// MAC of a payload, which its row keeps.
pub fn payload_mac(payload: &AuditPayload) -> Vec<u8> {
    // HMAC takes a key of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&payload.salt) else { return Vec::new() };
    mac.update(payload.body.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Signed statement of the audit's newest block and its hash. One line of `checkpoints.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Newest block.
    pub block: i64,
    /// Last row of the block.
    pub seq: i64,
    /// Hash of the block, in hex.
    pub hash: String,
    /// Time of signing.
    pub at: Timestamp,
    /// Block of the previous checkpoint by the same key, 0 for the first: a lost checkpoint is missed by this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<i64>,
    /// Last row from before rows were signed, 0 where all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsigned: Option<i64>,
    /// Ed25519 key that signed it, in base64.
    pub public_key: String,
    /// Signature, in base64.
    pub signature: String,
}

impl Checkpoint {
    /// Signs the newest block. `behind` holds the block of the checkpoint before, and the last unsigned row.
    pub fn sign(key: &Ed25519KeyPair, seal: &AuditSeal, at: Timestamp, behind: (i64, i64)) -> Self {
        let mut checkpoint = Self {
            block: seal.block,
            seq: seal.last,
            hash: hex::encode(&seal.hash),
            at,
            previous: Some(behind.0),
            unsigned: Some(behind.1),
            public_key: STANDARD.encode(key.public_key().as_ref()),
            signature: String::new(),
        };
        checkpoint.signature = STANDARD.encode(key.sign(&checkpoint.signed()).as_ref());
        checkpoint
    }

    /// True if the signature is by the key that the checkpoint names.
    pub fn is_genuine(&self) -> bool {
        let (Ok(key), Ok(signature)) = (STANDARD.decode(&self.public_key), STANDARD.decode(&self.signature)) else {
            return false;
        };
        UnparsedPublicKey::new(&ED25519, key).verify(&self.signed(), &signature).is_ok()
    }

    /// Public key that signed it.
    pub fn key(&self) -> Vec<u8> {
        STANDARD.decode(&self.public_key).unwrap_or_default()
    }

    /// Hash that is signed.
    fn signed(&self) -> Hash {
        let fields = Fields::of("umbra-audit-checkpoint")
            .field(&self.block.to_be_bytes())
            .field(&self.seq.to_be_bytes())
            .field(self.hash.as_bytes())
            .field(&self.at.as_nanosecond().to_be_bytes())
            .field(self.public_key.as_bytes());
        if self.previous.is_none() && self.unsigned.is_none() {
            return fields.hash();
        }
        fields.optional(self.previous.map(i64::to_be_bytes)).optional(self.unsigned.map(i64::to_be_bytes)).hash()
    }
}
