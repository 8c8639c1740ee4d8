//! The sidecar beside an agent: its sessions, from attaching to closing, one step at a time.
//!
//! - [`attach`]: a session begins, with tools and documents, and ends;
//! - [`turn`]: what to do next: tools, rulings, duties, patterns; [`message`]: what was said and done;
//! - [`guard`]: what the rules say of a call or a message, in a session or without one;
//! - `judge`: how all of these are judged, part by part; `words`: rules that ask a model, before a session is locked;
//! - [`select`]: which tools fit, `embedding`: by an embedding model, where there is one; [`documents`]: what an agent works by; [`patterns`]: what worked before, and
//!   `trajectories`: in tasks without a session;
//! - [`workspace`]: the same documents as files;
//! - [`replay`]: a session once more, by the rules of today.
//!
//! Whatever it stands on may fail or be late (`patience`): the answer then says what it lacks, and the agent goes on. Rules
//! are in memory and always asked. Each step is kept with the answer, in one transaction under the lock of its session.

pub mod attach;
pub mod documents;
mod embedding;
mod faults;
pub mod guard;
mod judge;
pub mod message;
mod patience;
pub mod patterns;
mod redacted;
pub mod replay;
mod seen;
pub mod select;
pub mod step;
mod trajectories;
pub mod turn;
mod words;
pub mod workspace;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::{sync::mpsc, time::Instant};

use self::{
    embedding::Vectors,
    patience::{Health, Patience},
    patterns::Known,
    seen::{Ends, Seen},
    workspace::Files,
};
pub use self::{faults::Fault, guard::Interventions, judge::Judged};
use crate::{
    flows::{decisions::Boundary, events::Events, verdicts::Verdicts},
    workspace::Workspace,
};
use umbra_domain::{Event, PolicyRule, clock::Clock, sidecar::SidecarRules};
use umbra_policy::BadRule;
use umbra_sidecar::{
    guard::{BadGuard, Guardrail},
    tools::{Catalogue, Limits},
};
use umbra_store::Store;

/// Sets of tools whose index is kept.
const CATALOGUES: usize = 64;
/// Interventions that may wait to be told.
const TOLD: usize = 1_000;

/// Whether a caller may act for an agent. Sessions of others are unknown to it.
pub type May<'m> = &'m (dyn Fn(&str) -> bool + Send + Sync);

/// Bounds of the sidecar.
#[derive(Debug, Clone)]
pub struct SidecarSettings {
    /// Longest that a step waits, and how long it waits where its caller does not say.
    pub deadline: Duration,
    /// Open sessions of one agent.
    pub max_sessions_per_agent: u32,
    /// After so long without a step a session is closed.
    pub idle_close: Duration,
    /// Documents of a session.
    pub max_documents: usize,
    /// Tools of a session.
    pub max_tools: usize,
    /// Patterns that are kept.
    pub keep_patterns: usize,
    /// Whether tasks without a session leave patterns.
    pub mine_trajectories: bool,
    /// The directory in which documents are files, if there is one.
    pub workspace: Option<Workspace>,
}

/// What is in force.
#[derive(Debug)]
pub struct Guarding {
    /// The rules.
    pub guardrail: Guardrail,
    /// What may be offered.
    limits: Limits,
}

/// Why rules cannot be put in force.
#[derive(Debug, thiserror::Error)]
pub enum BadGuarding {
    /// A rule cannot be compiled.
    #[error(transparent)]
    Guard(#[from] BadGuard),
    /// A rule about tools cannot be compiled.
    #[error(transparent)]
    Limits(#[from] BadRule),
}

impl Guarding {
    /// Compiles the rules of the sidecar file and those of the tools file.
    ///
    /// # Errors
    /// The first rule that cannot be compiled.
    pub fn compile(rules: &SidecarRules, policies: &[PolicyRule]) -> Result<Self, BadGuarding> {
        let guardrail = Guardrail::compile(rules, policies)?;
        let both: Vec<PolicyRule> = policies.iter().chain(&rules.policies).cloned().collect();
        let limits = Limits::of(&both)?;
        Ok(Self { guardrail, limits })
    }
}

/// The way to the sidecar. Cheap to clone.
#[derive(Clone)]
pub struct Sidecar(Arc<Parts>);

/// The parts of a [`Sidecar`].
pub struct Parts {
    /// The database.
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// What tools do, and how names are kept.
    pub boundary: Boundary,
    /// Shadows are told of what the sidecar did, and are asked what rules in words ask.
    events: Events,
    /// Reviews of what they were asked.
    verdicts: Verdicts,
    /// What is in force.
    pub rules: ArcSwap<Guarding>,
    /// Bounds.
    pub settings: SidecarSettings,
    /// Where documents are files, if anywhere.
    files: Option<Files>,
    /// What worked before, as this process knows it.
    known: Known,
    /// Indexes by the digests of their tools, and when each was used.
    catalogues: Mutex<HashMap<String, (Arc<Catalogue>, Instant)>>,
    /// Sessions as they were seen last.
    seen: Seen,
    /// Ends of sessions that are still to be kept.
    ends: Ends,
    health: Health,
    /// Vectors of tools and tasks by the embedding model.
    vectors: Vectors,
    told: mpsc::Sender<Event>,
}

impl std::ops::Deref for Sidecar {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Sidecar {
    /// Puts the parts together; what shadows are to be told of comes out beside.
    pub fn new(
        (store, clock): (Store, Clock),
        (boundary, events, verdicts): (Boundary, Events, Verdicts),
        rules: Guarding,
        settings: SidecarSettings,
    ) -> (Self, Interventions) {
        let (told, telling) = mpsc::channel(TOLD);
        let sidecar = Self(Arc::new(Parts {
            store,
            clock,
            boundary,
            events,
            verdicts,
            rules: ArcSwap::from_pointee(rules),
            files: settings.workspace.clone().map(Files::new),
            known: Known::new(settings.keep_patterns),
            settings,
            catalogues: Mutex::default(),
            seen: Seen::default(),
            ends: Ends::default(),
            health: Health::default(),
            vectors: Vectors::default(),
            told,
        }));
        (sidecar, Interventions(telling))
    }

    /// What is left of the patience of who asked at this moment and waits so long.
    fn patience(&self, asked: Instant, deadline_ms: Option<u64>) -> Patience<'_> {
        let said = deadline_ms.map(|ms| asked + Duration::from_millis(ms));
        Patience::until(&self.health, asked + self.settings.deadline, said)
    }

    /// An index that was made before.
    fn catalogue_made(&self, digest: &str) -> Option<Arc<Catalogue>> {
        let mut made = self.catalogues.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (catalogue, used) = made.get_mut(digest)?;
        *used = Instant::now();
        Some(Arc::clone(catalogue))
    }

    /// Keeps an index; the one that was not used for longest goes where there are too many.
    fn keep_catalogue(&self, digest: &str, catalogue: &Arc<Catalogue>) {
        let mut made = self.catalogues.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if made.len() >= CATALOGUES
            && let Some(oldest) = made.iter().min_by_key(|(_, (_, used))| *used).map(|(digest, _)| digest.clone())
        {
            made.remove(&oldest);
        }
        made.insert(digest.to_owned(), (Arc::clone(catalogue), Instant::now()));
    }
}

/// Text of people and agents, without hidden characters and credentials.
fn cleaned(text: &str) -> String {
    umbra_checks::redact(text).as_str().to_owned()
}
