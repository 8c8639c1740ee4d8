//! `umbra post`: posts events to a server, from a file or from standard input.

use std::{io::Read, path::PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    CommandFailure, GlobalOptions, answer, answer_json, complain,
    remote::{Remote, Server, cell, problem_text},
};

/// Most events of a request, and most bytes of those before its last one.
const BATCH: (usize, usize) = (100, 1_000_000);

#[derive(Debug, Args)]
pub(super) struct PostOptions {
    #[command(flatten)]
    server: Server,
    /// File of events: one JSON object, an array of them, or one object a line; standard input unless given.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Agent of the events that name none.
    #[arg(long)]
    agent: Option<String>,
}

pub(super) async fn run(global: &GlobalOptions, options: PostOptions) -> Result<(), CommandFailure> {
    let remote = options.server.remote(global)?;
    let mut text = String::new();
    if let Some(file) = &options.file {
        text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    } else {
        std::io::stdin().read_to_string(&mut text).context("reading standard input")?;
    }
    let mut events = events_of(&text)?;
    for event in &mut events {
        if let (Some(agent), Some(members)) = (&options.agent, event.as_object_mut()) {
            members.entry("agent").or_insert_with(|| json!(agent));
        }
    }
    post(global, &remote, &events).await
}

async fn post(global: &GlobalOptions, remote: &Remote, events: &[Value]) -> Result<(), CommandFailure> {
    let (mut posted, mut refused) = (0, 0);
    while let Some(rest) = events.get(posted..).filter(|rest| !rest.is_empty()) {
        let mut bytes = 0;
        let fits = |event: &&Value| {
            let fits = bytes < BATCH.1;
            bytes += event.to_string().len();
            fits
        };
        let batch: Vec<&Value> = rest.iter().take(BATCH.0).take_while(fits).collect();
        let answered = remote.send(Method::POST, "v1/events/batch", &json!({"events": batch})).await?;
        if global.json {
            answer_json(&answered)?;
        }
        for (place, result) in (posted + 1..).zip(answered["results"].as_array().into_iter().flatten()) {
            let error = &result["error"];
            if !error.is_null() {
                refused += 1;
                complain(&format!("umbra: event {place} is not stored: {}", problem_text(error)));
            } else if !global.json {
                answer(&cell(&result["id"]));
            }
        }
        posted += batch.len();
    }
    if refused == 0 { Ok(()) } else { Err(CommandFailure::AlreadyReported) }
}

/// Reads events: one JSON object or several after each other, or an array of them.
fn events_of(text: &str) -> anyhow::Result<Vec<Value>> {
    let mut events = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        match value.context("the input is not JSON: write one object, an array of them, or one object a line")? {
            Value::Array(several) => events.extend(several),
            one => events.push(one),
        }
    }
    if events.is_empty() { Err(anyhow!("the input has no event")) } else { Ok(events) }
}
