//! Calls of a script, including those of scripts within it.

use std::collections::VecDeque;

use super::{ProgramCall, ScriptBudget, parse, resolve};

/// Most nested scripts that are read.
const MOST_SCRIPTS: usize = 16;

/// Returns the calls of a script and of the scripts within it, as far as the budget goes.
pub fn calls(script: &str, budget: &ScriptBudget) -> Vec<ProgramCall> {
    let mut waiting = VecDeque::from([script.to_owned()]);
    let mut calls = Vec::new();
    let mut read = 0;
    while let Some(next) = waiting.pop_front() {
        read += 1;
        for resolved in parse(&next, budget).pipelines.into_iter().map(resolve) {
            calls.extend(resolved.calls);
            let room = MOST_SCRIPTS.saturating_sub(read + waiting.len());
            waiting.extend(resolved.scripts.into_iter().map(|inner| inner.text).take(room));
        }
    }
    calls
}
