//! Proxy of the Model Context Protocol (<https://modelcontextprotocol.io>) in front of other servers: the boundary
//! decides every call of a tool first.
//!
//! A call takes this path: the server side ([`proxy_server::ProxyServer`], over standard input and output or HTTP)
//! passes it to the [`McpGateway`]. The gateway finds the tool in its [`catalogue`], has the [`call_guard`] decide, and
//! runs it at its [`upstream`], or answers in its place ([`results`]). After the answer, the outcome goes to the audit
//! and, as an event, to the shadows. Resources, prompts and completions are passed through: they change nothing.
//!
//! Clients and servers may speak 2026-07-28 or, by `initialize`, 2025-11-25 and older; messages of one version are
//! converted to the other. Requests of a server to its client (sampling, roots, elicitation before 2026-07-28) are not
//! passed on: the server gets an error. A server's descriptions are claims: they are pinned when first seen ([`pins`]),
//! checked for orders to the model, and reported when they change.
//!
//! A profile with `select` lists the tools that fit the task, and two tools that reach all ([`selection`]).
//!
//! The tool's name is taken only from the body, never from a header.

mod call;
mod call_guard;
mod catalogue;
mod gateway;
mod http;
mod line;
mod pins;
mod proxy_server;
mod results;
mod selection;
mod server_notices;
mod stdio;
mod upstream;

pub use self::{
    call_guard::{CallGuard, OutcomeReporter},
    catalogue::PinResult,
    gateway::{McpCaller, McpGateway},
    http::Profiles,
    stdio::serve_stdio,
};
