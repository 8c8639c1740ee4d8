//! The MCP proxy: behind the HTTP server, and alone over standard input and output.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use tokio_util::sync::CancellationToken;

use super::{App, Database, Setup, sign_audit, watching};
use crate::{
    lifecycle::Tasks,
    mcp::{CallGuard, McpGateway, PinResult, serve_stdio},
};
use umbra_config::settings::{McpProfile, McpSelect, McpUpstream};
use umbra_domain::clock::Clock;

pub use crate::mcp::McpCaller;

/// Longest time for writes after the last answer.
const LAST_WRITES: Duration = Duration::from_secs(10);

/// Options of `umbra mcp`.
#[derive(Debug)]
pub struct Proxy {
    /// Name of a profile of the settings, or the name under which pins of `server` are kept.
    pub profile: String,
    /// Server of the command line, with its name; without it, the profile of the settings is used.
    pub server: Option<(String, McpUpstream)>,
    /// Limits of the list of tools, in place of the profile's.
    pub select: Option<McpSelect>,
    /// Caller; without an agent, the profile's agent calls.
    pub caller: McpCaller,
}

/// Running parts of a proxy that has no HTTP server.
struct RunningProxy {
    gateway: Arc<McpGateway>,
    background: Tasks,
    stop: CancellationToken,
}

impl RunningProxy {
    async fn start(setup: &Setup, database: &Database, proxy: &mut Proxy) -> anyhow::Result<Self> {
        let mut setup = setup.clone();
        let profiles = &mut setup.settings.mcp.profiles;
        if let Some((name, server)) = proxy.server.take() {
            let upstreams = BTreeMap::from([(name, server)]);
            *profiles = BTreeMap::from([(
                proxy.profile.clone(),
                McpProfile { agent: "mcp".to_owned(), select: None, upstreams },
            )]);
        }
        let Some(mut profile) = profiles.get(&proxy.profile).cloned() else {
            bail!(
                "profile {:?} not found in the settings (mcp.profiles): name a declared profile, or give a server's \
                 command: umbra mcp -- COMMAND",
                proxy.profile
            )
        };
        profile.select = proxy.select.take().or(profile.select);
        sign_audit(&setup, &database.store)?;
        let App { flows, writer, filer, decisions, .. } = App::build(&setup, &database.store, Clock::system()).await?;
        let (guard, scribe) = CallGuard::new(flows.clone());
        if proxy.caller.agent.is_empty() {
            proxy.caller.agent.clone_from(&profile.agent);
        }
        let gateway = McpGateway::new(&proxy.profile, &profile, &setup.settings.mcp, &setup.outbound_policy(), guard)?;
        // The session is new and is the run: simulated writes can be read back.
        proxy.caller.session.get_or_insert_with(|| format!("mcp_{}", flows.clock.new_id().simple()));
        let (background, stop) = (Tasks::new(), CancellationToken::new());
        // They end one after the other: each leaves work for the next.
        let scribed = CancellationToken::new();
        background.spawn_then("scribe", scribe.run(stop.clone()), scribed.clone());
        background.spawn("writer", writer.run(scribed.clone()));
        background.spawn("decisions", decisions.run(scribed));
        background.spawn("spool", filer.run(stop.clone()));
        background.spawn("embeddings", flows.sidecar.clone().embed_until(stop.clone()));
        background.spawn("merge", flows.boundary.clone().merge_until(stop.clone()));
        Ok(Self { gateway: Arc::new(gateway), background, stop })
    }

    async fn end(self) {
        self.gateway.close().await;
        self.stop.cancel();
        // The client's requests are done: faults while stopping change nothing.
        self.background.shutdown(LAST_WRITES).await.ok();
    }
}

/// Serves the client on standard input and output until it leaves or a signal comes.
///
/// # Errors
/// In words, with a remedy.
pub async fn proxy(setup: &Setup, database: &Database, mut proxy: Proxy) -> anyhow::Result<()> {
    let tasks = Tasks::new();
    tasks.listen().context("installing signal handlers")?;
    let running = RunningProxy::start(setup, database, &mut proxy).await?;
    let stop = tasks.soft().child_token();
    let serving = async {
        let served = Box::pin(serve_stdio(Arc::clone(&running.gateway), proxy.caller.clone(), stop)).await;
        running.end().await;
        served.context("the handshake with the client failed")
    };
    watching(&database.store, serving).await
}

/// Pins the present descriptions of the servers' tools.
///
/// # Errors
/// In words, with a remedy.
pub async fn accept_tools(setup: &Setup, database: &Database, mut proxy: Proxy) -> anyhow::Result<Vec<PinResult>> {
    let running = RunningProxy::start(setup, database, &mut proxy).await?;
    let accepted = running.gateway.accept().await;
    running.end().await;
    accepted
}
