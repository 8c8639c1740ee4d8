//! `umbra completions SHELL`: prints completions for a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, CommandFailure, GlobalOptions, answer, usage};

pub(super) fn run(global: &GlobalOptions, shell: Shell) -> Result<(), CommandFailure> {
    if global.json {
        return usage("completions are a shell script: leave --json out");
    }
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "umbra", &mut script);
    answer(String::from_utf8_lossy(&script).trim_end());
    Ok(())
}
