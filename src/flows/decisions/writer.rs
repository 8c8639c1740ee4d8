//! The one writer of decisions of a process: group commit without a timer, as for events.
//!
//! Each transaction reads how things stand, so no process acts on a state that it has cached. A call that is known already
//! gets what it got; that is also the way out of a commit whose outcome is unknown: it is tried again, and what was stored
//! is found. An answer that nobody takes any more is noted in the audit with the next transaction.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Boundary, DecideError, LastState, Question,
    authenticate::authenticate_state,
    decision_plan::{DecisionPlan, Fate, QuestionNames, Undelivered, to_infer, wanted},
    outcome::{Report, ReportError, Reported},
};
use crate::telemetry::metric;
use umbra_boundary::{answer::Answer, decide::Decision, stub::Recorded};
use umbra_store::{
    StoreError,
    decisions::{Named, RecordedCall},
};

/// Tries at one transaction while another is in the way.
const TRIES: u32 = 3;
/// Longest that a transaction may take: a database that hangs must not hold the writer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Without calls for so long, the writer gives its connection back.
const QUIET: Duration = Duration::from_secs(1);
/// Undelivered decisions that are remembered while the database is away.
const MOST_UNDELIVERED: usize = 10_000;

/// Why a call has no answer of the writer's.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// What was asked makes none.
    Asked(DecideError),
    /// The database did not answer.
    Away,
    /// The database refuses what is to be written.
    Refused,
    /// A stored row that the decision needs cannot be read.
    Unreadable,
}

/// Somebody who waits.
pub(super) enum Waiting {
    Decide(Arc<Question>, oneshot::Sender<Result<Answer, Unanswered>>),
    Outcome(Box<Report>, oneshot::Sender<Result<Reported, ReportError>>),
}

impl Waiting {
    /// Whose call.
    pub fn key(&self) -> Named {
        match self {
            Self::Decide(question, _) => (question.call.agent.clone(), question.call.call_id.clone()),
            Self::Outcome(report, _) => (report.agent.clone(), report.call_id.clone()),
        }
    }

    /// Whether nobody waits any more. An outcome is stored all the same.
    fn is_gone(&self) -> bool {
        matches!(self, Self::Decide(_, answer) if answer.is_closed())
    }
}

/// Takes calls and decides them.
pub struct DecisionWriter {
    boundary: Boundary,
    waiting: mpsc::Receiver<Waiting>,
    undelivered: Vec<Undelivered>,
}

impl DecisionWriter {
    pub(super) fn new(boundary: Boundary, waiting: mpsc::Receiver<Waiting>) -> Self {
        Self { boundary, waiting, undelivered: Vec::new() }
    }

    /// Decides until `stop`; what was taken by then is still answered.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut carried: Option<Waiting> = None;
        let mut rests = false;
        loop {
            if carried.is_none() {
                carried = tokio::select! {
                    taken = self.waiting.recv() => taken,
                    () = stop.cancelled() => { self.waiting.close(); self.waiting.recv().await }
                    () = tokio::time::sleep(QUIET), if !rests || !self.undelivered.is_empty() => {
                        // What nobody took is noted soon, also where nobody asks any more.
                        if !self.undelivered.is_empty() {
                            self.decide(Vec::new()).await;
                        }
                        self.boundary.store.decisions().rest_deciding();
                        rests = true;
                        continue;
                    }
                };
                if carried.is_none() {
                    return self.decide(Vec::new()).await;
                }
            }
            let mut batch: Vec<Waiting> = Vec::new();
            let mut keys = HashSet::new();
            while let Some(next) = carried.take().or_else(|| self.waiting.try_recv().ok()) {
                if next.is_gone() {
                    continue;
                }
                // A call is decided and reported in one transaction after the other.
                if batch.len() >= self.boundary.settings.flush_calls || !keys.insert(next.key()) {
                    carried = Some(next);
                    break;
                }
                batch.push(next);
            }
            self.decide(batch).await;
            rests = false;
        }
    }

    /// Decides a batch, halving it around what the database refuses.
    async fn decide(&mut self, batch: Vec<Waiting>) {
        let mut parts = vec![batch];
        while let Some(mut part) = parts.pop() {
            let started = Instant::now();
            match self.until_known(&part).await {
                Ok((fates, base)) => {
                    metrics::counter!(metric::DECISION_FLUSHES, "result" => "stored").increment(1);
                    metrics::histogram!(metric::DECISION_FLUSH_SECONDS).record(started.elapsed().as_secs_f64());
                    self.undelivered.clear();
                    self.boundary.doubts.refused(false);
                    self.answer(part, fates, base);
                }
                Err(error) if (error.is_data() || is_inconsistent(&error)) && part.len() > 1 => {
                    metrics::counter!(metric::DECISION_FLUSHES, "result" => "bisected").increment(1);
                    let back = part.split_off(part.len() / 2);
                    parts.push(back);
                    parts.push(part);
                }
                Err(error) => {
                    let unreadable = is_inconsistent(&error);
                    let result = if unreadable { "inconsistent" } else { "failed" };
                    metrics::counter!(metric::DECISION_FLUSHES, "result" => result).increment(1);
                    tracing::warn!(%error, calls = part.len(), "calls could not be decided; whatever changes something is refused");
                    let refuses = !error.is_transient() && !unreadable;
                    self.boundary.doubts.refused(refuses && !error.is_value());
                    for waiting in part {
                        let why = || match (refuses, unreadable) {
                            (_, true) => Unanswered::Unreadable,
                            (true, _) => Unanswered::Refused,
                            _ => Unanswered::Away,
                        };
                        match waiting {
                            Waiting::Decide(_, answer) => drop(answer.send(Err(why()))),
                            Waiting::Outcome(_, answer) => drop(answer.send(Err(ReportError::Unavailable))),
                        }
                    }
                }
            }
        }
    }

    async fn until_known(&self, batch: &[Waiting]) -> Result<(Vec<Fate>, i64), StoreError> {
        if batch.is_empty() && self.undelivered.is_empty() {
            return Ok((Vec::new(), 0));
        }
        let mut tried = 0;
        loop {
            tried += 1;
            let flushed = tokio::time::timeout(PATIENCE, self.flush(batch)).await;
            let error = match flushed {
                Ok(Ok(flushed)) => return Ok(flushed),
                Ok(Err(error)) => error,
                Err(_) => return Err(StoreError::Contended { sqlstate: "hangs".to_owned() }),
            };
            let again = error.is_transient() || is_overtaken(&error);
            if !again || tried >= TRIES || batch.iter().all(Waiting::is_gone) {
                return Err(error);
            }
            metrics::counter!(metric::DECISION_FLUSHES, "result" => "retried").increment(1);
            tokio::time::sleep(Duration::from_millis(10 << tried)).await;
        }
    }

    /// One transaction.
    async fn flush(&self, batch: &[Waiting]) -> Result<(Vec<Fate>, i64), StoreError> {
        let mut deciding = self.boundary.store.decisions().begin_deciding().await?;
        let stored = deciding.read(&wanted(batch)).await?;
        let read = Instant::now();
        let state = authenticate_state(stored, &self.boundary.rows, &self.boundary.doubts);
        let names = to_infer(batch, &state);
        let recorded = if names.is_empty() { HashMap::new() } else { recorded(deciding.recorded(&names).await?) };
        let mut plan = DecisionPlan::new(&self.boundary, state, recorded);
        // Who has gone by now was told something else.
        let take = |waiting| if Waiting::is_gone(waiting) { Ok(Fate::Gone) } else { plan.take(waiting) };
        let fates = batch.iter().map(take).collect::<Result<_, _>>()?;
        self.undelivered.iter().for_each(|one| plan.undelivered(one));
        let (state, rows) = plan.finish();
        let base = if rows.is_empty() {
            deciding.abandon().await?;
            0
        } else {
            deciding.write(&rows).await?
        };
        self.boundary.last_seen().saw(LastState { overrides: state.overrides, now: state.now, read });
        Ok((fates, base))
    }

    fn answer(&mut self, batch: Vec<Waiting>, fates: Vec<Fate>, base: i64) {
        let number = |row: Option<usize>| row.and_then(|row| i64::try_from(row).ok()).map(|row| base + row);
        for (waiting, fate) in batch.into_iter().zip(fates) {
            match (waiting, fate) {
                (Waiting::Decide(question, answer), Fate::Decided(decided, row)) => {
                    let mut decided = *decided;
                    decided.audit_seq = number(row).or(decided.audit_seq);
                    let (decision, effect) = (decided.decision, decided.effect.as_str());
                    metrics::counter!(metric::DECISIONS, "decision" => decision.as_str(), "effect" => effect)
                        .increment(1);
                    let now = self.boundary.clock.now();
                    self.boundary.lately.note(decision, decided.effect, decided.execution, now);
                    if let Some(run) = question.call.run.clone() {
                        let run = (question.call.agent.clone(), run);
                        self.boundary.last_seen().remember(run, decided.execution);
                    }
                    let id = decided.decision_id;
                    let takes = matches!(decision, Decision::Execute | Decision::Stub);
                    if answer.send(Ok(decided)).is_err() && takes && self.undelivered.len() < MOST_UNDELIVERED {
                        self.undelivered.push(Undelivered { question: names(&question), decision, id });
                    }
                }
                (Waiting::Decide(_, answer), Fate::Refused(error)) => drop(answer.send(Err(Unanswered::Asked(error)))),
                (Waiting::Outcome(_, answer), Fate::Reported(mut reported, row)) => {
                    reported.audit_seq = number(row).unwrap_or(reported.audit_seq);
                    drop(answer.send(Ok(reported)));
                }
                (Waiting::Outcome(_, answer), Fate::Unreported(error)) => drop(answer.send(Err(error))),
                // Fates are made in the order of those that wait.
                (Waiting::Decide(_, answer), _) => drop(answer.send(Err(Unanswered::Away))),
                (Waiting::Outcome(_, answer), _) => drop(answer.send(Err(ReportError::Unavailable))),
            }
        }
    }
}

/// Recorded results by agent and tool, oldest first. What was erased, or went wrong, is none.
fn recorded(calls: Vec<RecordedCall>) -> HashMap<Named, Vec<Recorded>> {
    let mut by_name: HashMap<Named, Vec<Recorded>> = HashMap::new();
    for RecordedCall { name, decision, outcome } in calls {
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
        let (Some(mut decision), Some(mut outcome)) = (parse(&decision), parse(&outcome)) else { continue };
        if outcome["outcome"]["status"] == "ok" && !outcome["outcome"]["result"].is_null() {
            let one = Recorded { args: decision["args"].take(), result: outcome["outcome"]["result"].take() };
            by_name.entry(name).or_default().push(one);
        }
    }
    by_name
}

fn names(question: &Question) -> Arc<QuestionNames> {
    let call = &question.call;
    Arc::new(QuestionNames {
        agent: call.agent.clone(),
        session: call.session.clone(),
        run: call.run.clone(),
        call_id: call.call_id.clone(),
        tool: Some(call.tool.to_string()),
    })
}

fn is_inconsistent(error: &StoreError) -> bool {
    matches!(error, StoreError::Inconsistent { .. })
}

/// Whether another process stored the same run or call first, or used the same approval: read again, it is known.
fn is_overtaken(error: &StoreError) -> bool {
    matches!(error, StoreError::Data { sqlstate, constraint: Some(name) }
        if sqlstate == "23505" && matches!(name.as_str(), "boundary_run_pkey" | "call_pkey" | "audit_id_key"))
}
