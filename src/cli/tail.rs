//! `umbra tail`: findings of a server as they are made.

use std::time::Duration;

use clap::Args;
use reqwest::Method;
use serde::Serialize;
use serde_json::Value;

use super::{
    CommandFailure, GlobalOptions, answer, complain,
    findings::FindingFilterOptions,
    remote::{Lines, Server, items, path_with},
    table::plain,
};

/// Pause before a stream that has ended is asked for again.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Args, Serialize)]
pub(super) struct TailOptions {
    #[command(flatten)]
    #[serde(skip)]
    server: Server,
    #[command(flatten)]
    #[serde(flatten)]
    filter: FindingFilterOptions,
    /// Begin with the findings from this time on: 2026-02-28T12:00:00Z.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
}

pub(super) async fn run(global: &GlobalOptions, options: TailOptions) -> Result<(), CommandFailure> {
    let remote = options.server.remote(global)?;
    // A stream begins now; what came before is in the list, which says where the stream goes on.
    let mut last = None;
    if options.since.is_some() {
        let page = remote.get("v1/findings?limit=500&order=asc", &options).await?;
        items(&page).for_each(|finding| print(global, finding));
        last = page["resume_cursor"].as_str().map(ToOwned::to_owned);
    }
    let mut is_lost = false;
    loop {
        let position = last.iter().map(|last| path_with("?last_event_id=", last, "")).collect::<String>();
        match remote.open(Method::GET, &format!("v1/findings/stream{position}"), &options, None).await {
            Ok(response) => {
                if is_lost {
                    complain("umbra: the stream goes on where it ended");
                }
                is_lost = false;
                let mut lines = Lines::of(response);
                while let Ok(Some(line)) = lines.next().await {
                    match line.split_once(": ") {
                        Some(("id", id)) => last = Some(id.to_owned()),
                        Some(("data", finding)) => print(global, &serde_json::from_str(finding)?),
                        _ => {}
                    }
                }
            }
            // A server that has answered once may be restarting.
            Err(error) if last.is_none() => return Err(error),
            Err(CommandFailure::Error(error)) if !is_lost => {
                is_lost = true;
                complain(&format!("umbra: {error:#}; trying again"));
            }
            Err(_) => {}
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Prints a finding on a line, as JSON or in words.
fn print(global: &GlobalOptions, finding: &Value) {
    if global.json {
        return answer(&finding.to_string());
    }
    let parts = ["timestamp", "severity", "watched_agent", "rule", "description", "id"].map(|name| &finding[name]);
    let words: Vec<String> = parts.into_iter().filter_map(|part| part.as_str().map(plain)).collect();
    answer(&words.join("  "));
}
