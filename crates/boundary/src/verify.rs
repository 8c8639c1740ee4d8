//! Verifies that an audit is unchanged. In: its blocks and rows in order, and checkpoints from outside the database.
//! Out: every fault. Pure.
//!
//! A changed, moved, added or removed row changes the hash of its block. A recomputed chain differs from the hash that
//! a checkpoint has signed, and a truncated one ends before it. Rows after the last checkpoint are covered by their
//! gapless numbers and by the signatures of the processes that wrote them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    row_signature::SignatureCheck,
    run_check::AuditedBindings,
    seal::{Checkpoint, GENESIS, block, payload_mac},
    table_check::TableCheck,
};
use umbra_domain::audit::{AuditKind, AuditRecord, AuditRow, AuditSeal, AuditedTables};

/// Most faults that are listed; the rest are counted.
const TOLD: usize = 100;

/// A fault of the audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditFault {
    /// Number of the row concerned, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    /// Description of the fault.
    pub problem: String,
}

/// Result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    /// True if there is no fault.
    pub intact: bool,
    /// Rows that were read.
    pub rows: u64,
    /// Blocks that were recomputed.
    pub blocks: i64,
    /// Rows after the newest block, not sealed yet.
    pub unsealed: u64,
    /// Rows after the newest checkpoint, which vouches only for rows up to it.
    pub after_checkpoint: u64,
    /// Checkpoints that were compared.
    pub checkpoints: usize,
    /// Payloads that were erased, according to rows of the audit.
    pub erased: u64,
    /// Rows from before rows were signed.
    pub unsigned: u64,
    /// Lines of files that were compared with their rows.
    pub lines: u64,
    /// Notes that are no faults.
    pub warnings: Vec<String>,
    /// Faults, at most 100.
    pub faults: Vec<AuditFault>,
    /// Number of all faults.
    pub faults_total: u64,
}

/// Body of an erasure's row: the ranges of rows whose payloads were erased.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ErasedPayloads {
    /// First and last row of each range, both included, in order.
    pub payloads: Vec<(i64, i64)>,
    /// SHA-256 over the row numbers and MACs of these payloads, in hex; none in erasures from before rows were signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub macs_sha256: Option<String>,
}

impl ErasedPayloads {
    /// Builds the body from row numbers, in order, with the MACs of their payloads.
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

/// SHA-256 over row numbers and payload MACs.
fn macs<'m>(gone: impl Iterator<Item = (i64, &'m Vec<u8>)>) -> String {
    let mut hash = Sha256::new();
    for (seq, mac) in gone {
        hash.update(seq.to_be_bytes());
        hash.update((mac.len() as u64).to_be_bytes());
        hash.update(mac);
    }
    hex::encode(hash.finalize())
}

/// Verifier of an audit, which is read from its first row to its last.
#[derive(Debug, Default)]
pub struct Verifier {
    checkpoints: BTreeMap<i64, Vec<Checkpoint>>,
    compared: usize,
    /// Last row that any checkpoint has signed.
    vouched: i64,
    chain: Vec<u8>,
    blocks: i64,
    rows: i64,
    /// Number of the last row that was read, or that the last block should hold.
    last: i64,
    unsealed: u64,
    stamps: SignatureCheck,
    /// Rows whose payload is gone, with its MAC.
    missing: BTreeMap<i64, Vec<u8>>,
    /// Erasures, each with its own row number.
    erasures: Vec<(i64, ErasedPayloads)>,
    words: Option<TableCheck>,
    bound: AuditedBindings,
    faults: Vec<AuditFault>,
    faults_total: u64,
}

impl Verifier {
    /// Starts with trust from outside the database: the keys of genuine checkpoints, and other trusted keys.
    pub fn new(checkpoints: Vec<Checkpoint>, keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut verifier = Self { chain: GENESIS.to_vec(), stamps: SignatureCheck::of(keys), ..Self::default() };
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

    /// Compares overrides and approvals with the audit as well.
    #[must_use]
    pub fn with_standing(mut self, standing: AuditedTables) -> Self {
        self.words = Some(TableCheck::on(standing));
        self
    }

    /// Shadow runs and session labels according to the rows that were read.
    pub fn bound(&self) -> &AuditedBindings {
        &self.bound
    }

    /// Verifies the next block of the database, with all rows from its first to its last.
    pub fn block(&mut self, seal: &AuditSeal, records: &[AuditRecord]) {
        self.blocks += 1;
        if seal.block != self.blocks {
            self.fault(None, format!("block {} is in the place of block {}", seal.block, self.blocks));
        }
        if (seal.first, seal.last) != (self.last + 1, self.last + i64::try_from(records.len()).unwrap_or(i64::MAX)) {
            let what = format!(
                "block {} should have rows {} to {}, but {} rows follow row {}",
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
            let what =
                format!("rows {} to {} are not the rows that block {} sealed", seal.first, seal.last, self.blocks);
            self.fault(Some(seal.first), what);
            // Go on from the stored hash, so that one missing row is reported once.
            self.chain.clone_from(&seal.hash);
        }
        self.last = seal.last;
        for checkpoint in self.checkpoints.remove(&self.blocks).unwrap_or_default() {
            self.compared += 1;
            if checkpoint.hash != hex::encode(&self.chain) || checkpoint.seq != self.last {
                let what = format!("the checkpoint of {} signed a different block {}", checkpoint.at, self.blocks);
                self.fault(Some(checkpoint.seq), what);
            }
        }
    }

    /// Verifies rows after the last block. May be called again for more.
    pub fn unsealed(&mut self, records: &[AuditRecord]) {
        self.unsealed += records.len() as u64;
        self.take(records);
    }

    /// Finishes the verification; `drawn` is the last row number that the database has given.
    pub fn finish(mut self, drawn: i64) -> AuditReport {
        if self.rows != drawn {
            self.fault(None, format!("{drawn} rows were written, but {} exist", self.rows));
        }
        for checkpoint in std::mem::take(&mut self.checkpoints).into_values().flatten() {
            let what =
                format!("the checkpoint of {} signed block {}, which is missing", checkpoint.at, checkpoint.block);
            self.fault(Some(checkpoint.seq), what);
        }
        if let Some(what) = self.stamps.ended() {
            self.fault(None, what);
        }
        for what in self.words.take().map(TableCheck::compare).unwrap_or_default() {
            self.fault(None, what);
        }
        let erased = self.erasures_hold();
        for seq in std::mem::take(&mut self.missing).into_keys() {
            self.fault(Some(seq), format!("the payload of row {seq} is missing, and no erasure covers it"));
        }
        AuditReport {
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

    /// Removes erased payloads from `missing` and returns their number. An erasure whose hash does not match its rows
    /// is a fault and removes none.
    fn erasures_hold(&mut self) -> u64 {
        let before = self.missing.len();
        for (said_by, ErasedPayloads { payloads, macs_sha256 }) in std::mem::take(&mut self.erasures) {
            let named = |(first, last): &(i64, i64)| *first <= *last && *last < said_by;
            let held =
                payloads.iter().filter(|span| named(span)).flat_map(|(first, last)| self.missing.range(first..=last));
            let held: Vec<(i64, Vec<u8>)> = held.map(|(seq, mac)| (*seq, mac.clone())).collect();
            if macs_sha256.is_some_and(|said| said != macs(held.iter().map(|(seq, mac)| (*seq, mac)))) {
                self.fault(Some(said_by), format!("the erasure of row {said_by} does not match the erased payloads"));
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
                self.fault(Some(row.seq), format!("row {} is in the place of row {}", row.seq, self.last + 1));
            }
            self.last = row.seq;
            let unsigned = self.stamps.take(row);
            // Rows with a faulty signature are no evidence.
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
                (Some(_), _) => {
                    self.fault(Some(row.seq), format!("the payload of row {} is not the one that was signed", row.seq));
                }
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

    /// Records a fault that was found here or by the caller.
    pub fn fault(&mut self, seq: Option<i64>, problem: String) {
        self.faults_total += 1;
        if self.faults.len() < TOLD {
            self.faults.push(AuditFault { seq, problem });
        }
    }
}
