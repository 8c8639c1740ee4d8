//! Whether an audit is what it was. In: its blocks and rows in order, and checkpoints from outside of the database. Out:
//! what does not fit. Pure.
//!
//! A row that was changed, moved, added or removed changes its block's hash; whoever computes the chain anew changes the
//! hash that a checkpoint has signed; whoever cuts the end off is behind it. What came after the last checkpoint is
//! covered by the numbers alone, which have no gap.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::seal::{Checkpoint, GENESIS, block, payload_mac};
use crate::domain::audit::{AuditKind, AuditRecord, AuditRow, AuditSeal};

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
}

impl ErasedPayloads {
    /// Numbers in order, put together.
    pub fn of(seqs: &[i64]) -> Self {
        let mut payloads: Vec<(i64, i64)> = Vec::new();
        for seq in seqs {
            match payloads.last_mut() {
                Some((_, last)) if *last + 1 == *seq => *last = *seq,
                _ => payloads.push((*seq, *seq)),
            }
        }
        Self { payloads }
    }
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
    unsealed: u64,
    missing: Vec<i64>,
    erased: Vec<(i64, i64)>,
    faults: Vec<AuditFault>,
    faults_total: u64,
}

impl Verifier {
    /// With what is known from outside.
    pub fn new(checkpoints: Vec<Checkpoint>) -> Self {
        let mut verifier = Self {
            checkpoints: BTreeMap::new(),
            compared: 0,
            vouched: 0,
            chain: GENESIS.to_vec(),
            blocks: 0,
            rows: 0,
            unsealed: 0,
            missing: Vec::new(),
            erased: Vec::new(),
            faults: Vec::new(),
            faults_total: 0,
        };
        for checkpoint in checkpoints {
            if checkpoint.is_genuine() {
                verifier.vouched = verifier.vouched.max(checkpoint.seq);
                verifier.checkpoints.entry(checkpoint.block).or_default().push(checkpoint);
            } else {
                verifier.fault(None, format!("the checkpoint of block {} has no valid signature", checkpoint.block));
            }
        }
        verifier
    }

    /// The next block, as the database has it, with all rows from its first to its last.
    pub fn block(&mut self, seal: &AuditSeal, records: &[AuditRecord]) {
        self.blocks += 1;
        if seal.block != self.blocks {
            self.fault(None, format!("block {} stands where block {} belongs", seal.block, self.blocks));
        }
        if (seal.first, seal.last) != (self.rows + 1, self.rows + i64::try_from(records.len()).unwrap_or(i64::MAX)) {
            let what = format!(
                "block {} says it has rows {} to {}, but {} stand there behind row {}",
                self.blocks,
                seal.first,
                seal.last,
                records.len(),
                self.rows
            );
            self.fault(None, what);
        }
        self.take(records);
        let rows: Vec<AuditRow> = records.iter().map(|record| record.row.clone()).collect();
        self.chain = block(&self.chain, self.blocks, &rows).to_vec();
        if self.chain != seal.hash {
            let what = format!("rows {} to {} are not those that block {} sealed", seal.first, seal.last, self.blocks);
            self.fault(Some(seal.first), what);
        }
        for checkpoint in self.checkpoints.remove(&self.blocks).unwrap_or_default() {
            self.compared += 1;
            if checkpoint.hash != hex::encode(&self.chain) || checkpoint.seq != self.rows {
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
        self.erased.sort_unstable();
        let mut erased = 0;
        for seq in std::mem::take(&mut self.missing) {
            // The last span that begins at or before it; spans of several erasures do not overlap.
            let at = self.erased.partition_point(|(first, _)| *first <= seq);
            if at.checked_sub(1).and_then(|at| self.erased.get(at)).is_some_and(|(_, last)| seq <= *last) {
                erased += 1;
            } else {
                self.fault(Some(seq), format!("the payload of row {seq} is gone, and no erasure says so"));
            }
        }
        Verified {
            intact: self.faults_total == 0,
            rows: u64::try_from(self.rows).unwrap_or(0),
            blocks: self.blocks,
            unsealed: self.unsealed,
            after_checkpoint: u64::try_from(self.rows - self.vouched).unwrap_or(0),
            checkpoints: self.compared,
            erased,
            faults: self.faults,
            faults_total: self.faults_total,
        }
    }

    fn take(&mut self, records: &[AuditRecord]) {
        for AuditRecord { row, payload } in records {
            self.rows += 1;
            if row.seq != self.rows {
                self.fault(Some(row.seq), format!("row {} stands where row {} belongs", row.seq, self.rows));
            }
            match (payload, &row.payload_mac) {
                (None, Some(_)) => self.missing.push(row.seq),
                (Some(payload), Some(mac)) if payload_mac(payload) == *mac => {}
                (Some(_), _) => self.fault(Some(row.seq), format!("the payload of row {} is another one", row.seq)),
                (None, None) => {}
            }
            if row.kind == AuditKind::Erasure {
                match serde_json::from_str::<ErasedPayloads>(&row.body) {
                    Ok(said) => self.erased.extend(said.payloads),
                    Err(_) => self.fault(Some(row.seq), format!("the erasure of row {} cannot be read", row.seq)),
                }
            }
        }
    }

    fn fault(&mut self, seq: Option<i64>, problem: String) {
        self.faults_total += 1;
        if self.faults.len() < TOLD {
            self.faults.push(AuditFault { seq, problem });
        }
    }
}
