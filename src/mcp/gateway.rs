//! Gateway that presents the servers of a profile as one.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use anyhow::Context as _;
use arc_swap::ArcSwapOption;
use futures_util::future::join_all;
use parking_lot::Mutex;
use rmcp::model::{
    ClientRequest, ErrorData, Implementation, PromptsCapability, ResourcesCapability, ServerCapabilities, ServerConfig,
    ServerResult, Tool, ToolsCapability,
};
use tokio::{sync::broadcast, time::timeout};
use tokio_util::task::TaskTracker;

use super::{
    call_guard::CallGuard,
    catalogue::{CatalogueEntry, Offer},
    selection::SelectionLimits,
    server_notices::{BACKLOG, ServerNotice},
    upstream::{Upstream, UpstreamError, UpstreamRequestContext},
};
use umbra_config::settings::{Mcp, McpProfile, McpUpstream};
use umbra_domain::ToolName;
use umbra_llm::OutboundPolicy;

/// Separator of a server's name and an item's name, where there are several servers.
const BETWEEN: &str = "__";
/// Most resource URIs whose server is remembered.
const PLACES: usize = 10_000;
/// Age up to which a server's list of tools is used, if the server reports no change.
const FRESH: Duration = Duration::from_mins(5);
/// Longest wait at the end for calls that it cancelled.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Caller of a profile, with its run and task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpCaller {
    /// Name of the agent.
    pub agent: String,
    /// Session of the agent.
    pub session: Option<String>,
    /// Run of the agent: stubs of a run share their state.
    pub run: Option<String>,
    /// Seed that makes the stubs of the run repeatable.
    pub seed: Option<String>,
    /// Route that the agent works on.
    pub route: Option<String>,
    /// Modes that the agent is in.
    pub modes: Vec<String>,
    /// Task by which tools are selected.
    pub task: Option<String>,
}

/// Servers of a profile, presented as one.
pub struct McpGateway {
    pub(super) profile: String,
    /// Agent that calls where the client does not name one.
    pub(super) agent: String,
    pub(super) settings: Mcp,
    /// Limits of the list of tools, if the profile has any.
    pub(super) selection: Option<SelectionLimits>,
    pub(super) stalls: Vec<UpstreamSlot>,
    pub(super) guard: CallGuard,
    news: broadcast::Sender<ServerNotice>,
    /// Calls that are under way.
    pub(super) underway: TaskTracker,
    /// Server of each resource, as far as lists have shown.
    places: Mutex<HashMap<String, usize>>,
}

/// Server with its list of tools.
pub(super) struct UpstreamSlot {
    pub upstream: Upstream,
    pub tools: ArcSwapOption<Offer>,
}

/// Tool that an agent may see.
pub(super) struct OfferedTool {
    /// Name in contracts and rules.
    pub name: ToolName,
    /// Definition, under the name that clients see.
    pub tool: Tool,
}

impl McpGateway {
    /// Returns a gateway to the servers of this profile; none is started yet.
    ///
    /// # Errors
    /// A URL is refused, with a remedy.
    pub fn new(
        name: &str,
        profile: &McpProfile,
        settings: &Mcp,
        policy: &OutboundPolicy,
        guard: CallGuard,
    ) -> anyhow::Result<Self> {
        let (news, _) = broadcast::channel(BACKLOG);
        let stall = |(server, spec): (&String, &McpUpstream)| {
            let made = Upstream::new(server, spec, settings, policy, news.clone());
            let upstream = made.with_context(|| format!("MCP server `{server}` of profile `{name}`"))?;
            Ok(UpstreamSlot { upstream, tools: ArcSwapOption::empty() })
        };
        let stalls = profile.upstreams.iter().map(stall).collect::<anyhow::Result<_>>()?;
        let settings = alone(settings);
        let selection = profile.select.as_ref().map(SelectionLimits::of);
        let (profile, agent) = (name.to_owned(), profile.agent.clone());
        Ok(Self {
            profile,
            agent,
            settings,
            selection,
            stalls,
            guard,
            news,
            underway: TaskTracker::new(),
            places: Mutex::default(),
        })
    }

    /// True if it was made by these settings, the profiles aside.
    pub(super) fn is_under(&self, settings: &Mcp) -> bool {
        self.settings == alone(settings)
    }

    pub(super) fn subscribe_news(&self) -> broadcast::Receiver<ServerNotice> {
        self.news.subscribe()
    }

    /// Returns the servers that an agent may see, with their indices.
    pub(super) fn visible_to(&self, agent: &str) -> impl Iterator<Item = (usize, &UpstreamSlot)> {
        self.stalls.iter().enumerate().filter(move |(_, stall)| stall.upstream.serves(agent))
    }

    /// Returns the name of a server's item that clients see.
    pub(super) fn shown(&self, stall: &UpstreamSlot, name: &str) -> String {
        if self.stalls.len() == 1 { name.to_owned() } else { format!("{}{BETWEEN}{name}", stall.upstream.server) }
    }

    /// Returns the server of an item by its shown name, and the item's name there.
    pub(super) fn resolve_name<'a>(&self, agent: &str, shown: &'a str) -> Option<(&UpstreamSlot, &'a str)> {
        if let [only] = &self.stalls[..] {
            return only.upstream.serves(agent).then_some((only, shown));
        }
        let (server, name) = shown.split_once(BETWEEN)?;
        let (_, stall) = self.visible_to(agent).find(|(_, stall)| stall.upstream.server.as_ref() == server)?;
        Some((stall, name))
    }

    /// Starts the servers that are not running, so that their capabilities are known.
    pub(super) async fn connect(&self, agent: &str) {
        // Calls will report servers that are away.
        join_all(self.visible_to(agent).map(|(_, stall)| stall.upstream.peer())).await;
    }

    /// Returns the capabilities of all servers as those of one; instructions only of servers that `agent` may see.
    pub(super) fn info(&self, agent: Option<&str>, alone: bool) -> ServerConfig {
        let mut all = ServerCapabilities::default();
        let mut instructions = Vec::new();
        let mut tools = ToolsCapability::default();
        tools.list_changed = Some(true);
        all.tools = Some(tools);
        for stall in &self.stalls {
            let Some(says) = stall.upstream.server_info() else { continue };
            let offers = &says.capabilities;
            if offers.prompts.is_some() {
                let mut prompts = PromptsCapability::default();
                prompts.list_changed = Some(true);
                all.prompts = Some(prompts);
            }
            if let Some(theirs) = &offers.resources {
                let ours = all.resources.get_or_insert_with(ResourcesCapability::default);
                ours.list_changed = Some(true);
                // An update would be sent to all clients.
                ours.subscribe =
                    (alone && (theirs.subscribe == Some(true) || ours.subscribe == Some(true))).then_some(true);
            }
            if alone && offers.logging.is_some() {
                all.logging.clone_from(&offers.logging);
            }
            if offers.completions.is_some() {
                all.completions.clone_from(&offers.completions);
            }
            if let Some(text) =
                says.instructions.as_ref().filter(|_| agent.is_some_and(|agent| stall.upstream.serves(agent)))
            {
                instructions.push(match self.stalls.len() {
                    1 => text.clone(),
                    _ => format!("{}: {text}", stall.upstream.server),
                });
            }
        }
        let us = Implementation::new("umbra", env!("CARGO_PKG_VERSION"));
        let mut info = ServerConfig::new(all).with_server_info(us);
        info.instructions = (!instructions.is_empty()).then(|| instructions.join("\n\n"));
        info
    }

    /// Returns every tool that an agent may see, in a stable order. With `known`, servers whose tools are known are not
    /// asked again.
    ///
    /// # Errors
    /// The only server does not answer, or the client has cancelled.
    pub(super) async fn offered(
        &self,
        agent: &str,
        asking: UpstreamRequestContext<'_>,
        known: bool,
    ) -> Result<Vec<OfferedTool>, UpstreamError> {
        let asked = self.visible_to(agent).filter(|(_, stall)| !(known && stall.is_fresh()));
        let looked = join_all(asked.map(|(_, stall)| self.refresh_catalogue(stall, asking))).await;
        for error in looked.into_iter().filter_map(Result::err) {
            if self.stalls.len() == 1 || matches!(error, UpstreamError::Cancelled) {
                return Err(error);
            }
        }
        let mut tools = Vec::new();
        for (_, stall) in self.visible_to(agent) {
            // Of a server that is away, the last known tools are listed: its calls report that it is away.
            for entry in stall.tools.load().iter().flat_map(|offer| &offer.entries) {
                if self.settings.withhold_suspicious && entry.doubt.is_some() {
                    continue;
                }
                let mut tool = entry.tool.clone();
                tool.name = self.shown(stall, &tool.name).into();
                let name = ToolName::of(stall.upstream.server.as_ref(), entry.tool.name.as_ref());
                tools.push(OfferedTool { name, tool });
            }
        }
        Ok(tools)
    }

    /// Returns the tool of this shown name, and its server.
    pub(super) async fn find(
        &self,
        agent: &str,
        shown: &str,
        asking: UpstreamRequestContext<'_>,
    ) -> Result<Option<(&UpstreamSlot, CatalogueEntry)>, UpstreamError> {
        let Some((stall, name)) = self.resolve_name(agent, shown) else { return Ok(None) };
        let known = || {
            let offer = stall.tools.load();
            offer.as_ref()?.entries.iter().find(|entry| entry.tool.name == name).cloned()
        };
        let fresh = if stall.is_fresh() { known() } else { None };
        if fresh.is_none() {
            self.refresh_catalogue(stall, asking).await?;
        }
        Ok(fresh.or_else(known).map(|entry| (stall, entry)))
    }

    /// Remembers the server of a resource.
    pub(super) fn note_place(&self, uri: &str, stall: usize) {
        let mut places = self.places.lock();
        if places.len() < PLACES || places.contains_key(uri) {
            places.insert(uri.to_owned(), stall);
        }
    }

    /// Sends a request to the server of a resource; where it is unknown, to each in turn.
    pub(super) async fn ask_about(
        &self,
        agent: &str,
        uri: &str,
        request: ClientRequest,
        asking: UpstreamRequestContext<'_>,
    ) -> Result<ServerResult, UpstreamError> {
        let known = self.places.lock().get(uri).copied();
        let mut refused = UpstreamError::Refused(ErrorData::resource_not_found(
            "resource not found: no server of this profile has it",
            None,
        ));
        for (index, stall) in self.visible_to(agent) {
            if known.is_some_and(|known| known != index) {
                continue;
            }
            match stall.upstream.ask(request.clone(), asking).await {
                Err(error @ UpstreamError::Refused(_)) => refused = error,
                other => return other,
            }
        }
        Err(refused)
    }

    /// Ends every server that was started, after the calls that are under way.
    pub async fn close(&self) {
        self.underway.close();
        drop(timeout(LAST_WORDS, self.underway.wait()).await);
        join_all(self.stalls.iter().map(|stall| stall.upstream.close())).await;
    }
}

impl UpstreamSlot {
    /// True if its list of tools is known and recent. A restarted server may offer others; a call notices that a server
    /// is away.
    fn is_fresh(&self) -> bool {
        let seen = self.tools.load().as_ref().map(|offer| offer.seen);
        !self.upstream.is_stale() && seen.is_some_and(|seen| seen.elapsed() < FRESH)
    }
}

/// Returns the settings that all profiles share.
fn alone(settings: &Mcp) -> Mcp {
    Mcp { profiles: BTreeMap::new(), ..settings.clone() }
}
