//! `umbra status`: shows the state of the running servers; where none runs, what `umbra serve` would have in force.

use super::{CommandFailure, GlobalOptions, answer, answer_json, complain, table};
use crate::{
    app::{App, Database, Setup},
    flows::maintenance::status::{ProcessStatus, ProviderStatus, Status, TelemetryStatus},
};
use umbra_domain::{Mode, clock::Clock};

pub(super) async fn run(global: &GlobalOptions) -> Result<(), CommandFailure> {
    let (setup, database) = global.open_existing().await?;
    let status = status(&setup, &database).await?;
    database.close().await;
    if global.json {
        return answer_json(&status);
    }
    let cap = |used: String, cap: Option<String>| cap.map_or(used.clone(), |cap| format!("{used} of {cap}"));
    let mut shadows = table::new(&["shadow", "mode", "reviewer", "reviews today", "spent today", "skipped today"]);
    for shadow in &status.shadows {
        let skips: Vec<String> = shadow.skips_today.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
        let reviewer = if shadow.health == "ok" {
            shadow.model.clone()
        } else {
            format!("{} ({})", shadow.reviewer, shadow.health)
        };
        let checked = match shadow.checked_today {
            0 => String::new(),
            n => format!(" ({n} checked, not judged)"),
        };
        let reviews = cap(shadow.reviews_today.to_string(), shadow.max_reviews_per_day.map(|n| n.to_string()));
        shadows.add_row([
            shadow.name.clone(),
            Mode::as_str(shadow.mode).to_owned(),
            reviewer,
            reviews + &checked,
            cap(format!("${:.4}", shadow.usd_today), shadow.max_usd_per_day.map(|usd| format!("${usd}"))),
            if skips.is_empty() { "-".into() } else { skips.join(", ") },
        ]);
    }
    answer(&shadows.to_string());
    answer(&providers(&status.providers));
    if !status.telemetry.is_empty() {
        answer(&services(&status.telemetry));
    }
    let queue = &status.queue;
    answer(&format!(
        "queue: {} waiting, {} running, oldest due for {:.0} s",
        queue.queued, queue.running, queue.oldest_age_seconds
    ));
    let backlog = &status.check_backlog;
    if backlog.waiting > 0 || backlog.shed > 0 {
        answer(&format!(
            "checks: {} events waiting, oldest for {:.0} s; {} skipped within a day",
            backlog.waiting, backlog.oldest_age_seconds, backlog.shed
        ));
    }
    if let Some(spool) = status.spool.as_ref().filter(|spool| spool.bytes > 0) {
        answer(&format!(
            "spool ({}): {} events wait for the database ({} of {} bytes), the oldest for {} s",
            spool.state, spool.events, spool.bytes, spool.max_bytes, spool.oldest_age_seconds
        ));
    }
    for need in &status.needs {
        answer(&format!(
            "needs attention: {} {}: {}; {}",
            need.kind,
            need.name,
            table::plain(&need.problem),
            need.remedy
        ));
    }
    let servers = match status.servers {
        0 => "no server runs".to_owned(),
        1 => "1 server runs".to_owned(),
        n => format!("{n} servers run"),
    };
    answer(&format!("{servers}; database: Postgres {}; umbra {}", status.database.version, status.version));
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

fn providers(all: &[ProviderStatus]) -> String {
    let mut rows = table::new(&["model", "provider", "its name", "health", "failures in a row", "last error"]);
    for provider in all {
        let state = serde_json::to_value(provider.state).unwrap_or_default();
        rows.add_row([
            provider.name.clone(),
            provider.provider.clone(),
            provider.model.clone(),
            state.as_str().unwrap_or_default().to_owned(),
            provider.consecutive_failures.to_string(),
            provider.last_error.as_deref().map_or_else(|| "-".into(), table::plain),
        ]);
    }
    rows.to_string()
}

fn services(all: &[TelemetryStatus]) -> String {
    let mut rows =
        table::new(&["service", "instrumentation", "model calls", "without content", "tool calls", "cut", "refused"]);
    for service in all {
        let reason = service.reason.as_deref().filter(|_| service.rejected > 0);
        let reason = reason.map(|reason| format!(" ({})", table::plain(reason))).unwrap_or_default();
        let counts = [service.model_calls, service.without_content, service.tool_calls, service.cut, service.rejected];
        let [models, silent, tools, cut, refused] = counts.map(|count| count.to_string());
        let names = [table::plain(&service.service), table::plain(&service.scope)];
        rows.add_row(names.into_iter().chain([models, silent, tools, cut, refused + &reason]));
    }
    rows.to_string()
}
