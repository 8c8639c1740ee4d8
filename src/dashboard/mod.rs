//! The web page: one document with its own style and scripts, which reads the API like any client.
//!
//! Text by agents or models is never inserted as markup: the scripts build text nodes only. A server with keys serves
//! the page to everyone, but its data only with a key: the page asks for one and keeps it for its tab.

use axum::{Router, http::header, response::IntoResponse, routing::get};

const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Makes the entry of a file of the page, at `/dashboard/` and its name.
macro_rules! file {
    ($name:literal, $kind:expr) => {
        (concat!("/dashboard/", $name), $kind, include_str!(concat!("page/", $name)))
    };
}

/// Path, type and text of each file.
const FILES: [(&str, &str, &str); 19] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    file!("style.css", STYLE),
    file!("app.js", SCRIPT),
    file!("dom.js", SCRIPT),
    file!("views.js", SCRIPT),
    file!("views/agents.js", SCRIPT),
    file!("views/approvals.js", SCRIPT),
    file!("views/briefing.js", SCRIPT),
    file!("views/decisions.js", SCRIPT),
    file!("views/events.js", SCRIPT),
    file!("views/findings.js", SCRIPT),
    file!("views/overview.js", SCRIPT),
    file!("views/parts.js", SCRIPT),
    file!("views/reviews.js", SCRIPT),
    file!("views/sessions.js", SCRIPT),
    file!("views/shadows.js", SCRIPT),
    file!("views/tasks.js", SCRIPT),
    file!("views/timeline.js", SCRIPT),
    file!("views/webhooks.js", SCRIPT),
];

/// Returns the routes of the page at `/`, and of the files that it loads.
pub fn router() -> Router {
    FILES.into_iter().fold(Router::new(), |router, (path, kind, text)| {
        // Not cached: after an upgrade an old script would read a new API.
        let answer = ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text);
        router.route(path, get(move || async move { answer.into_response() }))
    })
}
