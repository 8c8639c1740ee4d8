//! Same calls from the same records, whatever their order, and however often they come.

use super::{
    captures::{by_trace, captures},
    synthetic::shown,
};
use crate::{AssembledCall, Record, assemble};

/// Linear congruential generator with a fixed seed.
struct Shuffle(u64);

impl Shuffle {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn shuffle(&mut self, records: &mut [Record]) {
        for last in (1..records.len()).rev() {
            records.swap(last, self.below(last + 1));
        }
    }
}

/// Asserts that the order of records and their repetition do not matter, and that a call of some of the records is known
/// again, by an alias, when all have come in one of these orders.
pub(super) fn check_order(name: &str, records: &[Record], arrivals: &[Vec<Record>]) {
    let whole = assemble(records);
    for arrival in arrivals {
        for length in 1..arrival.len() {
            for call in assemble(&arrival[..length]).calls {
                let is_same = |known: &&AssembledCall| {
                    known.kind == call.kind && known.aliases.iter().any(|alias| call.aliases.contains(alias))
                };
                let found = whole.calls.iter().filter(is_same).count();
                assert_eq!(found, 1, "{name}, {length} records: {:?} {:?}", shown(&call), call.aliases);
            }
        }
    }
    for seed in 0..8 {
        let mut shuffled = records.to_vec();
        if seed % 2 == 0 {
            shuffled.extend(records.iter().cloned());
        }
        Shuffle(seed).shuffle(&mut shuffled);
        assert_eq!(whole, assemble(&shuffled), "{name} {seed}");
    }
}

/// Returns records in the order of their end, with the logs first and last.
pub(super) fn usual_arrivals(records: &[Record]) -> Vec<Vec<Record>> {
    let mut by_end = records.to_vec();
    by_end.sort_by_key(|record| (record.is_log, record.end, std::cmp::Reverse(record.start)));
    let mut logs_first = by_end.clone();
    logs_first.sort_by_key(|record| !record.is_log);
    vec![by_end, logs_first]
}

fn any_arrivals(records: &[Record]) -> Vec<Vec<Record>> {
    let shuffled = (0..4).map(|seed| {
        let mut records = records.to_vec();
        Shuffle(seed).shuffle(&mut records);
        records
    });
    shuffled.collect()
}

#[test]
fn order_and_repetition_of_captured_records_do_not_matter() {
    for capture in captures() {
        for (trace, records) in by_trace(&capture.exports) {
            check_order(&format!("{} {trace}", capture.name), &records, &any_arrivals(&records));
        }
    }
}
