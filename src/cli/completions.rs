//! `umbra completions SHELL`: prints completions for a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, Failure, Global, answer};

pub(super) fn run(global: &Global, shell: Shell) -> Result<(), Failure> {
    if global.json {
        return Err(Failure::Usage("completions are a shell script: leave --json out".into()));
    }
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "umbra", &mut script);
    answer(String::from_utf8_lossy(&script).trim_end());
    Ok(())
}
