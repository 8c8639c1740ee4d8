//! Fuzzes exports of OpenTelemetry, as protobuf and as JSON: they are refused, or become calls that have aliases of their
//! own, whatever the order of the records.
#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use umbra_otel::{Encoding, Signal, assemble, decode, normalise};

fuzz_target!(|data: &[u8]| {
    let Some((kind, body)) = data.split_first() else { return };
    let signal = if kind & 1 == 0 { Signal::Traces } else { Signal::Logs };
    let encoding = if kind & 2 == 0 { Encoding::Protobuf } else { Encoding::Json };
    let Ok(export) = decode(signal, encoding, body) else { return };
    let mut records = normalise(&export).records;
    let trace = assemble(&records);
    let mut aliases = HashSet::new();
    for call in &trace.calls {
        assert!(!call.aliases.is_empty(), "a call without an alias");
        for alias in &call.aliases {
            assert!(aliases.insert(alias.clone()), "{alias} is of two calls");
        }
    }
    records.reverse();
    assert_eq!(assemble(&records).calls.len(), trace.calls.len(), "the order matters");
});
