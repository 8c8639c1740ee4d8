//! Guard of calls: asks the boundary before a call, and reports to the audit and the shadows after it.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    flows::{
        Flows,
        decisions::ReportError,
        events::Origin,
        sessions::{attach::StepError, select::RankedTool},
    },
    ingest::{Incoming, SelectRequest},
};
use umbra_boundary::{answer::Answer, decide::Decision, stub::Stub};
use umbra_domain::{Call, CallOutcome, Event, tool::plain_tool_name};
use umbra_store::Store;

/// Most outcomes and events that wait to be written.
const WAITING: usize = 4_096;
/// Most of them that are written at a time; the writers behind group them.
const BATCH: usize = 128;

/// Decision about a call, as the proxy needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRuling {
    /// Id of the decision; `None` where the call was refused before the boundary was asked.
    pub decision_id: Option<String>,
    /// Decision for the call.
    pub decision: Decision,
    /// Code of the reason, where the call does not run.
    pub reason: Option<String>,
    /// Reason in words, with a remedy; or a warning although the call runs.
    pub detail: Option<String>,
    /// Answer in the tool's place.
    pub stub: Option<Stub>,
    /// Simulated writes of the run to merge with the result, as in `boundary::overlay`.
    pub merge: Option<Value>,
    /// Id of the approval that the call waits for.
    pub approval: Option<String>,
}

impl CallRuling {
    /// Returns a refusal by the proxy itself.
    pub(super) fn block(reason: &str, detail: String) -> Self {
        let (reason, detail) = (Some(reason.to_owned()), Some(detail));
        Self { decision_id: None, decision: Decision::Block, reason, detail, stub: None, merge: None, approval: None }
    }

    fn of(answer: Answer) -> Self {
        let Answer { decision_id, decision, reason, detail, stub, merge, approval, warning, .. } = answer;
        let detail = if decision == Decision::Execute { warning } else { detail };
        let approval = approval.map(|approval| approval.id.to_string());
        Self { decision_id: Some(decision_id.to_string()), decision, reason, detail, stub, merge, approval }
    }

    /// True if the call runs.
    pub(super) fn runs(&self) -> bool {
        self.decision == Decision::Execute
    }
}

/// Handle of the boundary and the flows for the proxy. Cheap to clone.
#[derive(Clone)]
pub struct CallGuard {
    flows: Flows,
    behind: mpsc::Sender<PendingRecord>,
}

/// Record that is written after an answer.
enum PendingRecord {
    Outcome(String, Box<CallOutcome>),
    Event(Box<Event>),
}

/// Writer of records after answers.
pub struct OutcomeReporter {
    flows: Flows,
    waiting: mpsc::Receiver<PendingRecord>,
}

impl CallGuard {
    /// Returns a guard of these flows, and the writer that the caller must run.
    pub fn new(flows: Flows) -> (Self, OutcomeReporter) {
        let (behind, waiting) = mpsc::channel(WAITING);
        let scribe = OutcomeReporter { flows: flows.clone(), waiting };
        (Self { flows, behind }, scribe)
    }

    /// Asks the boundary. The decision is durable when this returns.
    pub(super) async fn decide(&self, call: Call) -> CallRuling {
        if let Err(right) = plain_tool_name(&call.tool.name) {
            return CallRuling::block("tool_name", right.to_owned());
        }
        let tool = call.tool.to_string();
        let request = json!([call.agent, tool, call.arguments]).to_string();
        match self.flows.boundary.decide(call, request.as_bytes()).await {
            Ok(answer) => CallRuling::of(answer),
            Err(error) => CallRuling::block("call_id", error.to_string()),
        }
    }

    /// Selects tools that fit a task, best first, as `POST /v1/tools/select` does. A session that is unknown, over or
    /// another agent's counts as none.
    pub(super) async fn select(&self, request: SelectRequest) -> Vec<RankedTool> {
        let (asked, sidecar) = (Instant::now(), &self.flows.sidecar);
        let agent = request.agent.as_deref().map(|agent| self.flows.boundary.name_of(agent));
        let may = |of: &str| agent.as_deref() == Some(of);
        let alone = SelectRequest { session: None, ..request.clone() };
        let selected = match sidecar.select(asked, request, &may).await {
            Err(StepError::Unknown | StepError::Closed) => sidecar.select(asked, alone, &may).await,
            other => other,
        };
        match selected {
            Ok(selected) => selected.choice.ranked,
            Err(error) => {
                tracing::warn!(
                    %error,
                    "the tools that fit the task cannot be ranked; only search_tools and call_tool are listed"
                );
                Vec::new()
            }
        }
    }

    /// Reports the outcome of a call to the audit.
    pub(super) fn report(&self, call_id: String, outcome: CallOutcome) {
        self.write(PendingRecord::Outcome(call_id, Box::new(outcome)));
    }

    /// Sends an event to the shadows.
    pub(super) fn observe(&self, event: Event) {
        self.write(PendingRecord::Event(Box::new(event)));
    }

    fn write(&self, behind: PendingRecord) {
        if self.behind.try_send(behind).is_err() {
            tracing::warn!("an outcome or event of an MCP call is lost: too many wait to be written");
        }
    }

    pub(super) fn store(&self) -> &Store {
        &self.flows.store
    }

    /// Returns a new id, in the order of time.
    pub(super) fn new_id(&self) -> uuid::Uuid {
        self.flows.clock.new_id()
    }
}

impl OutcomeReporter {
    /// Writes until it is stopped and no record waits.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                biased;
                _ = self.waiting.recv_many(&mut batch, BATCH) => {}
                () = stop.cancelled() => while let Ok(next) = self.waiting.try_recv() {
                    batch.push(next);
                },
            }
            if batch.is_empty() {
                return;
            }
            join_all(batch.into_iter().map(|next| write(&self.flows, next))).await;
        }
    }
}

async fn write(flows: &Flows, next: PendingRecord) {
    match next {
        PendingRecord::Outcome(call_id, outcome) => {
            if let Err(error) = flows.boundary.report(&call_id, &outcome).await
                && error != ReportError::Unknown
            {
                tracing::warn!(%error, "the outcome of an MCP call could not be stored and is lost");
            }
        }
        PendingRecord::Event(event) => {
            let incoming = Incoming { event: *event, key: None, digest_input: Vec::new() };
            if let Err(error) = flows.events.accept(incoming, &Origin::default()).await {
                tracing::warn!(%error, "an event of an MCP call could not be stored and is lost");
            }
        }
    }
}
