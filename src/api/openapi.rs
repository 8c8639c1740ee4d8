//! The OpenAPI document, from the handlers' own words, and the page that shows it. No asset comes from elsewhere.

use axum::{
    Json, Router,
    http::StatusCode,
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::get,
};
use utoipa::{
    IntoParams, OpenApi,
    openapi::{
        ContentBuilder, RefOr, ResponseBuilder,
        path::Operation,
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::problem::{Problem, ProblemDocument};

/// `limit`, `order`, `cursor`, `since` and `until` of every list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it documents parameters; `params` reads them")]
pub struct Paging {
    /// At most so many items.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
    /// `asc`, oldest first, or `desc`.
    #[param(example = "asc")]
    order: Option<String>,
    /// `next_cursor` or `resume_cursor` of an earlier answer.
    cursor: Option<String>,
    /// From this time (RFC 3339).
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<String>,
    /// Before this time (RFC 3339).
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<String>,
}

/// `limit`, `order` and `cursor` of a list that has no times.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it documents parameters; `params` reads them")]
pub struct Pages {
    /// At most so many items.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
    /// `asc`, oldest first, or `desc`.
    #[param(example = "asc")]
    order: Option<String>,
    /// `next_cursor` or `resume_cursor` of an earlier answer.
    cursor: Option<String>,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Umbra",
        description = "Watches AI agents work: post copies of what they do, read what a second look found.\n\n\
            Errors are RFC 9457 problems with a stable `code`. Lists go by cursors that never skip and never repeat. \
            A server on loopback without any key is open; everywhere else send `Authorization: Bearer umbra_sk_...`.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    servers((url = "/", description = "This server")),
    components(schemas(ProblemDocument)),
    tags(
        (name = "events", description = "Copies of what agents do"),
        (name = "reviews", description = "What shadows conclude"),
        (name = "backtests", description = "A version of a shadow, tried on stored events before it goes live"),
        (name = "findings", description = "What was found"),
        (name = "breakers", description = "Whether an agent should go on"),
        (name = "briefings", description = "What a day or a week was like"),
        (name = "trajectories", description = "Tasks from their first event to the last"),
        (name = "boundary", description = "Whether calls of tools run, and what is kept of them"),
        (name = "sidecar", description = "A companion of an agent's session: tools, rules, documents, patterns"),
        (name = "status", description = "What is in force, what it costs, why something was not reviewed"),
        (name = "admin", description = "Configuration and keys"),
        (name = "health", description = "For machines"),
    )
)]
struct Document;

/// The document's frame, to which the routes add themselves.
pub(super) fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// Adds what an operation does not say itself, since it follows from its form: how a caller shows who it is, and the
/// problems that the layers around it answer.
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
    document
}

fn complete_operation(operation: &mut Operation, open: bool, named: bool) {
    let has_body = operation.request_body.is_some();
    let mut add = |status: &str, words: &str| {
        operation.responses.responses.entry(status.to_owned()).or_insert_with(|| RefOr::T(problem(words)));
    };
    add("400", "Something in the request cannot be used; `errors` says what and where");
    add("431", "The request's headers are too large");
    add("403", "Not with this key, or not from this host or origin");
    if !open {
        add("401", "A valid key is required");
        add("503", "Too much to do, or the database is away: come again after `Retry-After`");
    }
    if named {
        add("404", "There is no such thing");
    }
    if has_body {
        add("408", "The request took too long to arrive");
        add("413", "The body is too large");
        add("415", "The body is of a type, or encoded in a way, that is not read here");
    }
    if !open {
        operation.security =
            Some(vec![SecurityRequirement::default(), SecurityRequirement::new::<_, [&str; 0], &str>("key", [])]);
    }
}

fn problem(words: &str) -> utoipa::openapi::Response {
    let content = ContentBuilder::new().schema(Some(utoipa::openapi::Ref::from_schema_name("Problem"))).build();
    ResponseBuilder::new().description(words).content("application/problem+json", content).build()
}

/// Serves the document and its page beside the API.
pub(super) fn with_documentation(router: Router, document: &utoipa::openapi::OpenApi) -> Router {
    let config = Config::from("/openapi.json").validator_url("none").try_it_out_enabled(true);
    let json = document.clone();
    let pages = Router::new().merge(SwaggerUi::new("/docs").config(config));
    // The page's own answer for what it does not have is no problem.
    let pages = pages.layer(map_response(async |answer: Response| {
        if answer.status() == StatusCode::NOT_FOUND {
            return Problem::not_found("The documentation has no such file; it begins at /docs/.").into_response();
        }
        answer
    }));
    router.merge(pages).route("/openapi.json", get(move || async move { Json(json) }))
}
