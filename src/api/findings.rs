//! `/v1/findings` and `/v1/observations`: findings as a flat list, and reviews in the shape of the observations log.

use axum::{
    Json,
    extract::Request,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::{
    Api, JsonAnswer, Listing,
    params::{Params, fits_note, reached_listing},
    path_ids::missing,
    problem::Problem,
    reviews::{mode_param, review_filter, trigger_param},
    sarif,
};
use crate::{api::path_ids::PathId, findings::Observation};
use umbra_domain::{Assessment, FindingCategory, FindingId, Mode, ReviewId, Severity, Shadow};
use umbra_store::{
    findings::{FindingFilter, FindingItem},
    paging::Feed,
    reviews::Review,
};

/// Name of the list and of the stream of findings in cursors.
pub(super) const FEED: char = 'f';
const OBSERVATIONS: char = 'o';

/// Lists findings in the order in which they became visible: poll with `resume_cursor`. Findings of passive shadows
/// come only with `mode=passive`.
#[utoipa::path(get, path = "/v1/findings", tag = "findings",
    params(FindingQuery, super::openapi::Pages, super::openapi::Times,
        ("format" = Option<String>, Query, deprecated,
            description = "`sarif` gives the same answer as GET /v1/findings.sarif")),
    responses((status = 200, description = "A page", body = Listing<FindingItem>)))]
pub async fn list_findings(api: Api, mut params: Params) -> Result<Response, Problem> {
    let format = params.parsed("format", "json or sarif", |word| match word {
        "json" => Some(false),
        "sarif" => Some(true),
        _ => None,
    });
    findings(&api, params, format == Some(true)).await
}

/// Lists findings as a SARIF 2.1.0 log, for code scanning pages, editors and gates. Pages are the same as those of GET
/// /v1/findings.
#[utoipa::path(get, path = "/v1/findings.sarif", tag = "findings", params(FindingQuery, super::openapi::Pages, super::openapi::Times),
    responses((status = 200, description = "A page", body = Object, content_type = "application/sarif+json")))]
pub async fn list_findings_sarif(api: Api, params: Params) -> Result<Response, Problem> {
    findings(&api, params, true).await
}

async fn findings(api: &Api, mut params: Params, is_sarif: bool) -> Result<Response, Problem> {
    let filter = finding_filter(&mut params);
    let seek = params.seek(FEED)?;
    let page = api.flows.store.findings().list(&filter, seek).await?;
    let page = reached_listing(&api.flows.store, Feed::Result, FEED, seek, page).await?;
    if !is_sarif {
        return Ok(Json(page).into_response());
    }
    let rules = api.flows.rules.load();
    let shows = |shadow: &Shadow| {
        let mode = shadow.mode;
        filter.shadow.as_ref().is_none_or(|name| *name == shadow.name)
            && filter.mode.map_or(mode != Mode::Passive, |rank| rank == mode.priority())
    };
    let shadows = rules.shadows.iter().map(|armed| &*armed.shadow).filter(|shadow| shadow.enabled && shows(shadow));
    let unjudged: Vec<&str> =
        shadows.filter(|shadow| !rules.has_model(shadow)).map(|shadow| shadow.name.as_str()).collect();
    Ok(sarif::Log::of(&page, &unjudged).into_response())
}

/// Filters of the list and of the stream of findings.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it documents parameters; `finding_filter` reads them")]
pub(super) struct FindingQuery {
    /// Findings by this shadow.
    shadow: Option<String>,
    /// Findings of this agent.
    agent: Option<String>,
    /// Findings of at least this severity.
    severity: Option<Severity>,
    /// Findings of this category.
    category: Option<FindingCategory>,
    /// Findings by shadows of this mode; without it, of all but passive ones.
    mode: Option<Mode>,
    /// Findings of this task.
    task_id: Option<String>,
    /// Findings by this trigger.
    trigger: Option<String>,
    /// `true`: only findings whose evidence was found in the text.
    verified: Option<bool>,
    /// Findings that people gave this status.
    status: Option<FindingStatus>,
}

pub(super) fn finding_filter(params: &mut Params) -> FindingFilter {
    FindingFilter {
        shadow: params.text("shadow"),
        agent: params.text("agent"),
        severity: params
            .parsed("severity", "info, warning or critical", |word| Severity::parse(word).map(Severity::code)),
        category: params.parsed("category", "security, factual, completeness, relevance, quality or custom", |word| {
            FindingCategory::parse(word).map(|category| category.as_str().to_owned())
        }),
        mode: mode_param(params),
        task_id: params.text("task_id"),
        trigger: trigger_param(params),
        verified: params.parsed("verified", "true or false", |word| word.parse().ok()),
        status: params.parsed("status", "open, confirmed, false_positive or resolved", |word| {
            FindingStatus::parse(word).map(|status| status.as_str().to_owned())
        }),
        span: params.span(),
    }
}

/// Returns one finding.
#[utoipa::path(get, path = "/v1/findings/{id}", tag = "findings",
    params(("id" = String, Path, description = "A finding's id")),
    responses((status = 200, description = "The finding", body = FindingItem)))]
pub async fn get_finding(api: Api, PathId(id): PathId<FindingId>) -> JsonAnswer<FindingItem> {
    Ok(Json(find(&api, id).await?))
}

async fn find(api: &Api, id: FindingId) -> Result<FindingItem, Problem> {
    match api.flows.store.findings().get(id).await? {
        Some(finding) => Ok(finding),
        None => Err(missing(api, id).await),
    }
}

umbra_domain::words! {
    /// A person's rating of a finding.
    #[derive(ToSchema)]
    pub enum FindingStatus {
        /// No rating yet.
        Open = "open",
        /// The finding is right.
        Confirmed = "confirmed",
        /// The finding is wrong.
        FalsePositive = "false_positive",
        /// The finding was right and is dealt with.
        Resolved = "resolved",
    }
}

/// Feedback on a finding.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Feedback {
    /// New status; without it, the status stays.
    pub status: Option<FindingStatus>,
    /// Reason; without it, an earlier note stays.
    #[schema(max_length = 2000)]
    pub note: Option<String>,
}

/// Records feedback on a finding. Precision is computed from it.
#[utoipa::path(patch, path = "/v1/findings/{id}", tag = "findings", request_body = Feedback,
    params(("id" = String, Path, description = "A finding's id")),
    responses((status = 200, description = "The finding", body = FindingItem)))]
pub async fn patch_finding(api: Api, PathId(id): PathId<FindingId>, request: Request) -> JsonAnswer<FindingItem> {
    let feedback: Feedback = api.bodies.read_json(request).await?;
    if !feedback.note.as_deref().is_none_or(fits_note) {
        let problem = Problem::invalid_event("the feedback has invalid values; errors lists them");
        return Err(problem.at("/note", "range", "at most 2,000 characters, without U+0000"));
    }
    let note = feedback.note.as_deref().map(|note| umbra_checks::redact(note).as_str().to_owned());
    if feedback.status.is_none() && note.is_none() {
        return Err(Problem::invalid_request("the feedback is empty: give `status`, `note` or both"));
    }
    let row = find(&api, id).await?;
    let status = feedback.status.map(FindingStatus::as_str);
    api.flows.followers.judge_finding(&row, status, note.as_deref()).await?;
    Ok(Json(find(&api, id).await?))
}

/// Lists finished reviews of every mode, and looks of the built-in checks that found something, in the shape of the
/// observations log and in order of finishing. A look has neither a review nor an assessment.
#[utoipa::path(get, path = "/v1/observations", tag = "findings",
    params(("shadow" = Option<String>, Query, description = "Only those of this shadow"),
        ("agent" = Option<String>, Query, description = "Only those of this agent"),
        ("task_id" = Option<String>, Query, description = "Only those of this task"),
        ("trigger" = Option<String>, Query, description = "Only those of this trigger"),
        ("mode" = Option<Mode>, Query, description = "Only those of shadows in this mode"),
        ("assessment" = Option<Assessment>, Query, description = "Only those with this assessment"),
        super::openapi::Pages, super::openapi::Times),
    responses((status = 200, description = "A page", body = Listing<Observation>)))]
pub async fn list_observations(api: Api, mut params: Params) -> JsonAnswer<Listing<Observation>> {
    let mut filter = review_filter(&mut params);
    filter.state = Some("done".into());
    let seek = params.seek(OBSERVATIONS)?;
    let page = api.flows.store.reviews().list(&filter, seek).await?;
    let looks = api.flows.store.findings().looks(&filter, seek).await?;
    let ids: Vec<ReviewId> = page.items.iter().map(|(_, review)| review.id).collect();
    let mut found: std::collections::HashMap<ReviewId, Vec<FindingItem>> = std::collections::HashMap::new();
    for item in api.flows.store.findings().findings_of(&ids).await? {
        if let Some(review) = item.review_id {
            found.entry(review).or_default().push(item);
        }
    }
    let observe = |(seq, mut review): (i64, Review)| {
        review.findings = found.remove(&review.id);
        (seq, Observation::from(review))
    };
    let mut items: Vec<(i64, Observation)> = page.items.into_iter().map(observe).collect();
    items.extend(looks.items.into_iter().filter_map(|(seq, look)| Some((seq, Observation::of_looks(look).pop()?))));
    let page = seek.merge(items, page.more || looks.more);
    reached_listing(&api.flows.store, Feed::Result, OBSERVATIONS, seek, page).await.map(Json)
}
