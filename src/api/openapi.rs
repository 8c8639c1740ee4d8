//! OpenAPI document, made from the handlers' doc comments, and the page that shows it. All assets are served from here.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    sync::{Arc, LazyLock},
};

use axum::{
    Json, Router,
    http::header,
    response::{Html, IntoResponse},
    routing::get,
};
use jiff::Timestamp;
use utoipa::{
    IntoParams, OpenApi,
    openapi::{
        ContentBuilder, Ref, RefOr, ResponseBuilder, Schema,
        path::Operation,
        schema::ArrayItems,
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

use super::problem::{Problem, ProblemDocument};

/// Query parameters `limit`, `order` and `cursor` of lists.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it documents parameters; `params` reads them")]
pub struct Pages {
    /// Most items of the page.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
    /// `asc`, oldest first, or `desc`.
    #[param(example = "asc")]
    order: Option<String>,
    /// `next_cursor` or `resume_cursor` of an earlier answer.
    cursor: Option<String>,
}

/// Query parameters `since` and `until` of lists.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it documents parameters; `params` reads them")]
pub struct Times {
    /// Items from this time on (RFC 3339).
    since: Option<Timestamp>,
    /// Items before this time (RFC 3339).
    until: Option<Timestamp>,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Umbra",
        description = "Watches AI agents work: post copies of what the agents do, read the findings of independent \
                       reviews.\n\nErrors are RFC 9457 problems with a stable `code`. Lists are paged by cursors that \
                       never skip and never repeat an item. A server on loopback without keys needs none; everywhere \
                       else send `Authorization: Bearer umbra_sk_...`.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    servers((url = "/", description = "This server")),
    components(schemas(ProblemDocument)),
    tags(
        (name = "events", description = "Copies of what agents do"),
        (name = "reviews", description = "Conclusions of shadows about events"),
        (name = "backtests", description = "Trials of a shadow's version on stored events before it goes live"),
        (name = "findings", description = "Faults that reviews and checks found"),
        (name = "breakers", description = "Recommendations whether an agent should go on"),
        (name = "briefings", description = "Summaries of days and weeks"),
        (name = "trajectories", description = "Tasks from their first event to the last"),
        (name = "boundary", description = "Decisions whether tool calls run, and their audit"),
        (name = "sidecar", description = "A companion of an agent's session: tools, rules, documents, patterns"),
        (name = "status", description = "The configuration in force, its cost, and why events were not reviewed"),
        (name = "admin", description = "Configuration and keys"),
        (name = "health", description = "Health and metrics"),
    )
)]
struct Document;

/// Returns the document without routes; these add themselves.
pub(super) fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// Adds to each operation what follows from its form: its authentication, and the problems that its layers answer.
pub fn complete(mut document: utoipa::openapi::OpenApi) -> utoipa::openapi::OpenApi {
    let key = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    document.components.get_or_insert_default().add_security_scheme("key", key);
    for (path, item) in &mut document.paths.paths {
        let open = matches!(path.as_str(), "/livez" | "/readyz" | "/metrics");
        let named = path.contains('{');
        let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            complete_operation(operation, open, named);
        }
    }
    if let Some(components) = &mut document.components {
        refer_to_items(&mut components.schemas);
    }
    // Schemas that nothing refers to are dropped.
    let text = document.to_json().unwrap_or_default();
    let named: HashSet<&str> = text.split("schemas/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    if let Some(components) = &mut document.components {
        components.schemas.retain(|name, _| named.contains(name.as_str()));
    }
    document
}

/// Replaces the schema of a list's items, which `utoipa` writes into each list, by a reference to it.
fn refer_to_items(schemas: &mut BTreeMap<String, RefOr<Schema>>) {
    let known: Vec<String> = schemas.keys().cloned().collect();
    for (name, schema) in schemas {
        let item = name.strip_prefix("Listing_").filter(|item| known.iter().any(|name| name == item));
        if let (Some(item), RefOr::T(Schema::Object(list))) = (item, schema)
            && let Some(RefOr::T(Schema::Array(items))) = list.properties.get_mut("items")
        {
            items.items = ArrayItems::RefOrSchema(Box::new(Ref::from_schema_name(item).into()));
        }
    }
}

/// Makes the first clause of an operation's doc comment its title, and the whole comment its description.
fn title(operation: &mut Operation) {
    let Some(words) = operation.summary.take().map(|words| words.replace('\n', " ")) else { return };
    let end = [". ", ": ", "; "].iter().filter_map(|mark| words.find(mark)).min();
    operation.summary =
        Some(words.get(..end.unwrap_or(words.len())).unwrap_or_default().trim_end_matches('.').to_owned());
    operation.description = match operation.description.take() {
        Some(more) => Some(format!("{words}\n\n{more}")),
        None => end.map(|_| words),
    };
}

fn complete_operation(operation: &mut Operation, open: bool, named: bool) {
    title(operation);
    let has_body = operation.request_body.is_some();
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response
            && status.starts_with(['4', '5'])
            && response.content.is_empty()
        {
            response.content = problem("").content;
        }
    }
    let mut add = |status: &str, words: &str| {
        operation.responses.responses.entry(status.to_owned()).or_insert_with(|| RefOr::T(problem(words)));
    };
    add("400", "The request has invalid parts; `errors` lists them");
    add("431", "The request's headers are too large");
    add("403", "The key, the host or the origin does not permit this");
    if !open {
        add("401", "A valid key is required");
        add("503", "The server is overloaded, or the database does not answer: try again after `Retry-After`");
    }
    if named {
        add("404", "Nothing has this id or name");
    }
    if has_body {
        add("408", "The request took too long to arrive");
        add("413", "The body is too large");
        add("415", "The type or the encoding of the body is not supported");
    }
    let key = || SecurityRequirement::new::<_, [&str; 0], &str>("key", []);
    operation.security = Some(if open { Vec::new() } else { vec![SecurityRequirement::default(), key()] });
}

fn problem(words: &str) -> utoipa::openapi::Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    ResponseBuilder::new().description(words).content("application/problem+json", content).build()
}

/// Page that shows the document with Scalar.
const PAGE: &str = r#"<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Umbra API</title></head>
<body><div id="app"></div><script src="/docs/scalar.js"></script><script src="/docs/start.js"></script></body>
</html>
"#;
/// Script that starts Scalar without requests to other servers.
const START: &str = r##"Scalar.createApiReference("#app", {
  url: "/openapi.json", withDefaultFonts: false, telemetry: false, agent: { disabled: true }, mcp: { disabled: true },
  hideClientButton: true, showDeveloperTools: "never", showSidebar: true, documentDownloadType: "json",
});
"##;
/// Content security policy of the page: as elsewhere, but with inline styles, which Scalar writes.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; \
     object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Adds the document, which is completed when it is first asked for, and its page to the router.
pub(super) fn with_documentation(router: Router, document: utoipa::openapi::OpenApi) -> Router {
    let json = Arc::new(LazyLock::new(move || complete(document)));
    let page = || async { ([(header::CONTENT_SECURITY_POLICY, POLICY)], Html(PAGE)) };
    let script = |text: Cow<'static, [u8]>| {
        let kept = [(header::CONTENT_TYPE, "text/javascript; charset=utf-8"), (header::CACHE_CONTROL, "max-age=3600")];
        move || async move { (kept, text) }
    };
    let missing = || async { Problem::not_found("File not found; the documentation begins at /docs/.") };
    router
        .route("/docs", get(page))
        .route("/docs/", get(page))
        .route("/docs/scalar.js", get(script(scalar_api_reference::get_asset("scalar.js").unwrap_or_default().into())))
        .route("/docs/start.js", get(script(START.as_bytes().into())))
        .route("/docs/{*path}", get(missing))
        .route("/openapi.json", get(move || async move { Json(&**json).into_response() }))
}
