//! Calls of language models over HTTP.
//!
//! A review asks a [`Gateway`] for the model behind an alias and gets a [`Reply`] or a [`Failure`]. Three thin
//! wire protocols (`anthropic`, `openai`, `gemini`) turn one [`Request`] into one POST and one answer into one
//! text; an `endpoint` makes the exchange, in one attempt, with a deadline and a bound on the answer.
//!
//! **No retries here.** The one retry loop is the queue's, so that a long `Retry-After` holds no worker and calls
//! are counted in one place. A [`Failure`] carries what that loop needs: whether trying again can help, when, and
//! whether the failed attempt may have cost money.
//!
//! **Money.** [`Gateway::worst_case`] is a true upper bound, held before bytes leave; [`cost`] computes the cost of a
//! known usage. If a provider does not tell the usage, the caller charges the hold.
//!
//! **Health.** Each endpoint (provider, base URL, model, key) has a `breaker`. It stops calls to a provider that
//! keeps failing and lets one probe through now and then; a key that is refused opens it at once.
//!
//! **Outbound.** Addresses come from configuration only. `outbound` decides which are allowed. `connect` builds
//! every HTTP client and asks `outbound` again for each address that a name resolves to. No redirects, no
//! proxies from the environment.
//!
//! **Secrets.** Keys are in no log, error or `Debug`; neither are prompts and replies.

mod anthropic;
mod breaker;
mod connect;
mod effort;
mod endpoint;
mod exchange;
mod failure;
mod gateway;
mod gemini;
mod openai;
mod outbound;
mod prices;
mod protocol;
mod retry_after;
mod schema;
#[cfg(test)]
mod tests;

pub use connect::{ClientError, client, secret_headers, transport_fault};
pub use endpoint::{ORIGIN, ORIGIN_HEADER};
pub use exchange::{Finish, Reply, Request, Usage};
pub use failure::{Charge, Failure, FailureKind};
pub use gateway::{Gateway, GatewayError, ProviderHealth, ProviderState, SuspensionReason, WorstCase};
pub use outbound::{OutboundPolicy, UrlRefused, check_url};
pub use prices::{PRICES_AS_OF, builtin_models, cost};
pub use retry_after::from_headers as retry_after;
