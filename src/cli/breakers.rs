//! `umbra breakers`: lists the breakers of agents, acknowledges and resets them.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::json;

use super::{
    CommandFailure, GlobalOptions,
    remote::{Columns, RemoteCommand, cell, path_with},
};

/// Columns of the list.
const COLUMNS: &Columns = &[
    ("agent", &["/agent"]),
    ("breaker", &["/recommendation"]),
    ("since", &["/since"]),
    ("rejections", &["/consecutive_rejections"]),
    ("acknowledged", &["/acknowledged_by", "/acknowledged"]),
    ("why", &["/reasons/0"]),
];

#[derive(Debug, Subcommand)]
pub(super) enum BreakersAction {
    /// List the breakers of all agents.
    List {
        /// Breakers with this recommendation: open, `half_open` or closed.
        #[arg(long)]
        state: Option<String>,
        /// Most breakers to list, 1 to 500.
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
    },
    /// Note that a person has seen an open breaker; it stays open.
    Acknowledge(BreakerArgs),
    /// Close a breaker: the agent may work on.
    Reset(BreakerArgs),
}

#[derive(Debug, Args)]
pub(super) struct BreakerArgs {
    /// Name of the agent.
    agent: String,
    /// Name of the person; the name of the key unless given.
    #[arg(long)]
    by: Option<String>,
    /// Reason, in words.
    #[arg(long)]
    note: Option<String>,
}

pub(super) async fn run(
    global: &GlobalOptions,
    RemoteCommand { server, action }: RemoteCommand<BreakersAction>,
) -> Result<(), CommandFailure> {
    let remote = server.remote(global)?;
    let (act, BreakerArgs { agent, by, note }) = match action {
        BreakersAction::List { state, limit } => {
            let query = json!({"recommendation": state, "limit": limit});
            return remote.list(global.json, "v1/breakers", &query, COLUMNS).await;
        }
        BreakersAction::Acknowledge(args) => ("/acknowledge", args),
        BreakersAction::Reset(args) => ("/reset", args),
    };
    let path = path_with("v1/breakers/", &agent, act);
    let breaker = remote.send(Method::POST, &path, &json!({"by": by, "note": note})).await?;
    global.print(&breaker, || format!("{}: {}", cell(&breaker["agent"]), cell(&breaker["recommendation"])))
}
