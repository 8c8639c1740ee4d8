//! `umbra audit list`: rows of the audit of a running server, by filters.

use std::ops::Not;

use clap::Args;
use reqwest::Method;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::{
    CommandFailure, GlobalOptions, answer, complain,
    remote::{Lines, Server, cell},
    table,
};

#[derive(Debug, Args, Serialize)]
pub(in super::super) struct AuditListOptions {
    #[command(flatten)]
    #[serde(skip)]
    server: Server,
    /// Agent, or a glob of agents.
    #[arg(long)]
    agent: Option<String>,
    /// Tool in any spelling, or a glob such as stripe.*.
    #[arg(long)]
    tool: Option<String>,
    /// Session of the call.
    #[arg(long)]
    session: Option<String>,
    /// Run of the call.
    #[arg(long)]
    run: Option<String>,
    /// Decisions of this kind: execute, stub, ask or block.
    #[arg(long)]
    decision: Option<String>,
    /// Decisions about calls of this effect: read, write or destructive.
    #[arg(long)]
    effect: Option<String>,
    /// Decisions under this execution: live or shadow.
    #[arg(long)]
    execution: Option<String>,
    /// decision (unless given), outcome, execution, approval, erasure, merged or all.
    #[arg(long)]
    kind: Option<String>,
    /// From this time, or from a duration ago: 1h.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Before this time, or before a duration ago.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Most rows to list, 1 to 500; 50 unless given.
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Continue with new rows as they come, oldest first.
    #[arg(long, conflicts_with = "limit")]
    #[serde(skip_serializing_if = "Not::not")]
    follow: bool,
}

pub(super) async fn run(global: &GlobalOptions, options: AuditListOptions) -> Result<(), CommandFailure> {
    let path = if options.follow { "v1/audit" } else { "v1/audit?order=desc" };
    let response = options.server.remote(global)?.open(Method::GET, path, &options, None).await?;
    if let Some(warning) = response.headers().get("umbra-warning").and_then(|value| value.to_str().ok()) {
        complain(&format!("umbra: {}", table::plain(warning)));
    }
    let (mut lines, mut rows) = (Lines::of(response), Vec::new());
    while let Some(line) = lines.next().await? {
        match (options.follow, global.json) {
            (true, true) => answer(&line),
            (true, false) => answer(&in_one_line(&serde_json::from_str(&line)?)),
            (false, _) => rows.push(serde_json::from_str::<Value>(&line)?),
        }
    }
    if options.follow {
        return Ok(());
    }
    global.print(&json!({"items": rows}), || {
        let mut shown =
            table::new(&["seq", "at", "agent", "tool", "decision", "effect", "execution", "run", "why", "arguments"]);
        for row in &rows {
            shown.add_row(cells(row));
        }
        shown.to_string()
    })
}

/// Returns the cells of a row: the decision, or the kind of a row that is no decision.
fn cells(row: &Value) -> [String; 10] {
    let decision = if row["decision"].is_null() { &row["kind"] } else { &row["decision"] };
    let guard = &row["guard"];
    let why = [&row["detail"], &guard["reason"], &guard["rule"], &row["reason"], &row["stub"]["contract"]];
    let why = why.into_iter().find(|value| !value.is_null()).unwrap_or(&Value::Null);
    [
        &row["seq"],
        &row["timestamp"],
        &row["agent"],
        &row["tool"],
        decision,
        &row["effect"],
        &row["execution"],
        &row["run"],
        why,
        &row["args"],
    ]
    .map(cell)
}

fn in_one_line(row: &Value) -> String {
    cells(row).join("  ")
}
