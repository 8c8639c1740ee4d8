//! Commands that run with another user's rights. In: one call. Out: the detection, milder for everyday work.

use std::sync::LazyLock;

use super::{
    Detection,
    rows::{CallPattern, CalledWords},
};
use crate::word_lists;
use umbra_analysis::shell::{ProgramCall, targets::is_credential_file};
use umbra_domain::Severity::{Info, Warning};

/// Adds a call that runs with another user's rights.
pub(super) fn detect_raised_rights(call: &ProgramCall, sights: &mut Vec<Detection>) {
    /// Reading, and installing from the system's own sources.
    static EVERYDAY: LazyLock<Vec<CallPattern>> = LazyLock::new(|| {
        word_lists::lines("everyday_as_root").filter_map(|line| CallPattern::parse(line).ok()).collect()
    });
    let Some(wrapper) = &call.raised_by else { return };
    let shown = if call.program == *wrapper { call.shown() } else { format!("{wrapper} {}", call.shown()) };
    let words = CalledWords::of(call);
    let asks = call.program == *wrapper && (call.has_argument("-l") || call.has_argument("-v"));
    let everyday = asks
        || EVERYDAY.iter().any(|pattern| pattern.describes(&words))
            && call.writes.is_empty()
            && !call.args.iter().any(|arg| is_credential_file(&arg.text));
    sights.push(Detection::new(
        "privilege",
        if everyday { Info } else { Warning },
        format!("`{shown}` runs with another user's rights, usually root's."),
    ));
}
