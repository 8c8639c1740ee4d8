//! `umbra hook`: a coding agent's hooks: the command that they run, and their installation.

mod install;
mod plugin;
mod settings_file;
mod status;
mod trust;

use anyhow::Context;
use clap::{Args, Subcommand};

use self::install::{HookFlags, HostSelection, InstallOptions};
use super::{CommandFailure, GlobalOptions, answer, remote::Server, usage};
use umbra_config::Environment;
use umbra_hooks::host;
use umbra_shim::ShimOptions;

/// Notes after the help text.
pub(super) const NOTES: &str = "As a hook it takes a payload on standard input, prints the answer that its host reads, \
    and exits with 0. docs/hooks.md tells of each host.";

/// Options of `umbra hook`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(super) struct HookOptions {
    #[command(flatten)]
    shim: Option<ShimOptions>,
    #[command(subcommand)]
    action: Option<HookAction>,
}

/// Action on the hooks of a host.
#[derive(Debug, Clone, Subcommand)]
enum HookAction {
    /// Put hooks into the settings of a coding agent, and prove that they work; a second time changes nothing.
    Install(InstallOptions),
    /// Take the hooks out of the settings again, and nothing else.
    Uninstall(HostSelection),
    /// Show the installed hooks, the last events of each host, and calls that ran without a decision.
    Status {
        #[command(flatten)]
        server: Server,
    },
    /// Print the plugin of a host whose hooks are plugins: opencode, pi.
    Plugin {
        /// Coding agent.
        #[arg(value_name = "HOST", value_parser = clap::builder::PossibleValuesParser::new(["opencode", "pi"]))]
        host: String,
        #[command(flatten)]
        hook: HookFlags,
    },
}

/// Runs the command.
pub(super) async fn run(global: &GlobalOptions, options: HookOptions) -> Result<(), CommandFailure> {
    match (options.action, options.shim) {
        (Some(HookAction::Install(options)), _) => install::install(&options),
        (Some(HookAction::Uninstall(target)), _) => install::uninstall(&target),
        (Some(HookAction::Status { server }), _) => status::run(global, &server).await,
        (Some(HookAction::Plugin { host: name, hook }), _) => {
            let host = host(&name).context("unknown host")?;
            answer(plugin::text(host, &hook)?.trim_end());
            Ok(())
        }
        // The hook itself runs before this: only options before its host's name come here.
        (None, Some(shim)) => usage(format!("write umbra hook {} before all options", shim.host)),
        (None, None) => Ok(()),
    }
}

/// Returns a variable of the process that is set, without blanks around it.
fn variable(name: &str) -> Option<String> {
    let environment = Environment::of_process();
    environment.get(name).map(str::trim).filter(|value| !value.is_empty()).map(ToOwned::to_owned)
}
