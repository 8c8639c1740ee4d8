//! `umbra erase`: erases the contents of an agent's or a task's data, while servers may be running.

use std::{io::IsTerminal, path::PathBuf};

use clap::Args;
use rand::Rng;
use serde_json::json;

use super::{CommandFailure, GlobalOptions, answer, answer_json, complain, is_confirmed, table, usage};
use crate::{
    app::{Setup, artifact_places, sign_audit},
    findings::ErasedFiles,
    flows::maintenance::erasure::{Erased, Folders, erase, forecast},
    workspace::Workspace,
};
use umbra_boundary::checkpoints;
use umbra_domain::clock::Clock;
use umbra_store::{
    Store,
    erasure::{ErasedCounts, ErasureScope},
};

#[derive(Debug, Args)]
pub(super) struct EraseOptions {
    /// Erase the data of this agent; its exact name.
    #[arg(long, value_name = "NAME", required_unless_present = "task", conflicts_with = "task")]
    agent: Option<String>,
    /// Erase the data of this task, by any agent; its exact id.
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Only count what would be erased.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(global: &GlobalOptions, options: EraseOptions) -> Result<(), CommandFailure> {
    let EraseOptions { agent, task, dry_run, yes } = options;
    let (kind, whose) = match (agent, task) {
        (Some(name), _) => ("agent", ErasureScope::Agent(name)),
        (None, Some(id)) => ("task", ErasureScope::Task(id)),
        (None, None) => return usage("name the agent or task to erase: --agent NAME or --task ID"),
    };
    let named = format!("{kind} {}", table::plain(whose.name()));
    let asks = !dry_run && !yes;
    if asks && (global.json || !std::io::stdin().is_terminal()) {
        return usage(format!(
            "erasing the {named} cannot be undone, and there is no terminal to ask for confirmation: add --yes, or \
             --dry-run to count"
        ));
    }
    let (setup, database) = global.open_existing().await?;
    let store = &database.store;
    let workspace = setup.workspace()?;
    let installation = store.installation(rand::rng().random()).await?;
    let spool = setup.spool_dir(&installation);
    let places = Folders { reviews: artifact_places(&setup), audit: setup.settings.audit_dir(), spool, workspace };
    let done = async {
        let counts = if dry_run || asks { Some(forecast(store, &whose, places.clone()).await?) } else { None };
        if let Some(counts) = counts
            && asks
            && counts != Erased::default()
            && !is_confirmed(&format!(
                "This erases of the {named}: {}.\nThe erasure cannot be undone. Counters and caps stay as they are. Type \
                 yes to continue:",
                words(counts)
            ))
        {
            anyhow::bail!("not confirmed: nothing was erased");
        }
        match counts {
            // Where nothing is counted, a note or a score may still be left.
            Some(counts) if dry_run => Ok(counts),
            _ => {
                sign(&setup, store, &whose).await?;
                let replica = Clock::system().new_id();
                Ok(erase(store, &whose, replica, places.clone()).await?)
            }
        }
    };
    let counts = done.await;
    database.close().await;
    let counts = counts?;
    if global.json {
        let mut document = json!({"dry_run": dry_run, "erased": counts});
        document[kind] = json!(whose.name());
        return answer_json(&document);
    }
    if counts == Erased::default() {
        answer(&format!("nothing of the {named} is stored"));
        return Ok(());
    }
    answer(&format!("{} of the {named}: {}", if dry_run { "would erase" } else { "erased" }, words(counts)));
    if !dry_run {
        complain(&format!("files were searched in {}", folders(&places)));
    }
    Ok(())
}

/// Signs the audit's record of the erasure with the servers' key: an unsigned erasure is tampering.
async fn sign(setup: &Setup, store: &Store, whose: &ErasureScope) -> anyhow::Result<()> {
    let dir = setup.settings.audit_dir();
    if checkpoints::public_key(&dir)?.is_none() && store.audit().count_audit(whose).await? > 0 {
        anyhow::bail!(
            "the erasure in the audit must be signed with a server's key, and {} has no key: run this command where \
             the audit's folder is (boundary.audit.dir, --data-dir)",
            dir.display()
        );
    }
    sign_audit(setup, store)
}

fn words(erased: Erased) -> String {
    let ErasedCounts { events, reviews_ended, reviews, findings, verdicts, audit, sessions, patterns } = erased.rows;
    let (ErasedFiles { pages, log_lines }, audit_lines) = (erased.files, erased.audit_lines);
    let spooled = match erased.spooled_events {
        0 => String::new(),
        count => format!(" and of {count} events in the spool"),
    };
    let folders = match erased.session_folders {
        0 => String::new(),
        1 => " with a folder in the workspace".to_owned(),
        count => format!(" with {count} folders in the workspace"),
    };
    format!(
        "the contents of {events} events{spooled}, {reviews} reviews, {findings} findings and {verdicts} verdicts; \
         {pages} pages and {log_lines} lines of the observations log; {audit} calls in the audit and {audit_lines} \
         lines of its files; {sessions} sessions{folders} and {patterns} patterns; {reviews_ended} unfinished reviews \
         are ended"
    )
}

fn folders(places: &Folders) -> String {
    let Folders { reviews: places, audit, spool, workspace } = places;
    let reviews = places.pages.iter().map(PathBuf::as_path).chain(places.log.parent());
    let all = reviews.chain([audit.as_path(), spool.as_path()]).chain(workspace.as_ref().map(Workspace::path));
    all.map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ")
}
