//! A call of a tool, from its question to the answer after the commit.
//!
//! In order: names are cleaned and arguments redacted; [`writer`] takes all waiting calls into one transaction, asks
//! `boundary::decide` about each call in turn, and commits decisions with their audit before it answers. If no answer
//! comes in time, `decide_offline` gives one that lets nothing be changed.

mod approvals;
mod authenticate;
mod decide_offline;
mod decision_plan;
mod files;
mod inherited_execution;
mod integrity_alarms;
mod merge;
mod names;
mod outcome;
mod overrides;
mod runs;
mod spool;
mod writer;

use std::{collections::HashMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use uuid::Uuid;

pub use self::{
    approvals::ApprovalError,
    authenticate::authenticate_overrides,
    files::{AuditFile, AuditFiles},
    inherited_execution::EffectiveQuery,
    integrity_alarms::IntegrityAlarms,
    outcome::{ReportError, Reported},
    overrides::{NewOverride, OverrideError},
    runs::{RunItem, RunName, RunsAfter},
    writer::DecisionWriter,
};
use self::{
    decide_offline::NoDatabaseReason,
    names::redacted,
    spool::DecisionSpool,
    writer::{DecisionRequest, Unanswered},
};
use crate::{flows::cleaned, telemetry::traces::TraceParent};
use umbra_boundary::{answer::Answer, decide::BoundaryRules, recent_outcomes::RecentOutcomes, row_mac::RowKey};
use umbra_config::Settings;
use umbra_domain::{ByExecution, Call, DecisionId, Execution, Override, audit::AuditKind, clock::Clock};
use umbra_store::{
    Store,
    decisions::{Named, NewAudit},
    installation::Installation,
};

/// Bytes of a `traceparent` without the extensions of later levels.
const TRACE_CONTEXT_BYTES: usize = 55;

/// Use case: deciding calls of tools. Cheap to clone.
#[derive(Clone)]
pub struct Boundary(Arc<BoundaryParts>);

/// The parts of a [`Boundary`].
pub struct BoundaryParts {
    /// The database.
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// Key of this installation's hashes.
    pub installation: Installation,
    /// Tools and rules in force.
    pub rules: ArcSwap<BoundaryRules>,
    /// Stale contracts, with the reason in words; looked up every second.
    pub stale: ArcSwap<HashMap<String, String>>,
    /// Recent stubs and live reads of this process.
    pub lately: RecentOutcomes,
    /// State of the audit's files.
    pub files: Arc<AuditFiles>,
    /// Integrity alarms.
    pub doubts: IntegrityAlarms,
    /// Key of the MACs of overrides, approvals and runs.
    pub rows: RowKey,
    /// Settings in force since the start.
    pub settings: Arc<Settings>,
    waiting: mpsc::Sender<DecisionRequest>,
    seen: Mutex<LastKnownState>,
    spool: DecisionSpool,
}

impl std::ops::Deref for Boundary {
    type Target = BoundaryParts;
    fn deref(&self) -> &BoundaryParts {
        &self.0
    }
}

/// Most runs whose last execution this process remembers.
const RUNS_SEEN: usize = 10_000;

/// State at the last decision of this process.
#[derive(Debug, Default)]
struct LastKnownState {
    /// `None` before the first decision.
    state: Option<LastState>,
    runs: HashMap<Named, Execution>,
}

/// State that a decision, or a change of an override, read from the database.
#[derive(Debug)]
struct LastState {
    overrides: Vec<Override>,
    /// Time of the database at `read`.
    now: Timestamp,
    read: Instant,
}

impl LastState {
    /// Returns the database's present time, independent of changes to the clock of this machine.
    fn now(&self) -> Timestamp {
        self.now.saturating_add(self.read.elapsed()).unwrap_or(Timestamp::MAX)
    }
}

/// A call that waits for its decision.
pub(in crate::flows) struct Question {
    /// Id of the decision, if the database stores it.
    pub id: DecisionId,
    pub rules: Arc<BoundaryRules>,
    pub call: Call,
    /// Keyed hash of the request.
    pub body: [u8; 32],
    /// Keyed hashes of agent, tool and arguments, by which approvals are found.
    pub digests: ByExecution<[u8; 32]>,
    /// Redacted arguments.
    pub args: Value,
    /// Fault of oversized arguments; `args` is then their size alone.
    pub oversized: Option<String>,
}

/// Reason why a call can get no decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// The id belongs to another call.
    #[error("this agent used this call_id for a different call: use a new call_id, or send the same call again")]
    Mismatch,
    /// The answer to this call was erased.
    #[error("the decision about this call was erased on request: ask again with a new call_id")]
    Erased,
}

impl Boundary {
    /// Builds the boundary and its writer, which the caller runs.
    pub fn new(
        store: Store,
        clock: Clock,
        installation: Installation,
        rows: RowKey,
        rules: BoundaryRules,
        settings: Arc<Settings>,
    ) -> (Self, DecisionWriter) {
        let (waiting, receiver) = mpsc::channel(settings.boundary.queue_calls);
        let files = Arc::<AuditFiles>::default();
        let spool = DecisionSpool::new(&settings.audit_dir(), clock.new_id(), Arc::clone(&files));
        let rules = ArcSwap::from_pointee(rules);
        let (seen, stale) = (Mutex::default(), ArcSwap::default());
        let boundary = Self(Arc::new(BoundaryParts {
            store,
            clock,
            installation,
            rules,
            stale,
            lately: RecentOutcomes::default(),
            files,
            doubts: IntegrityAlarms::default(),
            rows,
            settings,
            waiting,
            seen,
            spool,
        }));
        let writer = DecisionWriter::new(boundary.clone(), receiver);
        (boundary, writer)
    }

    /// Decides a call; the decision is durable when this returns. `request` is compared when the same id comes again.
    /// If no decision is possible in time, the call is decided closed: it does not run if it would change something.
    ///
    /// # Errors
    /// The id belongs to another call, or to one that was erased.
    pub async fn decide(&self, call: Call, request: &[u8]) -> Result<Answer, DecideError> {
        self.decide_since(Instant::now(), call, request).await
    }

    /// Decides a call like [`Self::decide`], for a caller that has waited since `asked`.
    ///
    /// # Errors
    /// The id belongs to another call, or to one that was erased.
    pub async fn decide_since(&self, asked: Instant, call: Call, request: &[u8]) -> Result<Answer, DecideError> {
        let most = self.settings.boundary.deadline;
        let wait = call.deadline_ms.map_or(most, Duration::from_millis).min(most);
        let deadline = asked + wait;
        let question = Arc::new(self.question(call, request));
        match self.ask_writer(&question, deadline).await {
            Ok(answer) => Ok(answer),
            Err(Unanswered::Asked(error)) => Err(error),
            Err(Unanswered::Closed(closed)) => Ok(self.decide_without_database(&question, closed, deadline).await),
        }
    }

    async fn ask_writer(&self, question: &Arc<Question>, deadline: Instant) -> Result<Answer, Unanswered> {
        let Ok(place) = self.waiting.try_reserve() else {
            let words = "too many calls wait for a decision";
            return Err(Unanswered::Closed(NoDatabaseReason { reason: "overloaded", words, handed: false }));
        };
        let (answer, mut answered) = oneshot::channel();
        place.send(DecisionRequest::Decide(Arc::clone(question), answer));
        if let Ok(answered) = tokio::time::timeout_at(deadline, &mut answered).await {
            return answered.unwrap_or(Err(Unanswered::away("the decision was cancelled")));
        }
        answered.close();
        // The answer may have come at the last moment.
        answered.try_recv().unwrap_or_else(|_| {
            let words = "no decision was stored in time";
            Err(Unanswered::Closed(NoDatabaseReason { reason: "deadline", words, handed: true }))
        })
    }

    /// Returns a problem that needs a person, though work goes on.
    pub fn complaint(&self) -> Option<&'static str> {
        self.files.complaint().or_else(|| self.doubts.complaint())
    }

    fn question(&self, mut call: Call, request: &[u8]) -> Question {
        // A name may hold a secret, too; cleaned, it stays distinct from other names.
        for name in [&mut call.agent, &mut call.call_id, &mut call.tool.name] {
            *name = self.name_of(name);
        }
        let Call { session, run, parent_run, route, seed, tool, .. } = &mut call;
        for name in [session, run, parent_run, &mut tool.server] {
            *name = name.take().map(|name| self.name_of(&name));
        }
        for name in [route, seed] {
            *name = name.take().map(|name| cleaned(&name));
        }
        // An invalid trace context is ignored, as the standard demands, and not kept.
        call.traceparent = call
            .traceparent
            .take()
            .filter(|text| text.len() == TRACE_CONTEXT_BYTES && TraceParent::parse(text).is_some());
        call.modes.iter_mut().chain(&mut call.uninterceptable).for_each(|name| *name = cleaned(name));
        if call.run.is_none() {
            (call.run, call.default_run) = (call.session.clone(), call.session.is_some());
        }
        let arguments = Value::Object(call.arguments.clone());
        let (tool, text) = (call.tool.to_string(), arguments.to_string());
        let parts = [call.agent.as_bytes(), tool.as_bytes(), text.as_bytes()];
        let digests = ByExecution { live: "arguments", shadow: "rehearsed arguments" }
            .map(|domain| self.installation.hash(domain, &parts));
        let body = self.installation.hash("call", &[request]);
        let (size, most) = (text.len(), self.settings.boundary.max_arguments_bytes);
        let oversized = (size > most).then(|| {
            call.arguments.clear();
            format!(
                "the arguments have {size} bytes as JSON, and {most} are allowed (boundary.max_arguments_bytes): send \
                 less"
            )
        });
        let args = if oversized.is_some() { json!({"bytes": size}) } else { redacted(&arguments) };
        Question {
            id: DecisionId(self.clock.new_id()),
            rules: self.rules.load_full(),
            args,
            call,
            body,
            digests,
            oversized,
        }
    }
}

impl LastKnownState {
    /// Keeps a state, unless a later one is known.
    fn saw(&mut self, state: LastState) {
        if self.state.as_ref().is_none_or(|known| known.read <= state.read) {
            self.state = Some(state);
        }
    }

    fn remember(&mut self, run: Named, execution: Execution) {
        if self.runs.len() >= RUNS_SEEN {
            self.runs.clear();
        }
        self.runs.insert(run, execution);
    }
}

/// Returns an audit row that names no agent, call or payload.
pub(in crate::flows) fn bare_audit_row(id: Uuid, kind: AuditKind, body: String) -> NewAudit {
    NewAudit { id, kind, agent: None, session: None, run: None, call_id: None, tool: None, body, payload: None }
}
