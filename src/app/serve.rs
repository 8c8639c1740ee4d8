//! `umbra serve`: runs the parts, and stops them in order.
//!
//! The stop goes against the walk of an event: no new connections and no new claims; open requests are answered; then
//! the writer, which they needed, ends; then running reviews; last the heartbeat, which hands back the rest.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use axum::Router;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::{
    pin,
    time::{Instant, sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{App, Database, Setup, admit_bootstrap_key, artifacts, sign_audit, watching};
use crate::{
    api::{
        self, Api, ReloadFault, Reloaded,
        admission::Admission,
        auth::KeyRing,
        body::BodyReader,
        front::{Front, HostGuard},
    },
    dashboard,
    flows::{
        Flows,
        active_configuration::{ActiveConfiguration, RulesError},
        sessions::Interventions,
    },
    ingest,
    lifecycle::{Drained, TaskFailure, Tasks},
    mcp::{CallGuard, Profiles},
    telemetry,
};
use umbra_config::{Loaded, Report, settings::Settings};
use umbra_domain::clock::Clock;
use umbra_store::{StoreError, postgres::PrivatePostgres};

/// Share of the drain time for open requests; the rest is for the writer behind them and for reviews.
const SHARE_OF_REQUESTS: f64 = 0.8;
/// Time after the drain in which background tasks end (last writes, a last heartbeat), and then the time in which the
/// private Postgres ends.
const LEAVE: Duration = Duration::from_secs(5);
/// The same time after a second signal.
const LEAVE_AT_ONCE: Duration = Duration::from_secs(1);

/// Serves until a signal, then drains. `ready` is called with the server's address once requests are answered.
///
/// # Errors
/// In words, with a remedy: the configuration, the database or the address cannot be used.
pub async fn serve(setup: Setup, ready: impl FnOnce(SocketAddr)) -> anyhow::Result<()> {
    let tasks = Tasks::new();
    tasks.listen().context("installing signal handlers")?;
    let bind = setup.settings.server.bind;
    // First of all: a port in use is no reason to make a database.
    let front = Front::bind(bind).with_context(|| format!("cannot listen on {bind}: is another umbra running?"))?;
    // Nor is an address that is refused for want of a key.
    let exists = PrivatePostgres::exists_in(&setup.settings.storage.data_dir);
    if setup.settings.database.url.is_none() && matches!(exists, Ok(false)) {
        refuse_open_address(&setup, setup.bootstrap_key()?.is_some())?;
    }
    let spans = telemetry::traces::start(&setup.settings.telemetry, &setup.outbound_policy())?;
    let say = |line: &str| tracing::info!("{line}");
    let database = Database::open(&setup, &say).await?;
    let served = watching(&database.store, run(&setup, &database, front, &tasks, ready)).await;
    let limit = async {
        tasks.hurry().run_until_cancelled(sleep(LEAVE)).await;
    };
    database.close_until(limit).await;
    spans.end().await;
    served
}

/// Starts the heartbeat, and the exchange of state with other processes.
fn keep_alive(flows: &Flows, background: &Tasks, leave: &CancellationToken) {
    background.spawn("heartbeat", flows.maintenance.clone().beat_until(leave.clone()));
    background.spawn("needs", flows.maintenance.clone().count_needs_until(leave.clone()));
    background.spawn("relief", flows.maintenance.clone().relieve_until(leave.clone()));
    background.spawn("releases", flows.maintenance.clone().watch_releases_until(leave.clone()));
    background.spawn("listener", flows.maintenance.clone().listen_until(leave.clone()));
}

async fn run(
    setup: &Setup,
    database: &Database,
    front: Front,
    tasks: &Tasks,
    ready: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    let settings = &setup.settings;
    let metrics = telemetry::start_metrics();
    let degraded = if database.store.is_degraded() { 1.0 } else { 0.0 };
    metrics::gauge!(telemetry::metric::DURABILITY_DEGRADED).set(degraded);
    sign_audit(setup, &database.store)?;
    let App { flows, dispatcher, writer, filer, decisions, interventions, warnings } =
        App::build(setup, &database.store, Clock::system()).await?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    announce(setup, &flows);
    if let Some(key) = setup.bootstrap_key()? {
        admit_bootstrap_key(&flows, &key).await?;
    }
    let keys = KeyRing::open(database.store.clone(), flows.installation.clone()).await?;
    let guard = guard(setup, &keys)?;
    let address = front.local_addr();
    flows.pulse.beat().await.context("registering as a worker")?;
    flows.maintenance.file_standing().await.context("storing the configuration in force")?;

    // Tasks that requests need, or that outlive them; `tasks` holds the connections.
    let background = Tasks::new();
    let (requests_done, reviews_done, leave) =
        (CancellationToken::new(), CancellationToken::new(), CancellationToken::new());
    background.spawn("ring", flows.maintenance.clone().ring_until(leave.clone(), writer.ring()));
    background.spawn_essential("writer", writer.run(requests_done.clone()));
    background.spawn_essential("spool", filer.run(leave.clone()));
    background.spawn_essential("decisions", decisions.run(requests_done.clone()));
    let (proxied, scribe) = CallGuard::new(flows.clone());
    let profiles = Profiles::new(&settings.mcp, &setup.outbound_policy(), proxied, tasks.soft().clone())?;
    let profiles = Arc::new(profiles);
    // The writer stores its events, so it ends before the writer.
    let answered = CancellationToken::new();
    background.spawn_then("scribe", scribe.run(answered.clone()), requests_done.clone());
    follow_calls(&flows, &background, &leave);
    start_sidecar_tasks(&flows, &background, &leave, interventions, &requests_done);
    let abandon = background.hard().child_token();
    let reviews = flows.reviews.clone();
    let perform = move |job, payload| reviews.clone().perform(job, payload);
    let dispatched = dispatcher.run(tasks.soft().clone(), abandon.clone(), perform);
    background.spawn_then("dispatcher", dispatched, reviews_done.clone());
    background.spawn("succession", {
        let (succeed, leave) = (database.take_over_when_owner_exits(), leave.clone());
        async move { leave.run_until_cancelled(succeed).await.unwrap_or_default() }
    });
    keep_alive(&flows, &background, &leave);
    if settings.llm.probe {
        background.spawn("probe", flows.maintenance.clone().probe_until(leave.clone()));
    }
    background.spawn("looks", flows.looks.clone().look_until(leave.clone()));
    background.spawn("follow", flows.followers.clone().follow_until(leave.clone(), artifacts(setup)));
    if settings.queue.workers > 0 {
        background.spawn("backtests", flows.backtests.clone().backtest_until(tasks.soft().clone()));
    }
    background.spawn("deliver", flows.followers.clone().deliver_until(tasks.soft().clone()));
    if settings.briefing.enabled {
        background.spawn("briefing", flows.followers.clone().brief_until(leave.clone(), settings.briefing.delay));
    }
    background.spawn("breakers", flows.followers.clone().know_breakers_until(leave.clone()));
    background.spawn("tail", flows.followers.clone().tail_until(leave.clone()));
    let retention = settings.retention.clone();
    background.spawn("housekeeping", flows.maintenance.clone().keep_house_until(leave.clone(), retention));
    let reloading = reload_on_hangup(setup.clone(), flows.clone(), Arc::clone(&profiles), tasks.clone());
    background.spawn("reload", reloading);
    stop_when_failing(tasks, &background);

    let api = api_of(setup, &flows, keys, metrics, tasks, Some(Arc::clone(&profiles)));
    front.serve(routes(api, settings), guard, flows.clock.clone(), tasks, settings.server.clone());
    ready(address);

    tasks.soft().cancelled().await;
    let deadline = Instant::now() + settings.server.drain_timeout;
    let drained = tasks.shutdown(settings.server.drain_timeout.mul_f64(SHARE_OF_REQUESTS)).await;
    profiles.close().await;
    // The writer may end from now on, and then all background tasks.
    background.soft().cancel();
    answered.cancel();
    let awaited = timeout_at(deadline, tasks.hurry().run_until_cancelled(reviews_done.cancelled())).await;
    if !matches!(awaited, Ok(Some(()))) {
        tracing::warn!("reviews were still running at the stop; other servers will perform them");
        abandon.cancel();
    }
    leave.cancel();
    drained.and(end_background(tasks, &background).await).map(drop).map_err(Into::into)
}

/// Waits for background tasks to end; a second signal leaves them less time.
async fn end_background(tasks: &Tasks, background: &Tasks) -> Result<Drained, TaskFailure> {
    let hurried = async {
        tasks.hurry().cancelled().await;
        sleep(LEAVE_AT_ONCE).await;
    };
    let ending = background.shutdown(LEAVE);
    pin!(ending, hurried);
    tokio::select! {
        ended = &mut ending => ended,
        () = hurried => {
            background.hard().cancel();
            ending.await
        }
    }
}

/// Starts the background tasks of the sidecar.
fn start_sidecar_tasks(
    flows: &Flows,
    background: &Tasks,
    leave: &CancellationToken,
    interventions: Interventions,
    requests_done: &CancellationToken,
) {
    // The writer stores its events, too.
    background
        .spawn("interventions", flows.sidecar.clone().tell_interventions_until(interventions, requests_done.clone()));
    background.spawn("embeddings", flows.sidecar.clone().embed_until(leave.clone()));
    background.spawn("patterns", flows.sidecar.clone().follow_patterns_until(leave.clone()));
    background.spawn("mine", flows.sidecar.clone().mine_until(leave.clone()));
    background.spawn("files", flows.sidecar.clone().keep_files_until(leave.clone()));
    background.spawn("idle", flows.sidecar.clone().close_idle_until(leave.clone()));
    background.spawn("traces", flows.otel.clone().assemble_until(leave.clone()));
}

/// Starts the background tasks that follow decisions about calls.
fn follow_calls(flows: &Flows, background: &Tasks, leave: &CancellationToken) {
    background.spawn("hooks", flows.hooks.clone().file_stale_calls_until(leave.clone()));
    background.spawn("merge", flows.boundary.clone().merge_until(leave.clone()));
    background.spawn("seal", flows.boundary.clone().seal_until(leave.clone()));
    background.spawn("audit", flows.boundary.clone().write_audit_until(leave.clone()));
    background.spawn("contracts", flows.audit.clone().learn_until(leave.clone()));
    background.spawn("unguarded", flows.audit.clone().watch_calls_until(flows.looks.clone(), leave.clone()));
    background
        .spawn("approvals", flows.boundary.clone().tell_of_approvals_until(flows.webhooks.clone(), leave.clone()));
}

/// Returns the routes over HTTP/1, and those over HTTP/2.
fn routes(api: Api, settings: &Settings) -> (Router, Router) {
    let admission = Admission::new(&settings.server);
    let exports = api::otel::grpc::routes(api.clone(), admission.clone(), settings.server.max_decoded_bytes);
    (api::router(api, &admission).merge(dashboard::router()), exports)
}

/// Logs facts that users should know at the start.
fn announce(setup: &Setup, flows: &Flows) {
    let rules = flows.rules.load();
    if let Some(path) = &setup.settings.shadows.path {
        tracing::info!(file = %path.display(), "the shadows of this file are in force");
    } else {
        tracing::info!(
            "no shadows file is given, and this folder has no config/shadow-agents.yaml: the built-in example is in \
             force (--shadows FILE)"
        );
    }
    for remark in flows.webhooks.load().remarks(rules.shadows.iter().map(|armed| armed.shadow.name.as_str())) {
        tracing::warn!("{remark}");
    }
    for armed in rules.shadows.iter().filter(|armed| armed.shadow.enabled) {
        if let Err(why) = rules.gateway.reviewer(&armed.shadow.model) {
            tracing::info!(shadow = armed.shadow.name, "only the built-in checks review for this shadow: {why}");
        }
    }
}

/// Returns the guard of `Host` and `Origin`. A server that other machines can reach needs keys; one on loopback without
/// keys guards against web pages. This is decided at the start: keys made later are required at once, but the guard
/// stays until a restart.
///
/// # Errors
/// Other machines could reach the server, and no key works.
pub fn guard(setup: &Setup, keys: &KeyRing) -> anyhow::Result<HostGuard> {
    if keys.is_guarded() {
        return Ok(HostGuard::keyed());
    }
    refuse_open_address(setup, false)?;
    Ok(HostGuard::loopback(setup.settings.server.allowed_hosts.iter().cloned()))
}

/// Refuses an address that other machines can reach, unless there is a key.
fn refuse_open_address(setup: &Setup, has_key: bool) -> anyhow::Result<()> {
    let bind = setup.settings.server.bind;
    if has_key || bind.ip().is_loopback() {
        return Ok(());
    }
    bail!(
        "{bind} can be reached from other machines, and no key protects the server: make a key with `umbra keys create \
         --name NAME --scope ingest,read,admin{}`, or bind to 127.0.0.1",
        setup.flags()
    )
}

/// Builds the API of these parts, with the limits of the settings.
pub fn api_of(
    setup: &Setup,
    flows: &Flows,
    keys: KeyRing,
    metrics: Option<PrometheusHandle>,
    tasks: &Tasks,
    profiles: Option<Arc<Profiles>>,
) -> Api {
    let server = &setup.settings.server;
    let reload = {
        let (setup, flows, profiles) = (setup.clone(), flows.clone(), profiles.clone());
        Box::new(move || -> std::pin::Pin<Box<dyn Future<Output = _> + Send>> {
            let (setup, flows, profiles) = (setup.clone(), flows.clone(), profiles.clone());
            Box::pin(async move { reload(&setup, &flows, profiles.as_deref()).await })
        })
    };
    Api::new(api::ApiParts {
        flows: flows.clone(),
        keys,
        bodies: BodyReader::new(server.clone()),
        limits: ingest::Limits {
            event_bytes: server.max_event_bytes,
            batch_events: server.max_batch_events,
            depth: server.json_depth,
            nodes: server.json_nodes,
        },
        max_wait: server.max_wait,
        cheap_ceiling: setup.settings.cheap_model.max_output_usd_per_mtok,
        stream_keep_alive: server.stream_keep_alive,
        metrics,
        reload,
        mcp: profiles,
        draining: tasks.soft().clone(),
    })
}

/// Stops as for a signal when an essential part has failed.
fn stop_when_failing(tasks: &Tasks, background: &Tasks) {
    let (soft, failing) = (tasks.soft().clone(), background.soft().clone());
    background.spawn("watch", async move {
        failing.cancelled().await;
        soft.cancel();
    });
}

async fn reload_on_hangup(setup: Setup, flows: Flows, profiles: Arc<Profiles>, tasks: Tasks) {
    while tasks.soft().run_until_cancelled(tasks.reload_wanted()).await.is_some() {
        match reload(&setup, &flows, Some(&profiles)).await {
            Ok(reloaded) => tracing::info!(shadows = reloaded.shadows, "the configuration is reloaded"),
            Err(ReloadFault::Store(error)) => {
                tracing::warn!(%error, "the configuration is not reloaded and stays as it was: the database failed");
            }
            Err(ReloadFault::Faults(faults)) => {
                for (_, fault) in faults {
                    tracing::warn!("the configuration is not reloaded and stays as it was: {fault}");
                }
            }
        }
    }
}

async fn reload(setup: &Setup, flows: &Flows, profiles: Option<&Profiles>) -> Result<Reloaded, ReloadFault> {
    reloaded(setup, flows, profiles).await.map_err(|error| match error.downcast::<StoreError>() {
        Ok(error) => ReloadFault::Store(error),
        Err(error) => ReloadFault::Faults(match error.downcast_ref::<Report>() {
            Some(report) => report.faults.iter().map(|fault| (fault.place(), fault.to_string())).collect(),
            None => vec![(String::new(), format!("{error:#}"))],
        }),
    })
}

/// Reads settings, rules of checks, shadows, tools and the sidecar's rules again and puts them, models, webhooks and
/// MCP profiles in force together, or none of them.
async fn reloaded(setup: &Setup, flows: &Flows, profiles: Option<&Profiles>) -> anyhow::Result<Reloaded> {
    let setup = setup.read_again()?;
    let Loaded { value: shadows, warnings } = setup.shadows()?;
    let Loaded { value: boundary, warnings: of_tools } = setup.boundary()?;
    let Loaded { value: guarding, warnings: of_sidecar } = setup.guarding(&boundary.tools, &shadows, &|_| None)?;
    let warnings =
        setup.warnings.iter().chain(&warnings).chain(&of_tools).chain(&of_sidecar).map(ToString::to_string).collect();
    let gateway = setup.gateway(Some(&flows.rules.load_full().gateway))?;
    let webhooks = setup.webhooks()?;
    let rules =
        ActiveConfiguration::arm(&flows.store, shadows, Arc::new(gateway)).await.map_err(|error| match error {
            RulesError::Store(error) => anyhow::Error::from(error),
            RulesError::Pattern(error) => error.into(),
        })?;
    let count = rules.shadows.len();
    if let Some(profiles) = profiles {
        profiles.reload(&setup.settings.mcp, &setup.outbound_policy())?;
    }
    setup.install_rules();
    flows.rules.store(Arc::new(rules));
    flows.boundary.rules.store(Arc::new(boundary));
    flows.sidecar.rules.store(Arc::new(guarding));
    flows.webhooks.store(Arc::new(webhooks));
    Ok(Reloaded { shadows: count, warnings })
}
