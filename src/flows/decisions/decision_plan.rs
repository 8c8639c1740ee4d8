//! Plan of one transaction: decides its calls and records its outcomes, one after the other, on the stored state that
//! `authenticate` has verified, and collects the rows to store. No database is touched.

mod replay;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use rand::Rng;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    Boundary, DecideError, Question, authenticate::DecisionState, bare_audit_row, cleaned, outcome,
    overrides::to_microsecond, redacted, writer::DecisionRequest,
};
use crate::flows::serialise::to_json;
use umbra_boundary::{
    answer::{Answer, ApprovalAnswer},
    decide::{Approval, CallDecision, Decision, DecisionContext, decide},
    execution::{CallOwner, InheritedExecution, effective},
    seal::payload_mac,
    stub::{RecordedResult, RunState},
};
use umbra_config::{Settings, settings::AuditedReads};
use umbra_domain::{
    ApprovalId, ApprovalRow, ApprovalState, ByExecution, Call, Effect, Execution, HexBytes, RunRow,
    audit::{AuditKind, AuditPayload, DecisionEffects, SessionLabels},
};
use umbra_store::{
    StoreError,
    decisions::{
        DecisionKeys, DecisionRows, KnownCall, Named, NewApproval, NewAudit, NewCall, RunChange, SealedPayload,
        SessionRow,
    },
};

/// Answer to a waiting caller; its audit row, if it has one, counts from 1.
pub(in crate::flows) enum DecisionOutcome {
    Decided(Box<Answer>, Option<usize>),
    Refused(DecideError),
    Gone,
    Reported(outcome::Reported, Option<usize>),
    Unreported(outcome::ReportError),
}

/// Origin of a run's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The run has no row yet.
    New,
    Authentic,
    /// The row failed authentication, and is stored without a MAC, so that it fails again.
    Failed,
}

/// A run while its calls are decided.
pub(super) struct PlannedRun {
    pub row: RunRow,
    pub origin: Origin,
    pub is_changed: bool,
    /// Memory of the run's stubs.
    pub state: Option<RunState>,
}

/// A session while its calls are decided.
#[derive(Default)]
struct PlannedSession {
    labels: SessionLabels,
    changed: bool,
}

impl PlannedRun {
    /// Returns a run whose first call is being decided.
    fn begin((agent, run): &Named, began: Execution, named: bool) -> Self {
        let (agent, run, execution) = (agent.clone(), run.clone(), Execution::Live);
        let row =
            RunRow { agent, run, execution, began, parent: None, started_by: None, session: None, named, mac: None };
        Self { row, origin: Origin::New, is_changed: true, state: None }
    }
}

/// Plan of one transaction.
pub(super) struct DecisionPlan<'b> {
    boundary: &'b Boundary,
    state: DecisionState,
    sessions: HashMap<Named, PlannedSession>,
    /// Recorded results, by agent and tool.
    recorded: HashMap<Named, Vec<RecordedResult>>,
    stale: Arc<HashMap<String, String>>,
    pub rows: DecisionRows,
}

/// Collects the keys of the state that a batch needs.
pub(super) fn decision_keys(batch: &[DecisionRequest]) -> DecisionKeys {
    let mut wanted = DecisionKeys::default();
    for waiting in batch {
        wanted.calls.push(waiting.key());
        let Some(Question { call, digests, .. }) = waiting.question() else { continue };
        wanted.runs.extend(call.run.clone().filter(|_| !call.default_run).map(|run| (call.agent.clone(), run)));
        wanted.parents.extend(call.parent_run.clone());
        wanted.sessions.extend(call.session.clone().map(|session| (call.agent.clone(), session)));
        wanted.digests.extend([digests.live.to_vec(), digests.shadow.to_vec()]);
    }
    for names in [&mut wanted.runs, &mut wanted.sessions] {
        names.sort_unstable();
        names.dedup();
    }
    wanted
}

/// Returns the default runs (of sessions and processes) whose stubs may have a memory; none while every call runs.
pub(super) fn default_runs(batch: &[DecisionRequest], state: &DecisionState) -> Vec<Named> {
    let questions = batch.iter().filter_map(DecisionRequest::question);
    let questions = questions.filter(|question| question.call.default_run && is_any_shadow(question, state));
    let runs = questions.filter_map(|question| Some((question.call.agent.clone(), question.call.run.clone()?)));
    runs.filter(|name| !state.runs.contains_key(name)).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the agents and tools whose recorded results a stub may have to be inferred from.
pub(super) fn to_infer(batch: &[DecisionRequest], state: &DecisionState) -> Vec<Named> {
    let questions = batch.iter().filter_map(DecisionRequest::question).filter(|question| may_infer(question, state));
    let names = questions.map(|question| (question.call.agent.clone(), question.call.tool.to_string()));
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// True if the call may be in shadow, and only recorded results can give its stub.
fn may_infer(question: &Question, state: &DecisionState) -> bool {
    let Question { call, rules, .. } = question;
    is_any_shadow(question, state)
        && rules.tools.needs_recorded(call)
        && rules.tools.effect(call).effect != Effect::Read
}

/// True if configuration, an override, a run or a parent is in shadow.
fn is_any_shadow(question: &Question, state: &DecisionState) -> bool {
    let configured = &question.rules.configured;
    configured.settings.max(configured.variable.1).unwrap_or(configured.default) == Execution::Shadow
        || state.overrides.iter().any(|one| one.execution == Execution::Shadow)
        || !(state.parents.is_empty() && state.bound.is_empty())
        || state.runs.values().any(|run| run.row.is_bound())
}

impl<'b> DecisionPlan<'b> {
    /// Begins a plan with the state that the calls rest on.
    pub fn new(
        boundary: &'b Boundary,
        mut state: DecisionState,
        recorded: HashMap<Named, Vec<RecordedResult>>,
    ) -> Self {
        // A run whose row has expired, and that stays in shadow by the audit.
        for name in std::mem::take(&mut state.bound) {
            let mut bound = PlannedRun::begin(&name, Execution::Shadow, true);
            bound.row.execution = Execution::Shadow;
            state.runs.entry(name).or_insert(bound);
        }
        let sessions = std::mem::take(&mut state.sessions).into_iter();
        let session = |(name, labels): (Named, SessionLabels)| (name, PlannedSession { labels, changed: false });
        let sessions = sessions.map(session).collect();
        let rows = DecisionRows::default();
        Self { stale: boundary.stale.load_full(), boundary, state, sessions, recorded, rows }
    }

    /// Decides the next call, or records the next outcome.
    ///
    /// # Errors
    /// The stored answer cannot be read, or the new one cannot be written.
    pub fn decide_next(&mut self, waiting: &DecisionRequest) -> Result<DecisionOutcome, StoreError> {
        let known = self.state.calls.get(&waiting.key()).cloned();
        match waiting {
            DecisionRequest::Decide(question, _) => self.decide(question, known.as_ref()),
            DecisionRequest::Outcome(report, _) => Ok(match outcome::judge(report, known.as_ref()) {
                Err(error) => DecisionOutcome::Unreported(error),
                Ok((reported, None)) => DecisionOutcome::Reported(reported, None),
                Ok((reported, Some(body))) => {
                    let row = self.append_audit(report.audit(known.as_ref(), &body, self.boundary));
                    self.rows.outcomes.push(report.stored(row));
                    DecisionOutcome::Reported(reported, Some(row))
                }
            }),
        }
    }

    /// Returns the state, and all rows to store.
    ///
    /// # Errors
    /// The memory of a run cannot be written.
    pub fn finish(mut self) -> Result<(DecisionState, DecisionRows), StoreError> {
        let key = &self.boundary.rows;
        let changed = |PlannedRun { mut row, origin, state, .. }: PlannedRun| {
            row.mac = (origin != Origin::Failed).then(|| key.of_run(&row).into());
            let state = state.map(|mut state| {
                state.clean(redacted);
                to_json("the memory of a run", &state)
            });
            Ok(RunChange { row, is_new: origin == Origin::New, state: state.transpose()? })
        };
        let runs = std::mem::take(&mut self.state.runs).into_values().filter(|run| run.is_changed).map(changed);
        self.rows.runs = runs.collect::<Result<_, StoreError>>()?;
        let sessions = self.sessions.into_iter().filter(|(_, session)| session.changed);
        let row = |((agent, session), PlannedSession { labels, .. }): (Named, PlannedSession)| SessionRow {
            agent,
            session,
            labels,
        };
        self.rows.sessions = sessions.map(row).collect();
        // In one order everywhere, so that transactions do not deadlock.
        self.rows.sessions.sort_by(|a, b| (&a.agent, &a.session).cmp(&(&b.agent, &b.session)));
        Ok((self.state, self.rows))
    }

    pub fn append_audit(&mut self, row: NewAudit) -> usize {
        self.rows.audit.push(row);
        self.rows.audit.len()
    }

    fn decide(&mut self, question: &Question, known: Option<&KnownCall>) -> Result<DecisionOutcome, StoreError> {
        if let Some(known) = known
            && let Some(fate) = self.replay(question, known)?
        {
            return Ok(fate);
        }
        let Question { id, call, rules, digests, args, .. } = question;
        let session_name = call.session.clone().map(|session| (call.agent.clone(), session));
        let run_name = call.run.clone().map(|run| (call.agent.clone(), run));
        let mut binding = DecisionEffects::default();
        let mut labels = SessionLabels::default();
        if let Some(name) = &session_name {
            let session = self.sessions.entry(name.clone()).or_default();
            labels.uninterceptable = add(&mut session.labels.uninterceptable, &call.uninterceptable);
            session.changed |= !labels.uninterceptable.is_empty();
        }
        let descent = self.descent(question, run_name.as_ref());
        let session = session_name.as_ref().and_then(|name| self.sessions.get(name));
        let digests = digests.map(HexBytes::from);
        let standing = DecisionContext {
            now: self.state.now,
            overrides: &self.state.overrides,
            descent: descent.as_ref(),
            run: run_name.as_ref().and_then(|name| self.state.runs.get(name)).and_then(|run| run.state.clone()),
            recorded: self.recorded.get(&(call.agent.clone(), call.tool.to_string())).map_or(&[], Vec::as_slice),
            taints: session.map_or(&[], |session| &session.labels.taints),
            // Without a session, the call's own list counts.
            uninterceptable: session.map_or(&call.uninterceptable, |session| &session.labels.uninterceptable),
            approvals: ByExecution { live: &digests.live, shadow: &digests.shadow }
                .map(|digest| self.state.approvals.get(digest).map(approval)),
            oversized: question.oversized.as_deref(),
            stale: &self.stale,
        };
        let mut decided = decide(rules, call, standing);
        let was_bound =
            run_name.as_ref().and_then(|name| self.state.runs.get(name)).is_some_and(|run| run.row.is_bound());
        labels.taints = self.update_session_and_run(question, &decided, session_name, run_name.as_ref(), descent);
        let is_bound =
            run_name.as_ref().and_then(|name| self.state.runs.get(name)).is_some_and(|run| run.row.is_bound());
        binding.run_execution = is_bound.then_some(Execution::Shadow);
        binding.labels = (labels != SessionLabels::default()).then_some(labels);
        let digest = digests.of(decided.execution.execution);
        let used = decided.used.take().and_then(|_| self.state.approvals.remove(digest));
        let mut answer = Answer::of(*id, call, &decided);
        if decided.decision == Decision::Ask {
            answer.approval = Some(self.request_approval(question, &decided, digest.clone()));
        }
        // A decision that binds later calls is in the audit, even if it is a quiet read.
        let binds = binding.labels.is_some() || is_bound && !was_bound;
        if used.is_none() && !binds && is_quiet(&self.boundary.settings, &decided, question) {
            return Ok(DecisionOutcome::Decided(Box::new(answer), None));
        }
        let stored = redacted_answer(&answer);
        let (body, payload) = (stored.body(call, &decided.execution.won, &binding), stored.payload(args, call));
        let row = self.append_audit(audit_row(call, id.0, AuditKind::Decision, &body, Some(&payload)));
        self.rows.calls.push(NewCall {
            agent: call.agent.clone(),
            call_id: call.call_id.clone(),
            body: question.body.into(),
            row,
            decision: answer.decision.into(),
            answer: to_json("an answer", &stored)?,
            approval: answer.approval.as_ref().map(|approval| approval.id),
        });
        if let Some(approval) = used {
            self.use_approval(question, approval);
        }
        Ok(DecisionOutcome::Decided(Box::new(answer), Some(row)))
    }

    /// Uses up an approval. The row of the audit has the approval's id, so the approval cannot be used again, even if
    /// its state is set back.
    fn use_approval(&mut self, question: &Question, mut approval: ApprovalRow) {
        let Question { id, call, .. } = question;
        let body = json!({"approval": approval.id, "decision": "used", "decision_id": id});
        self.append_audit(audit_row(call, approval.id.0, AuditKind::Approval, &body, None));
        approval.state = ApprovalState::Used;
        approval.mac = Some(self.boundary.rows.of_approval(&approval).into());
        self.rows.used.push(approval);
    }

    /// Updates session and run by the decision; returns the labels that are new to the session.
    fn update_session_and_run(
        &mut self,
        question: &Question,
        decided: &CallDecision,
        session: Option<Named>,
        run: Option<&Named>,
        descent: Option<InheritedExecution>,
    ) -> Vec<String> {
        let mut taints = Vec::new();
        if let Some(session) = session.and_then(|name| self.sessions.get_mut(&name)) {
            taints = add(&mut session.labels.taints, &decided.taints);
            session.changed |= !taints.is_empty();
        }
        let Some(name) = run else { return taints };
        let Question { call, rules, .. } = question;
        // For the run as a whole: an override for one tool does not keep the other tools in shadow.
        let whole = CallOwner {
            agent: Some(&call.agent),
            session: call.session.as_deref(),
            tool: None,
            descent: descent.as_ref(),
        };
        let began = || effective(&rules.configured, &self.state.overrides, whole, self.state.now).execution;
        // A default run exists only for the memory of its stubs.
        if call.default_run && decided.run.is_none() && !self.state.runs.contains_key(name) {
            return taints;
        }
        let run =
            self.state.runs.entry(name.clone()).or_insert_with(|| PlannedRun::begin(name, began(), !call.default_run));
        let mut row = run.row.clone();
        if !call.default_run && !row.named {
            (row.named, row.began) = (true, began());
        }
        if row.named {
            row.execution = row.execution.max(decided.execution.execution);
        }
        if let Some(InheritedExecution::Shadow(parent)) = descent {
            row.parent = Some(parent);
        }
        row.started_by = row.started_by.or_else(|| call.parent_run.clone());
        row.session = call.session.clone().or(row.session);
        run.is_changed |= row != run.row;
        run.row = row;
        if let Some(state) = &decided.run {
            run.state = Some(state.clone());
            run.is_changed = true;
        }
        taints
    }

    /// Returns the approval that the call waits for: an open one, or a new one.
    fn request_approval(&mut self, question: &Question, decided: &CallDecision, digest: HexBytes) -> ApprovalAnswer {
        if let Some(known) = self.state.approvals.get(&digest) {
            return ApprovalAnswer { id: known.id, expires_at: known.expires_at };
        }
        let (id, asked_at) = (ApprovalId(self.boundary.clock.new_id()), self.state.now);
        let expires_at = asked_at.saturating_add(self.boundary.settings.boundary.approvals.expires_after);
        let expires_at = to_microsecond(expires_at.unwrap_or(jiff::Timestamp::MAX));
        let mut approval = ApprovalRow {
            id,
            agent: question.call.agent.clone(),
            tool: question.call.tool.to_string(),
            digest: digest.clone(),
            rule: decided.guard.rule.clone(),
            reason: decided.guard.reason.clone(),
            state: ApprovalState::Pending,
            asked_at,
            expires_at,
            note: None,
            mac: None,
        };
        approval.mac = Some(self.boundary.rows.of_approval(&approval).into());
        // The audit row of the call is appended next.
        let row = self.rows.audit.len() + 1;
        self.rows.approvals.push(NewApproval { approval: approval.clone(), row });
        self.state.approvals.insert(digest, approval);
        ApprovalAnswer { id, expires_at }
    }
}

/// Builds a row of the audit about a call.
pub(super) fn audit_row(call: &Call, id: Uuid, kind: AuditKind, body: &Value, payload: Option<&Value>) -> NewAudit {
    NewAudit {
        agent: Some(call.agent.clone()),
        session: call.session.clone(),
        run: call.run.clone(),
        call_id: Some(call.call_id.clone()),
        tool: Some(call.tool.to_string()),
        payload: payload.map(kept),
        ..bare_audit_row(id, kind, body.to_string())
    }
}

/// Returns the answer as it is stored, without credentials in stub, merge and detail.
fn redacted_answer(answer: &Answer) -> Answer {
    let mut stored = answer.clone();
    if let Some(stub) = &mut stored.stub {
        stub.result = redacted(&stub.result);
    }
    stored.merge = stored.merge.as_ref().map(redacted);
    // The detail names keys of the arguments.
    stored.detail = stored.detail.as_deref().map(cleaned);
    stored
}

/// Returns the error of a stored value that is not JSON of its type.
pub(super) fn inconsistent(table: &'static str) -> impl Fn(serde_json::Error) -> StoreError {
    move |error| StoreError::Inconsistent { table, problem: error.to_string() }
}

/// True if the call is a read that runs and, by the settings, leaves no row.
pub(super) fn is_quiet(settings: &Settings, decided: &CallDecision, question: &Question) -> bool {
    let runs = decided.effect == Effect::Read && decided.decision == Decision::Execute;
    runs && match settings.boundary.audit.reads {
        AuditedReads::None => true,
        AuditedReads::Sampled => question.body[0] >= 26,
        AuditedReads::All => false,
    }
}

fn approval(row: &ApprovalRow) -> Approval<'_> {
    Approval { id: row.id, state: row.state, expires_at: row.expires_at, note: row.note.as_deref() }
}

/// Adds new labels, within bounds; returns those that were added.
fn add(to: &mut Vec<String>, more: &[String]) -> Vec<String> {
    let before = to.len();
    for one in more {
        if to.len() < MOST_LABELS && !to.contains(one) {
            to.push(one.clone());
        }
    }
    to[before..].to_vec()
}

/// Most labels of a session.
const MOST_LABELS: usize = 64;

/// Returns a payload as the audit keeps it: without numbers that identify a person or an account.
pub(super) fn kept(payload: &Value) -> SealedPayload {
    let mut payload = payload.clone();
    umbra_checks::redact_identifiers(&mut payload);
    sealed(payload.to_string())
}

/// Seals a payload with a salt of its own.
pub(super) fn sealed(body: String) -> SealedPayload {
    let payload = AuditPayload { salt: rand::rng().random::<[u8; 16]>().to_vec(), body };
    let mac = HexBytes(payload_mac(&payload));
    SealedPayload { salt: HexBytes(payload.salt), body: payload.body, mac }
}
