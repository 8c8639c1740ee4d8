//! Builds the guardrail of sessions from the sidecar file and the policies of the tools file.

use super::Setup;
use crate::{
    boundary::tools::Tools,
    config::{
        Loaded, Models, Report,
        sidecar::{Judgement, read},
    },
    domain::sidecar::SidecarRules,
    policy::check_condition,
    sidecar::{document::name::Name, guard::Guardrail},
};

impl Setup {
    /// What sessions are held to: the sidecar file, beside the policies of the tools file.
    ///
    /// # Errors
    /// Every fault of the sidecar file.
    pub fn guardrail(&self, tools: &Tools) -> Result<Loaded<Guardrail>, Report> {
        let policies: Vec<_> = tools.policies().cloned().collect();
        let specs = self.models();
        let judgement = Judgement {
            condition: &|text| check_condition(text).map_err(|error| error.to_string()),
            document: &|name| Name::parse(name).map(drop).map_err(|error| error.to_string()),
            models: Some(Models { specs: &specs, ceiling: self.settings.cheap_model.max_output_usd_per_mtok }),
            taken: &|name| policies.iter().any(|policy| policy.name == name),
        };
        let file = self.settings.sidecar.path.as_ref();
        let Loaded { value: rules, warnings } = match file {
            Some(path) => read(path, judgement)?,
            None => Loaded { value: SidecarRules::default(), warnings: Vec::new() },
        };
        let guardrail = Guardrail::compile(&rules, &policies).map_err(|error| {
            let path = file.cloned().unwrap_or_default();
            Report::of_file(&path, "sidecar", error.to_string(), "correct it and try again")
        })?;
        Ok(Loaded { value: guardrail, warnings })
    }
}
