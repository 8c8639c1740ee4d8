//! `umbra audit`: whether the audit is what it was, and all of it as lines of JSON.

use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::{Failure, Global, answer, answer_json, complain};
use crate::{
    boundary::{
        checkpoints::{self, FILE},
        line::line,
        verify::{Verified, Verifier},
    },
    store::{Store, StoreError, audit::AuditFilter, seek::Feed},
};

/// Rows, and blocks, of one read.
const PAGE: i64 = 1_000;

#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Recompute the chain from the first row to the last and compare it with signed checkpoints; exit 1 if anything does
    /// not fit.
    Verify {
        /// A file of checkpoints that was kept elsewhere (checkpoints.jsonl, or its last line); the one in the audit's
        /// folder without it.
        #[arg(long, value_name = "FILE")]
        checkpoint: Option<PathBuf>,
    },
    /// Print every row as a line of JSON, oldest first.
    Export,
}

pub(super) async fn run(global: &Global, action: Action) -> Result<(), Failure> {
    let (setup, database) = global.open_existing().await?;
    let done = match action {
        Action::Verify { checkpoint } => {
            let given = checkpoint.is_some();
            let path = checkpoint.unwrap_or_else(|| setup.audit_dir().join(FILE));
            verify(global, &database.store, &path, given).await
        }
        Action::Export => export(&database.store).await,
    };
    database.close().await;
    done
}

async fn verify(global: &Global, store: &Store, path: &Path, given: bool) -> Result<(), Failure> {
    let checkpoints = checkpoints::read(path)?;
    if given && checkpoints.is_empty() {
        return Err(Failure::Usage(format!("{} holds no checkpoint", path.display())));
    }
    let known = !checkpoints.is_empty();
    let verified = verified(store, Verifier::new(checkpoints)).await?;
    if global.json {
        answer_json(&verified)?;
    } else {
        tell(&verified);
    }
    if !known {
        complain(&format!(
            "{} is not there: who can change the database could have written all of it anew",
            path.display()
        ));
    }
    if verified.intact { Ok(()) } else { Err(Failure::Said) }
}

async fn verified(store: &Store, mut verifier: Verifier) -> Result<Verified, StoreError> {
    // Read first: whatever is there by then is compared.
    let mut drawn = store.newest(Feed::Audit).await?;
    let (mut block, mut after) = (0, 0);
    loop {
        let seals = store.seals(block, PAGE).await?;
        for seal in &seals {
            let mut records = Vec::new();
            while after < seal.last {
                let page = store.audit(&AuditFilter::default(), after, PAGE.min(seal.last - after)).await?;
                let Some(last) = page.last() else { break };
                after = last.row.seq;
                records.extend(page);
            }
            // Numbers that jump over the block's end belong to the next.
            after = after.max(seal.last);
            records.retain(|record| record.row.seq <= seal.last);
            verifier.block(seal, &records);
            block = seal.block.max(block + 1);
        }
        if seals.is_empty() {
            break;
        }
    }
    loop {
        let page = store.audit(&AuditFilter::default(), after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.row.seq;
        verifier.unsealed(&page);
    }
    // A running server has written more meanwhile.
    drawn = drawn.max(after.min(store.newest(Feed::Audit).await?));
    Ok(verifier.finish(drawn))
}

fn tell(verified: &Verified) {
    let Verified { rows, blocks, unsealed, after_checkpoint, checkpoints, erased, faults, faults_total, .. } = verified;
    for fault in faults {
        answer(&fault.problem);
    }
    let more = faults_total.saturating_sub(faults.len() as u64);
    if more > 0 {
        answer(&format!("and {more} more"));
    }
    let word = if verified.intact { "intact" } else { "TAMPERED WITH" };
    answer(&format!(
        "{word}: {rows} rows in {blocks} blocks, {checkpoints} checkpoints; {unsealed} rows not sealed yet, {after_checkpoint} \
         behind the last checkpoint; {erased} payloads erased on request"
    ));
}

async fn export(store: &Store) -> Result<(), Failure> {
    let mut after = 0;
    loop {
        let page = store.audit(&AuditFilter::default(), after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.row.seq;
        let lines: Vec<String> = page.iter().map(|record| line(record).to_string()).collect();
        answer(&lines.join("\n"));
    }
}
