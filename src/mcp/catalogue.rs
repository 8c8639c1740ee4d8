//! Tools that a server offers, with doubts about them.

use std::sync::Arc;

use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, RequestMetaObject, ServerResult, Tool};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    gateway::McpGateway,
    pins::{self, PinScope, ToolDoubt},
    upstream::{Upstream, UpstreamError, UpstreamRequestContext},
};

/// Most pages of a list of tools.
const PAGES: usize = 64;
/// Most tools of a server.
const TOOLS: usize = 2_000;
/// Most bytes of a tool's name.
const NAME_BYTES: usize = 128;

/// Tool as its server describes it.
#[derive(Debug, Clone)]
pub(super) struct CatalogueEntry {
    pub tool: Tool,
    pub doubt: Option<ToolDoubt>,
}

/// Tools of a server.
pub(super) struct Offer {
    pub entries: Vec<CatalogueEntry>,
    /// Time of the request for them.
    pub seen: Instant,
}

/// Result of [`McpGateway::accept`] for one server.
#[derive(Debug, serde::Serialize)]
pub struct PinResult {
    /// Name of the server.
    pub server: String,
    /// Number of its tools.
    pub tools: usize,
    /// Names of the newly pinned tools.
    pub pinned: Vec<String>,
}

impl McpGateway {
    /// Lists a server's tools, and compares them with the pinned descriptions.
    pub(super) async fn refresh_catalogue(
        &self,
        upstream: &Upstream,
        asking: UpstreamRequestContext<'_>,
    ) -> Result<(), UpstreamError> {
        upstream.peer().await?;
        // A change from here on makes the list stale again.
        upstream.set_stale(false);
        let looked = self.look_again(upstream, asking).await;
        if looked.is_err() {
            upstream.set_stale(true);
        }
        looked
    }

    async fn look_again(&self, upstream: &Upstream, asking: UpstreamRequestContext<'_>) -> Result<(), UpstreamError> {
        let seen = Instant::now();
        let tools = self.tools_of(upstream, asking).await?;
        let place = PinScope { profile: &self.profile, server: &upstream.server };
        let doubts = match pins::judge(&self.guard, &place, &tools).await {
            // Without a comparison with the pins, no tool is shown.
            Err(_) if self.settings.withhold_suspicious => {
                return Err(UpstreamError::Failed(format!(
                    "the tools of the server `{}` cannot be compared with their pins because the database does not \
                     answer: try again later",
                    upstream.server
                )));
            }
            Ok(doubts) | Err(doubts) => doubts,
        };
        let entries = tools.into_iter().zip(doubts).map(|(tool, doubt)| CatalogueEntry { tool, doubt }).collect();
        upstream.tools.store(Some(Arc::new(Offer { entries, seen })));
        Ok(())
    }

    async fn tools_of(
        &self,
        upstream: &Upstream,
        asking: UpstreamRequestContext<'_>,
    ) -> Result<Vec<Tool>, UpstreamError> {
        let mut tools: Vec<Tool> = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(page));
            let ServerResult::ListToolsResult(page) = upstream.ask(request, asking).await? else {
                return Err(upstream.odd());
            };
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if cursor.is_none() || tools.len() >= TOOLS {
                break;
            }
        }
        tools.truncate(TOOLS);
        // A name is a key here and in the audit.
        tools.retain(|tool| (1..=NAME_BYTES).contains(&tool.name.len()) && !tool.name.chars().any(char::is_control));
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        tools.dedup_by(|one, other| one.name == other.name);
        Ok(tools)
    }

    /// Pins the present descriptions of every server's tools.
    ///
    /// # Errors
    /// A server or the database does not answer.
    pub async fn accept(&self) -> anyhow::Result<Vec<PinResult>> {
        let (meta, never) = (RequestMetaObject::default(), CancellationToken::new());
        let asking = UpstreamRequestContext { meta: &meta, client: None, cancelled: &never };
        let mut accepted = Vec::new();
        for upstream in &self.upstreams {
            let tools = self.tools_of(upstream, asking).await?;
            let place = PinScope { profile: &self.profile, server: &upstream.server };
            let pinned = pins::accept(&self.guard, &place, &tools).await?;
            accepted.push(PinResult { server: upstream.server.clone(), tools: tools.len(), pinned });
        }
        Ok(accepted)
    }
}
