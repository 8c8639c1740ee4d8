//! Replay of calls that were decided before, and the execution that a call inherits from its run.

use super::{
    super::{
        DecideError, Question,
        inherited_execution::{ExecutionContext, inherited_execution},
    },
    DecisionOutcome, DecisionPlan, PlannedRun, inconsistent,
};
use umbra_boundary::{
    answer::Answer,
    decide::Decision,
    execution::{CallOwner, InheritedExecution, effective},
};
use umbra_domain::{Effect, Execution, RunRow, StoredDecision};
use umbra_store::{
    StoreError,
    decisions::{KnownCall, Named},
};

impl DecisionPlan<'_> {
    /// Returns the stored answer of a call that was decided before; `None` if the call is to be decided anew, since its
    /// approval was answered or the database was away before. A replay is no new decision and has no row in the audit.
    /// A caller that lost the answer gets it again, but a call that may run does so once: not after its outcome, and
    /// not where calls do not run any more.
    ///
    /// # Errors
    /// The stored answer cannot be read.
    pub(super) fn replay(&self, question: &Question, known: &KnownCall) -> Result<Option<DecisionOutcome>, StoreError> {
        if known.body != question.body {
            return Ok(Some(DecisionOutcome::Refused(DecideError::Mismatch)));
        }
        // The call was refused while the database was away, and is decided now.
        if known.decision == StoredDecision::Closed {
            return Ok(None);
        }
        if known.decision == StoredDecision::Ask && !known.is_pending {
            return Ok(None);
        }
        let Some(answer) = known.answer.as_deref() else {
            return Ok(Some(DecisionOutcome::Refused(DecideError::Erased)));
        };
        let mut answer: Answer = serde_json::from_str(answer).map_err(inconsistent("call"))?;
        (answer.audit_seq, answer.replayed) = (known.seq, true);
        if answer.decision == Decision::Execute {
            if known.outcome.is_some() {
                answer.refuse("call_finished", "this call has already run, and its outcome is stored");
            } else if self.execution(question) == Execution::Shadow {
                // In shadow only a read runs, whatever was stored; the effect is judged anew, not taken from the stored
                // answer.
                let is_read = question.rules.tools.effect(&question.call).effect == Effect::Read;
                if answer.execution == Execution::Live || !is_read {
                    answer.execution = Execution::Shadow;
                    answer.refuse("execution_changed", "this call was decided under live execution, which has ended");
                }
            }
        }
        Ok(Some(DecisionOutcome::Decided(Box::new(answer), None)))
    }

    /// Returns the execution that the call would have now.
    fn execution(&self, question: &Question) -> Execution {
        let Question { call, rules, .. } = question;
        let run = call.run.clone().map(|run| (call.agent.clone(), run));
        let descent = self.descent(question, run.as_ref());
        let tool = rules.tools.readings(&call.tool);
        let whose = CallOwner {
            agent: Some(&call.agent),
            session: call.session.as_deref(),
            tool: Some(&tool),
            descent: descent.as_ref(),
        };
        effective(&rules.configured, &self.state.overrides, whose, self.state.now).execution
    }

    /// Returns the execution that the call inherits from its run and the runs above, as they are now.
    pub(super) fn descent(&self, question: &Question, run: Option<&Named>) -> Option<InheritedExecution> {
        let Question { call, rules, .. } = question;
        let run = run.and_then(|name| Some((name, self.state.runs.get(name)?)));
        match run {
            Some(((_, name), PlannedRun { row, .. })) if row.is_bound() => {
                let parent = row.parent.clone().map(InheritedExecution::Shadow);
                return Some(parent.unwrap_or_else(|| InheritedExecution::Began(name.clone())));
            }
            _ => {}
        }
        let started_by = run.and_then(|(_, run)| run.row.started_by.as_deref());
        let mut names: Vec<&str> = started_by.into_iter().chain(call.parent_run.as_deref()).collect();
        names.dedup();
        if names.is_empty() {
            return None;
        }
        // Changes of this transaction come before the rows that it read.
        let here = self.state.runs.values().map(|run| run.row.clone());
        let known: Vec<RunRow> = here.chain(self.state.parents.iter().cloned()).collect();
        let tool = rules.tools.readings(&call.tool);
        let (overrides, now) = (self.state.overrides.as_slice(), self.state.now);
        inherited_execution(
            names,
            &known,
            ExecutionContext { configured: &rules.configured, overrides, now, tool: Some(&tool) },
        )
    }
}
