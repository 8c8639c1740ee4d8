//! `umbra completions SHELL`: prints completions for a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, CommandFailure, GlobalOptions, answer};

pub(super) fn run(global: &GlobalOptions, shell: Shell) -> Result<(), CommandFailure> {
    if global.json {
        return Err(CommandFailure::Usage("completions are a shell script: leave --json out".into()));
    }
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "umbra", &mut script);
    answer(String::from_utf8_lossy(&script).trim_end());
    Ok(())
}
