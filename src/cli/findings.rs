//! `umbra findings`: lists findings of a server, shows one, and notes what people think of it.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde::Serialize;
use serde_json::json;

use super::{
    CommandFailure, GlobalOptions, answer_json,
    remote::{Columns, RemoteCommand, cell, path_with},
};

/// Columns of the list.
const COLUMNS: &Columns = &[
    ("id", &["/id"]),
    ("at", &["/timestamp"]),
    ("severity", &["/severity"]),
    ("agent", &["/watched_agent"]),
    ("task", &["/task_id"]),
    ("rule", &["/rule", "/category"]),
    ("status", &["/status"]),
    ("description", &["/description"]),
];

#[derive(Debug, Subcommand)]
pub(super) enum FindingsAction {
    /// List findings, newest first.
    List(FindingsListOptions),
    /// Print a finding with its evidence, as JSON.
    Show {
        /// Id of the finding, as `list` shows it.
        id: String,
    },
    /// Say what became of a finding: the precision of its shadow and rule is counted from it.
    Mark {
        /// Id of the finding.
        id: String,
        /// open, confirmed, `false_positive` or resolved.
        status: String,
        /// Reason, in words.
        #[arg(long)]
        note: Option<String>,
    },
}

#[derive(Debug, Args, Serialize)]
pub(super) struct FindingsListOptions {
    #[command(flatten)]
    #[serde(flatten)]
    filter: FindingFilterOptions,
    /// From this time on: 2026-02-28T12:00:00Z.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Before this time.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Most findings to list, 1 to 500.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
}

/// Filter of findings.
#[derive(Debug, Args, Serialize)]
pub(super) struct FindingFilterOptions {
    /// Findings of at least this severity: info, warning or critical.
    #[arg(long)]
    severity: Option<String>,
    /// Findings about this agent.
    #[arg(long)]
    agent: Option<String>,
    /// Findings about this task.
    #[arg(long, value_name = "ID")]
    #[serde(rename = "task_id")]
    task: Option<String>,
    /// Findings by this shadow.
    #[arg(long)]
    shadow: Option<String>,
    /// Findings with this status: open, confirmed, `false_positive` or resolved.
    #[arg(long)]
    status: Option<String>,
}

pub(super) async fn run(
    global: &GlobalOptions,
    RemoteCommand { server, action }: RemoteCommand<FindingsAction>,
) -> Result<(), CommandFailure> {
    let remote = server.remote(global)?;
    match action {
        FindingsAction::List(options) => remote.list(global.json, "v1/findings?order=desc", &options, COLUMNS).await,
        FindingsAction::Show { id } => answer_json(&remote.get(&path_with("v1/findings/", &id, ""), &()).await?),
        FindingsAction::Mark { id, status, note } => {
            let feedback = json!({"status": status, "note": note});
            let finding = remote.send(Method::PATCH, &path_with("v1/findings/", &id, ""), &feedback).await?;
            global.print(&finding, || format!("{}: {}", cell(&finding["id"]), cell(&finding["status"])))
        }
    }
}
