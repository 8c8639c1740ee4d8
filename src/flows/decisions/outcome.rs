//! Outcome of a call: reported once, kept for ever, and compared with the decision.

use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use utoipa::ToSchema;

use super::{Boundary, decision_plan::kept, redacted, writer::DecisionRequest};
use umbra_domain::{CallOutcome, StoredDecision, audit::AuditKind};
use umbra_store::decisions::{KnownCall, NewAudit, NewOutcome};

/// A stored outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Reported {
    /// Id of the call.
    pub call_id: String,
    /// Number of the outcome's row in the audit.
    pub audit_seq: i64,
    /// True if the call was decided to run. If false, a call ran that should not have.
    pub expected: bool,
    /// True if the same outcome was reported before.
    pub replayed: bool,
}

/// Reason why an outcome is not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// Another outcome of the call is stored.
    #[error("a different outcome of this call was reported before, and it stays stored")]
    Mismatch,
    /// No call was decided under this id.
    #[error("no decided call of this agent has this call_id: ask POST /v1/decide before you report the outcome")]
    Unknown,
    /// The database does not answer.
    #[error("the outcome cannot be stored now: send it again later")]
    Unavailable,
}

/// An outcome on its way to the writer.
pub(in crate::flows) struct OutcomeReport {
    pub agent: String,
    pub call_id: String,
    body: [u8; 32],
    public: Value,
    payload: Value,
}

impl Boundary {
    /// Stores the outcome of a call; it is durable when this returns.
    ///
    /// # Errors
    /// Nothing was decided under this id, another outcome is stored, or the database does not answer.
    pub async fn report(&self, call_id: &str, outcome: &CallOutcome) -> Result<Reported, ReportError> {
        let CallOutcome { agent, status, result, error, duration_ms } = outcome;
        let mut said = Map::new();
        said.insert("status".to_owned(), json!(status.as_str()));
        said.extend(result.clone().map(|result| ("result".to_owned(), result)));
        said.extend(error.clone().map(|error| ("error".to_owned(), json!(error))));
        let body = json!([said, duration_ms]).to_string();
        let report = OutcomeReport {
            agent: self.name_of(agent),
            call_id: self.name_of(call_id),
            body: self.installation.hash("outcome", &[body.as_bytes()]),
            public: json!({"status": status.as_str(), "duration_ms": duration_ms}),
            payload: json!({"outcome": redacted(&Value::Object(said))}),
        };
        let place = self.waiting.try_reserve().map_err(|_| ReportError::Unavailable)?;
        let (answer, answered) = oneshot::channel();
        place.send(DecisionRequest::Outcome(Box::new(report), answer));
        match tokio::time::timeout(self.settings.boundary.deadline, answered).await {
            Ok(Ok(reported)) => reported,
            _ => Err(ReportError::Unavailable),
        }
    }
}

/// Judges a report by the outcome that is known of its call. Returns the answer, and the body of the audit row of a new
/// outcome.
pub(super) fn judge(
    report: &OutcomeReport,
    known: Option<&KnownCall>,
) -> Result<(Reported, Option<Value>), ReportError> {
    let known = known.ok_or(ReportError::Unknown)?;
    let expected = known.decision == StoredDecision::Execute;
    let call_id = report.call_id.clone();
    match (&known.outcome, known.outcome_seq) {
        (Some(body), Some(audit_seq)) if *body == report.body => {
            Ok((Reported { call_id, audit_seq, expected, replayed: true }, None))
        }
        (Some(_), _) => Err(ReportError::Mismatch),
        (None, _) => {
            let mut body = report.public.clone();
            body["decision"] = json!(known.decision.told());
            body["expected"] = json!(expected);
            Ok((Reported { call_id, audit_seq: 0, expected, replayed: false }, Some(body)))
        }
    }
}

impl OutcomeReport {
    /// Builds the row in the audit.
    pub fn audit(&self, known: Option<&KnownCall>, body: &Value, boundary: &Boundary) -> NewAudit {
        NewAudit {
            agent: Some(self.agent.clone()),
            session: known.and_then(|known| known.session.clone()),
            run: known.and_then(|known| known.run.clone()),
            call_id: Some(self.call_id.clone()),
            tool: known.and_then(|known| known.tool.clone()),
            payload: Some(kept(&self.payload)),
            ..boundary.said(AuditKind::Outcome, body)
        }
    }

    /// Builds the outcome that is stored with the call.
    pub fn stored(&self, row: usize) -> NewOutcome {
        NewOutcome { agent: self.agent.clone(), call_id: self.call_id.clone(), body: self.body.into(), row }
    }
}
