//! `umbra execution`: shows whether calls run and by which setting, and sets or lifts overrides.

use std::{collections::BTreeMap, time::Duration};

use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    CommandFailure, GlobalOptions, answer, answer_json, complain,
    remote::{Remote, Server, cell, distance},
    table, usage,
};
use umbra_domain::{OverrideScope, clock::Clock};

pub(super) const NOTES: &str = "\
SCOPE is global, or KIND:VALUE with the kinds environment, agent, session and tool; agents and tools may be globs. A \
name without a kind is an agent.

  umbra execution shadow billing --for 2h --reason 'rehearse the release'
  umbra execution live tool:crm.* --reason 'reads only'
  umbra execution lift billing --reason 'rehearsed'";

#[derive(Debug, Args)]
pub(super) struct ExecutionOptions {
    #[command(flatten)]
    server: Server,
    #[command(subcommand)]
    action: Option<ExecutionAction>,
}

#[derive(Debug, Subcommand)]
enum ExecutionAction {
    /// Show what is in force and why (the default).
    Show {
        /// For this agent.
        #[arg(long)]
        agent: Option<String>,
        /// For this session.
        #[arg(long)]
        session: Option<String>,
        /// For this tool.
        #[arg(long)]
        tool: Option<String>,
        /// For this run.
        #[arg(long)]
        run: Option<String>,
    },
    /// Answer calls that change something with a stub.
    Shadow(OverrideOptions),
    /// Let calls run.
    Live(OverrideOptions),
    /// Lift the override of a scope.
    Lift {
        #[command(flatten)]
        of: OverrideScopeOptions,
    },
}

#[derive(Debug, Args)]
struct OverrideOptions {
    #[command(flatten)]
    of: OverrideScopeOptions,
    /// Duration of the override; without it, until it is lifted.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    lasting: Option<Duration>,
}

#[derive(Debug, Args)]
struct OverrideScopeOptions {
    /// Scope: global, agent:NAME, tool:NAME, session:ID, environment:NAME, or an agent's name alone.
    scope: String,
    /// Reason; kept in the audit.
    #[arg(long)]
    reason: String,
}

pub(super) async fn run(
    global: &GlobalOptions,
    ExecutionOptions { server, action }: ExecutionOptions,
) -> Result<(), CommandFailure> {
    let remote = server.remote(global)?;
    let action = action.unwrap_or(ExecutionAction::Show { agent: None, session: None, tool: None, run: None });
    let (of, execution, lasting) = match action {
        ExecutionAction::Show { agent, session, tool, run } => {
            let asked = [("agent", agent), ("session", session), ("tool", tool), ("run", run)];
            return show(global, &remote, asked.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
                .await;
        }
        ExecutionAction::Shadow(OverrideOptions { of, lasting }) => (of, Some("shadow"), lasting),
        ExecutionAction::Live(OverrideOptions { of, lasting }) => (of, Some("live"), lasting),
        ExecutionAction::Lift { of } => (of, None, None),
    };
    let (scope, value) = scope(&of.scope)?;
    let ends = lasting.map(|lasting| {
        let lasting = SignedDuration::try_from(lasting).unwrap_or(SignedDuration::MAX);
        Clock::system().now().checked_add(lasting).unwrap_or(Timestamp::MAX).to_string()
    });
    let request = json!({"scope": scope.as_str(), "value": value, "execution": execution, "reason": of.reason,
        "expires_at": ends});
    let change = remote.send(Method::PUT, "v1/execution", &request).await?;
    for warning in change["warnings"].as_array().into_iter().flatten() {
        complain(&format!("umbra: {}", table::plain(warning.as_str().unwrap_or_default())));
    }
    if global.json {
        return answer_json(&change);
    }
    if let Value::Object(_) = &change["set"] {
        let set = &change["set"];
        let until = match &set["expires_at"] {
            Value::Null => "until it is lifted".to_owned(),
            at => format!("for {}", distance(at)),
        };
        answer(&format!("{} is {} {until}", named(set), cell(&set["execution"])));
    } else {
        answer(&format!(
            "{} is no longer {} by an override",
            named(&change["lifted"]),
            cell(&change["lifted"]["execution"])
        ));
    }
    let ended = change["runs_that_end"].as_array().map_or(0, Vec::len);
    if ended > 0 {
        answer(&format!("runs of sessions and processes that ended with this change: {ended}"));
    }
    Ok(())
}

async fn show(global: &GlobalOptions, remote: &Remote, asked: BTreeMap<&str, String>) -> Result<(), CommandFailure> {
    if !asked.is_empty() {
        let effective = remote.get("v1/execution/effective", &asked).await?;
        return global.print(&effective, || told(&effective));
    }
    let view = remote.get("v1/execution", &()).await?;
    let overrides: Vec<&Value> = view["overrides"].as_array().into_iter().flatten().collect();
    let mut rows = table::new(&["override", "execution", "since", "left", "reason"]);
    for one in &overrides {
        let since = format!("{} ago", distance(&one["set_at"]));
        rows.add_row([named(one), cell(&one["execution"]), since, distance(&one["expires_at"]), cell(&one["reason"])]);
    }
    let rows = if overrides.is_empty() { "no override is in force".to_owned() } else { rows.to_string() };
    global.print(&view, || format!("environment {}\n{}{rows}", cell(&view["environment"]), told(&view["effective"])))
}

/// Renders the execution of a call, the setting that decides it, and those that are overruled.
fn told(effective: &Value) -> String {
    let said = |said: &Value| {
        let reason = said["reason"].as_str().map(|reason| format!(": {}", table::plain(reason))).unwrap_or_default();
        format!("{} by {} {}{reason}", cell(&said["execution"]), cell(&said["source"]), cell(&said["name"]))
    };
    let overruled = effective["overruled"].as_array().into_iter().flatten();
    let overruled = overruled.map(|overruled| format!("  overrules {}\n", said(overruled)));
    format!("{}\n{}", said(&effective["won"]), overruled.collect::<String>())
}

fn named(one: &Value) -> String {
    match one["value"].as_str() {
        Some("") | None => cell(&one["scope"]),
        Some(value) => format!("{}:{}", cell(&one["scope"]), table::plain(value)),
    }
}

/// Parses `global`, `KIND:VALUE`, or an agent's name.
fn scope(text: &str) -> Result<(OverrideScope, Option<&str>), CommandFailure> {
    if text == OverrideScope::Global.as_str() {
        return Ok((OverrideScope::Global, None));
    }
    match text.split_once(':').map(|(kind, value)| (OverrideScope::parse(kind), value)) {
        Some((Some(kind), value)) if kind != OverrideScope::Global => Ok((kind, Some(value))),
        Some(_) => usage(format!(
            "{text:?} is not a scope: write global, agent:NAME, tool:NAME, session:ID or environment:NAME"
        )),
        None => Ok((OverrideScope::Agent, Some(text))),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    umbra_config::quantity::parse_duration(text).ok_or_else(|| "write a duration such as 30m or 2h".to_owned())
}
