//! Every call that a script makes, those of the scripts within it among them.

use std::collections::VecDeque;

use super::{Budget, Call, parse, resolve};

/// Scripts within one another that are read.
const MOST_SCRIPTS: usize = 16;

/// Calls of a script and of the scripts within it, as far as the budget goes.
pub fn calls(script: &str, budget: &Budget) -> Vec<Call> {
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
