//! `umbra briefing` and `umbra report`: summaries of a day or a week.

use super::{CommandFailure, GlobalOptions};
use crate::{
    app::App,
    briefing::{self, Kind, Period},
};
use umbra_domain::clock::Clock;

/// Parses `--date` or `--week`; `None` is the latest period that is over.
pub(super) fn period(kind: Kind, text: Option<&str>) -> Result<Option<Period>, CommandFailure> {
    let read = |text: &str| match kind {
        Kind::Day => Period::parse_day(text),
        Kind::Week => Period::parse_week(text),
    };
    let wrong = match kind {
        Kind::Day => "--date: write a date such as 2026-02-28, or latest",
        Kind::Week => "--week: write an ISO week such as 2026-W09, or latest",
    };
    match text.filter(|text| *text != "latest") {
        Some(text) => read(text).map(Some).ok_or_else(|| CommandFailure::Usage(wrong.into())),
        None => Ok(None),
    }
}

pub(super) async fn run(global: &GlobalOptions, kind: Kind, text: Option<&str>) -> Result<(), CommandFailure> {
    let period = period(kind, text)?;
    let (setup, database) = global.open_existing().await?;
    let App { flows, .. } = App::build(&setup, &database.store, Clock::system()).await?;
    let period = match (period, kind) {
        (Some(period), _) => period,
        (None, Kind::Day) => flows.followers.latest_day().await?,
        (None, Kind::Week) => flows.followers.latest_week().await?,
    };
    let made = flows.followers.briefing(period).await?;
    database.close().await;
    let Some(made) = made else {
        return Err(CommandFailure::Error(anyhow::anyhow!("{period} has not begun yet")));
    };
    global.print(&made, || briefing::page(&made))
}
