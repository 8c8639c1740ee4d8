//! Progress bars on standard error, for people alone: where it is no terminal, nothing is drawn.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of so many steps, with its rate and the time that is left; `what` names the steps.
pub(super) fn bar(steps: u64, what: &'static str) -> ProgressBar {
    let template = "{bar:30} {human_pos} of {human_len} {msg}, {per_sec:0}, {eta} left";
    let bar = ProgressBar::new(steps).with_message(what);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
