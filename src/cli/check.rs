//! `umbra check`: every fault of the files that `umbra serve` would refuse, and what they would run.

use serde_json::json;

use super::{Failure, Global, answer, answer_json, complain, table};
use crate::{
    app::{Overrides, Setup},
    config::Environment,
    llm::Readiness,
    watch::Watcher,
};

pub(super) fn run(global: &Global) -> Result<(), Failure> {
    let overrides = Overrides { shadows: global.shadows.clone(), tools: global.tools.clone(), ..Overrides::default() };
    let setup = Setup::read(global.config.clone(), Environment::of_process(), overrides)?;
    let loaded = setup.shadows()?;
    let boundary = setup.boundary()?;
    let gateway = setup.gateway(None)?;
    setup.bootstrap_key()?;
    Watcher::compile(&loaded.value)?;
    let warnings: Vec<_> = setup.warnings.iter().chain(&loaded.warnings).chain(&boundary.warnings).collect();
    let webhooks = setup.webhooks()?;
    let reviewer = |alias: &str| match gateway.reviewer(alias) {
        Readiness::Ready => "model".to_owned(),
        Readiness::ChecksOnly { why } => format!("checks alone: {why}"),
    };
    let bind = setup.settings.server.bind;
    if !bind.ip().is_loopback() && setup.settings.auth.bootstrap_admin_key_file.is_none() {
        complain(&format!(
            "{bind} can be reached from elsewhere: `umbra serve` refuses to listen there until there is a key \
             (`umbra keys create`, or auth.bootstrap_admin_key_file)"
        ));
    }
    for remark in webhooks.remarks(loaded.value.iter().map(|shadow| shadow.name.as_str())) {
        complain(&remark);
    }
    if global.json {
        let shadows: Vec<_> = loaded
            .value
            .iter()
            .map(|shadow| {
                json!({"name": shadow.name, "version": shadow.version(), "mode": shadow.mode,
                "model": shadow.model, "reviewer": reviewer(&shadow.model), "enabled": shadow.enabled})
            })
            .collect();
        let webhooks: Vec<_> = webhooks
            .all()
            .iter()
            .map(|endpoint| {
                let events: Vec<_> = endpoint.events().iter().map(|topic| topic.as_str()).collect();
                json!({"name": endpoint.name(), "host": endpoint.host(), "events": events})
            })
            .collect();
        return answer_json(&json!({"faults": [], "warnings": warnings, "shadows": shadows, "webhooks": webhooks}));
    }
    for warning in &warnings {
        complain(&warning.to_string());
    }
    let mut table = table::new(&["shadow", "mode", "model", "reviewer"]);
    for shadow in &loaded.value {
        table.add_row([&shadow.name, shadow.mode.as_str(), &shadow.model, &reviewer(&shadow.model)]);
    }
    answer(&table.to_string());
    if !webhooks.all().is_empty() {
        let mut table = table::new(&["webhook", "host", "is told of"]);
        for endpoint in webhooks.all() {
            let events: Vec<_> = endpoint.events().iter().map(|topic| topic.as_str()).collect();
            table.add_row([endpoint.name(), endpoint.host(), &events.join(", ")]);
        }
        answer(&table.to_string());
    }
    match &setup.settings.shadows.path {
        Some(path) => answer(&format!("{}: no faults", path.display())),
        None => answer("no shadows file given: the built-in example would be in force"),
    }
    Ok(())
}
