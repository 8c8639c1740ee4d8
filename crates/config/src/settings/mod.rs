//! The settings: defaults, then the file, then the environment. The caller applies the command line last.
//!
//! Each section lists its keys once ([`section`]); sections of one kind share a file. `config/umbra.default.yaml` shows
//! them all with their defaults; a test compares the two.

mod boundary;
mod consequences;
mod database;
mod files;
mod ingest;
mod logging;
mod mcp;
mod models;
mod outbound;
mod queue;
mod retention;
mod reviewers;
mod section;
mod server;
mod sidecar;
mod telemetry;
mod webhooks;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    Environment, Loaded, Report,
    fault::{Faults, SourcePosition},
    file::read_tree,
    keys::{Keys, Record, Shape},
    tree::{Node, NodeValue, parse},
};
use umbra_domain::{ModelKind, ModelSpec};

pub use boundary::{Approvals, Audit, AuditedReads, Boundary, Flagged, Gate, Hooks, RequireDecisions};
pub use consequences::{Baseline, Breaker, Briefings, Promote, Reflexion};
pub use database::Database;
pub use files::{Artifacts, Auth, ShadowsFile, Storage, ToolsFile};
pub use ingest::{Ingest, Spool};
pub use logging::{LogFormat, LogLevel, Logging};
pub use mcp::{Mcp, McpProfile, McpSelect, McpUpstream, UpstreamAt, UpstreamCommand, plain_name};
pub use outbound::Outbound;
pub use queue::Queue;
pub use retention::Retention;
pub use reviewers::{CheapModel, Checks, Llm, Looks};
use section::{Section, nested};
pub use server::Server;
pub use sidecar::{Sidecar, SidecarHooks};
pub use telemetry::{Otlp, Telemetry};
pub use webhooks::{Secret, Webhook, WebhookFormat};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Judges whether a URL of the settings may be called, given the hosts in `outbound.allow`. The error says why not, and
/// what to do. The rules are those of the HTTP client.
pub type UrlRule<'a> = &'a dyn Fn(&str, &[String]) -> Result<(), String>;

/// Everything that can be set.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The HTTP front and its bounds.
    pub server: Server,
    /// Data folder, and the private Postgres.
    pub storage: Storage,
    /// The Postgres that holds everything.
    pub database: Database,
    /// Path of the shadows file.
    pub shadows: ShadowsFile,
    /// Path of the tools file, with contracts, effects and rules of tools.
    pub tools: ToolsFile,
    /// Execution of tool calls, and the audit of them.
    pub boundary: Boundary,
    /// The companion of agents' sessions, and its bounds.
    pub sidecar: Sidecar,
    /// Declared models, by alias. [`Settings::all_models`] adds the built-in ones.
    pub models: BTreeMap<String, ModelSpec>,
    /// Price up to which a model counts as cheap.
    pub cheap_model: CheapModel,
    /// Private hosts that may be called.
    pub outbound: Outbound,
    /// Endpoints of notifications.
    pub webhooks: Vec<Webhook>,
    /// Telemetry that the service sends.
    pub telemetry: Telemetry,
    /// Daily briefings and weekly reports.
    pub briefing: Briefings,
    /// Workers of reviews.
    pub queue: Queue,
    /// Batching of events.
    pub ingest: Ingest,
    /// Rules of a user's own for the built-in checks.
    pub checks: Checks,
    /// Bounds of the built-in checks where no review runs them.
    pub looks: Looks,
    /// Model calls outside of reviews.
    pub llm: Llm,
    /// Conditions under which an agent should be held back.
    pub breaker: Breaker,
    /// Conditions under which a recurring fault becomes a lesson.
    pub reflexion: Reflexion,
    /// Usual scores of agents.
    pub baseline: Baseline,
    /// Track record that `umbra promote` asks of a shadow.
    pub promote: Promote,
    /// Retention periods.
    pub retention: Retention,
    /// Files for people and other programs.
    pub artifacts: Artifacts,
    /// The proxy in front of MCP servers.
    pub mcp: Mcp,
    /// The first key.
    pub auth: Auth,
    /// The service's own log.
    pub logging: Logging,
}

impl Settings {
    /// Loads the defaults, the file if there is one, and the environment, in this order. Reports the faults of both at
    /// once.
    pub fn load(file: Option<&Path>, env: &Environment, urls: UrlRule<'_>) -> Result<Loaded<Self>, Report> {
        let mut faults = Faults::default();
        let root = file.and_then(|path| read_tree(path, parse, &mut faults));
        Self::from_tree(root, env, urls, faults)
    }

    /// Loads the settings from a text instead of a file. Faults call it `name`.
    pub fn parse(name: &str, text: &str, env: &Environment, urls: UrlRule<'_>) -> Result<Loaded<Self>, Report> {
        let mut faults = Faults::default();
        let source = faults.add_source(name, text);
        let root = parse(source, text, &mut faults);
        Self::from_tree(root, env, urls, faults)
    }

    fn from_tree(
        root: Option<Node>,
        env: &Environment,
        urls: UrlRule<'_>,
        mut faults: Faults,
    ) -> Result<Loaded<Self>, Report> {
        let mut root = root.unwrap_or(Node { kind: NodeValue::Map(Vec::new()), at: SourcePosition::default() });
        env.overlay(&mut root, &mut faults);
        let settings = Record(|keys: &mut Keys<'_>| settings(keys, urls, env)).read(&root, &mut faults);
        faults.finish(settings)
    }

    /// Returns every model that a shadow may name: the built-in ones, replaced and extended by the declared ones.
    pub fn all_models(&self, builtin: Vec<ModelSpec>) -> BTreeMap<String, ModelSpec> {
        let mut models: BTreeMap<_, _> = builtin.into_iter().map(|model| (model.alias.clone(), model)).collect();
        models.extend(self.models.clone());
        models
    }

    /// Returns the folder of the audit's files.
    pub fn audit_dir(&self) -> PathBuf {
        self.boundary.audit.dir.clone().unwrap_or_else(|| self.storage.data_dir.join("audit"))
    }
}

/// Declares every section.
#[expect(clippy::unnecessary_wraps, reason = "the shape of a record that cannot be incomplete")]
fn settings(keys: &mut Keys<'_>, urls: UrlRule<'_>, env: &Environment) -> Option<Settings> {
    fn part<S: Section>(keys: &mut Keys<'_>, name: &'static str) -> S {
        keys.or_default(name, S::ABOUT, nested())
    }
    // First, since it says which hosts the URLs of other sections may name.
    let outbound: Outbound = part(keys, "outbound");
    let callable = |url: &str| urls(url, &outbound.allow);
    let models = keys.optional("models", "Models that shadows may name, by alias.", models::table(&callable));
    let embedding = models.iter().flatten().filter(|(_, model)| model.kind == ModelKind::Embedding).count();
    if embedding > 1 {
        keys.fault(
            "models",
            format!("{embedding} models have the kind embedding"),
            "keep one of them: Umbra uses a single embedding model",
        );
    }
    let webhooks =
        keys.optional("webhooks", "Endpoints of notifications, each with its secret.", webhooks::list(env, &callable));
    if let Some(name) = webhooks.as_deref().and_then(webhooks::twice) {
        keys.fault("webhooks", format!("two webhooks are called {name:?}"), "give each webhook its own `name`");
    }
    let mcp = keys.or_default("mcp", "The proxy in front of MCP servers.", mcp::section(env, &callable));
    let telemetry = keys.optional("telemetry", "Telemetry that the service sends.", telemetry::section(env, &callable));
    let server: Server = part(keys, "server");
    let otlp = telemetry.as_ref().and_then(|telemetry| telemetry.otlp.as_ref());
    if otlp.is_some_and(|otlp| telemetry::is_own(otlp, server.bind)) {
        keys.fault("telemetry", "otlp.endpoint is this service itself", "name the receiver of its telemetry");
    }
    Some(Settings {
        mcp,
        telemetry: telemetry.unwrap_or_default(),
        server,
        storage: part(keys, "storage"),
        database: part(keys, "database"),
        shadows: part(keys, "shadows"),
        tools: part(keys, "tools"),
        boundary: part(keys, "boundary"),
        sidecar: part(keys, "sidecar"),
        models: models::with_aliases(models.unwrap_or_default()),
        cheap_model: part(keys, "cheap_model"),
        outbound,
        webhooks: webhooks.unwrap_or_default(),
        briefing: part(keys, "briefing"),
        queue: part(keys, "queue"),
        ingest: part(keys, "ingest"),
        checks: part(keys, "checks"),
        looks: part(keys, "looks"),
        llm: part(keys, "llm"),
        breaker: part(keys, "breaker"),
        reflexion: part(keys, "reflexion"),
        baseline: part(keys, "baseline"),
        promote: part(keys, "promote"),
        retention: part(keys, "retention"),
        artifacts: part(keys, "artifacts"),
        auth: part(keys, "auth"),
        logging: part(keys, "logging"),
    })
}

/// Returns the JSON Schema (draft 2020-12) of the settings file, for editors.
pub fn settings_schema() -> serde_json::Value {
    let (any_url, env) = (|_: &str, _: &[String]| Ok(()), Environment::default());
    let mut record = Record(|keys: &mut Keys<'_>| settings(keys, &any_url, &env));
    super::keys::document("Umbra settings", record.schema())
}
