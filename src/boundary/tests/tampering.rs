//! Whoever changes an audit is found, with nothing but the last checkpoint from outside of the database.
//!
//! `UMBRA_SABOTAGE=1` takes that checkpoint away: a full rewrite then goes unseen, and the story must fail.

use jiff::Timestamp;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use ring::{rand::SystemRandom, signature::Ed25519KeyPair};
use uuid::Uuid;

use crate::{
    boundary::{
        seal::{Checkpoint, GENESIS, block, payload_mac},
        verify::{ErasedPayloads, Verified, Verifier},
    },
    domain::audit::{AuditKind, AuditPayload, AuditRecord, AuditRow, AuditSeal},
};

/// An audit as a database has it.
#[derive(Debug, Clone)]
struct Audit {
    records: Vec<AuditRecord>,
    seals: Vec<AuditSeal>,
    drawn: i64,
}

fn record(seq: i64, random: &mut StdRng) -> AuditRecord {
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
        },
        payload: Some(payload),
    }
}

/// Seals everything anew, in blocks of these lengths.
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

/// As `umbra audit verify` reads it: by the numbers that the blocks say.
fn verify(audit: &Audit, checkpoints: Vec<Checkpoint>) -> Verified {
    let mut verifier = Verifier::new(checkpoints);
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

fn key() -> Ed25519KeyPair {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap()
}

const LENGTHS: [usize; 4] = [3, 1, 5, 2];

fn honest(random: &mut StdRng, rows: i64) -> (Audit, Checkpoint) {
    let mut records: Vec<AuditRecord> = (1..=rows).map(|seq| record(seq, random)).collect();
    // Somebody was erased, and a row says so.
    let gone = [2, 3];
    for seq in gone {
        records[seq - 1].payload = None;
    }
    let said = ErasedPayloads::of(&[2, 3]);
    let erasure = records.last_mut().unwrap();
    erasure.row.kind = AuditKind::Erasure;
    erasure.row.body = serde_json::to_string(&said).unwrap();
    erasure.row.payload_mac = None;
    erasure.payload = None;
    let seals = sealed(&records, &LENGTHS);
    let last = seals.last().unwrap();
    let checkpoint = Checkpoint::sign(&key(), last.block, last.last, &last.hash, Timestamp::UNIX_EPOCH);
    (Audit { records, seals, drawn: rows }, checkpoint)
}

/// One row is changed.
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

/// Tampers in one of the ways that somebody has who can do anything to the database.
fn tamper(audit: &mut Audit, random: &mut StdRng) -> &'static str {
    let any = random.random_range(0..audit.records.len());
    let renumber = |audit: &mut Audit| {
        for (record, seq) in audit.records.iter_mut().zip(1..) {
            record.row.seq = seq;
        }
        audit.drawn = i64::try_from(audit.records.len()).unwrap();
    };
    match random.random_range(0..10) {
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
fn what_came_after_the_checkpoint_grows_and_stays_intact() {
    let mut random = StdRng::seed_from_u64(1);
    let (mut audit, checkpoint) = honest(&mut random, 11);
    audit.records.extend((12..=20).map(|seq| record(seq, &mut random)));
    audit.drawn = 20;
    let unsealed = verify(&audit, vec![checkpoint.clone()]);
    assert!(unsealed.intact && unsealed.unsealed == 9 && unsealed.after_checkpoint == 9, "{unsealed:?}");
    audit.seals = sealed(&audit.records, &LENGTHS);
    let whole = verify(&audit, vec![checkpoint]);
    assert!(whole.intact && whole.unsealed == 0 && whole.checkpoints == 1, "{whole:?}");
    // Cut off behind the checkpoint, the numbers tell.
    audit.records.pop();
    audit.seals.retain(|seal| seal.last < 20);
    assert!(!verify(&audit, Vec::new()).intact);
}

#[test]
fn a_checkpoint_that_nobody_signed_is_a_fault() {
    let mut random = StdRng::seed_from_u64(2);
    let (audit, checkpoint) = honest(&mut random, 11);
    for forged in [
        Checkpoint { seq: 10, ..checkpoint.clone() },
        Checkpoint { hash: "00".repeat(32), ..checkpoint.clone() },
        Checkpoint { signature: String::new(), ..checkpoint.clone() },
        Checkpoint { public_key: "AAAA".to_owned(), ..checkpoint },
    ] {
        assert!(!forged.is_genuine() && !verify(&audit, vec![forged]).intact);
    }
}
