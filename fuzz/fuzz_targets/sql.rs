//! Fuzzes the reader of SQL, on any text: it never panics, never runs out of stack, and ends in time.
#![no_main]

use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use umbra_analysis::sql::read;

/// Longest time of one input: a build under fuzz is a few times slower than the product.
const LONGEST: Duration = Duration::from_secs(2);

fuzz_target!(|text: &str| {
    let began = Instant::now();
    let readings = read(text);
    assert!(readings.parsed.iter().flatten().all(|statement| !statement.acts.is_empty()), "a statement does nothing");
    assert!(began.elapsed() < LONGEST, "{} bytes took {:?}", text.len(), began.elapsed());
});
