//! The settings: defaults, then the file, then the environment; the command line comes last, by its caller.
//!
//! Each section is a file that lists its keys once ([`section`]); `config/umbra.default.yaml` shows them all with
//! their defaults, and a test keeps it so.

mod artifacts;
mod auth;
mod baseline;
mod boundary;
mod breaker;
mod briefing;
mod cheap_model;
mod checks;
mod database;
mod ingest;
mod llm;
mod logging;
mod looks;
mod mcp;
mod models;
mod outbound;
mod promote;
mod queue;
mod reflexion;
mod retention;
mod section;
mod server;
mod shadows;
mod sidecar;
mod storage;
mod tools;
mod webhooks;

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    time::Duration,
};

use secrecy::SecretString;

use super::{
    Environment, Loaded, Report,
    fault::{Faults, Place},
    file::read_tree,
    keys::{Keys, Record, Shape},
    tree::{Kind, Node},
};
use umbra_domain::{ModelKind, ModelSpec};

pub use artifacts::Artifacts;
pub use auth::Auth;
pub use baseline::Baseline;
pub use boundary::{Approvals, Audit, AuditedReads, Boundary, Gate, RequireDecisions};
pub use breaker::Breaker;
pub use briefing::Briefings;
pub use cheap_model::CheapModel;
pub use checks::Checks;
pub use database::Database;
pub use ingest::{Ingest, Spool};
pub use llm::Llm;
pub use logging::{LogFormat, LogLevel, Logging};
pub use looks::Looks;
pub use mcp::{Mcp, McpProfile, McpSelect, McpUpstream, UpstreamAt, UpstreamCommand, plain_name};
pub use outbound::Outbound;
pub use promote::Promote;
pub use queue::Queue;
pub use reflexion::Reflexion;
pub use retention::Retention;
use section::Section;
pub use server::Server;
pub use shadows::ShadowsFile;
pub use sidecar::Sidecar;
pub use storage::Storage;
pub use tools::ToolsFile;
pub use webhooks::{Secret, Webhook};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Whether a URL of the settings may be called, given the hosts in `outbound.allow`; the error says why not, and what
/// to do. The rules are those of who makes the calls.
pub type UrlRule<'a> = &'a dyn Fn(&str, &[String]) -> Result<(), String>;

/// Everything that can be set.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The HTTP front and its bounds.
    pub server: Server,
    /// Where data lives.
    pub storage: Storage,
    /// The Postgres that holds everything.
    pub database: Database,
    /// Where the observers are written down.
    pub shadows: ShadowsFile,
    /// Where contracts, effects and rules of tools are written down.
    pub tools: ToolsFile,
    /// Whether calls of tools run, and what is kept of them.
    pub boundary: Boundary,
    /// The companion of agents' sessions, and its bounds.
    pub sidecar: Sidecar,
    /// Models that are declared, by alias. The built-in ones come with [`Settings::all_models`].
    pub models: BTreeMap<String, ModelSpec>,
    /// What counts as a cheap model.
    pub cheap_model: CheapModel,
    /// Which private hosts may be called.
    pub outbound: Outbound,
    /// Who is told what.
    pub webhooks: Vec<Webhook>,
    /// When days and weeks are summed up.
    pub briefing: Briefings,
    /// Who works on reviews.
    pub queue: Queue,
    /// How events are gathered.
    pub ingest: Ingest,
    /// Rules of a user's own for the built-in checks.
    pub checks: Checks,
    /// Bounds of the built-in checks where no review runs them.
    pub looks: Looks,
    /// Calls of models that no shadow asks for.
    pub llm: Llm,
    /// When an agent is recommended to be held back.
    pub breaker: Breaker,
    /// When a fault that recurs becomes a lesson.
    pub reflexion: Reflexion,
    /// What an agent usually scores.
    pub baseline: Baseline,
    /// What a shadow must have shown before it may say more.
    pub promote: Promote,
    /// How long things are kept.
    pub retention: Retention,
    /// What is written to files.
    pub artifacts: Artifacts,
    /// The proxy in front of MCP servers.
    pub mcp: Mcp,
    /// The first key.
    pub auth: Auth,
    /// The service's own log.
    pub logging: Logging,
}

impl Settings {
    /// The defaults, under the file if there is one, under the environment. All faults of both at once.
    pub fn load(file: Option<&Path>, env: &Environment, urls: UrlRule<'_>) -> Result<Loaded<Self>, Report> {
        let mut faults = Faults::default();
        let root = file.and_then(|path| read_tree(path, &mut faults));
        Self::from_tree(root, env, urls, faults)
    }

    /// The same with the file's text at hand; `name` is what faults call it.
    pub fn parse(name: &str, text: &str, env: &Environment, urls: UrlRule<'_>) -> Result<Loaded<Self>, Report> {
        let mut faults = Faults::default();
        let source = faults.add_source(name, text);
        let root = super::tree::parse(source, text, &mut faults);
        Self::from_tree(root, env, urls, faults)
    }

    fn from_tree(
        root: Option<Node>,
        env: &Environment,
        urls: UrlRule<'_>,
        mut faults: Faults,
    ) -> Result<Loaded<Self>, Report> {
        let mut root = root.unwrap_or(Node { kind: Kind::Map(Vec::new()), at: Place::default() });
        env.overlay(&mut root, &mut faults);
        let settings = Record(|keys: &mut Keys<'_>| settings(keys, urls, env)).read(&root, &mut faults);
        faults.finish(settings)
    }

    /// Every model that a shadow may name: the built-in ones, with those declared in their place or beside them.
    pub fn all_models(&self, builtin: Vec<ModelSpec>) -> BTreeMap<String, ModelSpec> {
        let mut models: BTreeMap<_, _> = builtin.into_iter().map(|model| (model.alias.clone(), model)).collect();
        models.extend(self.models.clone());
        models
    }

    /// The keys of the providers of all models, by the name of the environment variable that holds them.
    pub fn provider_keys(&self, builtin: Vec<ModelSpec>, env: &Environment) -> HashMap<String, SecretString> {
        env.provider_keys(self.all_models(builtin).values())
    }
}

/// Declares every section.
#[expect(clippy::unnecessary_wraps, reason = "the shape of a record that cannot be incomplete")]
fn settings(keys: &mut Keys<'_>, urls: UrlRule<'_>, env: &Environment) -> Option<Settings> {
    fn part<S: Section>(keys: &mut Keys<'_>, name: &'static str, about: &str) -> S {
        let read = |keys: &mut Keys<'_>| {
            let mut section = S::default();
            section.declare(keys);
            Some(section)
        };
        keys.optional(name, about, Record(read)).unwrap_or_default()
    }
    // First, since it says which hosts the URLs of the others may name.
    let outbound: Outbound = part(keys, "outbound", "Which private hosts may be called.");
    let callable = |url: &str| urls(url, &outbound.allow);
    let models = keys.optional("models", "Models that shadows may name, by alias.", models::table(&callable));
    let embedding = models.iter().flatten().filter(|(_, model)| model.kind == ModelKind::Embedding).count();
    if embedding > 1 {
        keys.fault(
            "models",
            format!("{embedding} models are of the kind embedding"),
            "keep one: tools are found by one",
        );
    }
    let webhooks =
        keys.optional("webhooks", "Who is told what, and with which secret.", webhooks::list(env, &callable));
    if let Some(name) = webhooks.as_deref().and_then(webhooks::twice) {
        keys.fault("webhooks", format!("two webhooks are called {name:?}"), "give each a `name` of its own");
    }
    let mcp = keys.optional("mcp", "The proxy in front of MCP servers.", mcp::section(env, &callable));
    Some(Settings {
        mcp: mcp.unwrap_or_default(),
        server: part(keys, "server", "The HTTP front and its bounds."),
        storage: part(keys, "storage", "Where data lives, and the private Postgres."),
        database: part(keys, "database", "The Postgres (15 or newer) that holds everything."),
        shadows: part(keys, "shadows", "Where the observers are written down."),
        tools: part(keys, "tools", "Where contracts, effects and rules of tools are written down."),
        boundary: part(keys, "boundary", "Whether calls of tools run, and what is kept of them."),
        sidecar: part(keys, "sidecar", "The companion of agents' sessions, and its bounds."),
        models: models::with_aliases(models.unwrap_or_default()),
        cheap_model: part(keys, "cheap_model", "The mandate that shadows use cheap models."),
        outbound,
        webhooks: webhooks.unwrap_or_default(),
        briefing: part(keys, "briefing", "When days and weeks are summed up."),
        queue: part(keys, "queue", "Who works on reviews, and when work counts as abandoned."),
        ingest: part(keys, "ingest", "How events are gathered into transactions, and where they wait."),
        checks: part(keys, "checks", "Rules of a user's own for the built-in checks."),
        looks: part(keys, "looks", "Bounds of the built-in checks where no review runs them."),
        llm: part(keys, "llm", "Calls of models that no shadow asks for."),
        breaker: part(keys, "breaker", "When an agent is recommended to be held back."),
        reflexion: part(keys, "reflexion", "When a fault that recurs becomes a lesson."),
        baseline: part(keys, "baseline", "What an agent usually scores, and what counts as a fall below it."),
        promote: part(keys, "promote", "What a shadow must have shown before `umbra promote` lets it say more."),
        retention: part(keys, "retention", "How long things are kept."),
        artifacts: part(keys, "artifacts", "What is written to files for people and other programs."),
        auth: part(keys, "auth", "The first key."),
        logging: part(keys, "logging", "The service's own log, on standard error."),
    })
}

/// The JSON Schema (draft 2020-12) of the settings file, for editors.
pub fn settings_schema() -> serde_json::Value {
    let (any_url, env) = (|_: &str, _: &[String]| Ok(()), Environment::default());
    let mut record = Record(|keys: &mut Keys<'_>| settings(keys, &any_url, &env));
    super::keys::document("Umbra settings", record.schema())
}
