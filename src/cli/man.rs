//! `umbra man`: manual pages.

use std::path::PathBuf;

use anyhow::Context;
use clap::CommandFactory;
use clap_mangen::Man;

use super::{Cli, CommandFailure, GlobalOptions, answer, usage};

/// Prints the manual page of the program, or writes one page for each command into a directory.
pub(super) fn run(global: &GlobalOptions, dir: Option<PathBuf>) -> Result<(), CommandFailure> {
    if global.json {
        return usage("manual pages are written for `man`: leave --json out");
    }
    let Some(dir) = dir else {
        let mut page = Vec::new();
        Man::new(Cli::command()).render(&mut page)?;
        answer(String::from_utf8_lossy(&page).trim_end());
        return Ok(());
    };
    std::fs::create_dir_all(&dir).with_context(|| format!("{} cannot be created", dir.display()))?;
    clap_mangen::generate_to(Cli::command(), &dir).with_context(|| format!("{} cannot be written", dir.display()))?;
    answer(&format!("manual pages written to {}", dir.display()));
    Ok(())
}
