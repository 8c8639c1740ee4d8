//! Tests of tampering: every change of an audit is found by the last checkpoint from outside the database, every
//! addition by the key that rows are signed with, and changes of overrides or approvals by the audit.
//!
//! `UMBRA_SABOTAGE=1` takes that checkpoint away: a full rewrite then stays unseen, and the test must fail.

use jiff::Timestamp;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use ring::{
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair},
};
use serde_json::json;
use uuid::Uuid;

use crate::{
    row_signature::stamp,
    seal::{Checkpoint, GENESIS, block, payload_mac},
    verify::{AuditReport, ErasedPayloads, Verifier},
};
use umbra_domain::{
    ApprovalId, ApprovalState, Execution, Override, OverrideId, OverrideScope,
    audit::{AuditKind, AuditPayload, AuditRecord, AuditRow, AuditSeal, AuditedTables, StoredApproval, StoredOverride},
};

/// An audit as a database has it.
#[derive(Debug, Clone)]
struct Audit {
    records: Vec<AuditRecord>,
    seals: Vec<AuditSeal>,
    drawn: i64,
    /// Public key of the server that wrote it.
    key: Vec<u8>,
    /// Overrides and approvals beside it.
    standing: AuditedTables,
}

pub(super) fn record(seq: i64, random: &mut StdRng) -> AuditRecord {
    let payload = AuditPayload {
        salt: random.random::<[u8; 16]>().to_vec(),
        body: format!("{{\"args\":{{\"amount\":{}}}}}", random.random_range(0..1000)),
    };
    let name = |random: &mut StdRng, what: &str| Some(format!("{what}-{}", random.random_range(0..3)));
    let kind = if random.random_ratio(1, 4) { AuditKind::Outcome } else { AuditKind::Decision };
    AuditRecord {
        row: AuditRow {
            seq,
            id: Uuid::from_u128(random.random()),
            at: Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_millis(seq * 1000),
            kind,
            agent: name(random, "agent"),
            session: None,
            run: name(random, "run"),
            call_id: Some(format!("call-{seq}")),
            tool: name(random, "tool"),
            body: r#"{"decision":"block"}"#.to_owned(),
            payload_mac: Some(payload_mac(&payload)),
            signature: None,
        },
        payload: Some(payload),
    }
}

/// Seals all rows, in blocks of these lengths.
fn sealed(records: &[AuditRecord], lengths: &[usize]) -> Vec<AuditSeal> {
    let (mut seals, mut previous, mut at) = (Vec::new(), GENESIS.to_vec(), 0);
    for (length, number) in lengths.iter().cycle().zip(1..) {
        let rows: Vec<AuditRow> = records[at..].iter().take(*length).map(|record| record.row.clone()).collect();
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { break };
        let hash = block(&previous, number, &rows).to_vec();
        seals.push(AuditSeal { block: number, first: first.seq, last: last.seq, hash: hash.clone() });
        previous = hash;
        at += rows.len();
    }
    seals
}

/// Verifies as `umbra audit verify` does: by the row numbers of the blocks.
fn verify(audit: &Audit, checkpoints: Vec<Checkpoint>) -> AuditReport {
    let mut verifier = Verifier::new(checkpoints, [audit.key.clone()]).with_standing(audit.standing.clone());
    let mut after = 0;
    for seal in &audit.seals {
        let in_block = |record: &&AuditRecord| record.row.seq > after && record.row.seq <= seal.last;
        let records: Vec<AuditRecord> = audit.records.iter().filter(in_block).cloned().collect();
        verifier.block(seal, &records);
        after = seal.last;
    }
    let rest: Vec<AuditRecord> = audit.records.iter().filter(|record| record.row.seq > after).cloned().collect();
    verifier.unsealed(&rest);
    verifier.finish(audit.drawn)
}

pub(super) fn key() -> Ed25519KeyPair {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap()
}

const LENGTHS: [usize; 4] = [3, 1, 5, 2];

/// Signs rows as the transactions of a server do, with these numbers of rows in each.
fn sign(records: &mut [AuditRecord], key: &Ed25519KeyPair, lengths: &[usize]) {
    let (mut lengths, mut rest) = (lengths.iter().cycle(), records);
    while let Some(length) = lengths.next().filter(|_| !rest.is_empty()) {
        let (together, others) = rest.split_at_mut((*length).min(rest.len()));
        let signed = stamp(key, &together.iter().map(|record| record.row.signed_content()).collect::<Vec<_>>());
        together[0].row.signature = Some(signed);
        rest = others;
    }
}

/// Adds a row at the end, which a sealer takes for genuine.
fn append(audit: &mut Audit, mut record: AuditRecord) {
    audit.drawn += 1;
    record.row.seq = audit.drawn;
    let last = audit.seals.last().unwrap();
    let hash = block(&last.hash, last.block + 1, std::slice::from_ref(&record.row)).to_vec();
    audit.seals.push(AuditSeal { block: last.block + 1, first: audit.drawn, last: audit.drawn, hash });
    audit.records.push(record);
}

/// Rows whose payloads are gone, with their MACs.
type Gone = Vec<(i64, Vec<u8>)>;

/// Row of an erasure of these payloads.
fn erasure(gone: &[(i64, Vec<u8>)], random: &mut StdRng) -> AuditRecord {
    let mut said = record(0, random);
    said.row.kind = AuditKind::Erasure;
    said.row.body = serde_json::to_string(&ErasedPayloads::of(gone)).unwrap();
    (said.row.payload_mac, said.payload) = (None, None);
    said
}

/// Turns four rows into those of an override that is set and an approval that is used; returns both.
fn stand(records: &mut [AuditRecord], seq: i64) -> AuditedTables {
    let said = Override {
        id: OverrideId(Uuid::from_u128(7)),
        scope: OverrideScope::Global,
        value: String::new(),
        execution: Execution::Shadow,
        reason: "drill".to_owned(),
        set_at: Timestamp::UNIX_EPOCH,
        expires_at: None,
    };
    let approval = StoredApproval {
        id: ApprovalId(Uuid::from_u128(8)),
        agent: "agent".to_owned(),
        tool: "tool".to_owned(),
        digest: "00".to_owned(),
        state: ApprovalState::Used,
        expires_at: Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(1),
        keyed: true,
    };
    let of = |decision: &str| json!({"approval": approval.id, "decision": decision, "expires_at": approval.expires_at});
    let bodies = [
        (AuditKind::Execution, json!({"change": "set", "override": said})),
        (AuditKind::Decision, of("ask")),
        (AuditKind::Approval, of("approve")),
        (AuditKind::Approval, of("used")),
    ];
    for (record, (kind, body)) in records.iter_mut().zip(bodies) {
        let payload = AuditPayload { salt: vec![7; 16], body: json!({"digest": approval.digest}).to_string() };
        let AuditRecord { row, payload: kept } = record;
        (row.kind, row.body, row.payload_mac) = (kind, body.to_string(), Some(payload_mac(&payload)));
        (row.agent, row.tool, *kept) = (Some(approval.agent.clone()), Some(approval.tool.clone()), Some(payload));
    }
    let overrides = vec![StoredOverride { setting: said, keyed: true }];
    AuditedTables { now: Timestamp::UNIX_EPOCH, seq, overrides, approvals: vec![approval] }
}

/// Changes overrides or approvals, and leaves the audit alone.
fn stand_otherwise(standing: &mut AuditedTables, random: &mut StdRng) -> &'static str {
    let AuditedTables { overrides, approvals, .. } = standing;
    let later = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(9);
    match random.random_range(0..12) {
        0 => overrides.clear(),
        1 => overrides[0].setting.execution = Execution::Live,
        2 => overrides[0].setting.expires_at = Some(later),
        3 => overrides[0].setting.id = OverrideId(Uuid::from_u128(random.random())),
        4 => overrides[0].setting.set_at = later,
        5 => {
            let mut copy = overrides[0].clone();
            (copy.setting.scope, copy.setting.value) = (OverrideScope::Tool, "mail.*".to_owned());
            overrides.push(copy);
        }
        6 => {
            approvals[0].state =
                [ApprovalState::Approved, ApprovalState::Pending, ApprovalState::Denied][random.random_range(0..3)];
        }
        7 => approvals[0].digest = "01".to_owned(),
        8 => approvals[0].expires_at = later,
        9 => approvals[0].tool = "other".to_owned(),
        10 => approvals.clear(),
        _ => {
            let id = ApprovalId(Uuid::from_u128(random.random()));
            approvals.push(StoredApproval { id, state: ApprovalState::Approved, ..approvals[0].clone() });
        }
    }
    "an override or an approval was changed, added or removed"
}

fn honest(random: &mut StdRng, rows: i64) -> (Audit, Checkpoint) {
    let mut records: Vec<AuditRecord> = (1..=rows).map(|seq| record(seq, random)).collect();
    // Two payloads were erased, and a row says so.
    let mut gone = Vec::new();
    for seq in [2, 3] {
        records[seq - 1].payload = None;
        gone.push((i64::try_from(seq).unwrap(), records[seq - 1].row.payload_mac.clone().unwrap()));
    }
    let standing = stand(&mut records[4..8], rows);
    *records.last_mut().unwrap() = erasure(&gone, random);
    records.last_mut().unwrap().row.seq = rows;
    let key = key();
    sign(&mut records, &key, &[6, 1, 8]);
    let seals = sealed(&records, &LENGTHS);
    let checkpoint = Checkpoint::sign(&key, seals.last().unwrap(), Timestamp::UNIX_EPOCH, (0, 0));
    (Audit { records, seals, drawn: rows, key: key.public_key().as_ref().to_vec(), standing }, checkpoint)
}

/// Changes one row.
fn edit(record: &mut AuditRecord, random: &mut StdRng) {
    let row = &mut record.row;
    match random.random_range(0..9) {
        0 => row.agent = Some("somebody-else".to_owned()),
        1 => row.body = r#"{"decision":"execute"}"#.to_owned(),
        2 => row.at += jiff::SignedDuration::from_millis(1),
        3 => row.id = Uuid::from_u128(random.random()),
        4 => row.tool = None,
        5 => row.call_id = Some(String::new()),
        6 => row.session = Some(String::new()),
        7 => row.kind = AuditKind::Merged,
        _ => {
            let payload = AuditPayload { salt: vec![1; 16], body: "{}".to_owned() };
            row.payload_mac = Some(payload_mac(&payload));
            record.payload = Some(payload);
        }
    }
}

/// Adds a row between two passes of the sealer, which seals it as if it were genuine; some of these rows hide that a
/// payload is gone.
fn add(audit: &mut Audit, random: &mut StdRng) -> &'static str {
    let held: Vec<usize> = (0..audit.records.len()).filter(|at| audit.records[*at].payload.is_some()).collect();
    let at = held[random.random_range(0..held.len())];
    let gone = (audit.records[at].row.seq, audit.records[at].row.payload_mac.clone().unwrap());
    let (mut forged, how) = match random.random_range(0..6) {
        0 => (record(0, random), "a row that nobody signed was added"),
        1 => {
            let mut late = record(0, random);
            late.row.kind = AuditKind::Merged;
            (late, "a late call that nobody signed was added")
        }
        2 => {
            let mut own = [record(0, random)];
            sign(&mut own, &key(), &[1]);
            let [own] = own;
            (own, "a row signed with another key was added")
        }
        3 => (audit.records[at].clone(), "a row was copied"),
        4 => {
            let mut borrowed = record(0, random);
            borrowed.row.signature.clone_from(&audit.records[0].row.signature);
            (borrowed, "a row with another one's signature was added")
        }
        _ => {
            audit.records[at].payload = None;
            (erasure(std::slice::from_ref(&gone), random), "a payload went, and a forged erasure says so")
        }
    };
    if random.random_ratio(1, 4) {
        // The genuine erasure again, forged to be of another row.
        audit.records[at].payload = None;
        forged = audit.records.iter().find(|record| record.row.kind == AuditKind::Erasure).unwrap().clone();
        forged.row.id = Uuid::from_u128(random.random());
        forged.row.body = serde_json::to_string(&ErasedPayloads::of(&[gone])).unwrap();
    }
    append(audit, forged);
    how
}

/// Tampers in a way open to an attacker with full access to the database.
fn tamper(audit: &mut Audit, random: &mut StdRng) -> &'static str {
    let any = random.random_range(0..audit.records.len());
    let renumber = |audit: &mut Audit| {
        for (record, seq) in audit.records.iter_mut().zip(1..) {
            record.row.seq = seq;
        }
        audit.drawn = i64::try_from(audit.records.len()).unwrap();
    };
    match random.random_range(0..15) {
        10 | 11 => add(audit, random),
        13 | 14 => stand_otherwise(&mut audit.standing, random),
        12 => {
            let stamped: Vec<usize> =
                (0..audit.records.len()).filter(|at| audit.records[*at].row.signature.is_some()).collect();
            audit.records[stamped[any % stamped.len()]].row.signature = None;
            "a signature was taken off"
        }
        0 => {
            edit(&mut audit.records[any], random);
            "a row was changed"
        }
        1 => {
            audit.records.remove(any);
            "a row was removed"
        }
        2 => {
            audit.records.remove(any);
            renumber(audit);
            audit.seals = sealed(&audit.records, &LENGTHS);
            "a row was removed, and everything sealed anew"
        }
        3 => {
            let other = (any + 1) % audit.records.len();
            audit.records.swap(any, other);
            renumber(audit);
            "two rows changed places"
        }
        4 => {
            audit.records.truncate(any);
            audit.drawn = i64::try_from(any).unwrap();
            audit.seals.retain(|seal| seal.last <= audit.drawn);
            "the end was cut off, blocks and all"
        }
        5 => {
            edit(&mut audit.records[any], random);
            audit.seals = sealed(&audit.records, &LENGTHS);
            "a row was changed, and everything sealed anew"
        }
        6 => {
            audit.records.shuffle(random);
            renumber(audit);
            let lengths: Vec<usize> = (0..7).map(|_| random.random_range(1..6)).collect();
            edit(&mut audit.records[any], random);
            audit.seals = sealed(&audit.records, &lengths);
            "everything was written anew"
        }
        7 => {
            let new = record(0, random);
            audit.records.insert(any, new);
            renumber(audit);
            audit.seals = sealed(&audit.records, &LENGTHS);
            "a row was added, and everything sealed anew"
        }
        8 => {
            let held: Vec<usize> = (0..audit.records.len()).filter(|at| audit.records[*at].payload.is_some()).collect();
            audit.records[held[any % held.len()]].payload = None;
            "a payload went without a word"
        }
        _ => {
            let held: Vec<usize> = (0..audit.records.len()).filter(|at| audit.records[*at].payload.is_some()).collect();
            if let Some(payload) = &mut audit.records[held[any % held.len()]].payload {
                payload.body.push(' ');
            }
            "a payload was changed"
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the switch that breaks what is tested is a variable")]
fn ten_thousand_tamperings_are_found() {
    let sabotage = std::env::var_os("UMBRA_SABOTAGE").is_some_and(|value| value == "1");
    let mut random = StdRng::seed_from_u64(7817);
    let (honest, checkpoint) = honest(&mut random, 24);
    let known = || if sabotage { Vec::new() } else { vec![checkpoint.clone()] };
    let clean = verify(&honest, known());
    assert!(clean.intact && clean.erased == 2 && clean.rows == 24, "{clean:?}");
    for n in 0..10_000 {
        let mut tampered = honest.clone();
        let how = tamper(&mut tampered, &mut random);
        assert!(!verify(&tampered, known()).intact, "{n}: {how}: not found");
    }
}

#[test]
fn a_missing_row_is_a_fault_of_its_block_alone() {
    let mut random = StdRng::seed_from_u64(5);
    let (audit, checkpoint) = honest(&mut random, 60);
    for seq in [1, 8, 30] {
        let mut audit = audit.clone();
        audit.records.retain(|record| record.row.seq != seq);
        let said = verify(&audit, vec![checkpoint.clone()]);
        let problems: Vec<&str> = said.faults.iter().map(|fault| fault.problem.as_str()).collect();
        assert_eq!(problems.iter().filter(|what| what.contains("block")).count(), 2, "{seq}: {problems:#?}");
        let after = format!("row {} is in the place of row {seq}", seq + 1);
        assert!(problems.contains(&after.as_str()), "{problems:#?}");
    }
}

#[test]
fn rows_after_the_checkpoint_verify_by_known_checkpoints() {
    let mut random = StdRng::seed_from_u64(1);
    let (mut audit, checkpoint) = honest(&mut random, 11);
    let mut later: Vec<AuditRecord> = (12..=20).map(|seq| record(seq, &mut random)).collect();
    let other = key();
    sign(&mut later, &other, &[2]);
    audit.records.extend(later);
    audit.drawn = 20;
    // Rows of another server are trusted by its checkpoints.
    let theirs = Checkpoint::sign(&other, audit.seals.last().unwrap(), Timestamp::UNIX_EPOCH, (0, 0));
    let unknown = verify(&audit, vec![checkpoint.clone()]);
    assert!(!unknown.intact && unknown.faults[0].problem.contains("--checkpoint"), "{unknown:?}");
    let known = || vec![checkpoint.clone(), theirs.clone()];
    let unsealed = verify(&audit, known());
    assert!(unsealed.intact && unsealed.unsealed == 9 && unsealed.after_checkpoint == 9, "{unsealed:?}");
    audit.seals = sealed(&audit.records, &LENGTHS);
    let whole = verify(&audit, known());
    assert!(whole.intact && whole.unsealed == 0 && whole.checkpoints == 2, "{whole:?}");
    // If the end behind the checkpoint is cut off, the row numbers tell.
    audit.records.pop();
    audit.seals.retain(|seal| seal.last < 20);
    assert!(!verify(&audit, Vec::new()).intact);
}

#[test]
fn forged_checkpoints_are_a_fault() {
    let mut random = StdRng::seed_from_u64(2);
    let (audit, checkpoint) = honest(&mut random, 11);
    for forged in [
        Checkpoint { seq: 10, ..checkpoint.clone() },
        Checkpoint { hash: "00".repeat(32), ..checkpoint.clone() },
        Checkpoint { signature: String::new(), ..checkpoint.clone() },
        Checkpoint { previous: Some(3), ..checkpoint.clone() },
        Checkpoint { unsigned: Some(9), ..checkpoint.clone() },
        Checkpoint { previous: None, unsigned: None, ..checkpoint.clone() },
        Checkpoint { public_key: "AAAA".to_owned(), ..checkpoint },
    ] {
        assert!(!forged.is_genuine() && !verify(&audit, vec![forged]).intact);
    }
}

#[test]
fn unsigned_rows_are_counted_and_refused_after_signed_ones() {
    let mut random = StdRng::seed_from_u64(3);
    let mut records: Vec<AuditRecord> = (1..=9).map(|seq| record(seq, &mut random)).collect();
    let key = key();
    sign(&mut records[5..], &key, &[2]);
    let seals = sealed(&records, &LENGTHS);
    let mut audit =
        Audit { records, seals, drawn: 9, key: key.public_key().as_ref().to_vec(), standing: AuditedTables::default() };
    let old = verify(&audit, Vec::new());
    assert!(old.intact && old.unsigned == 5, "{old:?}");
    // A checkpoint tells since when rows are signed: later unsigned rows do not pass for old ones.
    let sign = |unsigned| vec![Checkpoint::sign(&key, &audit.seals[0], Timestamp::UNIX_EPOCH, (0, unsigned))];
    assert!(verify(&audit, sign(5)).intact);
    assert!(!verify(&audit, sign(4)).intact);
    append(&mut audit, record(0, &mut random));
    assert!(!verify(&audit, Vec::new()).intact);
}

#[test]
fn erasure_covers_only_named_payloads_of_earlier_rows() {
    let mut random = StdRng::seed_from_u64(4);
    let key = key();
    let audit = |said: &dyn Fn(&[AuditRecord]) -> Gone, random: &mut StdRng| {
        let mut records: Vec<AuditRecord> = (1..=6).map(|seq| record(seq, random)).collect();
        records[1].payload = None;
        let mut said = erasure(&said(&records), random);
        said.row.seq = 4;
        records[3] = said;
        sign(&mut records, &key, &[1]);
        let seals = sealed(&records, &LENGTHS);
        Audit { records, seals, drawn: 6, key: key.public_key().as_ref().to_vec(), standing: AuditedTables::default() }
    };
    let mac = |records: &[AuditRecord], at: usize| records[at].row.payload_mac.clone().unwrap();
    assert!(verify(&audit(&|rows| vec![(2, mac(rows, 1))], &mut random), Vec::new()).intact);
    assert!(!verify(&audit(&|rows| vec![(2, mac(rows, 2))], &mut random), Vec::new()).intact, "another payload");
    assert!(!verify(&audit(&|rows| vec![(3, mac(rows, 2))], &mut random), Vec::new()).intact, "another row");
    // The erasure cannot cover a row that came after it.
    let mut later = audit(&|rows| vec![(2, mac(rows, 1)), (6, mac(rows, 5))], &mut random);
    later.records[5].payload = None;
    later.seals = sealed(&later.records, &LENGTHS);
    assert!(!verify(&later, Vec::new()).intact, "a later row");
}
