//! Renders a briefing as a page of markdown. Text by agents or models has no effect as markup.

use std::sync::LazyLock;

use jiff::{Timestamp, tz::TimeZone};
use minijinja::{AutoEscape, Environment, UndefinedBehavior, value::Serde};

use super::Briefing;
use umbra_domain::{SkipReason, plain};

#[expect(clippy::expect_used, reason = "the template is a constant, and every test renders it")]
static PAGE: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut page = Environment::new();
    page.set_undefined_behavior(UndefinedBehavior::Strict);
    // Macros give markup; every other text is escaped where it is put into the page.
    page.set_auto_escape_callback(|_| AutoEscape::Custom("markdown".into()));
    page.set_formatter(|out, _, value| match value.as_str() {
        Some(text) if !value.is_safe() => Ok(out.write_str(&plain(text))?),
        _ => Ok(write!(out, "{value}")?),
    });
    page.add_filter("usd", |usd: f64| format!("${usd:.4}"));
    page.add_filter("tenths", |number: f64| format!("{number:.1}"));
    page.add_filter("percent", |share: Option<f64>| {
        share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0))
    });
    page.add_filter("minute", |at: Option<String>| {
        let at = at.and_then(|at| at.parse::<Timestamp>().ok()).map(|at| at.to_zoned(TimeZone::UTC));
        at.map_or_else(|| "-".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M UTC").to_string())
    });
    page.add_filter("reason", |word: String| match SkipReason::parse(&word) {
        Some(reason) => format!("{} ({word})", reason.in_words()),
        None => word,
    });
    page.add_template("page", include_str!("page.j2")).expect("page.j2 is a template");
    page
});

/// Renders the page: the most severe findings in words, unjudged events with the reasons, then figures.
pub fn page(briefing: &Briefing) -> String {
    let page = PAGE.get_template("page").and_then(|page| page.render(Serde(briefing)));
    page.unwrap_or_else(|error| format!("The page cannot be made: {error}")) + "\n"
}
