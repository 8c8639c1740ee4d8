//! That rows of the audit were written by one of our processes: what a transaction writes is signed with the key of the
//! checkpoints, which is not in the database. In: rows, keys. Out: a stamp, or what is wrong with one. Pure.
//!
//! One signature covers all rows of a transaction, in order, so that it costs the decision of one call as much as that of
//! a hundred. It does not cover numbers and times, which the database gives: blocks and checkpoints do, a second later.

use std::collections::{BTreeSet, HashSet};

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use super::seal::{Fields, Hash};
use umbra_domain::audit::{AuditRow, AuditSaid};

/// Bytes of a public key.
const KEY: usize = 32;
/// Bytes of the number of rows.
const COUNT: usize = 4;

/// Signs the rows of a transaction: the public key, how many rows there are, the signature.
pub fn stamp(key: &Ed25519KeyPair, rows: &[AuditSaid<'_>]) -> Vec<u8> {
    let count = u32::try_from(rows.len()).unwrap_or(u32::MAX).to_be_bytes();
    let signed = rows.iter().fold(start(count), |fields, row| fields.field(&content(row))).hash();
    [key.public_key().as_ref(), &count, key.sign(&signed).as_ref()].concat()
}

fn start(count: [u8; COUNT]) -> Fields {
    Fields::of("umbra-audit-stamp").field(&count)
}

/// The hash of what a row says.
fn content(AuditSaid { id, kind, names, body, payload_mac }: &AuditSaid<'_>) -> Hash {
    let fields = Fields::of("umbra-audit-said").field(id.as_bytes()).field(kind.as_str().as_bytes());
    let fields = names.iter().fold(fields, |fields, name| fields.optional(name.map(str::as_bytes)));
    fields.field(body.as_bytes()).optional(*payload_mac).hash()
}

/// Rows that one signature covers, while they are read.
#[derive(Debug)]
struct Open {
    first: i64,
    left: u32,
    fields: Option<Fields>,
    key: Vec<u8>,
    signature: Vec<u8>,
}

/// Reads rows in order and says which of them nobody has signed whom we know.
#[derive(Debug)]
pub(super) struct Stamps {
    /// The public keys that are believed.
    pub keys: BTreeSet<Vec<u8>>,
    /// The last row that may be unsigned; `None` where nobody has said, and all before the first stamp may.
    pub unsigned_until: Option<i64>,
    /// Rows of before rows were signed.
    pub unsigned: u64,
    begun: bool,
    open: Option<Open>,
    /// Half of each id, which are random: a row that is copied keeps its id.
    ids: HashSet<u64>,
}

impl Stamps {
    /// Believes these keys.
    pub fn of(keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let (keys, ids) = (keys.into_iter().collect(), HashSet::new());
        Self { keys, unsigned_until: None, unsigned: 0, begun: false, open: None, ids }
    }

    /// Reads the next row; answers what is wrong.
    pub fn take(&mut self, row: &AuditRow) -> Vec<String> {
        let mut faults = Vec::new();
        if !self.ids.insert(row.id.as_u64_pair().1) {
            faults.push(format!("row {} has the id of another row: it is a copy", row.seq));
        }
        match &row.stamp {
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
            None => faults.push(format!("row {} was signed by nobody: no server wrote it", row.seq)),
        }
        if let Some(open) = &mut self.open {
            open.fields = open.fields.take().map(|fields| fields.field(&content(&row.said())));
            open.left -= 1;
            if open.left == 0 {
                faults.extend(self.judge(row.seq));
            }
        }
        faults
    }

    /// Rows that are missing from those of the last stamp.
    pub fn ended(&mut self) -> Option<String> {
        let Open { first, left, .. } = self.open.take()?;
        Some(format!("{left} rows are missing that were signed together with row {first}"))
    }

    fn judge(&mut self, last: i64) -> Option<String> {
        let Open { first, fields, key, signature, .. } = self.open.take()?;
        let rows = if first == last { format!("row {first}") } else { format!("rows {first} to {last}") };
        let signed = fields.map(Fields::hash).unwrap_or_default();
        if UnparsedPublicKey::new(&ED25519, &key).verify(&signed, &signature).is_err() {
            return Some(format!("what {rows} says is not what was signed"));
        }
        // Where none is known at all, that is said once.
        (!self.keys.is_empty() && !self.keys.contains(&key)).then(|| {
            format!(
                "{rows}: signed with the key {}, which nothing here vouches for; if it is another server's, give its \
                 checkpoints.jsonl by --checkpoint as well",
                named(&key)
            )
        })
    }
}

/// A stamp of at least one row.
fn opened(first: i64, stamp: &[u8]) -> Option<Open> {
    let (key, rest) = stamp.split_at_checked(KEY)?;
    let (count, signature) = rest.split_first_chunk::<COUNT>()?;
    let left = u32::from_be_bytes(*count);
    let open = Open { first, left, fields: Some(start(*count)), key: key.to_vec(), signature: signature.to_vec() };
    (left > 0).then_some(open)
}

/// The beginning of a key, to know it by.
pub fn named(key: &[u8]) -> String {
    hex::encode(key.get(..6).unwrap_or(key))
}
