//! One whole decision, as a pure function. In: the rules in force, the call and its context. Out: the decision and the
//! changes that it causes.
//!
//! In this order: arguments are validated (a malformed call fails in shadow too), the rules are applied, execution is
//! settled, and where the call does not run, a stub is rendered and validated. Each step may end the decision.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    drift::bypass::Required,
    execution::{CallOwner, ConfiguredExecution, Effective, InheritedExecution, effective},
    gate::Standards,
    overlay::{OverlayAnswer, OverlayMerge},
    stub::{RecordedResult, RunState, Stub, StubError},
    tools::{CallInput, Tools, begin},
};
pub use umbra_domain::Decision;
use umbra_domain::{
    ApprovalId, ApprovalState, ByExecution, Call, Effect, EffectSource, Execution, Guard, GuardVerdict, Override,
};

/// Rules in force.
#[derive(Debug)]
pub struct BoundaryRules {
    /// Execution as configured before the server started.
    pub configured: ConfiguredExecution,
    /// Effects, contracts and rules about tools.
    pub tools: Tools,
    /// Path of the tools file; none without one.
    pub file: Option<String>,
    /// Standards of the gate.
    pub gate: Standards,
    /// Agents and tools whose calls must have been decided.
    pub required: Required,
}

/// Approval of exactly this call: agent, tool and arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Approval<'a> {
    /// Approval id.
    pub id: ApprovalId,
    /// State of the approval.
    pub state: ApprovalState,
    /// End of its validity.
    pub expires_at: Timestamp,
    /// Note of the person who answered.
    pub note: Option<&'a str>,
}

/// Context of a call: overrides, run, labels and approval.
#[derive(Debug)]
pub struct DecisionContext<'a> {
    /// Time of the database.
    pub now: Timestamp,
    /// Overrides, in force or past.
    pub overrides: &'a [Override],
    /// Shadow that the call inherits from its run or from runs above it.
    pub descent: Option<&'a InheritedExecution>,
    /// State of the run's stubs; none before the first stub.
    pub run: Option<RunState>,
    /// Recorded live results of the tool, by any agent, from which a stub may be inferred.
    pub recorded: &'a [RecordedResult],
    /// Labels of the session.
    pub taints: &'a [String],
    /// The session's ways to write that cannot be intercepted.
    pub uninterceptable: &'a [String],
    /// Approval of exactly this call, for each execution: that of a rehearsed call counts in rehearsals alone.
    pub approvals: ByExecution<Option<Approval<'a>>>,
    /// Fault of arguments that are too large; they are not validated any further.
    pub oversized: Option<&'a str>,
    /// Stale contracts as `tool@version`, each with the reason.
    pub stale: &'a HashMap<String, String>,
}

/// A decision with the changes that it causes.
#[derive(Debug, Clone)]
pub struct CallDecision {
    /// Decision for the call.
    pub decision: Decision,
    /// Stable code of the reason why the call may not run.
    pub reason: Option<&'static str>,
    /// The reason in words.
    pub detail: Option<String>,
    /// Effect of the call.
    pub effect: Effect,
    /// Source of the effect.
    pub effect_source: EffectSource,
    /// Live or shadow, with the source that decided.
    pub execution: Effective,
    /// Verdict of the rules.
    pub guard: Guard,
    /// Contract, as `tool@version`.
    pub contract: Option<String>,
    /// Stub to answer with.
    pub stub: Option<Stub>,
    /// Address where the call can be tried without consequences, by the contract of a stubbed call.
    pub sandbox: Option<String>,
    /// Changes to merge into the result of a read that runs.
    pub merge: Option<OverlayMerge>,
    /// Steps of the decision, for a person.
    pub explain: Vec<String>,
    /// New state of the run's stubs; none if unchanged.
    pub run: Option<RunState>,
    /// Labels that the session gets.
    pub taints: Vec<String>,
    /// Approval that the call uses up.
    pub used: Option<ApprovalId>,
}

/// Decides a call.
pub fn decide(rules: &BoundaryRules, call: &Call, standing: DecisionContext<'_>) -> CallDecision {
    let BoundaryRules { configured, tools, .. } = rules;
    let tool = tools.readings(&call.tool);
    let whose = CallOwner {
        agent: Some(&call.agent),
        session: call.session.as_deref(),
        tool: Some(&tool),
        descent: standing.descent,
    };
    let rated = tools.effect(call);
    let execution = effective(configured, standing.overrides, whose, standing.now);
    let args = Value::Object(call.arguments.clone());
    let given = CallInput { call, args: &args, recorded: standing.recorded };
    let mut guard = tools.judge(given, rated.effect, standing.taints);
    if let Some(flagged) = &call.flagged {
        guard = guard.with_checks(flagged.verdict, &flagged.reason);
    }
    let mut decided = CallDecision {
        decision: Decision::Block,
        reason: None,
        detail: None,
        effect: rated.effect,
        effect_source: rated.source,
        contract: tools.contract(call),
        stub: None,
        sandbox: None,
        merge: None,
        explain: vec![format!("effect {} by {}: {}", rated.effect.as_str(), rated.source.as_str(), rated.why)],
        run: None,
        taints: Vec::new(),
        used: None,
        guard,
        execution,
    };
    decided.walk(tools, given, standing);
    if decided.reason != Some("invalid_arguments") {
        decided.tell_of_arguments();
    }
    if decided.decision != Decision::Block && decided.decision != Decision::Ask {
        decided.taints = tools.taints(call);
        decided.taints.extend(decided.guard.taints.iter().cloned());
    }
    decided
}

impl CallDecision {
    /// Appends to `detail` of a stopped call that its arguments raised the effect above read: some callers see only
    /// that.
    pub fn tell_of_arguments(&mut self) {
        let stopped = matches!(self.decision, Decision::Block | Decision::Ask);
        if !stopped || self.effect_source != EffectSource::Arguments {
            return;
        }
        // A tool that runs what it is given is no read anyway.
        let rated = self.explain.first().filter(|rated| rated.contains("otherwise a read"));
        if let (Some(detail), Some(rated)) = (&mut self.detail, rated) {
            // The first step begins with the source of the effect.
            let why = rated.split_once(": ").map_or(rated.as_str(), |(_, why)| why);
            *detail = format!("{detail}; with these arguments the call is not a read: {why}");
        }
    }

    fn walk(&mut self, tools: &Tools, given: CallInput<'_>, standing: DecisionContext<'_>) {
        if let Some(fault) = standing.oversized {
            return self.block("invalid_arguments", fault.to_owned());
        }
        if let Some(faults) = tools.invalid_arguments(given) {
            return self.block("invalid_arguments", faults);
        }
        self.explain.append(&mut self.guard.explain.clone());
        let said = self.guard.reason.clone().unwrap_or_else(|| "a rule requires it".to_owned());
        match self.guard.verdict {
            GuardVerdict::Block => return self.block("policy", said),
            GuardVerdict::Ask => match standing
                .approvals
                .of(self.execution.execution)
                .filter(|approval| standing.now < approval.expires_at)
            {
                Some(Approval { id, state: ApprovalState::Approved, .. }) => {
                    self.explain.push(format!("approved: {id}"));
                    self.used = Some(id);
                }
                Some(Approval { id, state: ApprovalState::Denied, note, .. }) => {
                    let note = note.map(|note| format!(": {note}")).unwrap_or_default();
                    return self.block("approval_denied", format!("{id} was denied{note}"));
                }
                _ => {
                    self.decision = Decision::Ask;
                    self.reason = Some("approval_required");
                    self.detail = Some(said);
                    return;
                }
            },
            GuardVerdict::Allow | GuardVerdict::Warn => {}
        }
        let won = &self.execution.won;
        self.explain.push(format!("{} by {} {}", self.execution.execution.as_str(), won.source, won.name));
        if self.execution.execution == Execution::Live {
            if let Some(InheritedExecution::Unknown(run)) = standing.descent
                && self.effect != Effect::Read
            {
                let what = format!(
                    "the parent run {run} is unknown or too many levels above, so its execution cannot be inherited: \
                     name a parent_run that has made a call"
                );
                return self.block("unknown_parent", what);
            }
            if given.call.stub_override.is_some() {
                self.explain.push("stub_override applies only in shadow and is ignored".to_owned());
            }
            self.decision = Decision::Execute;
            return;
        }
        if let Some(path) = standing.uninterceptable.first() {
            let what = format!(
                "the session can write by {path}, which Umbra cannot intercept, so the call cannot run safely in shadow"
            );
            return self.block("uninterceptable", what);
        }
        let state = standing.run.unwrap_or_else(|| begin(given.call, standing.now));
        self.rehearse(tools, given, state);
        // A stub that may be wrong is better than none, if the caller is told.
        if let Some(why) = self.stub.as_ref().and_then(|stub| standing.stale.get(&stub.contract)) {
            self.explain.push(format!("the contract of this stub may be wrong: {why}"));
        }
    }

    /// Rehearses a call in shadow: a read runs, unless the run itself wrote the records; any other call is answered by
    /// a stub.
    fn rehearse(&mut self, tools: &Tools, given: CallInput<'_>, mut state: RunState) {
        let stub = if self.effect == Effect::Read && given.call.stub_override.is_none() {
            match tools.remembered(given, &mut state) {
                Ok(OverlayAnswer::Stub(stub)) => Ok(stub),
                Ok(OverlayAnswer::Live) => {
                    self.decision = Decision::Execute;
                    return;
                }
                Ok(OverlayAnswer::Merge(merge)) => {
                    self.decision = Decision::Execute;
                    self.merge = Some(merge);
                    return;
                }
                Err(none) => Err(none),
            }
        } else {
            tools.stub(given, &mut state)
        };
        match stub {
            Ok(stub) => {
                self.decision = Decision::Stub;
                self.sandbox = tools.sandbox(given.call);
                self.contract = Some(stub.contract.clone());
                self.stub = Some(stub);
                self.run = Some(state);
            }
            Err(error) if matches!(error, StubError::NoContract { .. }) && self.is_disbelieved(given.call) => {
                let tool = &given.call.tool;
                let whom = if given.call.by_proxy {
                    "trust its server (--trusted, or `trusted_servers` in the tools file)"
                } else {
                    "declare it with a key of the scope declare (declared_effect)"
                };
                let what = format!(
                    "the call is declared a read, but Umbra rates it {}: {}; to let it run in shadow, add {{tool: \
                     {tool}, effect: read}} under `effects` of the tools file, or {whom}",
                    self.effect.as_str(),
                    self.explain.first().map_or("", |rated| rated.split_once(": ").map_or("", |(_, why)| why)),
                );
                self.block(error.code(), what);
            }
            Err(error) => self.block(error.code(), error.to_string()),
        }
    }

    /// True if the call's own claim to be a read is not believed, whatever its arguments.
    fn is_disbelieved(&self, call: &Call) -> bool {
        call.says_read() && self.effect_source != EffectSource::Arguments
    }

    fn block(&mut self, reason: &'static str, detail: String) {
        self.decision = Decision::Block;
        self.reason = Some(reason);
        self.used = None;
        self.detail = Some(detail);
    }
}
