//! `umbra approvals`: lists calls that wait for approval, and approves or denies them.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::json;

use super::{
    CommandFailure, GlobalOptions,
    remote::{RemoteCommand, cell, distance, items, path_with},
    table,
};

#[derive(Debug, Subcommand)]
pub(super) enum ApprovalsAction {
    /// List waiting calls, newest first.
    List {
        /// State: pending, approved, denied, used or expired; all for all.
        #[arg(long, default_value = "pending")]
        state: String,
        /// Agent whose calls are listed.
        #[arg(long)]
        agent: Option<String>,
        /// Tool, or a glob of tools.
        #[arg(long)]
        tool: Option<String>,
        /// Most calls to list, 1 to 500.
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
    },
    /// Let a call run once, with exactly these arguments.
    Approve(ApprovalArgs),
    /// Do not let a call run.
    Deny(ApprovalArgs),
}

#[derive(Debug, Args)]
pub(super) struct ApprovalArgs {
    /// Id of the approval, as `list` shows it.
    id: String,
    /// Reason; kept in the audit. The agent reads that of a denial.
    #[arg(long)]
    reason: Option<String>,
}

pub(super) async fn run(
    global: &GlobalOptions,
    RemoteCommand { server, action }: RemoteCommand<ApprovalsAction>,
) -> Result<(), CommandFailure> {
    let remote = server.remote(global)?;
    let (decision, ApprovalArgs { id, reason }) = match action {
        ApprovalsAction::Approve(word) => ("approve", word),
        ApprovalsAction::Deny(word) => ("deny", word),
        ApprovalsAction::List { state, agent, tool, limit } => {
            let state = Some(state).filter(|state| state != "all");
            let query = json!({"state": state, "agent": agent, "tool": tool, "limit": limit});
            let list = remote.get("v1/approvals", &query).await?;
            let mut rows =
                table::new(&["id", "state", "agent", "tool", "execution", "arguments", "why", "asked", "left"]);
            for item in items(&list) {
                let why = if item["reason"].is_null() { &item["rule"] } else { &item["reason"] };
                let left = if item["state"] == "pending" { distance(&item["expires_at"]) } else { "-".to_owned() };
                let asked = format!("{} ago", distance(&item["asked_at"]));
                let shown = ["id", "state", "agent", "tool", "execution", "arguments"].map(|name| cell(&item[name]));
                rows.add_row(shown.into_iter().chain([cell(why), asked, left]));
            }
            return global.print(&list, || rows.to_string());
        }
    };
    let said = json!({"decision": decision, "reason": reason});
    let item = remote.send(Method::POST, &path_with("v1/approvals/", &id, ""), &said).await?;
    global.print(&item, || format!("{} of {}: {}", cell(&item["tool"]), cell(&item["agent"]), cell(&item["state"])))
}
