//! Sidecar of an agent: its sessions, from attach to close, one step at a time.
//!
//! - [`attach`]: start and end of a session, with tools and documents;
//! - [`turn`]: next step of an agent: tools, rulings, due documents, patterns; [`message`]: words, calls and results;
//! - [`guard`]: rulings on a call or a message, in a session or without one;
//! - `judge`: judging of all these, part by part; `words`: rules that ask a model, before a session is locked;
//! - [`select`]: choice of tools that fit; `embedding`: their closeness by an embedding model, if there is one;
//! - [`documents`]: documents that an agent works by; [`workspace`]: the same documents as files;
//! - [`patterns`]: patterns of earlier successes; `trajectories`: patterns of tasks without a session;
//! - [`replay`]: a session judged again, by the rules of today.
//!
//! Database, disk and models may fail or be late (`patience`): the answer then says what it lacks, and the agent goes
//! on. Rules are in memory and always asked. Each step is kept with its answer, in one transaction under the lock of
//! its session.

pub mod attach;
pub mod documents;
mod embedding;
mod faults;
pub mod guard;
mod judge;
pub mod message;
mod model_answers;
pub mod patterns;
mod redaction;
pub mod replay;
mod request_deadline;
pub mod select;
mod session_cache;
pub mod step;
mod trajectories;
pub mod turn;
pub mod workspace;

use std::{collections::HashMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::{sync::mpsc, time::Instant};

use self::{
    embedding::Vectors,
    patterns::PatternCache,
    request_deadline::{DatabaseBreaker, RequestDeadline},
    session_cache::{PendingEnds, SessionCache},
    workspace::WorkspaceFiles,
};
pub use self::{faults::RequestPartFault, guard::Interventions, judge::GuardRuling};
use crate::{
    flows::{cleaned, decisions::Boundary, events::Events, verdicts::Verdicts},
    workspace::Workspace,
};
use umbra_config::Settings;
use umbra_domain::{Event, PolicyRule, clock::Clock, sidecar::SidecarRules};
use umbra_sidecar::{
    guard::Guardrail,
    tools::{Catalogue, OfferRules},
};
use umbra_store::Store;

/// Most sets of tools whose index is kept.
const CATALOGUES: usize = 64;
/// Most interventions that wait to be reported.
const TOLD: usize = 1_000;

/// Predicate on agents that a caller may act for. Sessions of other agents are unknown to the caller.
pub type AgentFilter<'m> = &'m (dyn Fn(&str) -> bool + Send + Sync);

/// Compiled rules in force.
#[derive(Debug)]
pub struct SidecarRulesInForce {
    /// Rules about calls, texts and documents.
    pub guardrail: Guardrail,
    /// Rules about the tools that may be offered.
    limits: OfferRules,
}

impl SidecarRulesInForce {
    /// Compiles the rules of the sidecar file and those of the tools file.
    ///
    /// # Errors
    /// The first rule that cannot be compiled.
    pub fn compile(rules: &SidecarRules, policies: &[PolicyRule]) -> anyhow::Result<Self> {
        let guardrail = Guardrail::compile(rules, policies)?;
        let both: Vec<PolicyRule> = policies.iter().chain(&rules.policies).cloned().collect();
        let limits = OfferRules::of(&both)?;
        Ok(Self { guardrail, limits })
    }
}

/// Use case: the sidecar. Cheap to clone.
#[derive(Clone)]
pub struct Sidecar(Arc<SidecarParts>);

/// The parts of a [`Sidecar`].
pub struct SidecarParts {
    /// The database.
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// Effects of tools, and names as they are stored.
    pub boundary: Boundary,
    /// Acceptance of events: reports of interventions, and the questions of rules in words.
    events: Events,
    /// Reviews of these questions.
    verdicts: Verdicts,
    /// Rules in force.
    pub rules: ArcSwap<SidecarRulesInForce>,
    /// Settings in force since the start.
    pub settings: Arc<Settings>,
    /// Files of documents, if there is a workspace.
    files: Option<WorkspaceFiles>,
    /// Patterns known to this process.
    known: PatternCache,
    /// Indexes of tools by digest, with the time of their last use.
    catalogues: Mutex<HashMap<String, (Arc<Catalogue>, Instant)>>,
    /// Cache of the last seen sessions.
    seen: SessionCache,
    /// Ends of sessions that are still to be stored.
    ends: PendingEnds,
    health: DatabaseBreaker,
    /// Vectors of tools and tasks by the embedding model.
    vectors: Vectors,
    told: mpsc::Sender<Event>,
}

impl std::ops::Deref for Sidecar {
    type Target = SidecarParts;
    fn deref(&self) -> &SidecarParts {
        &self.0
    }
}

impl Sidecar {
    /// Builds the sidecar, and the interventions that the caller reports to the shadows.
    pub fn new(
        (store, clock): (Store, Clock),
        (boundary, events, verdicts): (Boundary, Events, Verdicts),
        rules: SidecarRulesInForce,
        (settings, workspace): (Arc<Settings>, Option<Workspace>),
    ) -> (Self, Interventions) {
        let (told, telling) = mpsc::channel(TOLD);
        let sidecar = Self(Arc::new(SidecarParts {
            store,
            clock,
            boundary,
            events,
            verdicts,
            rules: ArcSwap::from_pointee(rules),
            files: workspace.map(WorkspaceFiles::new),
            known: PatternCache::new(settings.sidecar.keep_patterns),
            settings,
            catalogues: Mutex::default(),
            seen: SessionCache::default(),
            ends: PendingEnds::default(),
            health: DatabaseBreaker::default(),
            vectors: Vectors::default(),
            told,
        }));
        (sidecar, Interventions(telling))
    }

    /// Returns the patience of a request that came at `asked`, with the caller's own deadline if it has one.
    fn patience(&self, asked: Instant, deadline_ms: Option<u64>) -> RequestDeadline<'_> {
        let said = deadline_ms.map(|ms| asked + Duration::from_millis(ms));
        RequestDeadline::until(&self.health, asked + self.settings.sidecar.deadline, said)
    }

    /// Returns an index that was made before.
    fn catalogue_made(&self, digest: &str) -> Option<Arc<Catalogue>> {
        let mut made = self.catalogues.lock();
        let (catalogue, used) = made.get_mut(digest)?;
        *used = Instant::now();
        Some(Arc::clone(catalogue))
    }

    /// Keeps an index; if there are too many, the least recently used one is dropped.
    fn keep_catalogue(&self, digest: &str, catalogue: &Arc<Catalogue>) {
        let mut made = self.catalogues.lock();
        if made.len() >= CATALOGUES
            && let Some(oldest) = made.iter().min_by_key(|(_, (_, used))| *used).map(|(digest, _)| digest.clone())
        {
            made.remove(&oldest);
        }
        made.insert(digest.to_owned(), (Arc::clone(catalogue), Instant::now()));
    }
}
