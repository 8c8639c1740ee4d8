//! Hooks of coding agents, pure: payloads become [`HookMessage`]s, and [`HookAnswer`]s become the JSON that each agent
//! reads. An agent (Claude Code, Codex, ...) is called a host here, since it hosts the hook.
//!
//! One table names the hosts ([`HOSTS`]), one the events of all hosts ([`event::kind_of`]), one the fields of payloads.
//! Events and fields are not divided by host: names do not collide, and a payload is understood under any host's name.

pub mod answer;
pub mod event;
pub mod host;
pub mod installation;
pub mod message;
#[cfg(test)]
mod tests;

pub use self::{
    answer::HookAnswer,
    event::EventKind,
    host::{Dialect, HOSTS, HookMode, Host, host},
    message::{HookMessage, HookedCall, Subagent},
};
