//! `umbra sessions`: lists sessions of the sidecar of a server, and shows one.

use clap::Subcommand;
use serde_json::json;

use super::{
    CommandFailure, GlobalOptions, answer_json,
    remote::{Columns, RemoteCommand, path_with},
};

/// Columns of the list.
const COLUMNS: &Columns = &[
    ("id", &["/id"]),
    ("agent", &["/agent"]),
    ("state", &["/state"]),
    ("outcome", &["/outcome"]),
    ("opened", &["/opened_at"]),
    ("turns", &["/turns"]),
    ("rulings", &["/rulings"]),
    ("task", &["/task"]),
];

#[derive(Debug, Subcommand)]
pub(super) enum SessionsAction {
    /// List sessions, newest first.
    List {
        /// Sessions of this agent.
        #[arg(long)]
        agent: Option<String>,
        /// Sessions in this state: open or closed.
        #[arg(long)]
        state: Option<String>,
        /// Most sessions to list, 1 to 500.
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
    },
    /// Print a session, as JSON.
    Show {
        /// Id of the session.
        id: String,
    },
}

pub(super) async fn run(
    global: &GlobalOptions,
    RemoteCommand { server, action }: RemoteCommand<SessionsAction>,
) -> Result<(), CommandFailure> {
    let remote = server.remote(global)?;
    match action {
        SessionsAction::List { agent, state, limit } => {
            let query = json!({"agent": agent, "state": state, "limit": limit});
            remote.list(global.json, "v1/sessions?order=desc", &query, COLUMNS).await
        }
        SessionsAction::Show { id } => answer_json(&remote.get(&path_with("v1/sessions/", &id, ""), &()).await?),
    }
}
