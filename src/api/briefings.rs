//! `/v1/briefings` and `/v1/reports`: summaries of a day or a week.

use axum::{
    Json,
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};

use super::{
    Api,
    params::{PathPart, prefers_markdown},
    problem::Problem,
};
use crate::briefing::{self, Briefing, Period};

/// Returns the briefing of a day: as stored when the day was over, or computed from present data. As markdown where
/// `Accept` asks for it.
#[utoipa::path(get, path = "/v1/briefings/{date}", tag = "briefings",
    params(("date" = String, Path,
        description = "A date in each shadow's time zone, or `latest`: the last complete day, or on the first day of \
                       the installation that day so far",
        example = "2026-02-28")),
    responses((status = 200, description = "The briefing",
        content((Briefing = "application/json"), (String = "text/markdown")))))]
pub async fn get_briefing(api: Api, PathPart(date): PathPart, headers: HeaderMap) -> Result<Response, Problem> {
    let period = match date.as_str() {
        "latest" => api.flows.followers.latest_day().await?,
        date => Period::parse_day(date)
            .ok_or_else(|| Problem::bad_path("expected a date such as 2026-02-28 in the path, or latest"))?,
    };
    answer(&api, period, &headers).await
}

/// Returns the report of an ISO 8601 week, Monday to Sunday, made like a briefing.
#[utoipa::path(get, path = "/v1/reports/{iso_week}", tag = "briefings",
    params(("iso_week" = String, Path,
        description = "A week, or `latest`: the last complete week, or in the first week of the installation that week \
                       so far",
        example = "2026-W09")),
    responses((status = 200, description = "The report",
        content((Briefing = "application/json"), (String = "text/markdown")))))]
pub async fn get_report(api: Api, PathPart(week): PathPart, headers: HeaderMap) -> Result<Response, Problem> {
    let period = match week.as_str() {
        "latest" => api.flows.followers.latest_week().await?,
        week => Period::parse_week(week)
            .ok_or_else(|| Problem::bad_path("expected an ISO week such as 2026-W09 in the path, or latest"))?,
    };
    answer(&api, period, &headers).await
}

async fn answer(api: &Api, period: Period, headers: &HeaderMap) -> Result<Response, Problem> {
    let made = api.flows.followers.briefing(period).await?;
    let made = made.ok_or_else(|| Problem::not_found(format!("{period} has not begun yet")))?;
    if prefers_markdown(headers) {
        return Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], briefing::page(&made)).into_response());
    }
    Ok(Json(made).into_response())
}
