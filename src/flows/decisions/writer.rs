//! Writer of decisions, one per process, by group commit.
//!
//! Each transaction reads the state that decisions rest on, so no process acts on cached state. A call that was decided
//! before gets the stored answer; so a commit of unknown outcome is simply tried again. An answer that did not reach
//! its caller is noted in the audit by the next transaction.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use serde_json::json;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Boundary, DecideError, LastState, Question,
    authenticate::{authenticate_runs, authenticate_state},
    decide_offline::NoDatabaseReason,
    decision_plan::{DecisionOutcome, DecisionPlan, audit_row, decision_keys, default_runs, to_infer},
    outcome::{OutcomeReport, ReportError, Reported},
};
use crate::{
    flows::group_commit::{self, Commit, GroupCommit},
    telemetry::metric,
};
use umbra_boundary::{answer::Answer, decide::Decision, drift::contract, stub::RecordedResult};
use umbra_domain::audit::AuditKind;
use umbra_store::{
    StoreError,
    decisions::{Named, NewAudit, RecordedCall},
};

/// Most undelivered decisions that are remembered while the database is away.
const MOST_UNDELIVERED: usize = 10_000;

/// Reason why a call has no answer from the writer.
#[derive(Debug)]
pub(in crate::flows) enum Unanswered {
    /// No decision is possible on the question itself.
    Asked(DecideError),
    /// The decision was not stored.
    Closed(NoDatabaseReason),
}

impl Unanswered {
    /// The writer could not store the decision, for the reason in `words`.
    pub(super) fn away(words: &'static str) -> Self {
        Self::Closed(NoDatabaseReason { reason: "unavailable", words, handed: true })
    }
}

/// Reason to decide without a database that does not answer.
const AWAY: &str = "the database does not answer";

/// A caller that waits.
pub(in crate::flows) enum DecisionRequest {
    Decide(Arc<Question>, oneshot::Sender<Result<Answer, Unanswered>>),
    Outcome(Box<OutcomeReport>, oneshot::Sender<Result<Reported, ReportError>>),
}

impl DecisionRequest {
    /// Returns agent and id of the call.
    pub fn key(&self) -> Named {
        match self {
            Self::Decide(question, _) => (question.call.agent.clone(), question.call.call_id.clone()),
            Self::Outcome(report, _) => (report.agent.clone(), report.call_id.clone()),
        }
    }

    /// Returns the call to decide, unless it is an outcome that is reported.
    pub fn question(&self) -> Option<&Question> {
        match self {
            Self::Decide(question, _) => Some(question),
            Self::Outcome(..) => None,
        }
    }

    /// True if the caller has gone. An outcome is stored all the same.
    fn is_gone(&self) -> bool {
        matches!(self, Self::Decide(_, answer) if answer.is_closed())
    }
}

/// Decides the calls that wait.
pub struct DecisionWriter {
    boundary: Boundary,
    waiting: mpsc::Receiver<DecisionRequest>,
    /// Calls of the batch that is being gathered, by agent and id.
    keys: HashSet<Named>,
    /// Audit rows of decisions that were not delivered, since their callers had gone.
    undelivered: Vec<NewAudit>,
}

impl Commit for DecisionWriter {
    type Item = DecisionRequest;
    /// Fates in the order of the batch, and the audit number before that of the first new row.
    type Stored = (Vec<DecisionOutcome>, i64);
    const METRICS: (&'static str, &'static str) = (metric::DECISION_FLUSHES, metric::DECISION_FLUSH_SECONDS);
    const TRIES: (u32, Duration) = (3, Duration::from_millis(20));

    async fn flush(&mut self, batch: &[DecisionRequest]) -> Result<Self::Stored, StoreError> {
        if batch.is_empty() && self.undelivered.is_empty() {
            return Ok((Vec::new(), 0));
        }
        self.transact(batch).await
    }

    fn may_retry(&self, batch: &[DecisionRequest], error: &StoreError) -> bool {
        (error.is_transient() || is_overtaken(error)) && !batch.iter().all(DecisionRequest::is_gone)
    }

    async fn answer(&mut self, batch: Vec<DecisionRequest>, (fates, base): Self::Stored) {
        self.undelivered.clear();
        self.boundary.doubts.refused(false);
        let number = |row: Option<usize>| row.and_then(|row| i64::try_from(row).ok()).map(|row| base + row);
        for (waiting, fate) in batch.into_iter().zip(fates) {
            match (waiting, fate) {
                (DecisionRequest::Decide(question, answer), DecisionOutcome::Decided(decided, row)) => {
                    let mut decided = *decided;
                    decided.audit_seq = number(row).or(decided.audit_seq);
                    let (decision, effect) = (decided.decision, decided.effect.as_str());
                    metrics::counter!(metric::DECISIONS, "decision" => decision.as_str(), "effect" => effect)
                        .increment(1);
                    let now = self.boundary.clock.now();
                    self.boundary.lately.note(decision, decided.effect, decided.execution, now);
                    if let Some(run) = question.call.run.clone().filter(|_| !question.call.default_run) {
                        let run = (question.call.agent.clone(), run);
                        self.boundary.seen.lock().remember(run, decided.execution);
                    }
                    let id = decided.decision_id;
                    let takes = matches!(decision, Decision::Execute | Decision::Stub);
                    if answer.send(Ok(decided)).is_err() && takes && self.undelivered.len() < MOST_UNDELIVERED {
                        let body = json!({"status": "undelivered", "decision": decision, "decision_id": id});
                        let row = audit_row(&question.call, id.0, AuditKind::Outcome, &body, None);
                        self.undelivered.push(row);
                    }
                }
                (DecisionRequest::Decide(_, answer), DecisionOutcome::Refused(error)) => {
                    drop(answer.send(Err(Unanswered::Asked(error))));
                }
                (DecisionRequest::Outcome(_, answer), DecisionOutcome::Reported(mut reported, row)) => {
                    reported.audit_seq = number(row).unwrap_or(reported.audit_seq);
                    drop(answer.send(Ok(reported)));
                }
                (DecisionRequest::Outcome(_, answer), DecisionOutcome::Unreported(error)) => {
                    drop(answer.send(Err(error)));
                }
                // Fates come in the order of the batch, so these pairs do not occur.
                (DecisionRequest::Decide(_, answer), _) => drop(answer.send(Err(Unanswered::away(AWAY)))),
                (DecisionRequest::Outcome(_, answer), _) => drop(answer.send(Err(ReportError::Unavailable))),
            }
        }
    }

    fn refuse(&mut self, batch: Vec<DecisionRequest>, error: &StoreError) {
        tracing::warn!(
            %error,
            calls = batch.len(),
            "the database could not store decisions; calls that change something are refused"
        );
        let refuses = !error.is_transient() && !error.is_inconsistent();
        self.boundary.doubts.refused(refuses && !error.is_value());
        let words = match error {
            _ if error.is_inconsistent() => "a row of this call cannot be read or written (the log says why)",
            _ if refuses => "the database refuses to store the decision (the log says why)",
            _ => AWAY,
        };
        for waiting in batch {
            match waiting {
                DecisionRequest::Decide(_, answer) => drop(answer.send(Err(Unanswered::away(words)))),
                DecisionRequest::Outcome(_, answer) => drop(answer.send(Err(ReportError::Unavailable))),
            }
        }
    }
}

impl GroupCommit for DecisionWriter {
    fn queue(&mut self) -> &mut mpsc::Receiver<DecisionRequest> {
        &mut self.waiting
    }

    fn add(&mut self, batch: &mut Vec<DecisionRequest>, item: DecisionRequest) -> Option<DecisionRequest> {
        if item.is_gone() {
            return None;
        }
        if batch.is_empty() {
            self.keys.clear();
        }
        // Decision and outcome of a call are stored in separate transactions.
        if batch.len() >= self.boundary.settings.boundary.flush_calls || !self.keys.insert(item.key()) {
            return Some(item);
        }
        batch.push(item);
        None
    }

    /// Notes undelivered answers soon, even if no further call comes.
    async fn rest(&mut self) -> bool {
        if !self.undelivered.is_empty() {
            group_commit::store(self, Vec::new()).await;
        }
        self.boundary.store.decisions().release_idle_connection();
        self.undelivered.is_empty()
    }

    async fn close(&mut self) {
        group_commit::store(self, Vec::new()).await;
    }
}

impl DecisionWriter {
    pub(super) fn new(boundary: Boundary, waiting: mpsc::Receiver<DecisionRequest>) -> Self {
        Self { boundary, waiting, keys: HashSet::new(), undelivered: Vec::new() }
    }

    /// Decides until `stop`; calls taken by then are still answered.
    pub async fn run(self, stop: CancellationToken) {
        group_commit::run(self, stop).await;
    }

    async fn transact(&self, batch: &[DecisionRequest]) -> Result<(Vec<DecisionOutcome>, i64), StoreError> {
        let mut deciding = self.boundary.store.decisions().begin_deciding().await?;
        let stored = deciding.read(&decision_keys(batch)).await?;
        let read = Instant::now();
        let mut state = authenticate_state(stored, &self.boundary.rows, &self.boundary.doubts)?;
        let unnamed = deciding.lock_runs(&default_runs(batch, &state)).await?;
        state.runs.extend(authenticate_runs(unnamed, &state.bound, &self.boundary.rows, &self.boundary.doubts)?);
        let names = to_infer(batch, &state);
        let recorded = if names.is_empty() { HashMap::new() } else { recorded(deciding.recorded(&names).await?) };
        let mut plan = DecisionPlan::new(&self.boundary, state, recorded);
        // A caller that has gone by now got another answer.
        let take = |waiting| {
            if DecisionRequest::is_gone(waiting) { Ok(DecisionOutcome::Gone) } else { plan.decide_next(waiting) }
        };
        let fates = batch.iter().map(take).collect::<Result<_, _>>()?;
        for row in &self.undelivered {
            plan.append_audit(NewAudit { id: self.boundary.clock.new_id(), ..row.clone() });
        }
        let (state, rows) = plan.finish()?;
        let base = if rows.is_empty() {
            deciding.abandon().await?;
            0
        } else {
            deciding.write(&rows).await?
        };
        self.boundary.seen.lock().saw(LastState { overrides: state.overrides, now: state.now, read });
        Ok((fates, base))
    }
}

/// Groups recorded results by asking agent and tool, oldest first; erased and failed ones are left out.
fn recorded(calls: Vec<RecordedCall>) -> HashMap<Named, Vec<RecordedResult>> {
    let mut by_name: HashMap<Named, Vec<RecordedResult>> = HashMap::new();
    let mut others: Vec<String> = Vec::new();
    for RecordedCall { name, agent, decision, outcome } in calls {
        let number = if agent == name.0 {
            0
        } else {
            1 + others.iter().position(|known| *known == agent).unwrap_or_else(|| {
                others.push(agent);
                others.len() - 1
            })
        };
        by_name.entry(name).or_default().extend(contract::recorded(&decision, &outcome, number));
    }
    by_name
}

/// True if another process stored the same run or call first, or used the same approval; the next attempt reads it.
fn is_overtaken(error: &StoreError) -> bool {
    matches!(error, StoreError::Data { sqlstate, constraint: Some(name) }
        if sqlstate == "23505" && matches!(name.as_str(), "boundary_run_pkey" | "call_pkey" | "audit_id_key"))
}
