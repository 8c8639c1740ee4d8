//! Builds every part of the service from the settings; the only file that knows all of them.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, sync::Arc};

use anyhow::{Context, bail};
use rand::Rng;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;

use crate::{
    findings::{Artifacts, Places},
    flows::{
        Flows, FlowsParts,
        active_configuration::ActiveConfiguration,
        decisions::{Boundary, DecisionWriter},
        events::{EventSpool, Filer, Writer},
        sessions::Interventions,
    },
    lifecycle,
    queue::{Dispatcher, Slots, WorkerHeartbeat},
    telemetry,
    webhooks::Endpoints,
};
use umbra_boundary::{
    checkpoints,
    contract::faults,
    decide::BoundaryRules,
    drift::bypass::Required,
    execution::{ConfiguredExecution, safe_mode, same_environment},
    gate,
    tools::Tools,
};
use umbra_config::{
    EXAMPLE_SHADOWS, Environment, Fault, Loaded, Models, Report, Settings,
    shadows::{load, read},
    tools,
};
use umbra_domain::{Execution, ModelSpec, RuleFile, Shadow, ToolDeclarations, clock::Clock, key};
use umbra_llm::{Gateway, OutboundPolicy, builtin_models, check_url};
use umbra_policy::check_condition;
use umbra_store::{
    DatabaseLocation, Store, StoreOptions,
    installation::Installation,
    postgres::{PrivateOptions, PrivatePostgres, is_for_pip},
};

mod guardrail;
mod mcp;
mod rules;
mod serve;

pub use mcp::{McpCaller, Proxy, accept_tools, proxy};
pub use rules::read_rules;
pub use serve::{api_of, guard, serve};

/// Paths in the working directory where an unnamed shadows file is looked for, in this order.
const USUAL_SHADOWS: [&str; 2] = ["config/shadow-agents.yaml", "shadow-agents.yaml"];

/// Settings with the command line applied, and their sources.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Settings in force.
    pub settings: Settings,
    /// Settings file, to be read again on reload.
    pub config: Option<PathBuf>,
    /// Environment variables of the process.
    pub env: Environment,
    /// Options of the command line, applied to the settings again on reload.
    pub overrides: CommandLineOverrides,
    /// Files of rules of the built-in checks, as read.
    pub rules: Vec<RuleFile>,
    /// Warnings about the settings and the files of rules.
    pub warnings: Vec<Fault>,
}

/// Options of the command line, which go before all other sources.
#[derive(Debug, Clone, Default)]
pub struct CommandLineOverrides {
    /// `--shadows`
    pub shadows: Option<PathBuf>,
    /// `--tools`
    pub tools: Option<PathBuf>,
    /// `--bind`
    pub bind: Option<std::net::SocketAddr>,
    /// `--data-dir`
    pub data_dir: Option<PathBuf>,
    /// `--database-url`
    pub database_url: Option<SecretString>,
}

impl Setup {
    /// Reads the settings and the files of rules, and applies the command line.
    ///
    /// # Errors
    /// Every fault of the settings, else every fault of the files of rules.
    pub fn read(config: Option<PathBuf>, env: Environment, overrides: CommandLineOverrides) -> Result<Self, Report> {
        let urls = |url: &str, allow: &[String]| {
            check_url(url, &OutboundPolicy::new(allow.iter().cloned())).map_err(|refused| refused.to_string())
        };
        let config = config.or_else(|| env.get("UMBRA_CONFIG").map(PathBuf::from));
        let Loaded { value: mut settings, mut warnings } = Settings::load(config.as_deref(), &env, &urls)?;
        let Loaded { value: rules, warnings: of_rules } = read_rules(&settings.checks.rules)?;
        warnings.extend(of_rules);
        let CommandLineOverrides { shadows, tools, bind, data_dir, database_url } = overrides.clone();
        settings.server.bind = bind.unwrap_or(settings.server.bind);
        settings.storage.data_dir = data_dir.unwrap_or(settings.storage.data_dir);
        let usual = || USUAL_SHADOWS.iter().map(PathBuf::from).find(|path| path.is_file());
        settings.shadows.path = shadows.or(settings.shadows.path).or_else(usual);
        settings.tools.path = tools.or(settings.tools.path);
        settings.database.url = database_url.or(settings.database.url);
        Ok(Self { settings, config, env, overrides, rules, warnings })
    }

    /// Puts the rules of the built-in checks in force, for the whole process.
    pub fn install_rules(&self) {
        umbra_checks::Rules::of(&self.rules).install();
    }

    /// Starts logging; `RUST_LOG` goes before `level`.
    pub fn start_logs(&self, level: &str) {
        let filter = self.env.get("RUST_LOG").unwrap_or(level);
        telemetry::start_logs(self.settings.logging.format, filter);
        lifecycle::log_panics_by_place();
    }

    /// Reads the same sources again.
    ///
    /// # Errors
    /// Every fault of the settings.
    pub fn read_again(&self) -> Result<Self, Report> {
        Self::read(self.config.clone(), self.env.clone(), self.overrides.clone())
    }

    /// Returns the flags by which another command finds the same installation, with a space before each.
    fn flags(&self) -> String {
        let path = |flag: &str, path: &Option<PathBuf>| {
            path.as_ref().map(|path| format!(" --{flag} '{}'", path.display())).unwrap_or_default()
        };
        // The URL may hold a password.
        let url = if self.overrides.database_url.is_some() { " --database-url URL" } else { "" };
        path("config", &self.config) + &path("data-dir", &self.overrides.data_dir) + url
    }

    /// Returns every model that a shadow may name.
    pub fn models(&self) -> BTreeMap<String, ModelSpec> {
        self.settings.all_models(builtin_models())
    }

    /// Reads the shadows from their file, or the built-in example.
    ///
    /// # Errors
    /// Every fault of the file.
    pub fn shadows(&self) -> Result<Loaded<Vec<Shadow>>, Report> {
        let specs = self.models();
        let models = Models { specs: &specs, ceiling: self.settings.cheap_model.max_output_usd_per_mtok };
        match &self.settings.shadows.path {
            Some(path) => read(path, &models),
            None => load("built-in example", EXAMPLE_SHADOWS, &models),
        }
    }

    /// Builds the boundary's rules from the settings and the tools file.
    ///
    /// # Errors
    /// Every fault of the tools file.
    pub fn boundary(&self) -> Result<Loaded<BoundaryRules>, Report> {
        let boundary = &self.settings.boundary;
        let variable = boundary.safe_mode_variable.clone();
        let here = |name: &String| same_environment(name, &boundary.environment);
        let in_shadow = boundary.shadow_environments.iter().any(here);
        // The variable counts in any letter case; of two spellings the stricter value counts.
        let said = self.env.spelled(&variable).filter_map(|value| safe_mode(Some(value))).max();
        let configured = ConfiguredExecution {
            environment: boundary.environment.clone(),
            settings: boundary.execution,
            variable: (variable, said),
            default: if in_shadow { Execution::Shadow } else { Execution::Live },
        };
        let judge = tools::ToolsFileValidators { contract: &faults, condition: &check_condition };
        let Loaded { value: mut file, warnings } = match &self.settings.tools.path {
            Some(path) => tools::read(path, judge)?,
            None => Loaded { value: ToolDeclarations::default(), warnings: Vec::new() },
        };
        file.trusted_servers.extend(self.settings.mcp.trusted().map(ToOwned::to_owned));
        let tools = Tools::compile(file, tools::packs(judge)?).map_err(|error| {
            let path = self.settings.tools.path.clone().unwrap_or_default();
            Report::of_file(&path, "tools", error.to_string(), "correct the file and try again")
        })?;
        let servers =
            self.settings.mcp.profiles.iter().flat_map(|(profile, servers)| {
                servers.upstreams.keys().map(|server| (profile.clone(), server.clone()))
            });
        let gate = gate::Standards {
            shadow_environments: boundary.shadow_environments.clone(),
            expires_within: boundary.gate.expires_within,
            tools_seen_within: boundary.gate.tools_seen_within,
            unguarded_within: boundary.gate.unguarded_within,
            only_stubs_for: boundary.gate.only_stubs_for,
            no_side_effect_for: boundary.gate.no_side_effect_for,
            servers: servers.collect(),
        };
        let required = Required::compile(
            &boundary.require_decisions.agents,
            &boundary.require_decisions.tools,
            boundary.require_decisions.within,
        );
        let required = required.map_err(|error| {
            let path = self.config.clone().unwrap_or_default();
            Report::of_file(&path, "boundary.require_decisions", error.to_string(), "write globs such as writer-*")
        })?;
        let file = self.settings.tools.path.as_ref().map(|path| path.display().to_string());
        Ok(Loaded { value: BoundaryRules { configured, tools, file, gate, required }, warnings })
    }

    /// Returns the folder of all spools of events, one for each installation.
    pub fn spools_dir(&self) -> PathBuf {
        self.settings.storage.data_dir.join("spool")
    }

    /// Returns the folder of this installation's spool of events: a data directory that is reused with another database
    /// takes no events there.
    pub fn spool_dir(&self, installation: &Installation) -> PathBuf {
        self.spools_dir().join(hex::encode(&installation.hash("spool", &[])[..8]))
    }

    /// Builds the gateway to the models.
    ///
    /// # Errors
    /// Every key that no header can carry, as a report.
    pub fn gateway(&self, previous: Option<&Gateway>) -> anyhow::Result<Gateway> {
        let models = self.models();
        self.env.check_provider_keys(models.values())?;
        let keys = self.env.provider_keys(models.values());
        Ok(Gateway::new(models.into_values().collect(), &keys, self.outbound_policy(), previous)?)
    }

    /// Returns the admin key to put in force at the start, if there is one.
    ///
    /// # Errors
    /// Its file cannot be read or holds no key.
    pub fn bootstrap_key(&self) -> Result<Option<SecretString>, Report> {
        let Some(file) = &self.settings.auth.bootstrap_admin_key_file else { return Ok(None) };
        let fault = |message: String, help: &str| Report::of_file(file, "auth.bootstrap_admin_key_file", message, help);
        let text = std::fs::read_to_string(file).map_err(|error| {
            fault(format!("the file cannot be read: {error}"), "check the path, and that this user may read the file")
        })?;
        let text = text.trim();
        if !text.starts_with(key::PREFIX) || text.len() < key::PREFIX.len() + 32 || text.contains(char::is_whitespace) {
            let message = "the file must hold exactly one key: umbra_sk_ and at least 32 characters";
            return Err(fault(message.to_owned(), "`umbra keys create` makes a key"));
        }
        Ok(Some(SecretString::from(text)))
    }

    /// Builds the endpoints of webhooks.
    ///
    /// # Errors
    /// A URL is refused, with the reason and a remedy.
    pub fn webhooks(&self) -> anyhow::Result<Endpoints> {
        Endpoints::new(&self.settings.webhooks, self.settings.telemetry.otlp.as_ref(), &self.outbound_policy())
    }

    /// Returns the policy of calls to other hosts.
    pub fn outbound_policy(&self) -> OutboundPolicy {
        OutboundPolicy::new(self.settings.outbound.allow.iter().cloned())
    }

    fn store_options(&self) -> StoreOptions {
        let database = &self.settings.database;
        StoreOptions {
            schema: database.schema.clone(),
            max_connections: database.max_connections,
            allow_unsafe: database.allow_unsafe,
            deadline: database.deadline,
        }
    }

    /// Returns the options by which the private Postgres is found and run.
    fn private_options(&self) -> PrivateOptions {
        let path = |name: &str| self.env.get(name).map(PathBuf::from);
        let os = |text: &str| OsString::from(text);
        PrivateOptions {
            data_dir: self.settings.storage.data_dir.clone(),
            pg_bin: self.settings.storage.pg_bin.clone(),
            program: Environment::program(),
            search_path: self.env.get("PATH").map(os),
            runtime_dir: path("XDG_RUNTIME_DIR"),
            cache_dir: path("XDG_CACHE_HOME")
                .or_else(|| path("HOME").map(|home| home.join(".cache")))
                .map(|dir| dir.join("umbra")),
            allow_download: self.settings.storage.download_postgres,
            python: None,
            pip_environment: self
                .env
                .iter()
                .filter(|(name, _)| is_for_pip(name))
                .map(|(name, value)| (os(name), os(value)))
                .collect(),
        }
    }
}

/// Database connections, and the private Postgres if one is used.
pub struct Database {
    /// Connection pools.
    pub store: Store,
    private: Option<Arc<PrivatePostgres>>,
}

impl Database {
    /// Connects, starting the private Postgres where no URL is given, and brings the schema up to date.
    ///
    /// # Errors
    /// In words, with a remedy.
    pub async fn open(setup: &Setup, say: &(dyn Fn(&str) + Send + Sync)) -> anyhow::Result<Self> {
        let options = setup.store_options();
        if let Some(url) = &setup.settings.database.url {
            let store = Store::open(DatabaseLocation::Url(url.expose_secret()), &options)
                .await
                .context("opening the database")?;
            return Ok(Self { store, private: None });
        }
        let server =
            PrivatePostgres::open(&setup.private_options(), say).await.context("opening the private Postgres")?;
        let store =
            Store::open(DatabaseLocation::Private(&server), &options).await.context("opening the private Postgres")?;
        Ok(Self { store, private: Some(Arc::new(server)) })
    }

    /// Opens the database for commands that store nothing themselves: a mistyped directory is no reason to make a
    /// database in it.
    ///
    /// # Errors
    /// There is no database yet; otherwise as [`Database::open`].
    pub async fn open_existing(setup: &Setup, say: &(dyn Fn(&str) + Send + Sync)) -> anyhow::Result<Self> {
        let data_dir = &setup.settings.storage.data_dir;
        if setup.settings.database.url.is_none() && !PrivatePostgres::exists_in(data_dir)? {
            bail!(
                "no installation in {}: start `umbra serve`, which creates one, or name another folder by --data-dir",
                std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.clone()).display()
            );
        }
        Self::open(setup, say).await
    }

    /// Opens the database for reading only: the schema stays as it is; `None` where there is no installation yet.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub async fn open_read_only(setup: &Setup, say: &(dyn Fn(&str) + Send + Sync)) -> anyhow::Result<Option<Self>> {
        let options = setup.store_options();
        if let Some(url) = &setup.settings.database.url {
            let store = Store::connect(DatabaseLocation::Url(url.expose_secret()), &options).await?;
            return Ok(Some(Self { store, private: None }));
        }
        if !PrivatePostgres::exists_in(&setup.settings.storage.data_dir)? {
            return Ok(None);
        }
        let server = PrivatePostgres::open(&setup.private_options(), say).await?;
        let store = Store::connect(DatabaseLocation::Private(&server), &options).await?;
        Ok(Some(Self { store, private: Some(Arc::new(server)) }))
    }

    /// Takes over the private Postgres that another process runs, once that process is gone.
    pub fn take_over_when_owner_exits(&self) -> impl Future<Output = ()> + Send + 'static {
        let private = self.private.clone();
        async move {
            if let Some(server) = private {
                server.take_over_when_owner_exits().await;
            }
        }
    }

    /// Returns the process id of the private Postgres, while one runs.
    pub fn postmaster(&self) -> Option<u32> {
        self.private.as_ref()?.status().pid
    }

    /// Closes the connections and stops the private Postgres if this process runs it.
    pub async fn close(self) {
        self.close_until(std::future::pending()).await;
    }

    /// Closes the database; once `limit` is over, the private Postgres is left to end by itself.
    pub async fn close_until(self, limit: impl Future<Output = ()>) {
        self.store.close().await;
        if let Some(server) = self.private
            && let Err(error) = server.stop_until(limit).await
        {
            tracing::warn!(%error, "the private Postgres did not stop cleanly; it recovers at its next start");
        }
    }
}

/// Runs work while the database is watched: once it is away, waits for it end.
async fn watching<T>(store: &Store, work: impl Future<Output = T>) -> T {
    let report = |is_away| metrics::gauge!(telemetry::metric::DATABASE_AWAY).set(if is_away { 1.0 } else { 0.0 });
    tokio::select! {
        done = work => done,
        never = store.watch(report) => match never {},
    }
}

/// All parts of the service, built but not running.
pub struct App {
    /// Flows of events, reviews and decisions.
    pub flows: Flows,
    /// Dispatcher of reviews.
    pub dispatcher: Dispatcher,
    /// Writer of events.
    pub writer: Writer,
    /// Filer of spooled events.
    pub filer: Filer,
    /// Writer of decisions about calls of tools.
    pub decisions: DecisionWriter,
    /// Interventions of the sidecar, to be sent to the shadows as events.
    pub interventions: Interventions,
    /// Warnings about the shadows, the tools file and the sidecar file.
    pub warnings: Vec<Fault>,
}

impl App {
    /// Builds the parts on an open database.
    ///
    /// # Errors
    /// In words; faults of files as their report.
    pub async fn build(setup: &Setup, store: &Store, clock: Clock) -> anyhow::Result<Self> {
        let asked = Instant::now();
        clock.follow(store.now().await?, asked.elapsed());
        store.upkeep().make_partitions(clock.now()).await?;
        let installation = store.installation(rand::rng().random()).await?;
        let Loaded { value: shadows, warnings } = setup.shadows()?;
        let Loaded { value: boundary, warnings: more } = setup.boundary()?;
        let Loaded { value: guarding, warnings: of_sidecar } = setup.guarding(&boundary.tools, &shadows, &|_| None)?;
        let gateway = Arc::new(setup.gateway(None)?);
        let rules = ActiveConfiguration::arm(store, shadows, gateway).await?;
        let settings = Arc::new(setup.settings.clone());
        let slowest = setup.models().values().map(|model| model.timeout).max().unwrap_or_default();
        let pulse = WorkerHeartbeat::new(store.clone(), clock.clone(), settings.queue.clone(), slowest);
        let slots = Slots::new(settings.queue.workers, settings.queue.active_slots);
        let dispatcher = Dispatcher::new(store.clone(), pulse.clone(), slots, settings.queue.poll);
        let warnings = warnings.into_iter().chain(more).chain(of_sidecar).collect();
        let rows = checkpoints::row_key(&settings.audit_dir()).with_context(|| no_key(setup))?;
        let (boundary, decisions) =
            Boundary::new(store.clone(), clock.clone(), installation.clone(), rows, boundary, Arc::clone(&settings));
        let dir = setup.spool_dir(&installation);
        let spool = EventSpool::new(&dir, settings.ingest.spool.clone(), clock.clone());
        let parts = FlowsParts {
            store: store.clone(),
            boundary,
            guarding,
            clock,
            rules,
            webhooks: setup.webhooks()?,
            installation,
            intake: dispatcher.intake(),
            pulse,
            settings,
            spool,
            workspace: setup.workspace()?,
        };
        let (flows, writer, filer, interventions) = Flows::new(parts);
        Ok(Self { flows, dispatcher, writer, filer, decisions, interventions, warnings })
    }
}

/// Signs all later rows of the audit with the key of its folder.
///
/// # Errors
/// There is no key, and none can be made.
pub fn sign_audit(setup: &Setup, store: &Store) -> anyhow::Result<()> {
    store.audit().sign_audit_with(checkpoints::signer(&setup.settings.audit_dir()).with_context(|| no_key(setup))?);
    Ok(())
}

fn no_key(setup: &Setup) -> String {
    let dir = setup.settings.audit_dir();
    format!("the key in {}, which signs the audit, cannot be used (boundary.audit.dir)", dir.display())
}

/// Returns the writer of review files.
pub fn artifacts(setup: &Setup) -> Arc<Artifacts> {
    let settings = &setup.settings.artifacts;
    let dir = &settings.reviews_dir;
    let pages = settings.enabled.then(|| Artifacts::writable(dir.clone(), setup.settings.storage.data_dir.join(dir)));
    let Places { log, keep, .. } = artifact_places(setup);
    Arc::new(Artifacts::new(log, settings.observations_max_bytes as u64, keep, pages))
}

/// Returns the places where review files may lie, without making any folder.
pub fn artifact_places(setup: &Setup) -> Places {
    let (settings, data_dir) = (&setup.settings.artifacts, &setup.settings.storage.data_dir);
    let log = settings.observations_log.clone().unwrap_or_else(|| data_dir.join("observations.jsonl"));
    let mut pages = vec![settings.reviews_dir.clone(), data_dir.join(&settings.reviews_dir)];
    pages.dedup();
    Places { pages, log, keep: settings.observations_keep }
}

/// Puts an admin key in force, once.
///
/// # Errors
/// The database does not answer.
async fn admit_bootstrap_key(flows: &Flows, key: &SecretString) -> anyhow::Result<()> {
    let hash = flows.installation.hash_key(key.expose_secret());
    if flows.store.keys().list().await?.iter().any(|row| row.hash == hash) {
        return Ok(());
    }
    let id = umbra_domain::KeyId(flows.clock.new_id());
    let scopes: Vec<String> = key::Scope::ALL.iter().map(|scope| scope.as_str().to_owned()).collect();
    Ok(flows.store.keys().add(id, "bootstrap", &hash, &scopes, &["*".to_owned()]).await?)
}
