//! Use cases, a folder each: the only layer that strings building blocks together and opens transactions.
//!
//! - [`events`]: a posted event, from its screening to the answer after the commit;
//! - [`reviews`]: a review, from its lease to its findings; reviews asked for later, or of a text that is no event;
//! - [`looks`]: built-in checks at events that no review looks at;
//! - [`verdicts`]: the verdict of an event, and the requests that wait for it;
//! - [`followers`]: consequences of a review that ended: breakers, reflexions, messages, briefings, feedback;
//! - [`decisions`]: a call of a tool, from its question to the answer after the commit;
//! - [`audit`]: the audit of decisions: chained, signed, compared with contracts, calls and runs;
//! - [`hooks`]: a hook of a coding agent, from its payload to the answer;
//! - [`gateways`]: an exchange with a model that a gateway asks about;
//! - [`otel`]: an export of OpenTelemetry, from its spans and logs to events;
//! - [`sessions`]: a session of an agent, step by step;
//! - [`backtests`]: a shadow tried on events of the past;
//! - [`maintenance`]: due work, retention, erasure, status.
//!
//! [`active_configuration`] is the configuration in force, [`group_commit`] the loop of the writers of events and of
//! decisions, [`collapse`] the keys by which repeats of a hit are recognised.

pub mod active_configuration;
pub mod audit;
pub mod backtests;
mod collapse;
pub mod decisions;
pub mod events;
pub mod followers;
pub mod gateways;
mod group_commit;
pub mod hooks;
pub mod looks;
pub mod maintenance;
pub mod otel;
pub mod reviews;
mod rounds;
mod serialise;
pub mod sessions;
pub mod verdicts;

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use self::{
    active_configuration::{ActiveConfiguration, RulesInForce},
    audit::Audit,
    backtests::Backtests,
    decisions::Boundary,
    events::{EventSpool, Events, Filer, Reservations, Writer},
    followers::{FindingFeed, Followers, OpenBreakers},
    gateways::Gateways,
    hooks::{Flagging, Hooks},
    looks::Looks,
    maintenance::Maintenance,
    otel::Otel,
    reviews::Reviews,
    sessions::{Interventions, Sidecar, SidecarRulesInForce},
    verdicts::{Verdicts, Waiters},
};
use crate::{
    queue::{DispatcherHandle, WorkerHeartbeat},
    webhooks::Endpoints,
    workspace::Workspace,
};
use umbra_config::Settings;
use umbra_domain::clock::Clock;
use umbra_store::{Store, installation::Installation};

/// All use cases on one database, with their shared parts. Cheap to clone.
#[derive(Clone)]
pub struct Flows {
    /// The database.
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// The configuration in force.
    pub rules: RulesInForce,
    /// Key of this installation's hashes.
    pub installation: Installation,
    /// Free worker slots, and the hand-over of leased jobs to them.
    pub intake: DispatcherHandle,
    /// This process as a worker.
    pub pulse: WorkerHeartbeat,
    /// Receivers of messages.
    pub webhooks: Arc<ArcSwap<Endpoints>>,
    /// Acceptance of posted events.
    pub events: Events,
    /// Reservation of reviews for stored events.
    pub reservations: Reservations,
    /// Execution of queued reviews.
    pub reviews: Reviews,
    /// Built-in checks of events without a review.
    pub looks: Looks,
    /// Verdicts.
    pub verdicts: Verdicts,
    /// Consequences of reviews.
    pub followers: Followers,
    /// Decisions about calls of tools.
    pub boundary: Boundary,
    /// Comparison of the audit with contracts, events and runs.
    pub audit: Audit,
    /// Sessions of agents.
    pub sidecar: Sidecar,
    /// Hooks of coding agents.
    pub hooks: Hooks,
    /// Guardrails of model gateways.
    pub gateways: Gateways,
    /// Exports of OpenTelemetry.
    pub otel: Otel,
    /// Backtests.
    pub backtests: Backtests,
    /// Due work, retention, erasure, status.
    pub maintenance: Maintenance,
}

/// Parts and settings that [`Flows`] are made of.
pub struct FlowsParts {
    /// The database.
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// The configuration to begin with.
    pub rules: ActiveConfiguration,
    /// Receivers of messages, to begin with.
    pub webhooks: Endpoints,
    /// Key of this installation's hashes.
    pub installation: Installation,
    /// Free worker slots, and the hand-over of leased jobs to them.
    pub intake: DispatcherHandle,
    /// This process as a worker.
    pub pulse: WorkerHeartbeat,
    /// Decisions about calls of tools.
    pub boundary: Boundary,
    /// Rules of the sidecar, to begin with.
    pub guarding: SidecarRulesInForce,
    /// Settings in force since the start.
    pub settings: Arc<Settings>,
    /// Local queue of events while the database is away.
    pub spool: EventSpool,
    /// Directory of documents as files, if there is one.
    pub workspace: Option<Workspace>,
}

impl Flows {
    /// Builds all use cases. The caller runs the returned writer, filer of the spool, and reporter of the sidecar's
    /// interventions.
    pub fn new(parts: FlowsParts) -> (Self, Writer, Filer, Interventions) {
        let FlowsParts { store, clock, rules, webhooks, installation, intake, pulse, boundary, settings, .. } = parts;
        let rules: RulesInForce = Arc::new(ArcSwap::from_pointee(rules));
        let webhooks = Arc::new(ArcSwap::from_pointee(webhooks));
        let reservations = Reservations {
            store: store.clone(),
            clock: clock.clone(),
            rules: Arc::clone(&rules),
            installation: installation.clone(),
            intake: intake.clone(),
            pulse: pulse.clone(),
            max_queued: settings.queue.max_queued.into(),
        };
        let (events, writer, filer) = Events::new(reservations.clone(), parts.spool, Arc::clone(&settings));
        let verdicts = Verdicts { store: store.clone(), rules: Arc::clone(&rules), waiters: Waiters::default() };
        let (sidecar, interventions) = Sidecar::new(
            (store.clone(), clock.clone()),
            (boundary.clone(), events.clone(), verdicts.clone()),
            parts.guarding,
            (Arc::clone(&settings), parts.workspace),
        );
        let looks = looks((&store, &clock, &installation), &rules, &verdicts, (&settings, writer.stored()));
        let otel = Otel::new((store.clone(), clock.clone(), installation.clone()), events.clone(), looks.clone());
        let flagging = Flagging(settings.boundary.hooks.flagged);
        let flows = Self {
            reviews: Reviews {
                store: store.clone(),
                clock: clock.clone(),
                rules: Arc::clone(&rules),
                installation: installation.clone(),
                verdicts: verdicts.clone(),
                settings: Arc::clone(&settings),
            },
            looks,
            followers: Followers {
                store: store.clone(),
                clock: clock.clone(),
                rules: Arc::clone(&rules),
                verdicts: verdicts.clone(),
                settings: Arc::clone(&settings),
                open_breakers: OpenBreakers::default(),
                tail: FindingFeed::default(),
                webhooks: Arc::clone(&webhooks),
                outbox: Arc::default(),
            },
            hooks: Hooks::new(
                (store.clone(), clock.clone(), installation.clone()),
                (boundary.clone(), otel.clone(), sidecar.clone()),
                (flagging, settings.sidecar.companion()),
            ),
            gateways: Gateways { sidecar: sidecar.clone(), events: events.clone(), flagging },
            otel,
            audit: Audit {
                store: store.clone(),
                clock: clock.clone(),
                boundary: boundary.clone(),
                webhooks: Arc::clone(&webhooks),
            },
            backtests: Backtests {
                store: store.clone(),
                clock: clock.clone(),
                rules: Arc::clone(&rules),
                installation: installation.clone(),
                bell: Arc::default(),
            },
            maintenance: Maintenance {
                store: store.clone(),
                clock: clock.clone(),
                rules: Arc::clone(&rules),
                intake: intake.clone(),
                pulse: pulse.clone(),
                verdicts: verdicts.clone(),
                spool: events.spool.clone(),
                probes: Arc::default(),
            },
            store,
            clock,
            rules,
            installation,
            intake,
            pulse,
            webhooks,
            events,
            reservations,
            verdicts,
            boundary,
            sidecar,
        };
        (flows, writer, filer, interventions)
    }
}

/// Returns text without hidden characters and credentials.
fn cleaned(text: &str) -> String {
    umbra_checks::redact(text).as_str().to_owned()
}

fn looks(
    (store, clock, installation): (&Store, &Clock, &Installation),
    rules: &RulesInForce,
    verdicts: &Verdicts,
    (settings, stored): (&Arc<Settings>, Arc<Notify>),
) -> Looks {
    let (store, clock, installation) = (store.clone(), clock.clone(), installation.clone());
    Looks {
        store,
        clock,
        rules: Arc::clone(rules),
        installation,
        verdicts: verdicts.clone(),
        settings: Arc::clone(settings),
        stored,
    }
}
