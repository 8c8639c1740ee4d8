//! Stamps prove that rows of the audit were written by one of our processes: each transaction's rows are signed with
//! the checkpoint key, which is not in the database. In: rows, keys. Out: a stamp, or its faults. Pure.
//!
//! One signature covers all rows of a transaction, in order, so it costs the same for one decision as for a hundred. It
//! leaves out row numbers and times, which the database assigns: blocks and checkpoints cover those a second later.

use std::collections::{BTreeSet, HashSet};

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use super::seal::{Fields, Hash};
use umbra_domain::audit::{AuditContent, AuditRow};

/// Length of a public key, in bytes.
const KEY: usize = 32;
/// Length of the row count, in bytes.
const COUNT: usize = 4;

/// Signs the rows of a transaction. Returns public key, row count and signature, concatenated.
pub fn stamp(key: &Ed25519KeyPair, rows: &[AuditContent<'_>]) -> Vec<u8> {
    let count = u32::try_from(rows.len()).unwrap_or(u32::MAX).to_be_bytes();
    let signed = rows.iter().fold(start(count), |fields, row| fields.field(&content(row))).hash();
    [key.public_key().as_ref(), &count, key.sign(&signed).as_ref()].concat()
}

fn start(count: [u8; COUNT]) -> Fields {
    Fields::of("umbra-audit-stamp").field(&count)
}

/// Hash of a row's signed content.
fn content(AuditContent { id, kind, names, body, payload_mac }: &AuditContent<'_>) -> Hash {
    let fields = Fields::of("umbra-audit-said").field(id.as_bytes()).field(kind.as_str().as_bytes());
    let fields = names.iter().fold(fields, |fields, name| fields.optional(*name));
    fields.field(body.as_bytes()).optional(*payload_mac).hash()
}

/// Rows under one signature, while they are read.
#[derive(Debug)]
struct Open {
    first: i64,
    left: u32,
    fields: Option<Fields>,
    key: Vec<u8>,
    signature: Vec<u8>,
}

/// Checks the stamps of rows, which are read in order.
#[derive(Debug, Default)]
pub(super) struct SignatureCheck {
    /// Trusted public keys.
    pub keys: BTreeSet<Vec<u8>>,
    /// Last row that may be unsigned; `None` if unknown: then all rows before the first stamp may be.
    pub unsigned_until: Option<i64>,
    /// Number of rows from before rows were signed.
    pub unsigned: u64,
    begun: bool,
    open: Option<Open>,
    /// Half of each row id. Ids are random, so an id that returns shows a copied row.
    ids: HashSet<u64>,
}

impl SignatureCheck {
    /// Trusts these keys.
    pub fn of(keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self { keys: keys.into_iter().collect(), ..Self::default() }
    }

    /// Reads the next row. Returns its faults.
    pub fn take(&mut self, row: &AuditRow) -> Vec<String> {
        let mut faults = Vec::new();
        if !self.ids.insert(row.id.as_u64_pair().1) {
            faults.push(format!("row {} has the id of another row: it is a copy", row.seq));
        }
        match &row.signature {
            Some(stamp) => {
                faults.extend(self.ended());
                self.begun = true;
                self.open = opened(row.seq, stamp);
                if self.open.is_none() {
                    faults.push(format!("the signature of row {} cannot be read", row.seq));
                }
            }
            None if self.open.is_some() => {}
            None if !self.begun && self.unsigned_until.is_none_or(|until| row.seq <= until) => self.unsigned += 1,
            None => faults.push(format!("row {} has no signature: no server wrote it", row.seq)),
        }
        if let Some(open) = &mut self.open {
            open.fields = open.fields.take().map(|fields| fields.field(&content(&row.signed_content())));
            open.left -= 1;
            if open.left == 0 {
                faults.extend(self.judge(row.seq));
            }
        }
        faults
    }

    /// Reports the rows that the last stamp covers and that are missing.
    pub fn ended(&mut self) -> Option<String> {
        let Open { first, left, .. } = self.open.take()?;
        Some(format!("{left} rows are missing that were signed together with row {first}"))
    }

    fn judge(&mut self, last: i64) -> Option<String> {
        let Open { first, fields, key, signature, .. } = self.open.take()?;
        let rows = if first == last { format!("row {first}") } else { format!("rows {first} to {last}") };
        let signed = fields.map(Fields::hash).unwrap_or_default();
        if UnparsedPublicKey::new(&ED25519, &key).verify(&signed, &signature).is_err() {
            return Some(format!("the content of {rows} is not the signed content"));
        }
        // Without any trusted key, that is reported once and not for each row.
        (!self.keys.is_empty() && !self.keys.contains(&key)).then(|| {
            format!(
                "{rows}: signed with the unknown key {}; if the key is another server's, give that server's \
                 checkpoints.jsonl by --checkpoint",
                named(&key)
            )
        })
    }
}

/// Parses a stamp; none if it is malformed or covers no row.
fn opened(first: i64, stamp: &[u8]) -> Option<Open> {
    let (key, rest) = stamp.split_at_checked(KEY)?;
    let (count, signature) = rest.split_first_chunk::<COUNT>()?;
    let left = u32::from_be_bytes(*count);
    let open = Open { first, left, fields: Some(start(*count)), key: key.to_vec(), signature: signature.to_vec() };
    (left > 0).then_some(open)
}

/// First six bytes of a key in hex, for messages.
pub fn named(key: &[u8]) -> String {
    hex::encode(key.get(..6).unwrap_or(key))
}
