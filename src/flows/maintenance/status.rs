//! Status of the service: its queue, each shadow's day so far, each provider.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{Timestamp, civil::Date};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    needs::{Need, ShadowProblem, needs, shadow_problem},
    probe::ProbeStatus,
};
use crate::flows::{
    active_configuration::ActiveConfiguration, cleaned, events::SpoolStatus, maintenance::Maintenance,
    serialise::to_json,
};
use umbra_domain::{Mode, NanoUsd, Provider, Shadow};
use umbra_llm::{ProviderHealth, ProviderState, SuspensionReason};
use umbra_store::{
    Store, StoreError,
    looks::{LookBacklog, ShedRange},
    otel::TelemetryStatus,
};

/// Status of the service.
#[derive(Debug, Serialize, ToSchema)]
pub struct Status {
    /// Umbra's version.
    pub version: &'static str,
    /// Time of the database.
    pub now: Timestamp,
    /// Queue of reviews.
    pub queue: QueueStatus,
    /// Events that the built-in checks have yet to look at by themselves, and events that they skipped.
    pub check_backlog: CheckBacklog,
    /// Shadows, each with its day so far.
    pub shadows: Vec<ShadowStatus>,
    /// Providers of the models.
    pub providers: Vec<ProviderStatus>,
    /// Number of processes that serve on this database.
    pub servers: usize,
    /// State of the database.
    pub database: DatabaseStatus,
    /// Events in the local spools of the servers; null if no server reports one.
    pub spool: Option<SpoolStatus>,
    /// Problems that keep the service from judging or telling, with their remedies.
    pub needs: Vec<Need>,
    /// Probes of models.
    pub probes: ProbeStatus,
    /// Services that export OpenTelemetry, the last seen first.
    pub telemetry: Vec<TelemetryStatus>,
}

/// Queue of reviews.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueueStatus {
    /// Reviews that wait.
    pub queued: i64,
    /// Reviews that run, over all processes.
    pub running: i64,
    /// Seconds for which the oldest waiting review has been due.
    pub oldest_age_seconds: f64,
}

/// Backlog of the built-in checks on events that no review looks at.
#[derive(Debug, Serialize, ToSchema)]
pub struct CheckBacklog {
    /// Events that the checks have not reached yet.
    pub waiting: i64,
    /// Seconds since receipt of the oldest of these events.
    pub oldest_age_seconds: f64,
    /// Events that the checks skipped within a day, because too many waited.
    pub shed: i64,
    /// Ranges of skipped events, the newest first, at most twenty.
    pub ranges: Vec<ShedRange>,
}

/// A shadow's day so far.
#[derive(Debug, Serialize, ToSchema)]
pub struct ShadowStatus {
    /// Name of the shadow.
    pub name: String,
    /// Mode of the shadow.
    pub mode: Mode,
    /// False if the shadow is switched off.
    pub enabled: bool,
    /// Alias of the shadow's model.
    pub model: String,
    /// `model`, or `checks` where the built-in checks review alone.
    pub reviewer: String,
    /// Local day of the shadow.
    pub day: Date,
    /// Reviews reserved today.
    pub reviews_today: i64,
    /// Reviews of today that were found clean by the built-in checks alone (CHECKED).
    pub checked_today: i64,
    /// Most reviews per day; null for no cap.
    pub max_reviews_per_day: Option<u32>,
    /// Money spent today, in US dollars.
    pub usd_today: f64,
    /// Money held for calls under way, in US dollars.
    pub usd_held: f64,
    /// Most money per day, in US dollars; null for no cap.
    pub max_usd_per_day: Option<f64>,
    /// Tokens spent today.
    pub tokens_today: i64,
    /// Matched events that were not reviewed, by reason.
    #[schema(value_type = std::collections::HashMap<String, i64>)]
    pub skips_today: BTreeMap<&'static str, i64>,
    /// `ok`, or the obstacle that keeps the shadow's events from being judged by its model, in words.
    pub health: String,
    /// The same obstacle with its remedy; `None` for `ok`.
    #[serde(skip)]
    pub(super) ailment: Option<ShadowProblem>,
}

/// Provider of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderStatus {
    /// Aliases of the models that lead to this provider.
    pub name: String,
    /// Wire protocol.
    pub provider: String,
    /// Name of the model at the provider.
    pub model: String,
    /// `ok`, `open`, `half_open`, `no_key` or `checks`.
    pub state: ProviderState,
    /// Failures since the last success.
    pub consecutive_failures: u32,
    /// Last failure, in words.
    pub last_error: Option<String>,
    /// Milliseconds until the provider is tried again.
    pub retry_in_ms: Option<u64>,
}

/// State of the database.
#[derive(Debug, Serialize, ToSchema)]
pub struct DatabaseStatus {
    /// Version of Postgres.
    pub version: String,
    /// `ok`: it answered this request.
    pub state: &'static str,
}

impl From<ProviderHealth> for ProviderStatus {
    fn from(health: ProviderHealth) -> Self {
        Self {
            name: health.aliases.join(", "),
            provider: health.provider.as_str().to_owned(),
            model: health.model,
            state: health.state,
            consecutive_failures: health.consecutive_failures,
            last_error: health.last_error.map(|error| cleaned(&error)),
            retry_in_ms: health.retry_in_ms,
        }
    }
}

/// Shadows in force in a process, and the health of its providers. A serving process files it with each heartbeat, so
/// that any other process can tell the status of the service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessStatus {
    shadows: Vec<ShadowStanding>,
    providers: Vec<ProviderStatus>,
    #[serde(default)]
    spool: Option<SpoolStatus>,
    #[serde(default)]
    probes: ProbeStatus,
}

/// A shadow in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ShadowStanding {
    /// `shadow_version.id`.
    version_id: i32,
    /// Hash of the shadow's configuration.
    version: String,
    reviewer: String,
    health: String,
}

impl ProcessStatus {
    /// Returns the standings filed by processes that gave a sign of life within `dead_after`, the newest process first.
    /// Standings of another version of Umbra in another form are left out.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn of_servers(store: &Store, dead_after: Duration) -> Result<Vec<Self>, StoreError> {
        let filed = store.queue().standings(dead_after).await?;
        Ok(filed.iter().filter_map(|text| serde_json::from_str(text).ok()).collect())
    }

    /// True if two processes have the same shadows in force.
    pub fn has_shadows_of(&self, other: &Self) -> bool {
        self.versions().eq(other.versions())
    }

    /// True if exactly these shadows are in force.
    pub fn has_shadows(&self, shadows: &[Shadow]) -> bool {
        self.versions().eq(shadows.iter().map(Shadow::version))
    }

    fn versions(&self) -> impl Iterator<Item = &str> {
        self.shadows.iter().map(|shadow| shadow.version.as_str())
    }

    /// Returns the status of the service by these processes: the shadows of the first, and the worst health of each
    /// provider.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn status(servers: &[Self], store: &Store) -> Result<Status, StoreError> {
        let mut shadows = Vec::new();
        for filed in servers.first().iter().flat_map(|standing| &standing.shadows) {
            if let Some(shadow) = store.shadows().version(filed.version_id).await? {
                shadows.push((Arc::new(shadow), filed.clone()));
            }
        }
        let mut providers: Vec<ProviderStatus> = Vec::new();
        for seen in servers.iter().flat_map(|standing| &standing.providers) {
            match providers.iter_mut().find(|known| (&known.name, &known.model) == (&seen.name, &seen.model)) {
                Some(known) if seen.badness() > known.badness() => *known = seen.clone(),
                Some(_) => {}
                None => providers.push(seen.clone()),
            }
        }
        let spools = servers.iter().filter_map(|standing| standing.spool.clone());
        let spool = spools.reduce(|all, one| all.with(&one));
        let probes = servers.iter().fold(ProbeStatus::default(), |all, standing| all.with(standing.probes));
        Ok(Status { spool, probes, ..status(store, shadows, providers, servers.len()).await? })
    }
}

impl ProviderStatus {
    /// Returns a rank of the provider's state; a greater one is worse.
    fn badness(&self) -> (u8, u32) {
        let state = match self.state {
            ProviderState::Ok => 0,
            ProviderState::Checks => 1,
            ProviderState::NoKey => 2,
            ProviderState::HalfOpen => 3,
            ProviderState::Open => 4,
        };
        (state, self.consecutive_failures)
    }
}

impl Maintenance {
    /// Returns the present status of the service, as this process sees it.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn status(&self) -> Result<Status, StoreError> {
        let rules = self.rules.load_full();
        let ProcessStatus { shadows, providers, .. } = rules.standing();
        let shadows = rules.shadows.iter().map(|armed| Arc::clone(&armed.shadow)).zip(shadows).collect();
        let servers = self.store.queue().standings(self.pulse.settings().dead_after).await?.len();
        let (spool, probes) = (Some(self.spool.status()), *self.probes.lock());
        Ok(Status { spool, probes, ..status(&self.store, shadows, providers, servers).await? })
    }

    /// Files the standing of this process, for status requests to other processes.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn file_standing(&self) -> Result<(), StoreError> {
        let standing = ProcessStatus {
            spool: Some(self.spool.status()),
            probes: *self.probes.lock(),
            ..self.rules.load().standing()
        };
        let text = to_json("worker.standing", &standing)?;
        match self.pulse.live_worker_id() {
            Some(worker) => self.store.queue().store_status(worker, &text).await,
            None => Ok(()),
        }
    }
}

async fn status(
    store: &Store,
    in_force: Vec<(Arc<Shadow>, ShadowStanding)>,
    providers: Vec<ProviderStatus>,
    servers: usize,
) -> Result<Status, StoreError> {
    let depth = store.queue().queue_depth().await?;
    let mut shadows = Vec::with_capacity(in_force.len());
    for (shadow, standing) in in_force {
        shadows.push(shadow_status(store, &shadow, standing).await?);
    }
    let now = store.now().await?;
    let check_backlog = check_backlog(store, now).await?;
    let (backlogs, gone) = (store.webhooks().backlogs().await?, store.webhooks().gone_endpoints().await?);
    let telemetry = store.otel().services().await?;
    let needs = needs(&shadows, &check_backlog, &telemetry, (backlogs, &gone));
    Ok(Status {
        version: env!("CARGO_PKG_VERSION"),
        now,
        queue: QueueStatus {
            queued: depth.queued,
            running: depth.running,
            oldest_age_seconds: depth.oldest_age_seconds,
        },
        check_backlog,
        shadows,
        providers,
        servers,
        database: DatabaseStatus { version: store.shadows().server_version().await?, state: "ok" },
        spool: None,
        needs,
        probes: ProbeStatus::default(),
        telemetry,
    })
}

async fn check_backlog(store: &Store, now: Timestamp) -> Result<CheckBacklog, StoreError> {
    let LookBacklog { waiting, oldest_at, shed } = store.looks().backlog().await?;
    Ok(CheckBacklog {
        waiting,
        oldest_age_seconds: oldest_at.map_or(0.0, |at| now.duration_since(at).as_secs_f64().max(0.0)),
        shed: shed.iter().map(|range| range.events).sum(),
        ranges: shed,
    })
}

async fn shadow_status(store: &Store, shadow: &Shadow, standing: ShadowStanding) -> Result<ShadowStatus, StoreError> {
    let control = &shadow.cost_control;
    let day = store.shadows().shadow_day(&shadow.name, &control.time_zone).await?;
    let mut status = ShadowStatus {
        name: shadow.name.clone(),
        mode: shadow.mode,
        enabled: shadow.enabled,
        model: shadow.model.clone(),
        reviewer: standing.reviewer,
        day: day.day,
        reviews_today: day.reviews,
        checked_today: day.checked,
        max_reviews_per_day: control.max_reviews_per_day,
        usd_today: day.spent.usd(),
        usd_held: day.held.usd(),
        max_usd_per_day: control.max_usd_per_day.map(NanoUsd::usd),
        tokens_today: day.tokens,
        skips_today: day.skips.into_iter().map(|(reason, n)| (reason.as_str(), n)).collect(),
        health: standing.health,
        ailment: None,
    };
    status.ailment = shadow_problem(&status, &store.shadows().last_hour(&shadow.name).await?);
    if let Some(ShadowProblem { problem, .. }) = &status.ailment {
        status.health.clone_from(problem);
    }
    Ok(status)
}

impl ActiveConfiguration {
    /// Returns the shadows in force, and the health of their providers.
    pub fn standing(&self) -> ProcessStatus {
        let shadows = self.shadows.iter().map(|armed| {
            let (reviewer, health) = self.reviewer(&armed.shadow);
            ShadowStanding {
                version_id: armed.version_id,
                version: armed.version.clone(),
                reviewer: reviewer.to_owned(),
                health,
            }
        });
        let providers = self.gateway.health().into_iter().map(Into::into).collect();
        ProcessStatus { shadows: shadows.collect(), providers, spool: None, probes: ProbeStatus::default() }
    }

    /// Returns the reviewer of a shadow (`model` or `checks`), and `ok` or the obstacle before its model in words.
    pub fn reviewer(&self, shadow: &Shadow) -> (&'static str, String) {
        if !shadow.enabled {
            return ("checks", "switched off".into());
        }
        if self.gateway.spec(&shadow.model).is_some_and(|spec| spec.provider == Provider::Checks) {
            return ("checks", "ok".into());
        }
        match self.gateway.reviewer(&shadow.model) {
            Ok(()) => {
                // A provider's message may repeat what it was sent.
                let health = match self.gateway.suspension(&shadow.model) {
                    None => match self.gateway.last_error(&shadow.model) {
                        None => "ok".into(),
                        Some(why) => format!("its model's last call failed: {}", cleaned(&why)),
                    },
                    Some(SuspensionReason::Failing { wait, why }) => {
                        format!("not called for {} s after failures: {}", wait.as_secs(), cleaned(&why))
                    }
                    Some(SuspensionReason::Refused { why }) => format!("refused by its provider: {}", cleaned(&why)),
                };
                ("model", health)
            }
            Err(why) => ("checks", format!("only the built-in checks review: {why}")),
        }
    }
}
