//! Builds the sidecar's rules from the sidecar file and the policies of the tools file, and its workspace.

use super::Setup;
use crate::{flows::sessions::SidecarRulesInForce, workspace::Workspace};
use umbra_boundary::tools::Tools;
use umbra_config::{
    Loaded, Report,
    sidecar::{SidecarFileValidators, read},
};
use umbra_domain::{Shadow, sidecar::SidecarRules};
use umbra_policy::check_condition;
use umbra_sidecar::document::{DocumentLimits, name::Name};

impl Setup {
    /// Returns the rules of sessions: the sidecar file, with the policies of the tools file. `shadows` are those that
    /// rules in words may name; `unjudged` returns the reason why a shadow has no model, where that is a fault.
    ///
    /// # Errors
    /// Every fault of the sidecar file.
    pub fn guarding(
        &self,
        tools: &Tools,
        shadows: &[Shadow],
        unjudged: &dyn Fn(&Shadow) -> Option<String>,
    ) -> Result<Loaded<SidecarRulesInForce>, Report> {
        let policies: Vec<_> = tools.policies().cloned().collect();
        let judgement = SidecarFileValidators {
            condition: &check_condition,
            document: &|name| Name::parse(name).map(drop).map_err(|error| error.to_string()),
            shadow: &|name| {
                let shadow = shadows.iter().find(|known| known.name == name);
                let shadow = shadow.ok_or_else(|| format!("shadow {name:?} not found"))?;
                if shadow.criteria.is_empty() {
                    return Err(format!("the shadow {name} has no criteria to judge by"));
                }
                unjudged(shadow)
                    .map_or(Ok(()), |why| Err(format!("the shadow {name} has no model to judge with: {why}")))
            },
            taken: &|name| policies.iter().any(|policy| policy.name == name),
        };
        let file = self.settings.sidecar.path.as_ref();
        let Loaded { value: rules, warnings } = match file {
            Some(path) => read(path, judgement)?,
            None => Loaded { value: SidecarRules::default(), warnings: Vec::new() },
        };
        let guarding = SidecarRulesInForce::compile(&rules, &policies).map_err(|error| {
            let path = file.cloned().unwrap_or_default();
            Report::of_file(&path, "sidecar", error.to_string(), "correct the file and try again")
        })?;
        Ok(Loaded { value: guarding, warnings })
    }

    /// Opens the directory in which documents are files, if there is one.
    ///
    /// # Errors
    /// It is no directory, or may not be entered.
    pub fn workspace(&self) -> Result<Option<Workspace>, Report> {
        let Some(path) = &self.settings.sidecar.workspace else { return Ok(None) };
        let most = 2 * DocumentLimits::default().bytes as u64;
        Workspace::open(path, most).map(Some).map_err(|error| {
            let message = format!("{} is not a directory that can be opened: {error}", path.display());
            let help = "create the directory and let the server's user read and write in it, or leave the key out";
            Report::of_file(&self.config.clone().unwrap_or_default(), "sidecar.workspace", message, help)
        })
    }
}
