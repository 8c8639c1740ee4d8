//! Whether an audit is what it was. In: its blocks and rows in order, and checkpoints from outside of the database. Out:
//! what does not fit. Pure.
//!
//! A row that was changed, moved, added or removed changes its block's hash; whoever computes the chain anew changes the
//! hash that a checkpoint has signed; whoever cuts the end off is behind it. What came after the last checkpoint is
//! covered by the numbers, which have no gap, and by the signatures of those who wrote it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    bound::Bound,
    seal::{Checkpoint, GENESIS, block, payload_mac},
    stamp::Stamps,
    standing::Words,
};
use umbra_domain::audit::{AuditKind, AuditRecord, AuditRow, AuditSeal, Standing};

/// Faults that are told; the rest are counted.
const TOLD: usize = 100;

/// What does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditFault {
    /// The row, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    /// What is wrong.
    pub problem: String,
}

/// How it went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Whether everything fits.
    pub intact: bool,
    /// Rows that were read.
    pub rows: u64,
    /// Blocks that were recomputed.
    pub blocks: i64,
    /// Rows after the newest block: not sealed yet.
    pub unsealed: u64,
    /// Rows after the newest checkpoint: only their numbers are vouched for.
    pub after_checkpoint: u64,
    /// Checkpoints that were compared.
    pub checkpoints: usize,
    /// Payloads that were erased, as rows of the audit say.
    pub erased: u64,
    /// Rows of before rows were signed.
    pub unsigned: u64,
    /// Lines of files that were compared with their rows.
    pub lines: u64,
    /// What is worth knowing and no fault.
    pub warnings: Vec<String>,
    /// What does not fit, at most a hundred.
    pub faults: Vec<AuditFault>,
    /// How many faults there are.
    pub faults_total: u64,
}

/// What the body of an erasure says: the rows whose payloads went, as first and last numbers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ErasedPayloads {
    /// First and last, both included, in order.
    pub payloads: Vec<(i64, i64)>,
    /// SHA-256 over the numbers and keyed hashes of all of them, in hex; none in erasures of before rows were signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub macs_sha256: Option<String>,
}

impl ErasedPayloads {
    /// Numbers in order with the keyed hashes of their payloads, put together.
    pub fn of(gone: &[(i64, Vec<u8>)]) -> Self {
        let mut payloads: Vec<(i64, i64)> = Vec::new();
        for (seq, _) in gone {
            match payloads.last_mut() {
                Some((_, last)) if *last + 1 == *seq => *last = *seq,
                _ => payloads.push((*seq, *seq)),
            }
        }
        Self { payloads, macs_sha256: Some(macs(gone.iter().map(|(seq, mac)| (*seq, mac)))) }
    }
}

/// The hash of numbers and keyed hashes.
fn macs<'m>(gone: impl Iterator<Item = (i64, &'m Vec<u8>)>) -> String {
    let mut hash = Sha256::new();
    for (seq, mac) in gone {
        hash.update(seq.to_be_bytes());
        hash.update((mac.len() as u64).to_be_bytes());
        hash.update(mac);
    }
    hex::encode(hash.finalize())
}

/// Reads an audit from its first row to its last.
#[derive(Debug)]
pub struct Verifier {
    checkpoints: BTreeMap<i64, Vec<Checkpoint>>,
    compared: usize,
    /// The last row that any checkpoint has signed.
    vouched: i64,
    chain: Vec<u8>,
    blocks: i64,
    rows: i64,
    /// Number of the last row that was read or is missed.
    last: i64,
    unsealed: u64,
    stamps: Stamps,
    /// Rows without the payload that they had, with its keyed hash.
    missing: BTreeMap<i64, Vec<u8>>,
    /// What erasures say, with their own numbers.
    erasures: Vec<(i64, ErasedPayloads)>,
    words: Option<Words>,
    bound: Bound,
    faults: Vec<AuditFault>,
    faults_total: u64,
}

impl Verifier {
    /// With what is known from outside: checkpoints, whose keys are believed, and keys that are believed beside them.
    pub fn new(checkpoints: Vec<Checkpoint>, keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut verifier = Self {
            checkpoints: BTreeMap::new(),
            compared: 0,
            vouched: 0,
            chain: GENESIS.to_vec(),
            blocks: 0,
            rows: 0,
            last: 0,
            unsealed: 0,
            stamps: Stamps::of(keys),
            missing: BTreeMap::new(),
            erasures: Vec::new(),
            words: None,
            bound: Bound::default(),
            faults: Vec::new(),
            faults_total: 0,
        };
        for checkpoint in checkpoints {
            if checkpoint.is_genuine() {
                verifier.vouched = verifier.vouched.max(checkpoint.seq);
                let stamps = &mut verifier.stamps;
                stamps.keys.insert(checkpoint.key());
                stamps.unsigned_until = [stamps.unsigned_until, checkpoint.unsigned].into_iter().flatten().min();
                verifier.checkpoints.entry(checkpoint.block).or_default().push(checkpoint);
            } else {
                verifier.fault(None, format!("the checkpoint of block {} has no valid signature", checkpoint.block));
            }
        }
        verifier
    }

    /// Compares overrides and approvals as well with what the audit says of them.
    #[must_use]
    pub fn with_standing(mut self, standing: Standing) -> Self {
        self.words = Some(Words::on(standing));
        self
    }

    /// What the rows that were read say of runs and sessions.
    pub fn bound(&self) -> &Bound {
        &self.bound
    }

    /// The next block, as the database has it, with all rows from its first to its last.
    pub fn block(&mut self, seal: &AuditSeal, records: &[AuditRecord]) {
        self.blocks += 1;
        if seal.block != self.blocks {
            self.fault(None, format!("block {} stands where block {} belongs", seal.block, self.blocks));
        }
        if (seal.first, seal.last) != (self.last + 1, self.last + i64::try_from(records.len()).unwrap_or(i64::MAX)) {
            let what = format!(
                "block {} says it has rows {} to {}, but {} stand there behind row {}",
                self.blocks,
                seal.first,
                seal.last,
                records.len(),
                self.last
            );
            self.fault(None, what);
        }
        self.take(records);
        let rows: Vec<AuditRow> = records.iter().map(|record| record.row.clone()).collect();
        self.chain = block(&self.chain, self.blocks, &rows).to_vec();
        if self.chain != seal.hash {
            let what = format!("rows {} to {} are not those that block {} sealed", seal.first, seal.last, self.blocks);
            self.fault(Some(seal.first), what);
            // What follows is held against what was sealed: one row that is missing is told once.
            self.chain.clone_from(&seal.hash);
        }
        self.last = seal.last;
        for checkpoint in self.checkpoints.remove(&self.blocks).unwrap_or_default() {
            self.compared += 1;
            if checkpoint.hash != hex::encode(&self.chain) || checkpoint.seq != self.last {
                let what = format!("the checkpoint of {} signed another block {}", checkpoint.at, self.blocks);
                self.fault(Some(checkpoint.seq), what);
            }
        }
    }

    /// The rows behind the last block. May be called again for more.
    pub fn unsealed(&mut self, records: &[AuditRecord]) {
        self.unsealed += records.len() as u64;
        self.take(records);
    }

    /// That was all; `drawn` is the last number that the database says it has given.
    pub fn finish(mut self, drawn: i64) -> Verified {
        if self.rows != drawn {
            self.fault(None, format!("{drawn} rows were written, {} are there", self.rows));
        }
        for checkpoint in std::mem::take(&mut self.checkpoints).into_values().flatten() {
            let what =
                format!("the checkpoint of {} signed block {}, which is not there", checkpoint.at, checkpoint.block);
            self.fault(Some(checkpoint.seq), what);
        }
        if let Some(what) = self.stamps.ended() {
            self.fault(None, what);
        }
        for what in self.words.take().map(Words::compare).unwrap_or_default() {
            self.fault(None, what);
        }
        let erased = self.erasures_hold();
        for seq in std::mem::take(&mut self.missing).into_keys() {
            self.fault(Some(seq), format!("the payload of row {seq} is gone, and no erasure says so"));
        }
        Verified {
            intact: self.faults_total == 0,
            rows: u64::try_from(self.rows).unwrap_or(0),
            blocks: self.blocks,
            unsealed: self.unsealed,
            after_checkpoint: u64::try_from(self.last - self.vouched).unwrap_or(0),
            checkpoints: self.compared,
            erased,
            unsigned: self.stamps.unsigned,
            lines: 0,
            warnings: Vec::new(),
            faults: self.faults,
            faults_total: self.faults_total,
        }
    }

    /// Takes what erasures say out of what is missing; answers how much that was. One that names what it did not erase
    /// erased nothing.
    fn erasures_hold(&mut self) -> u64 {
        let before = self.missing.len();
        for (said_by, ErasedPayloads { payloads, macs_sha256 }) in std::mem::take(&mut self.erasures) {
            let named = |(first, last): &(i64, i64)| *first <= *last && *last < said_by;
            let held =
                payloads.iter().filter(|span| named(span)).flat_map(|(first, last)| self.missing.range(first..=last));
            let held: Vec<(i64, Vec<u8>)> = held.map(|(seq, mac)| (*seq, mac.clone())).collect();
            if macs_sha256.is_some_and(|said| said != macs(held.iter().map(|(seq, mac)| (*seq, mac)))) {
                self.fault(Some(said_by), format!("the erasure of row {said_by} was of other payloads"));
                continue;
            }
            for (seq, _) in held {
                self.missing.remove(&seq);
            }
        }
        (before - self.missing.len()) as u64
    }

    fn take(&mut self, records: &[AuditRecord]) {
        for record in records {
            let AuditRecord { row, payload } = record;
            self.rows += 1;
            if row.seq != self.last + 1 {
                self.fault(Some(row.seq), format!("row {} stands where row {} belongs", row.seq, self.last + 1));
            }
            self.last = row.seq;
            let unsigned = self.stamps.take(row);
            // What nobody signed says nothing.
            let counts = unsigned.is_empty();
            for what in unsigned {
                self.fault(Some(row.seq), what);
            }
            if let Some(words) = self.words.as_mut().filter(|_| counts) {
                words.take(record);
            }
            if counts {
                self.bound.take(row);
            }
            match (payload, &row.payload_mac) {
                (None, Some(mac)) => drop(self.missing.insert(row.seq, mac.clone())),
                (Some(payload), Some(mac)) if payload_mac(payload) == *mac => {}
                (Some(_), _) => self.fault(Some(row.seq), format!("the payload of row {} is another one", row.seq)),
                (None, None) => {}
            }
            if row.kind == AuditKind::Erasure && counts {
                match serde_json::from_str::<ErasedPayloads>(&row.body) {
                    Ok(said) => self.erasures.push((row.seq, said)),
                    Err(_) => self.fault(Some(row.seq), format!("the erasure of row {} cannot be read", row.seq)),
                }
            }
        }
    }

    /// Notes a fault that was seen elsewhere, or here.
    pub fn fault(&mut self, seq: Option<i64>, problem: String) {
        self.faults_total += 1;
        if self.faults.len() < TOLD {
            self.faults.push(AuditFault { seq, problem });
        }
    }
}
