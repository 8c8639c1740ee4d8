//! What one transaction stores: its calls and outcomes, decided one after the other on how things stand.

mod replay;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use rand::Rng;
use serde_json::json;

use super::{
    Boundary, BoundarySettings, DecideError, Question,
    authenticate::{AuthenticatedRun, DecisionState, said},
    clean, outcome,
    overrides::to_microsecond,
    redacted,
    writer::Waiting,
};
use umbra_boundary::{
    answer::{Answer, ApprovalAnswer},
    decide::{Approval, ApprovalState, Decided, Decision, Standing, decide},
    execution::{Descent, Whose, effective},
    genuine::RunSaid,
    seal::payload_mac,
    stub::{Recorded, RunState},
};
use umbra_config::settings::AuditedReads;
use umbra_domain::{
    ApprovalId, DecisionId, Effect, Execution,
    audit::{AuditKind, AuditPayload, Binding, Labels},
};
use umbra_store::{
    StoreError,
    decisions::{
        KnownApproval, KnownCall, KnownRun, Named, NewApproval, NewAudit, NewCall, RunChange, UsedApproval, Wanted,
        Written,
    },
};

/// A decision that nobody took: its caller had gone.
#[derive(Debug, Clone)]
pub(super) struct Undelivered {
    pub question: std::sync::Arc<QuestionNames>,
    pub decision: Decision,
    pub id: DecisionId,
}

/// Whose call it was.
#[derive(Debug)]
pub(super) struct QuestionNames {
    pub agent: String,
    pub session: Option<String>,
    pub run: Option<String>,
    pub call_id: String,
    pub tool: Option<String>,
}

/// What is to be answered to one that waits; its row, if it has one, counts from 1.
pub(super) enum Fate {
    Decided(Box<Answer>, Option<usize>),
    Refused(DecideError),
    Gone,
    Reported(outcome::Reported, Option<usize>),
    Unreported(outcome::ReportError),
}

/// A run's row in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Nowhere,
    Ours,
    /// Nobody vouches for it: it stays known by that.
    Doubted,
}

/// A run while its calls are decided.
struct Run {
    kept: Kept,
    changed: bool,
    began: Execution,
    in_shadow: bool,
    parent: Option<String>,
    started_by: Option<String>,
    session: Option<String>,
    state: Option<RunState>,
}

/// A session while its calls are decided.
#[derive(Default)]
struct Session {
    labels: Labels,
    changed: bool,
}

impl Run {
    /// One whose first call is being decided.
    fn begin(began: Execution) -> Self {
        let (parent, started_by, session, state) = (None, None, None, None);
        Self { kept: Kept::Nowhere, changed: true, began, in_shadow: false, parent, started_by, session, state }
    }

    /// Whether it stays in shadow.
    fn is_bound(&self) -> bool {
        self.began == Execution::Shadow || self.parent.is_some()
    }
}

/// One transaction in the making.
pub(super) struct DecisionPlan<'b> {
    boundary: &'b Boundary,
    state: DecisionState,
    runs: BTreeMap<Named, Run>,
    sessions: HashMap<Named, Session>,
    /// By agent and tool.
    recorded: HashMap<Named, Vec<Recorded>>,
    stale: Arc<HashMap<String, String>>,
    pub written: Written,
}

/// What must be known to decide these.
pub(super) fn wanted(batch: &[Waiting]) -> Wanted {
    let mut wanted = Wanted::default();
    for waiting in batch {
        wanted.calls.push(waiting.key());
        let Waiting::Decide(question, _) = waiting else { continue };
        let Question { call, digest, .. } = &**question;
        wanted.runs.extend(call.run.clone().map(|run| (call.agent.clone(), run)));
        wanted.parents.extend(call.parent_run.clone());
        wanted.sessions.extend(call.session.clone().map(|session| (call.agent.clone(), session)));
        wanted.digests.push(digest.to_vec());
    }
    for names in [&mut wanted.runs, &mut wanted.sessions] {
        names.sort_unstable();
        names.dedup();
    }
    wanted
}

/// Agents and tools whose recorded results a stub may have to be inferred from.
pub(super) fn to_infer(batch: &[Waiting], state: &DecisionState) -> Vec<Named> {
    let mut names: Vec<Named> = batch
        .iter()
        .filter_map(|waiting| match waiting {
            Waiting::Decide(question, _) if may_infer(question, state) => {
                Some((question.call.agent.clone(), question.call.tool.to_string()))
            }
            _ => None,
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether the call may be in shadow and nothing but recorded results says what it answers.
fn may_infer(question: &Question, state: &DecisionState) -> bool {
    let Question { call, rules, .. } = question;
    let configured = &rules.configured;
    let any_shadow = configured.settings.max(configured.variable.1).unwrap_or(configured.default) == Execution::Shadow
        || state.overrides.iter().any(|one| one.execution == Execution::Shadow)
        || !(state.parents.is_empty() && state.bound.is_empty())
        || state.runs.values().any(|AuthenticatedRun { run, .. }| run.is_bound());
    any_shadow && rules.tools.needs_recorded(call) && rules.tools.effect(call).effect != Effect::Read
}

impl<'b> DecisionPlan<'b> {
    pub fn new(boundary: &'b Boundary, mut state: DecisionState, recorded: HashMap<Named, Vec<Recorded>>) -> Self {
        let run = |(name, AuthenticatedRun { run, is_authentic }): (Named, AuthenticatedRun)| {
            let state = run.state.as_deref().and_then(|state| serde_json::from_str(state).ok());
            let KnownRun { began_in_shadow, in_shadow, parent, started_by, session, .. } = run;
            let (kept, changed) = (if is_authentic { Kept::Ours } else { Kept::Doubted }, false);
            let began = if began_in_shadow { Execution::Shadow } else { Execution::Live };
            (name, Run { kept, changed, began, in_shadow, parent, started_by, session, state })
        };
        let mut runs: BTreeMap<Named, Run> = std::mem::take(&mut state.runs).into_iter().map(run).collect();
        // One whose row has expired, and that stays in shadow by the audit.
        for name in std::mem::take(&mut state.bound) {
            runs.entry(name).or_insert_with(|| Run { in_shadow: true, ..Run::begin(Execution::Shadow) });
        }
        let sessions = std::mem::take(&mut state.sessions).into_iter();
        let session = |(name, labels): (Named, Labels)| (name, Session { labels, changed: false });
        let sessions = sessions.map(session).collect();
        let written = Written::default();
        Self { stale: boundary.stale.load_full(), boundary, state, runs, sessions, recorded, written }
    }

    /// Decides the next call, or takes in the next outcome.
    ///
    /// # Errors
    /// What is stored of the call cannot be read.
    pub fn take(&mut self, waiting: &Waiting) -> Result<Fate, StoreError> {
        let known = self.state.calls.get(&waiting.key()).cloned();
        match waiting {
            Waiting::Decide(question, _) => self.decide(question, known.as_ref()),
            Waiting::Outcome(report, _) => Ok(match outcome::judge(report, known.as_ref()) {
                outcome::Judged::Known(reported) => Fate::Reported(reported, None),
                outcome::Judged::Refused(error) => Fate::Unreported(error),
                outcome::Judged::New(reported, body) => {
                    let row = self.push(report.audit(known.as_ref(), &body, self.boundary));
                    self.written.outcomes.push(report.stored(row));
                    Fate::Reported(reported, Some(row))
                }
            }),
        }
    }

    /// Notes what nobody took.
    pub fn undelivered(&mut self, Undelivered { question, decision, id }: &Undelivered) {
        let body = json!({"status": "undelivered", "decision": decision, "decision_id": id});
        self.push(NewAudit {
            id: self.boundary.clock.new_id(),
            kind: AuditKind::Outcome,
            agent: Some(question.agent.clone()),
            session: question.session.clone(),
            run: question.run.clone(),
            call_id: Some(question.call_id.clone()),
            tool: question.tool.clone(),
            body: body.to_string(),
            payload: None,
        });
    }

    /// Everything to be stored.
    pub fn finish(mut self) -> (DecisionState, Written) {
        let rows = &self.boundary.rows;
        let changed = |(name, run): (Named, Run)| {
            let [parent, started_by, session] =
                [&run.parent, &run.started_by, &run.session].map(|name| name.as_deref());
            let (in_shadow, began_in_shadow) = (run.in_shadow, run.began == Execution::Shadow);
            let (agent, called) = (name.0.as_str(), name.1.as_str());
            let said = RunSaid { agent, run: called, in_shadow, began_in_shadow, parent, started_by, session };
            let mac = (run.kept != Kept::Doubted).then(|| rows.of_run(&said).to_vec());
            RunChange {
                new: run.kept == Kept::Nowhere,
                began_in_shadow,
                in_shadow,
                mac,
                name,
                parent: run.parent,
                started_by: run.started_by,
                session: run.session,
                state: run.state.and_then(|mut state| {
                    state.clean(redacted);
                    serde_json::to_string(&state).ok()
                }),
            }
        };
        self.written.runs = self.runs.into_iter().filter(|(_, run)| run.changed).map(changed).collect();
        let sessions = self.sessions.into_iter().filter(|(_, session)| session.changed);
        self.written.sessions = sessions.map(|(name, Session { labels, .. })| (name, labels)).collect();
        // In one order everywhere, so that no two transactions wait for each other.
        self.written.sessions.sort_by(|(a, _), (b, _)| a.cmp(b));
        (self.state, self.written)
    }

    fn push(&mut self, row: NewAudit) -> usize {
        self.written.audit.push(row);
        self.written.audit.len()
    }

    fn decide(&mut self, question: &Question, known: Option<&KnownCall>) -> Result<Fate, StoreError> {
        if let Some(known) = known
            && let Some(fate) = self.replay(question, known)?
        {
            return Ok(fate);
        }
        let Question { id, call, rules, digest, args, body } = question;
        let session_name = call.session.clone().map(|session| (call.agent.clone(), session));
        let run_name = call.run.clone().map(|run| (call.agent.clone(), run));
        let mut binding = Binding::default();
        let mut labels = Labels::default();
        if let Some(name) = &session_name {
            let session = self.sessions.entry(name.clone()).or_default();
            labels.uninterceptable = add(&mut session.labels.uninterceptable, &call.uninterceptable);
            session.changed |= !labels.uninterceptable.is_empty();
        }
        let descent = self.descent(question, run_name.as_ref());
        let session = session_name.as_ref().and_then(|name| self.sessions.get(name));
        let digest_hex = hex::encode(digest);
        let standing = Standing {
            now: self.state.now,
            overrides: &self.state.overrides,
            descent: descent.as_ref(),
            run: run_name.as_ref().and_then(|name| self.runs.get(name)).and_then(|run| run.state.clone()),
            recorded: self.recorded.get(&(call.agent.clone(), call.tool.to_string())).map_or(&[], Vec::as_slice),
            taints: session.map_or(&[], |session| &session.labels.taints),
            // Without a session the call speaks for itself.
            uninterceptable: session.map_or(&call.uninterceptable, |session| &session.labels.uninterceptable),
            approval: self.state.approvals.get(&digest_hex).map(approval),
            stale: &self.stale,
        };
        let mut decided = decide(rules, call, standing);
        let was_bound = run_name.as_ref().and_then(|name| self.runs.get(name)).is_some_and(Run::is_bound);
        labels.taints = self.remember(question, &decided, session_name, run_name.as_ref(), descent);
        let is_bound = run_name.as_ref().and_then(|name| self.runs.get(name)).is_some_and(Run::is_bound);
        binding.run_execution = is_bound.then_some(Execution::Shadow);
        binding.labels = (labels != Labels::default()).then_some(labels);
        let used = decided.used.take().and_then(|_| self.state.approvals.remove(&digest_hex));
        let mut answer = Answer::of(*id, call, &decided);
        if decided.decision == Decision::Ask {
            answer.approval = Some(self.ask(question, &decided, digest_hex));
        }
        let mut stored = answer.clone();
        if let Some(stub) = &mut stored.stub {
            stub.result = redacted(&stub.result);
        }
        stored.merge = stored.merge.as_ref().map(redacted);
        // It names keys of the arguments.
        stored.detail = stored.detail.as_deref().map(clean);
        // What binds others is in the audit, whatever it is.
        let binds = binding.labels.is_some() || is_bound && !was_bound;
        if used.is_none() && !binds && is_quiet(&self.boundary.settings, &decided, question) {
            return Ok(Fate::Decided(Box::new(answer), None));
        }
        let won = &decided.execution.won;
        let row = self.push(NewAudit {
            id: id.0,
            kind: AuditKind::Decision,
            agent: Some(call.agent.clone()),
            session: call.session.clone(),
            run: call.run.clone(),
            call_id: Some(call.call_id.clone()),
            tool: Some(call.tool.to_string()),
            body: stored.body(call, won, &binding).to_string(),
            payload: Some(sealed(stored.payload(args, call).to_string())),
        });
        self.written.calls.push(NewCall {
            agent: call.agent.clone(),
            call_id: call.call_id.clone(),
            body: body.to_vec(),
            row: i64::try_from(row).unwrap_or(0),
            decision: answer.decision.as_str(),
            answer: serde_json::to_string(&stored).unwrap_or_default(),
            approval: answer.approval.as_ref().map(|approval| approval.id),
        });
        if let Some(known) = used {
            self.used(question, &known);
        }
        Ok(Fate::Decided(Box::new(answer), Some(row)))
    }

    /// Uses an approval up. The row of the audit that says so has the approval's id: nobody can use it again, even where its state
    /// is set back.
    fn used(&mut self, question: &Question, known: &KnownApproval) {
        let Question { id, call, digest, .. } = question;
        let body = json!({"approval": known.id, "decision": "used", "decision_id": id});
        self.push(NewAudit {
            id: known.id.0,
            kind: AuditKind::Approval,
            agent: Some(call.agent.clone()),
            session: call.session.clone(),
            run: call.run.clone(),
            call_id: Some(call.call_id.clone()),
            tool: Some(call.tool.to_string()),
            body: body.to_string(),
            payload: None,
        });
        let mac = self.boundary.rows.of_approval(&said(known, digest, "used")).to_vec();
        self.written.used.push(UsedApproval { id: known.id, mac });
    }

    /// Takes over what the decision changes; answers the labels that are new to the session.
    fn remember(
        &mut self,
        question: &Question,
        decided: &Decided,
        session: Option<Named>,
        run: Option<&Named>,
        descent: Option<Descent>,
    ) -> Vec<String> {
        let mut taints = Vec::new();
        if let Some(session) = session.and_then(|name| self.sessions.get_mut(&name)) {
            taints = add(&mut session.labels.taints, &decided.taints);
            session.changed |= !taints.is_empty();
        }
        let Some(name) = run else { return taints };
        let Question { call, rules, .. } = question;
        // Of the run as a whole: an override for one tool does not keep all others in shadow.
        let whole =
            Whose { agent: Some(&call.agent), session: call.session.as_deref(), tool: None, descent: descent.as_ref() };
        let begin = || Run::begin(effective(&rules.configured, &self.state.overrides, whole, self.state.now).execution);
        let run = self.runs.entry(name.clone()).or_insert_with(begin);
        let in_shadow = run.in_shadow || decided.execution.execution == Execution::Shadow;
        let parent = match descent {
            Some(Descent::Shadow(parent)) => Some(parent),
            _ => run.parent.clone(),
        };
        let started_by = run.started_by.clone().or_else(|| call.parent_run.clone());
        let session = call.session.clone().or_else(|| run.session.clone());
        run.changed |= in_shadow != run.in_shadow
            || run.parent != parent
            || run.started_by != started_by
            || run.session != session;
        (run.in_shadow, run.parent, run.started_by, run.session) = (in_shadow, parent, started_by, session);
        if let Some(state) = &decided.run {
            run.state = Some(state.clone());
            run.changed = true;
        }
        taints
    }

    /// The approval that the call waits for: the one that is there, or a new one.
    fn ask(&mut self, question: &Question, decided: &Decided, digest: String) -> ApprovalAnswer {
        if let Some(known) = self.state.approvals.get(&digest) {
            return ApprovalAnswer { id: known.id, expires_at: known.expires_at };
        }
        let id = ApprovalId(self.boundary.clock.new_id());
        let expires_at = self
            .state
            .now
            .saturating_add(self.boundary.settings.approvals_expire_after)
            .unwrap_or(jiff::Timestamp::MAX);
        let expires_at = to_microsecond(expires_at);
        let known = KnownApproval {
            digest: digest.clone(),
            id,
            agent: question.call.agent.clone(),
            tool: question.call.tool.to_string(),
            rule: decided.guard.rule.clone(),
            reason: decided.guard.reason.clone(),
            state: "pending".to_owned(),
            asked_at: self.state.now,
            expires_at,
            mac: None,
            ended: false,
        };
        let mac = self.boundary.rows.of_approval(&said(&known, &question.digest, &known.state)).to_vec();
        self.written.approvals.push(NewApproval {
            id,
            agent: known.agent.clone(),
            tool: known.tool.clone(),
            digest: question.digest.to_vec(),
            rule: known.rule.clone(),
            reason: known.reason.clone(),
            asked_at: known.asked_at,
            expires_at,
            mac,
        });
        self.state.approvals.insert(digest, known);
        ApprovalAnswer { id, expires_at }
    }
}

/// Whether the call is a read that runs and leaves no row, by the settings.
pub(super) fn is_quiet(settings: &BoundarySettings, decided: &Decided, question: &Question) -> bool {
    let runs = decided.effect == Effect::Read && decided.decision == Decision::Execute;
    runs && match settings.reads {
        AuditedReads::None => true,
        AuditedReads::Sampled => question.body[0] >= 26,
        AuditedReads::All => false,
    }
}

fn approval(known: &KnownApproval) -> Approval {
    let state = match known.state.as_str() {
        "approved" => ApprovalState::Approved,
        "denied" => ApprovalState::Denied,
        _ => ApprovalState::Pending,
    };
    Approval { id: known.id, state, expires_at: known.expires_at }
}

/// Adds what is not there yet, within bounds; answers what that was.
fn add(to: &mut Vec<String>, more: &[String]) -> Vec<String> {
    let before = to.len();
    for one in more {
        if to.len() < MOST_LABELS && !to.contains(one) {
            to.push(one.clone());
        }
    }
    to[before..].to_vec()
}

/// Labels of a session.
const MOST_LABELS: usize = 64;

/// A payload with a salt of its own, and its keyed hash.
pub(super) fn sealed(body: String) -> (AuditPayload, Vec<u8>) {
    let payload = AuditPayload { salt: rand::rng().random::<[u8; 16]>().to_vec(), body };
    let mac = payload_mac(&payload);
    (payload, mac)
}
