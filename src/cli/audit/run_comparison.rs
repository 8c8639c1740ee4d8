//! Compares runs and sessions, row by row, with their keyed hashes and with the audit.

use super::{CommandFailure, PAGE};
use umbra_boundary::{row_mac::RowKey, run_check::RowCheck, verify::Verifier};
use umbra_store::Store;

/// Records each difference as a fault and returns warnings. Called after the audit was read: a row is never older than
/// the audit's last record of it. `others`: servers with keys of their own write to this database, too.
pub(super) async fn compare(
    store: &Store,
    verifier: &mut Verifier,
    key: Option<&RowKey>,
    others: bool,
) -> Result<Vec<String>, CommandFailure> {
    let (mut warnings, mut by_others) = (Vec::new(), 0);
    let (mut after, mut of_before) = (Default::default(), 0_u64);
    loop {
        let page = store.decisions().standing_runs(&after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = (last.agent.clone(), last.run.clone());
        for run in &page {
            of_before += take(verifier, verifier.bound().run(key, run), others.then_some(&mut by_others));
        }
    }
    if of_before > 0 {
        warnings.push(format!(
            "{of_before} runs are older than the keyed hashes of runs and have none: they count as shadow"
        ));
    }
    after = Default::default();
    loop {
        let page = store.decisions().standing_sessions(&after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = (last.agent.clone(), last.session.clone());
        for session in &page {
            take(verifier, verifier.bound().session(session), None);
        }
    }
    if by_others > 0 {
        warnings.push(format!(
            "{by_others} runs were not written with this folder's key, and may belong to the servers whose checkpoints \
             were given: give all servers the same checkpoint-key"
        ));
    }
    Ok(warnings)
}

/// Records a misfit; returns 1 for a row from before keyed hashes. `others` counts rows that other servers may have
/// written.
fn take(verifier: &mut Verifier, thought: RowCheck, others: Option<&mut u64>) -> u64 {
    match (thought, others) {
        (RowCheck::OtherKey(_), Some(others)) => {
            *others += 1;
            0
        }
        (RowCheck::Fits, _) => 0,
        (RowCheck::WithoutMac, _) => 1,
        (RowCheck::Contradicted(what) | RowCheck::OtherKey(what), _) => {
            verifier.fault(None, what);
            0
        }
    }
}
