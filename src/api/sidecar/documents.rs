//! `/v1/sessions/{id}/documents/{name}`: documents that an agent works by.

use axum::{
    Json,
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    api::{
        Api, JsonAnswer, Listing,
        auth::Caller,
        body::{Media, expect_media, from_json},
        params::{Params, listing},
        path_ids::PathIdAndName,
        problem::Problem,
    },
    flows::sessions::{
        attach::DocumentState,
        documents::{DocumentError, Revise, Revised, Revision, Version, parsed},
    },
};
use umbra_domain::SessionId;
use umbra_sidecar::document::{
    Format, Section,
    edit::{Edit, EditError},
    revision::Etag,
};
use umbra_store::documents::StoredDocument;

/// Name of lists of versions in cursors.
const FEED: char = 'V';

/// Document of a session.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentView {
    /// Name, version and etag of the document.
    #[serde(flatten)]
    pub state: DocumentState,
    /// Text as it was put, without hidden characters and credentials; null where it is unknown (`stored: false`).
    pub text: Option<String>,
    /// Content of the document, by sections and items.
    pub sections: Vec<Section>,
    /// True if the document had changed since the state that the change started from, and both changes are in it.
    pub merged: bool,
    /// True if the document is stored. Otherwise `warnings` say why, and nothing has changed.
    pub stored: bool,
    /// True if parts of the answer are missing.
    pub degraded: bool,
    /// Warnings about missing parts.
    pub warnings: Vec<String>,
}

impl DocumentView {
    fn of(document: &StoredDocument, merged: bool) -> Self {
        Self {
            state: DocumentState::of(document),
            sections: parsed(&document.text, &document.format).map(|read| read.sections()).unwrap_or_default(),
            text: Some(document.text.clone()),
            merged,
            stored: true,
            degraded: false,
            warnings: Vec::new(),
        }
    }
}

/// Text to put.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutDocument {
    /// Whole text of the document.
    pub text: String,
    /// Format of the text; markdown, unless the name ends in `.yaml`.
    #[serde(default)]
    pub format: Option<Format>,
    /// Author of the change; the session's agent unless given.
    #[serde(default)]
    pub by: Option<String>,
}

/// Edits to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchDocument {
    /// Edits in order; all are made, or none.
    #[schema(min_items = 1, max_items = 100)]
    pub edits: Vec<Edit>,
    /// Author of the edits; the session's agent unless given.
    #[serde(default)]
    pub by: Option<String>,
}

/// Returns a document: as JSON with its sections and items, or as its text where `Accept` asks for `text/markdown`,
/// `text/plain` or `application/yaml`.
#[utoipa::path(get, path = "/v1/sessions/{id}/documents/{name}", tag = "sidecar",
    params(("id" = String, Path, description = "A session's id"), ("name" = String, Path, description = "The document's name")),
    responses((status = 200, description = "The document",
        content((DocumentView = "application/json"), (String = "text/markdown"), (String = "application/yaml")))))]
pub async fn get_document(
    api: Api,
    caller: Caller,
    PathIdAndName(id, name): PathIdAndName<SessionId>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = api.flows.sidecar.document(id, &name, &|agent| caller.sees(agent)).await.map_err(refused)?;
    let document = found.ok_or_else(|| refused(DocumentError::NoDocument))?;
    let etag = etag(&document);
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if ["text/markdown", "text/plain", "application/yaml"].iter().any(|media| accept.contains(media)) {
        let media = if document.format == "yaml" { "application/yaml" } else { "text/markdown; charset=utf-8" };
        let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(media)), etag];
        return Ok((headers, document.text).into_response());
    }
    Ok(([etag], Json(DocumentView::of(&document, false))).into_response())
}

/// Puts a whole text, or makes the document. An existing document needs `If-Match` with the `ETag` of the state that
/// was changed. If the document has changed since, both changes are merged, or refused where they contradict each
/// other.
#[utoipa::path(put, path = "/v1/sessions/{id}/documents/{name}", tag = "sidecar",
    request_body(content((PutDocument = "application/json"), (String = "text/markdown"), (String = "application/yaml")),
        description = "The text with its format and author; or the text alone"),
    params(("id" = String, Path, description = "A session's id"), ("name" = String, Path, description = "The document's name"),
        ("If-Match" = Option<String>, Header,
            description = "The ETag of the state that the change is based on, or `*`"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only if the document does not exist yet")),
    responses((status = 200,
        description = "The document is changed; or, with `stored: false`, the change could not be stored",
        body = DocumentView),
        (status = 201, description = "The document is created", body = DocumentView),
        (status = 409, description = "This change conflicts with a concurrent change, or the session is closed"),
        (status = 412, description = "The document's state does not match `If-Match` or `If-None-Match`")))]
pub async fn put_document(
    api: Api,
    caller: Caller,
    PathIdAndName(id, name): PathIdAndName<SessionId>,
    request: Request,
) -> Result<Response, Problem> {
    let (if_match, must_be_new) = conditions(request.headers())?;
    let media = expect_media(request.headers(), &[Media::Json, Media::Markdown, Media::Yaml])?;
    let body = api.bodies.read(request).await?;
    let body = match media {
        Media::Markdown => PutDocument { text: plain(&body)?, format: Some(Format::Markdown), by: None },
        Media::Yaml => PutDocument { text: plain(&body)?, format: Some(Format::Yaml), by: None },
        _ => from_json(&body)?,
    };
    let revision =
        Revision { name, format: body.format, revise: Revise::Put(body.text), if_match, must_be_new, by: body.by };
    revise(&api, &caller, id, revision).await
}

/// Edits a document by section and item: all edits are made, or none. Without `If-Match` they apply to the present
/// state; with it, to that state, and are merged if the document has changed since.
#[utoipa::path(patch, path = "/v1/sessions/{id}/documents/{name}", tag = "sidecar", request_body = PatchDocument,
    params(("id" = String, Path, description = "A session's id"), ("name" = String, Path, description = "The document's name"),
        ("If-Match" = Option<String>, Header, description = "The ETag of the state that the edits are based on")),
    responses((status = 200,
        description = "The document is changed; or, with `stored: false`, the change could not be stored",
        body = DocumentView),
        (status = 409, description = "This change conflicts with a concurrent change, or the session is closed"),
        (status = 412, description = "The document never had the state that `If-Match` names")))]
pub async fn patch_document(
    api: Api,
    caller: Caller,
    PathIdAndName(id, name): PathIdAndName<SessionId>,
    request: Request,
) -> Result<Response, Problem> {
    let (if_match, _) = conditions(request.headers())?;
    let body: PatchDocument = api.bodies.read_json(request).await?;
    if body.edits.is_empty() {
        return Err(Problem::invalid_values([("/edits", "range", "give at least one edit")]));
    }
    let revise_by = Revise::Edits(body.edits);
    let revision = Revision { name, format: None, revise: revise_by, if_match, must_be_new: false, by: body.by };
    revise(&api, &caller, id, revision).await
}

/// Lists the versions of a document, oldest first.
#[utoipa::path(get, path = "/v1/sessions/{id}/documents/{name}/history", tag = "sidecar",
    params(("id" = String, Path, description = "A session's id"), ("name" = String, Path, description = "The document's name"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "Versions at most (50)"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` or `resume_cursor` of an earlier answer"),
        ("order" = Option<String>, Query, description = "asc (default) or desc")),
    responses((status = 200, description = "A page", body = Listing<Version>)))]
pub async fn get_history(
    api: Api,
    caller: Caller,
    PathIdAndName(id, name): PathIdAndName<SessionId>,
    params: Params,
) -> JsonAnswer<Listing<Version>> {
    let seek = params.seek(FEED)?;
    let history = api.flows.sidecar.history(id, &name, seek, &|agent| caller.sees(agent)).await;
    let page = history.map_err(refused)?.ok_or_else(|| refused(DocumentError::NoDocument))?;
    Ok(Json(listing(FEED, seek, page)))
}

async fn revise(api: &Api, caller: &Caller, id: SessionId, revision: Revision) -> Result<Response, Problem> {
    let name = revision.name.clone();
    match api.flows.sidecar.revise(id, revision, &|agent| caller.sees(agent)).await {
        Ok(Revised { document, created, merged, warnings }) => {
            let status = if created { StatusCode::CREATED } else { StatusCode::OK };
            let view = DocumentView { degraded: !warnings.is_empty(), warnings, ..DocumentView::of(&document, merged) };
            Ok((status, [etag(&document)], Json(view)).into_response())
        }
        // The agent goes on; the answer says that the document is not stored.
        Err(DocumentError::Store(error)) if error.is_transient() => Ok(not_stored(name, &unknown(&error))),
        Err(error @ DocumentError::Late) => Ok(not_stored(name, &unknown(&error))),
        Err(error @ DocumentError::Passive) => Ok(not_stored(name, &format!("the document was not changed: {error}"))),
        Err(error) => Err(refused(error)),
    }
}

/// Reads a body that is a text.
fn plain(body: &[u8]) -> Result<String, Problem> {
    let text = std::str::from_utf8(body);
    text.map(str::to_owned).map_err(|error| {
        let at = error.valid_up_to();
        Problem::invalid_request(format!("the text is not UTF-8 from byte {at} on: send UTF-8"))
    })
}

fn unknown(error: &dyn std::error::Error) -> String {
    format!("the change may or may not be stored: {error}; read the document before you send the change again")
}

/// Answers that the document was not stored and that its state is unknown.
fn not_stored(name: String, why: &str) -> Response {
    let warnings = vec![why.to_owned()];
    let (format, etag) = (String::new(), String::new());
    let state = DocumentState { name, format, version: 0, etag, open_items: 0, done_items: 0 };
    let (text, sections) = (None, Vec::new());
    let view = DocumentView { state, text, sections, merged: false, stored: false, degraded: true, warnings };
    Json(view).into_response()
}

fn etag(document: &StoredDocument) -> (HeaderName, HeaderValue) {
    let etag = Etag::of(&document.text).header();
    (header::ETAG, HeaderValue::from_str(&etag).unwrap_or(HeaderValue::from_static("\"\"")))
}

/// Reads `If-Match`, and true if `If-None-Match` is `*`.
fn conditions(headers: &HeaderMap) -> Result<(Option<String>, bool), Problem> {
    let text = |name: HeaderName| match headers.get(&name).map(HeaderValue::to_str) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text.to_owned())),
        Some(Err(_)) => Err(Problem::invalid_request(format!("the header {name} must be printable ASCII"))),
    };
    let if_none = text(header::IF_NONE_MATCH)?;
    if if_none.as_deref().is_some_and(|value| value.trim() != "*") {
        return Err(Problem::invalid_request(
            "If-None-Match may only be `*`, which creates the document only if it does not exist",
        ));
    }
    Ok((text(header::IF_MATCH)?, if_none.is_some()))
}

fn refused(error: DocumentError) -> Problem {
    let text = error.to_string();
    match error {
        DocumentError::NoSession => Problem::no_session(text),
        DocumentError::Closed => Problem::session_closed(text),
        DocumentError::NoDocument => Problem::not_found(text),
        DocumentError::Unconditional | DocumentError::Exists | DocumentError::UnknownState => {
            Problem::precondition_failed(text)
        }
        DocumentError::Conflicts(conflicts) => {
            conflicts.into_iter().take(50).fold(Problem::conflict(text), |problem, conflict| {
                // The part before the first section has no name.
                let parts = [Some(conflict.section), conflict.item].into_iter().flatten();
                let place: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
                let side = |text: &Option<String>| text.clone().unwrap_or_else(|| "missing".to_owned());
                let detail = format!("stored: {}; sent: {}", side(&conflict.ours), side(&conflict.theirs));
                let code = serde_json::to_value(conflict.kind).ok().and_then(|kind| kind.as_str().map(str::to_owned));
                problem.at(place.join(" / "), code.unwrap_or_else(|| "conflict".to_owned()), detail)
            })
        }
        DocumentError::Edit(fault) => {
            let more = match &fault.cause {
                EditError::UnknownSection { exist } if !exist.is_empty() => format!(": {}", exist.join(", ")),
                EditError::AmbiguousSection { slugs } => format!(": {}", slugs.join(", ")),
                _ => String::new(),
            };
            Problem::invalid_request("an edit cannot be applied; no edit was applied").at(
                format!("/edits/{}", fault.index),
                "format",
                format!("{}{more}", fault.cause),
            )
        }
        DocumentError::Yaml(_) => Problem::invalid_request("the text is not valid YAML").at("/text", "format", text),
        DocumentError::Name(_) => Problem::bad_path(text),
        DocumentError::Limit(_) => Problem::body_too_large(text),
        DocumentError::Format(_) | DocumentError::TooMany(_) => Problem::conflict(text),
        DocumentError::Store(error) => error.into(),
        DocumentError::Late | DocumentError::Passive => Problem::database_unavailable(text),
        DocumentError::History => Problem::internal(text),
    }
}
