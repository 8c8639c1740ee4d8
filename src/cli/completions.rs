//! `umbra completions SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, Failure, answer};

#[expect(clippy::unnecessary_wraps, reason = "commands are alike")]
pub(super) fn run(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "umbra", &mut script);
    answer(String::from_utf8_lossy(&script).trim_end());
    Ok(())
}
