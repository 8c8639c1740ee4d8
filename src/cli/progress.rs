//! Progress bars on standard error; nothing is drawn where it is no terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// Returns a bar of so many steps, with its rate and the remaining time; `what` names the steps.
pub(super) fn bar(steps: u64, what: &'static str) -> ProgressBar {
    let template = "{bar:30} {human_pos} of {human_len} {msg}, {per_sec:0}, {eta} left";
    let bar = ProgressBar::new(steps).with_message(what);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
