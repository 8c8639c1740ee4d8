//! The web page: one document with its own script and style, which reads the API as any client does.
//!
//! Nothing that agents or models wrote is ever put into it as markup: the script builds text nodes alone. A server with
//! keys serves the page to everybody and its data to nobody: the page asks for a key and keeps it for its tab.

use axum::{Router, http::header, response::IntoResponse, routing::get};

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The page at `/`, and what it loads.
pub fn router() -> Router {
    let file = |kind: &'static str, text: &'static str| {
        // Not kept: after an upgrade an old script would read a new API.
        get(move || async move {
            ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text).into_response()
        })
    };
    Router::new()
        .route("/", file(HTML, include_str!("page/index.html")))
        .route("/dashboard/style.css", file(STYLE, include_str!("page/style.css")))
        .route("/dashboard/app.js", file(SCRIPT, include_str!("page/app.js")))
        .route("/dashboard/dom.js", file(SCRIPT, include_str!("page/dom.js")))
        .route("/dashboard/views.js", file(SCRIPT, include_str!("page/views.js")))
}
