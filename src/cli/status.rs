//! `umbra status`: shows the state of the running servers; where none runs, what `umbra serve` would have in force.

use clap::Args;
use serde_json::Value;

use super::{
    CommandFailure, GlobalOptions, answer, answer_json, complain,
    remote::Server,
    table::{self, Table, plain},
};
use crate::{
    app::{App, Database, Setup},
    flows::maintenance::status::{ProcessStatus, Status},
};
use umbra_domain::clock::Clock;

#[derive(Debug, Args)]
pub(super) struct StatusOptions {
    #[command(flatten)]
    server: Server,
}

pub(super) async fn run(global: &GlobalOptions, StatusOptions { server }: StatusOptions) -> Result<(), CommandFailure> {
    let status = if server.is_named() {
        server.remote(global)?.get("v1/status", &()).await?
    } else {
        let (setup, database) = global.open_existing().await?;
        let status = status(&setup, &database).await?;
        database.close().await;
        serde_json::to_value(status).map_err(anyhow::Error::from)?
    };
    if global.json {
        return answer_json(&status);
    }
    answer(&shadows(&status["shadows"]).to_string());
    answer(&providers(&status["providers"]).to_string());
    if all(&status["telemetry"]).next().is_some() {
        answer(&services(&status["telemetry"]).to_string());
    }
    let queue = &status["queue"];
    answer(&format!(
        "queue: {} waiting, {} running, oldest due for {} s",
        queue["queued"],
        queue["running"],
        seconds(queue)
    ));
    let backlog = &status["check_backlog"];
    if is_some(&backlog["waiting"]) || is_some(&backlog["shed"]) {
        answer(&format!(
            "checks: {} events waiting, oldest for {} s; {} skipped within a day",
            backlog["waiting"],
            seconds(backlog),
            backlog["shed"]
        ));
    }
    let spool = &status["spool"];
    if is_some(&spool["bytes"]) {
        answer(&format!(
            "spool ({}): {} events wait for the database ({} of {} bytes), the oldest for {} s",
            text(&spool["state"]),
            spool["events"],
            spool["bytes"],
            spool["max_bytes"],
            seconds(spool)
        ));
    }
    for need in all(&status["needs"]) {
        let [kind, name, problem, remedy] = ["kind", "name", "problem", "remedy"].map(|part| text(&need[part]));
        answer(&format!("needs attention: {kind} {name}: {problem}; {remedy}"));
    }
    let servers = match status["servers"].as_u64() {
        None | Some(0) => "no server runs".to_owned(),
        Some(1) => "1 server runs".to_owned(),
        Some(n) => format!("{n} servers run"),
    };
    let [database, version] = [&status["database"]["version"], &status["version"]].map(text);
    answer(&format!("{servers}; database: Postgres {database}; umbra {version}"));
    Ok(())
}

async fn status(setup: &Setup, database: &Database) -> Result<Status, CommandFailure> {
    let store = &database.store;
    let servers = ProcessStatus::of_servers(store, setup.settings.queue.dead_after).await?;
    let Some(newest) = servers.first() else {
        complain("no server runs on this database: the table shows the configuration that `umbra serve` would use");
        let App { flows, .. } = App::build(setup, store, Clock::system()).await?;
        return Ok(flows.maintenance.status().await?);
    };
    if !servers.iter().all(|server| server.has_shadows_of(newest)) {
        complain(
            "the servers have different shadows in force; the table shows those of the server that was started last",
        );
    }
    if let Some(path) = &setup.settings.shadows.path
        && !setup.shadows().is_ok_and(|given| newest.has_shadows(&given.value))
    {
        complain(&format!(
            "{} differs from the configuration in force, which the table shows: `umbra check` checks the file, a \
             reload puts it in force",
            path.display()
        ));
    }
    Ok(ProcessStatus::status(&servers, store).await?)
}

fn shadows(shadows: &Value) -> Table {
    let mut rows = table::new(&["shadow", "mode", "reviewer", "reviews today", "spent today", "skipped today"]);
    for shadow in all(shadows) {
        let [name, mode, model, reviewer, health] =
            ["name", "mode", "model", "reviewer", "health"].map(|part| text(&shadow[part]));
        let of = |used: String, cap: &Value, unit: &str| match cap.as_f64() {
            Some(cap) => format!("{used} of {unit}{cap}"),
            None => used,
        };
        let reviews = of(shadow["reviews_today"].to_string(), &shadow["max_reviews_per_day"], "");
        let checked = match shadow["checked_today"].as_i64() {
            None | Some(0) => String::new(),
            Some(n) => format!(" ({n} checked, not judged)"),
        };
        let spent = format!("${:.4}", shadow["usd_today"].as_f64().unwrap_or_default());
        let skips = shadow["skips_today"].as_object().into_iter().flatten();
        let skips: Vec<String> = skips.map(|(reason, n)| format!("{reason} {n}")).collect();
        rows.add_row([
            name,
            mode,
            if health == "ok" { model } else { format!("{reviewer} ({health})") },
            reviews + &checked,
            of(spent, &shadow["max_usd_per_day"], "$"),
            if skips.is_empty() { "-".into() } else { skips.join(", ") },
        ]);
    }
    rows
}

fn providers(providers: &Value) -> Table {
    let mut rows = table::new(&["model", "provider", "its name", "health", "failures in a row", "last error"]);
    let parts = ["name", "provider", "model", "state", "consecutive_failures", "last_error"];
    for provider in all(providers) {
        rows.add_row(parts.map(|part| text(&provider[part])));
    }
    rows
}

fn services(services: &Value) -> Table {
    let mut rows =
        table::new(&["service", "instrumentation", "model calls", "without content", "tool calls", "cut", "refused"]);
    for service in all(services) {
        let mut cells = ["service", "scope", "model_calls", "without_content", "tool_calls", "cut", "rejected"]
            .map(|part| text(&service[part]));
        if is_some(&service["rejected"]) && service["reason"].is_string() {
            cells[6].push_str(&[" (", &text(&service["reason"]), ")"].concat());
        }
        rows.add_row(cells);
    }
    rows
}

fn all(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn is_some(count: &Value) -> bool {
    count.as_i64().is_some_and(|count| count > 0)
}

fn seconds(of: &Value) -> String {
    format!("{:.0}", of["oldest_age_seconds"].as_f64().unwrap_or_default())
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => plain(text),
        other => other.to_string(),
    }
}
