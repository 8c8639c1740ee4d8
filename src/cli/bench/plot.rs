//! Plots figures as SVG: F1 of each set with its interval, beside the bag of words.

use minijinja::{AutoEscape, Environment, UndefinedBehavior, context, value::Serde};

use super::sets::Set;

/// Renders the picture, with a legend.
pub(super) fn svg(title: &str, sets: &[Set]) -> Result<String, minijinja::Error> {
    let mut plot = Environment::new();
    plot.set_undefined_behavior(UndefinedBehavior::Strict);
    plot.set_auto_escape_callback(|_| AutoEscape::Html);
    plot.add_filter("share", |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{share:.3}")));
    Ok(plot.render_str(include_str!("plot.j2"), context! { title, sets => Serde(sets) })? + "\n")
}
