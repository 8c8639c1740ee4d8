//! The answer where no decision can be stored: what would change something does not run; a read does, with a warning.
//!
//! The one exception is a tool whose contract says `on_unavailable: allow`, where everything this process has last seen
//! says that calls run: then the decision goes to a local file, durably, before it is answered, and from there into the
//! audit later.

use serde_json::json;

use super::{Boundary, LastState, Question, plan::sealed};
use crate::{
    boundary::{
        answer::Answer,
        decide::{Decided, Decision, Standing, decide},
    },
    domain::{Call, DecisionId, Effect, Execution, audit::AuditKind},
    store::decisions::NewAudit,
    telemetry::metric,
};

impl Boundary {
    /// Answers a call by itself. `reason` is its code.
    pub(super) async fn closed(&self, question: &Question, reason: &'static str, words: &str) -> Answer {
        let (mut decided, was_live) = self.as_last_seen(question);
        let id = DecisionId(self.clock.new_id());
        let runs = decided.decision == Decision::Execute;
        let mut warning = None;
        if runs && decided.effect == Effect::Read {
            warning = Some(format!("{words}: a read runs all the same, and the audit has no row of it"));
        } else if runs && was_live && question.rules.tools.allows_unavailable(&question.call) {
            match self.spool.append(self.later(question, &decided, id)).await {
                Ok(()) => warning = Some(format!("{words}: the contract lets it run; the audit has it later")),
                Err(error) => {
                    tracing::warn!(%error, "a call that its contract lets run is refused: it cannot be noted");
                    refuse(&mut decided, reason, words);
                }
            }
        } else if decided.decision != Decision::Block {
            refuse(&mut decided, reason, words);
        }
        let mut answer = Answer::of(id, &question.call, &decided);
        answer.warning = warning;
        let (decision, effect) = (answer.decision.as_str(), answer.effect.as_str());
        metrics::counter!(metric::DECISIONS, "decision" => decision, "effect" => effect).increment(1);
        metrics::counter!(metric::DECISIONS_CLOSED, "reason" => reason).increment(1);
        answer
    }

    /// Decides without the database, and keeps nothing: what `umbra bench decide` measures ours against.
    pub fn decide_alone(&self, call: Call) -> Answer {
        let question = self.question(call, &[]);
        let (decided, _) = self.as_last_seen(&question);
        Answer::of(DecisionId(self.clock.new_id()), &question.call, &decided)
    }

    /// What would be decided as far as this process has seen, and whether that is known to be live.
    fn as_last_seen(&self, question: &Question) -> (Decided, bool) {
        let call = &question.call;
        let seen = self.last_seen();
        let run = call.run.as_ref().map(|run| (call.agent.clone(), run.clone()));
        let run_was_live = run.is_none_or(|run| seen.runs.get(&run) == Some(&Execution::Live));
        let parent = call.parent_run.as_deref();
        let known = seen.state.is_some() && run_was_live && parent.is_none();
        let standing = Standing {
            now: seen.state.as_ref().map_or_else(|| self.clock.now(), LastState::now),
            overrides: seen.state.as_ref().map_or(&[], |state| &state.overrides),
            shadow_parent: parent,
            run: None,
            recorded: &[],
            taints: &[],
            uninterceptable: &call.uninterceptable,
            approval: None,
            stale: &self.stale.load(),
        };
        let decided = decide(&question.rules, call, standing);
        let live = decided.execution.execution == Execution::Live;
        (decided, known && live)
    }

    /// What goes into the audit later.
    fn later(&self, question: &Question, decided: &Decided, id: DecisionId) -> NewAudit {
        let call = &question.call;
        let answer = Answer::of(id, call, decided);
        let mut body = answer.body(call, &decided.execution.won);
        body["decided_at"] = json!(self.clock.now());
        NewAudit {
            id: id.0,
            kind: AuditKind::Merged,
            agent: Some(call.agent.clone()),
            session: call.session.clone(),
            run: call.run.clone(),
            call_id: Some(call.call_id.clone()),
            tool: Some(call.tool.to_string()),
            body: body.to_string(),
            payload: Some(sealed(answer.payload(&question.args, call).to_string())),
        }
    }
}

fn refuse(decided: &mut Decided, reason: &'static str, words: &str) {
    decided.decision = Decision::Block;
    decided.reason = Some(reason);
    decided.detail = Some(format!("{words}; what would change something does not run then"));
    decided.stub = None;
    decided.merge = None;
}
