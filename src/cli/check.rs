//! `umbra check`: reports every fault of the files that `umbra serve` would refuse, the shadows that would run, and the
//! obstacles to running an environment as production.

use clap::{Args, builder::NonEmptyStringValueParser};
use serde_json::{Value, json};

use super::{CommandFailure, GlobalOptions, answer, answer_json, complain, table};
use crate::{
    app::{Database, Setup},
    flows::audit::gate::gate,
    watch::Watcher,
    webhooks::Endpoints,
};
use umbra_boundary::{
    checkpoints,
    decide::BoundaryRules,
    gate::{Gate, GateFacts, judge},
};
use umbra_config::{Fault, Loaded};
use umbra_domain::Shadow;

pub(super) const NOTES: &str = "\
With --environment it exits 1 with a line for each reason: execution_shadow, safe_mode (AGENT_SAFE_MODE is set here),
override_expires (a live override ends soon, and shadow follows it), run_in_shadow (a run stays in shadow),
no_contract (a tool that changes something has no contract), stale_contract, unguarded_call, unexpected_call,
unknown_environment (the name resembles one in the settings), database (it does not answer, so overrides are unknown).
GET /v1/gate?environment=NAME asks a running server the same.";

#[derive(Debug, Args)]
pub(super) struct CheckOptions {
    /// Also report the obstacles to running this environment as production; exit 1 if there are any.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    environment: Option<String>,
}

/// Contents of the configuration files.
struct Files {
    shadows: Loaded<Vec<Shadow>>,
    webhooks: Endpoints,
    /// Reviewer of each shadow: `model`, or `checks alone` with the reason.
    reviewers: Vec<String>,
    warnings: Vec<Fault>,
}

pub(super) async fn run(global: &GlobalOptions, options: &CheckOptions) -> Result<(), CommandFailure> {
    let setup = global.setup(None)?;
    let (files, rules) = read(&setup)?;
    let gate = match &options.environment {
        Some(environment) => Some(ask(&setup, &rules, environment).await?),
        None => None,
    };
    remark(&setup, &files);
    if global.json {
        let mut document = as_json(&files);
        if let Some(gate) = &gate {
            document["gate"] = serde_json::to_value(gate)?;
        }
        answer_json(&document)?;
    } else {
        show(&setup, &files);
        if let Some(gate) = &gate {
            tell(gate);
        }
    }
    if gate.is_some_and(|gate| !gate.pass) { Err(CommandFailure::AlreadyReported) } else { Ok(()) }
}

fn read(setup: &Setup) -> Result<(Files, BoundaryRules), CommandFailure> {
    let shadows = setup.shadows()?;
    let Loaded { value: rules, warnings: of_tools } = setup.boundary()?;
    let gateway = setup.gateway(None)?;
    let unjudged = |shadow: &Shadow| gateway.reviewer(&shadow.model).err();
    let of_sidecar = setup.guarding(&rules.tools, &shadows.value, &unjudged)?.warnings;
    setup.bootstrap_key()?;
    setup.workspace()?;
    Watcher::compile(&shadows.value)?;
    let reviewer =
        |shadow: &Shadow| unjudged(shadow).map_or("model".to_owned(), |why| format!("only built-in checks: {why}"));
    let reviewers = shadows.value.iter().map(reviewer).collect();
    let warnings =
        setup.warnings.iter().chain(&shadows.warnings).chain(&of_tools).chain(&of_sidecar).cloned().collect();
    Ok((Files { shadows, webhooks: setup.webhooks()?, reviewers, warnings }, rules))
}

/// Evaluates the gate. Rows are read from the database, and nothing in it is changed.
async fn ask(setup: &Setup, rules: &BoundaryRules, environment: &str) -> Result<Gate, CommandFailure> {
    setup.start_logs("warn");
    match Database::open_read_only(setup, &|line| complain(line)).await {
        Ok(Some(database)) => {
            let key = checkpoints::existing_row_key(&setup.settings.audit_dir()).unwrap_or_else(|error| {
                complain(&format!(
                    "the key in the audit's folder cannot be read ({error}): overrides are not authenticated"
                ));
                None
            });
            let gate = gate(&database.store, rules, environment, key.as_ref()).await;
            database.close().await;
            Ok(gate)
        }
        Ok(None) => {
            complain(
                "no installation here yet, so there are no overrides and no called tools: --database-url or --data-dir \
                 names another installation",
            );
            Ok(judge(environment, rules, Ok(&GateFacts::default())))
        }
        Err(error) => Ok(judge(environment, rules, Err(format!("{error:#}")))),
    }
}

fn tell(gate: &Gate) {
    let Gate { environment, pass, reasons } = gate;
    if *pass {
        answer(&format!("{environment}: passed"));
    }
    for reason in reasons {
        let line = format!("{environment}: {}: {} {}", reason.rule, reason.subject, reason.detail);
        answer(&table::plain(&line));
    }
}

/// Prints further remarks on the configuration.
fn remark(setup: &Setup, files: &Files) {
    let bind = setup.settings.server.bind;
    if !bind.ip().is_loopback() && setup.settings.auth.bootstrap_admin_key_file.is_none() {
        complain(&format!(
            "{bind} can be reached from other machines: `umbra serve` does not listen there without a key (`umbra keys \
             create`, or auth.bootstrap_admin_key_file)"
        ));
    }
    for remark in files.webhooks.remarks(files.shadows.value.iter().map(|shadow| shadow.name.as_str())) {
        complain(&remark);
    }
}

fn as_json(files: &Files) -> Value {
    let shadows = files.shadows.value.iter().zip(&files.reviewers).map(|(shadow, reviewer)| {
        json!({"name": shadow.name, "version": shadow.version(), "mode": shadow.mode,
            "model": shadow.model, "reviewer": reviewer, "enabled": shadow.enabled})
    });
    let webhooks = files.webhooks.all().iter().map(|endpoint| {
        let events: Vec<_> = endpoint.events().iter().map(|topic| topic.as_str()).collect();
        json!({"name": endpoint.name(), "host": endpoint.host(), "events": events})
    });
    json!({"faults": [], "warnings": files.warnings, "shadows": shadows.collect::<Vec<_>>(),
        "webhooks": webhooks.collect::<Vec<_>>()})
}

fn show(setup: &Setup, files: &Files) {
    for warning in &files.warnings {
        complain(&warning.to_string());
    }
    let mut table = table::new(&["shadow", "mode", "model", "reviewer"]);
    for (shadow, reviewer) in files.shadows.value.iter().zip(&files.reviewers) {
        table.add_row([&shadow.name, shadow.mode.as_str(), &shadow.model, reviewer]);
    }
    answer(&table.to_string());
    if !files.webhooks.all().is_empty() {
        let mut table = table::new(&["webhook", "host", "receives"]);
        for endpoint in files.webhooks.all() {
            let events: Vec<_> = endpoint.events().iter().map(|topic| topic.as_str()).collect();
            table.add_row([endpoint.name(), endpoint.host(), &events.join(", ")]);
        }
        answer(&table.to_string());
    }
    match &setup.settings.shadows.path {
        Some(path) => answer(&format!("{}: no faults", path.display())),
        None => answer("no shadows file is given: the built-in example would be in force"),
    }
    let settings = &setup.settings;
    for path in [&settings.tools.path, &settings.sidecar.path].into_iter().flatten().chain(&settings.checks.rules) {
        answer(&format!("{}: no faults", path.display()));
    }
}
