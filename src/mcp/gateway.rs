//! Gateway that presents the servers of a profile as one.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use anyhow::Context as _;
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
    catalogue::CatalogueEntry,
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
    pub(super) upstreams: Vec<Upstream>,
    pub(super) guard: CallGuard,
    news: broadcast::Sender<ServerNotice>,
    /// Calls that are under way.
    pub(super) underway: TaskTracker,
    /// Server of each resource, as far as lists have shown.
    places: Mutex<HashMap<String, usize>>,
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
        let upstream = |(server, spec): (&String, &McpUpstream)| {
            let made = Upstream::new(server, spec, settings, policy, news.clone());
            made.with_context(|| format!("MCP server `{server}` of profile `{name}`"))
        };
        let upstreams = profile.upstreams.iter().map(upstream).collect::<anyhow::Result<_>>()?;
        let settings = alone(settings);
        let selection = profile.select.as_ref().map(SelectionLimits::of);
        let (profile, agent) = (name.to_owned(), profile.agent.clone());
        Ok(Self {
            profile,
            agent,
            settings,
            selection,
            upstreams,
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
    pub(super) fn visible_to(&self, agent: &str) -> impl Iterator<Item = (usize, &Upstream)> {
        self.upstreams.iter().enumerate().filter(move |(_, upstream)| upstream.serves(agent))
    }

    /// Returns the name of a server's item that clients see.
    pub(super) fn shown(&self, upstream: &Upstream, name: &str) -> String {
        if self.upstreams.len() == 1 { name.to_owned() } else { format!("{}{BETWEEN}{name}", upstream.server) }
    }

    /// Returns the server of an item by its shown name, and the item's name there.
    pub(super) fn resolve_name<'a>(&self, agent: &str, shown: &'a str) -> Option<(&Upstream, &'a str)> {
        if let [only] = &self.upstreams[..] {
            return only.serves(agent).then_some((only, shown));
        }
        let (server, name) = shown.split_once(BETWEEN)?;
        let (_, upstream) = self.visible_to(agent).find(|(_, upstream)| upstream.server == server)?;
        Some((upstream, name))
    }

    /// Starts the servers that are not running, so that their capabilities are known.
    pub(super) async fn connect(&self, agent: &str) {
        // Calls will report servers that are away.
        join_all(self.visible_to(agent).map(|(_, upstream)| upstream.peer())).await;
    }

    /// Returns the capabilities of all servers as those of one; instructions only of servers that `agent` may see.
    pub(super) fn info(&self, agent: Option<&str>, alone: bool) -> ServerConfig {
        let mut all = ServerCapabilities::default();
        let mut instructions = Vec::new();
        let mut tools = ToolsCapability::default();
        tools.list_changed = Some(true);
        all.tools = Some(tools);
        for upstream in &self.upstreams {
            let Some(says) = upstream.server_info() else { continue };
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
            if let Some(text) = says.instructions.as_ref().filter(|_| agent.is_some_and(|agent| upstream.serves(agent)))
            {
                instructions.push(match self.upstreams.len() {
                    1 => text.clone(),
                    _ => format!("{}: {text}", upstream.server),
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
        let asked = self.visible_to(agent).filter(|(_, upstream)| !(known && upstream.is_fresh()));
        let looked = join_all(asked.map(|(_, upstream)| self.refresh_catalogue(upstream, asking))).await;
        for error in looked.into_iter().filter_map(Result::err) {
            if self.upstreams.len() == 1 || matches!(error, UpstreamError::Cancelled) {
                return Err(error);
            }
        }
        let mut tools = Vec::new();
        for (_, upstream) in self.visible_to(agent) {
            // Of a server that is away, the last known tools are listed: its calls report that it is away.
            for entry in upstream.tools.load().iter().flat_map(|offer| &offer.entries) {
                if self.settings.withhold_suspicious && entry.doubt.is_some() {
                    continue;
                }
                let mut tool = entry.tool.clone();
                tool.name = self.shown(upstream, &tool.name).into();
                let name = ToolName::of(&*upstream.server, entry.tool.name.as_ref());
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
    ) -> Result<Option<(&Upstream, CatalogueEntry)>, UpstreamError> {
        let Some((upstream, name)) = self.resolve_name(agent, shown) else { return Ok(None) };
        let known = || {
            let offer = upstream.tools.load();
            offer.as_ref()?.entries.iter().find(|entry| entry.tool.name == name).cloned()
        };
        let fresh = if upstream.is_fresh() { known() } else { None };
        if fresh.is_none() {
            self.refresh_catalogue(upstream, asking).await?;
        }
        Ok(fresh.or_else(known).map(|entry| (upstream, entry)))
    }

    /// Remembers the server of a resource.
    pub(super) fn note_place(&self, uri: &str, upstream: usize) {
        let mut places = self.places.lock();
        if places.len() < PLACES || places.contains_key(uri) {
            places.insert(uri.to_owned(), upstream);
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
        for (index, upstream) in self.visible_to(agent) {
            if known.is_some_and(|known| known != index) {
                continue;
            }
            match upstream.ask(request.clone(), asking).await {
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
        join_all(self.upstreams.iter().map(Upstream::close)).await;
    }
}

/// Returns the settings that all profiles share.
fn alone(settings: &Mcp) -> Mcp {
    Mcp { profiles: BTreeMap::new(), ..settings.clone() }
}
