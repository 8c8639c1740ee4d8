//! `umbra check`: every fault of the files, and what they would run.

use serde_json::json;

use super::{Failure, Global, answer, answer_json, complain, table};
use crate::llm::Readiness;

pub(super) fn run(global: &Global) -> Result<(), Failure> {
    let setup = match crate::app::Setup::read(
        global.config.clone(),
        crate::config::Environment::of_process(),
        crate::app::Overrides { shadows: global.shadows.clone(), ..crate::app::Overrides::default() },
        |warning| complain(&warning),
    ) {
        Ok(setup) => setup,
        Err(report) => return refuse(global, &report),
    };
    let loaded = match setup.shadows() {
        Ok(loaded) => loaded,
        Err(report) => return refuse(global, &report),
    };
    let gateway = setup.gateway(None)?;
    let webhooks = setup.webhooks()?;
    let reviewer = |alias: &str| match gateway.reviewer(alias) {
        Readiness::Ready => "model".to_owned(),
        Readiness::ChecksOnly { why } => format!("checks alone: {why}"),
    };
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
        return answer_json(
            &json!({"faults": [], "warnings": loaded.warnings, "shadows": shadows, "webhooks": webhooks}),
        );
    }
    for warning in &loaded.warnings {
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

fn refuse(global: &Global, report: &crate::config::Report) -> Result<(), Failure> {
    if global.json {
        answer_json(&report.to_json())?;
    } else {
        complain(&report.to_string());
        let n = report.faults.len();
        complain(&format!("{n} fault{}", if n == 1 { "" } else { "s" }));
    }
    Err(Failure::Said)
}
