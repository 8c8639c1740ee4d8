//! Decision without the database: a call that would change something does not run; a read runs, with a warning. Either
//! decision is written to a local file, durably, before it is answered, and from there into the audit later.
//!
//! The exception is a tool whose contract says `on_unavailable: allow`, if all state that this process last saw says
//! that calls run. A call that cannot be recorded does not run, except a read where calls are known to be live.
//!
//! A transaction that was under way when the caller was answered may commit all the same. Its row is then followed by
//! this one, which names it as `instead_of`: this is the answer that the caller got.

use serde_json::json;
use tokio::time::{Duration, Instant};

use super::{
    Boundary, LastState, Question,
    decision_plan::{audit_row, is_quiet},
    redacted,
    spool::{SpoolAppendError, SpooledDecision},
};
use crate::{flows::serialise::to_json, telemetry::metric};
use umbra_boundary::{
    answer::Answer,
    decide::{CallDecision, Decision, DecisionContext, decide},
    execution::InheritedExecution,
};
use umbra_domain::{
    ByExecution, Call, DecisionId, Effect, Execution, StoredDecision,
    audit::{AuditKind, DecisionEffects},
};
use umbra_store::decisions::NewCall;

/// Longest wait for the disk after the deadline of a caller.
const TOLERANCE: Duration = Duration::from_millis(200);

/// Reason why the database gives no answer.
#[derive(Debug, Clone, Copy)]
pub(in crate::flows) struct NoDatabaseReason {
    /// Reason as a code.
    pub reason: &'static str,
    /// Reason in words.
    pub words: &'static str,
    /// True if the writer had the call, whose decision may then be stored as well.
    pub handed: bool,
}

impl Boundary {
    /// Decides a call without the database, shortly after its deadline at the latest.
    pub(super) async fn decide_without_database(
        &self,
        question: &Question,
        closed: NoDatabaseReason,
        deadline: Instant,
    ) -> Answer {
        let NoDatabaseReason { reason, words, handed } = closed;
        let (mut decided, known_live) = self.as_last_seen(question);
        let is_read = decided.effect == Effect::Read;
        let allowed = is_read || (known_live && question.rules.tools.allows_unavailable(&question.call));
        if decided.decision != Decision::Block && !(decided.decision == Decision::Execute && allowed) {
            refuse(&mut decided, reason, words);
        }
        let id = DecisionId(self.clock.new_id());
        let by = deadline.max(Instant::now()) + TOLERANCE;
        let instead_of = handed.then_some(question.id);
        let mut warning = None;
        if decided.decision != Decision::Execute {
            if self.note(question, &decided, id, instead_of, by).await.is_err() {
                decided.detail = decided.detail.map(|detail| format!("{detail}; the audit's folder cannot be written"));
            }
        } else if is_quiet(&self.settings, &decided, question) {
            warning = Some(format!("{words}: a read runs even so"));
        } else {
            match self.note(question, &decided, id, instead_of, by).await {
                Ok(()) if is_read => {
                    warning = Some(format!("{words}: a read runs even so; its decision is added to the audit later"));
                }
                Ok(()) => {
                    warning = Some(format!(
                        "{words}: the contract lets the call run even so; its decision is added to the audit later"
                    ));
                }
                Err(_) if is_read && known_live => {
                    warning = Some(format!("{words}: a read runs even so, and the audit has no row of it"));
                }
                Err(unnoted) => {
                    refuse(&mut decided, reason, words);
                    let why = "the audit's folder cannot be written either, so the call would run without a record";
                    decided.detail = Some(format!("{words}; {why}"));
                    if unnoted == SpoolAppendError::Late {
                        // If the late line is written after all, this one follows it.
                        let refused = DecisionId(self.clock.new_id());
                        drop(self.later(question, &decided, refused, Some(id)).map(|line| self.spool.push(&line)));
                    }
                }
            }
        }
        let mut answer = Answer::of(id, &question.call, &decided);
        answer.warning = warning;
        let (decision, effect) = (answer.decision.as_str(), answer.effect.as_str());
        metrics::counter!(metric::DECISIONS, "decision" => decision, "effect" => effect).increment(1);
        metrics::counter!(metric::DECISIONS_CLOSED, "reason" => reason).increment(1);
        answer
    }

    /// Decides without the database, and stores nothing: the baseline of `umbra-bench decide`.
    pub fn decide_alone(&self, call: Call) -> Answer {
        let question = self.question(call, &[]);
        let (decided, _) = self.as_last_seen(&question);
        Answer::of(question.id, &question.call, &decided)
    }

    /// Returns the decision by the state that this process saw last, and true if calls are known to be live.
    fn as_last_seen(&self, question: &Question) -> (CallDecision, bool) {
        let call = &question.call;
        let seen = self.seen.lock();
        let run = call.run.as_ref().map(|run| (call.agent.clone(), run.clone()));
        let run_was_live = call.default_run || run.is_none_or(|run| seen.runs.get(&run) == Some(&Execution::Live));
        // The parent's present execution is unknown.
        let descent = call.parent_run.clone().map(InheritedExecution::Shadow);
        let known = seen.state.is_some() && run_was_live && descent.is_none();
        let standing = DecisionContext {
            now: seen.state.as_ref().map_or_else(|| self.clock.now(), LastState::now),
            overrides: seen.state.as_ref().map_or(&[], |state| &state.overrides),
            descent: descent.as_ref(),
            run: None,
            recorded: &[],
            taints: &[],
            uninterceptable: &call.uninterceptable,
            approvals: ByExecution::default(),
            oversized: question.oversized.as_deref(),
            stale: &self.stale.load(),
        };
        let decided = decide(&question.rules, call, standing);
        let live = decided.execution.execution == Execution::Live;
        (decided, known && live)
    }

    async fn note(
        &self,
        question: &Question,
        decided: &CallDecision,
        id: DecisionId,
        instead_of: Option<DecisionId>,
        by: Instant,
    ) -> Result<(), SpoolAppendError> {
        let line = self.later(question, decided, id, instead_of)?;
        self.spool.append(&line, by).await
    }

    /// Builds the line that goes into the audit later.
    fn later(
        &self,
        question: &Question,
        decided: &CallDecision,
        id: DecisionId,
        instead_of: Option<DecisionId>,
    ) -> Result<SpooledDecision, SpoolAppendError> {
        let call = &question.call;
        let answer = Answer::of(id, call, decided);
        let mut body = answer.body(call, &decided.execution.won, &DecisionEffects::default());
        body["decided_at"] = json!(self.clock.now());
        if let Some(other) = instead_of {
            body["instead_of"] = json!(other.0.simple().to_string());
        }
        let payload = redacted(&answer.payload(&question.args, call));
        let audit = audit_row(call, id.0, AuditKind::Merged, &body, Some(&payload));
        let runs = answer.decision == Decision::Execute;
        let call = NewCall {
            agent: call.agent.clone(),
            call_id: call.call_id.clone(),
            body: question.body.into(),
            row: 0,
            decision: if runs { StoredDecision::Execute } else { StoredDecision::Closed },
            answer: to_json("an answer", &answer)?,
            approval: None,
        };
        Ok(SpooledDecision { audit, call })
    }
}

fn refuse(decided: &mut CallDecision, reason: &'static str, words: &str) {
    decided.decision = Decision::Block;
    decided.reason = Some(reason);
    decided.detail = Some(format!("{words}, and calls that change something do not run without a stored decision"));
    decided.stub = None;
    decided.merge = None;
    decided.tell_of_arguments();
}
