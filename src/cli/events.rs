//! `umbra events`: lists events of a server, and shows one.

use clap::Subcommand;
use serde_json::json;

use super::{
    CommandFailure, GlobalOptions, answer_json,
    remote::{Columns, RemoteCommand, path_with},
};

/// Columns of the list.
const COLUMNS: &Columns = &[
    ("id", &["/id"]),
    ("at", &["/received_at"]),
    ("agent", &["/agent"]),
    ("task", &["/task_id"]),
    ("tool", &["/tool/name"]),
    ("text", &["/output", "/tool/args", "/task"]),
    ("triggers", &["/triggers/0/name"]),
];

#[derive(Debug, Subcommand)]
pub(super) enum EventsAction {
    /// List events, newest first.
    List {
        /// Events of this agent.
        #[arg(long)]
        agent: Option<String>,
        /// Events of this task.
        #[arg(long, value_name = "ID")]
        task: Option<String>,
        /// From this time on: 2026-02-28T12:00:00Z.
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Before this time.
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// Most events to list, 1 to 500.
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
    },
    /// Print an event with its triggers, dispositions and reviews, as JSON.
    Show {
        /// Id of the event.
        id: String,
    },
}

pub(super) async fn run(
    global: &GlobalOptions,
    RemoteCommand { server, action }: RemoteCommand<EventsAction>,
) -> Result<(), CommandFailure> {
    let remote = server.remote(global)?;
    match action {
        EventsAction::List { agent, task, since, until, limit } => {
            let query = json!({"agent": agent, "task_id": task, "since": since, "until": until, "limit": limit});
            remote.list(global.json, "v1/events?order=desc", &query, COLUMNS).await
        }
        EventsAction::Show { id } => answer_json(&remote.get(&path_with("v1/events/", &id, ""), &()).await?),
    }
}
