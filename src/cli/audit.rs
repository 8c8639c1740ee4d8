//! `umbra audit`: verifies the audit, lists its rows by filters, and exports all of it as lines of JSON.

mod list;
mod run_comparison;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, Subcommand};

use super::{CommandFailure, GlobalOptions, answer, answer_json, complain, usage};
use umbra_boundary::{
    checkpoints::{self, CheckpointGaps, FILE},
    file_check::FileCheck,
    record_json::line,
    seal::Checkpoint,
    verify::{AuditReport, Verifier},
};
use umbra_domain::audit::AuditRecord;
use umbra_store::{Store, audit::AuditFilter, paging::Feed};

/// Rows, or blocks, of one read.
const PAGE: i64 = 1_000;
/// Longest time in which a server signs its first block once it is sealed.
const FIRST_SIGNATURE: Duration = Duration::from_secs(3);

#[derive(Debug, Subcommand)]
pub(super) enum AuditAction {
    /// Recompute the audit from its first row to its last, and compare it with signed checkpoints and with its files;
    /// exit 1 if anything does not fit.
    #[command(after_help = "\
With the database and the audit's folder it finds: rows that were changed, moved, removed, or added by anything but a \
server; payloads that were removed without a signed erasure; overrides, approvals, runs and sessions that contradict \
the audit; an audit that was rewritten as a whole (checkpoints.jsonl); and lines of the files that differ from their \
rows, compared byte by byte.
With checkpoints that were kept elsewhere (--checkpoint) it also finds changes made before those checkpoints by a \
person who can write to the folder.
With the database and no checkpoint it exits 1 unless the audit is empty, because the whole audit could be made up.
Files without a database cannot be verified: each line is proved by its row.")]
    Verify(AuditVerifyOptions),
    /// List decisions and other rows of a running server, newest first.
    List(Box<list::AuditListOptions>),
    /// Print every row as a line of JSON, oldest first: the same lines as in the files.
    Export,
}

#[derive(Debug, Args)]
pub(super) struct AuditVerifyOptions {
    /// File of checkpoints that was kept elsewhere (checkpoints.jsonl, or its last line), or another server's. Give it
    /// several times for several files; the one in the audit's folder is always compared.
    #[arg(long, value_name = "FILE")]
    checkpoint: Vec<PathBuf>,
    /// Folder that full files (audit-N.jsonl) were moved to; give it several times for several.
    #[arg(long, value_name = "DIR")]
    files: Vec<PathBuf>,
    /// Number of the last row in files that were moved away; rows up to it are not looked for.
    #[arg(long, value_name = "SEQ", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    moved: i64,
}

pub(super) async fn run(global: &GlobalOptions, action: AuditAction) -> Result<(), CommandFailure> {
    let action = match action {
        AuditAction::List(options) => return list::run(global, *options).await,
        action => action,
    };
    let (setup, database) = global.open_existing().await?;
    let done = match action {
        AuditAction::Verify(options) => verify(global, &database.store, &setup.settings.audit_dir(), &options).await,
        AuditAction::Export | AuditAction::List(_) => export(&database.store).await,
    };
    database.close().await;
    done
}

async fn verify(
    global: &GlobalOptions,
    store: &Store,
    dir: &Path,
    options: &AuditVerifyOptions,
) -> Result<(), CommandFailure> {
    let verified = verified(store, dir, options).await?;
    if global.json {
        answer_json(&verified)?;
    } else {
        tell(&verified);
    }
    for warning in &verified.warnings {
        complain(warning);
    }
    if verified.intact { Ok(()) } else { Err(CommandFailure::AlreadyReported) }
}

/// Reads the checkpoints of a folder. Where there must be one, a running server is given the time to sign its first.
async fn signed(own: &Path, must: bool) -> Result<Vec<Checkpoint>, CommandFailure> {
    let deadline = tokio::time::Instant::now() + FIRST_SIGNATURE;
    loop {
        let read = checkpoints::read(own)?;
        if !read.is_empty() || !must || tokio::time::Instant::now() >= deadline {
            return Ok(read);
        }
        tokio::time::sleep(FIRST_SIGNATURE / 30).await;
    }
}

async fn verified(store: &Store, dir: &Path, options: &AuditVerifyOptions) -> Result<AuditReport, CommandFailure> {
    let own = dir.join(FILE);
    // Folders noted before the files are read are in them; rows in the files are in the database before that is read.
    let noted = store.audit().audit_folders().await?;
    let sealed = store.audit().newest_seal().await?.is_some();
    let mut given = Vec::new();
    for path in &options.checkpoint {
        let read = checkpoints::read(path)?;
        if read.is_empty() {
            return usage(format!("{} has no checkpoint: give a checkpoints.jsonl", path.display()));
        }
        given.extend(read);
    }
    let signed = signed(&own, sealed && given.is_empty()).await?;
    let (key, rows) = (checkpoints::public_key(dir)?, checkpoints::existing_row_key(dir)?);
    let mut lines = FileCheck::open(dir, &options.files, options.moved)?;
    let standing = store.decisions().audited_tables().await?;
    let newest_given = given.iter().filter(|one| one.is_genuine()).map(|one| one.block).max().unwrap_or(0);
    let CheckpointGaps { faults, mut warnings } =
        CheckpointGaps::from(&own, &signed, key.as_deref(), &noted, newest_given);
    let others = given.iter().any(|one| one.is_genuine() && key.as_ref().is_some_and(|key| one.key() != *key));
    let signs_nothing = signed.is_empty() && given.is_empty();
    // Keys of the files' owner: the present key, or those of its checkpoints if the key was lost.
    let keys: BTreeSet<Vec<u8>> = signed.iter().map(Checkpoint::key).chain(key.clone()).collect();
    let (no_files, no_key) = (lines.is_empty(), key.is_none());
    let mut verifier = Verifier::new(signed.into_iter().chain(given).collect(), key).with_standing(standing);
    for what in faults {
        verifier.fault(None, what);
    }
    let drawn = read(store, &mut verifier, &mut lines).await?;
    warnings.extend(run_comparison::compare(store, &mut verifier, rows.as_ref(), others).await?);
    if signs_nothing && (sealed || (no_key && drawn > 0)) {
        verifier.fault(
            None,
            format!(
                "{} has no checkpoint, so the whole audit could have been rewritten in the database: restore the file, \
                 or give a copy kept elsewhere, or another server's checkpoints, by --checkpoint",
                own.display()
            ),
        );
    }
    let written = noted.iter().filter(|folder| keys.contains(&folder.key)).map(|folder| folder.written).max();
    let (compared, faults, more) = lines.finish(written.unwrap_or(0))?;
    for (seq, what) in faults {
        verifier.fault(seq, what);
    }
    warnings.extend(if no_files { vec![format!("no file of the audit is in {}", dir.display())] } else { more });
    let mut outcome = verifier.finish(drawn);
    if outcome.unsigned > 0 {
        warnings.push(format!(
            "{} rows are older than the signatures of rows: only checkpoints prove them",
            outcome.unsigned
        ));
    }
    (outcome.lines, outcome.warnings) = (compared, warnings);
    Ok(outcome)
}

/// Reads every row, block by block; returns the last number that was given before the read.
async fn read(store: &Store, verifier: &mut Verifier, lines: &mut FileCheck) -> Result<i64, CommandFailure> {
    // Read first: rows up to this number are compared.
    let drawn = store.upkeep().newest(Feed::Audit).await?;
    let (mut block, mut after) = (0, 0);
    let mut compare = |verifier: &mut Verifier, records: &[AuditRecord]| -> Result<(), CommandFailure> {
        for record in records {
            for (seq, what) in lines.compare(record)? {
                verifier.fault(seq, what);
            }
        }
        Ok(())
    };
    loop {
        let seals = store.audit().seals(block, PAGE).await?;
        for seal in &seals {
            let mut records = Vec::new();
            while after < seal.last {
                let page = store.audit().list(&AuditFilter::default(), after, PAGE.min(seal.last - after)).await?;
                let Some(last) = page.last() else { break };
                after = last.row.seq;
                records.extend(page);
            }
            // Numbers that jump over the block's end belong to the next.
            after = after.max(seal.last);
            records.retain(|record| record.row.seq <= seal.last);
            compare(verifier, &records)?;
            verifier.block(seal, &records);
            block = seal.block.max(block + 1);
        }
        if seals.is_empty() {
            break;
        }
    }
    loop {
        let page = store.audit().list(&AuditFilter::default(), after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.row.seq;
        compare(verifier, &page)?;
        verifier.unsealed(&page);
    }
    // A running server has written more in the meantime.
    Ok(drawn.max(after.min(store.upkeep().newest(Feed::Audit).await?)))
}

fn tell(verified: &AuditReport) {
    let AuditReport {
        rows, blocks, unsealed, after_checkpoint, checkpoints, erased, lines, faults, faults_total, ..
    } = verified;
    for fault in faults {
        answer(&fault.problem);
    }
    let more = faults_total.saturating_sub(faults.len() as u64);
    if more > 0 {
        answer(&format!("and {more} more"));
    }
    let word = if verified.intact { "intact" } else { "NOT INTACT" };
    answer(&format!(
        "{word}: {rows} rows in {blocks} blocks, {checkpoints} checkpoints, {lines} lines of files; {unsealed} rows \
         not sealed yet, {after_checkpoint} after the last checkpoint; {erased} payloads erased on request"
    ));
}

async fn export(store: &Store) -> Result<(), CommandFailure> {
    let mut after = 0;
    loop {
        let page = store.audit().list(&AuditFilter::default(), after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.row.seq;
        let lines: Vec<String> = page.iter().map(|record| line(record).to_string()).collect();
        answer(&lines.join("\n"));
    }
}
