//! The window of the Model Context Protocol (<https://modelcontextprotocol.io>): a proxy in front of other servers, whose
//! every call of a tool asks the boundary first.
//!
//! A call walks so: a face ([`Face`], over standard input and output or HTTP) gives it to the [`Gateway`]; that finds the
//! tool in its [`catalogue`], has the [`guard`] decide, and lets it run at its [`upstream`], or answers in its place
//! ([`results`]). What came of it goes to the audit and, as an event, to the shadows, behind the answer. Resources, prompts
//! and completions are passed through: they change nothing.
//!
//! Both faces and both sides speak 2026-07-28 and, by `initialize`, 2025-11-25 and older; what a server of the one says is
//! put into the form of the other. Requests of a server to its client (sampling, roots, elicitation before 2026-07-28) are not
//! passed on: the server gets an error that says so. What a server says of itself is a claim: it is pinned when first
//! seen ([`pins`]), looked through for orders to the model, and reported when it changes.
//!
//! A profile with `select` lists the tools that fit the task, and two that reach the others ([`selection`]).
//!
//! The tool's name is taken from the body alone, never from a header.

mod call;
mod catalogue;
mod face;
mod gateway;
mod guard;
mod http;
mod line;
mod news;
mod pins;
mod results;
mod selection;
mod stdio;
mod upstream;

pub use self::{
    catalogue::Repinned,
    gateway::{Caller, Gateway, GatewayError},
    guard::{Guard, Scribe},
    http::Profiles,
    stdio::serve_stdio,
};
