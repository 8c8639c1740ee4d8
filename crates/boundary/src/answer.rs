//! Answer to a caller about its call, and the audit's record of it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::{
    decide::{CallDecision, Decision},
    execution::ExecutionSource,
    stub::Stub,
};
use umbra_domain::{ApprovalId, Call, DecisionId, Effect, EffectSource, Execution, Guard, audit::DecisionEffects};

/// Decision about a call. Run the call only if `decision` is `execute`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = DecideAnswer)]
pub struct Answer {
    /// Decision id; the same again for the same call.
    #[schema(value_type = String, example = "dec_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub decision_id: DecisionId,
    /// The caller's own id.
    pub call_id: String,
    /// Decision for the call.
    pub decision: Decision,
    /// Code of the reason why the call may not run: `policy`, `invalid_arguments`, `no_contract`, `uninterceptable`,
    /// `approval_required`, `approval_denied`, `unavailable`, `deadline`, `overloaded` and others; for a repeated call
    /// also `call_finished` (its outcome is stored) and `execution_changed` (calls do not run any more).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason in words, with what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Effect of the call.
    pub effect: Effect,
    /// Source of the effect.
    pub effect_source: EffectSource,
    /// Live or shadow: calls run, or are rehearsed.
    pub execution: Execution,
    /// Verdict of the rules.
    pub guard: Guard,
    /// The contract, as `tool@version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<String>,
    /// Answer in the tool's place, if `decision` is `stub`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stub: Option<Stub>,
    /// Address where the call can be tried without consequences (the contract's `sandbox`), if `decision` is `stub`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Changes to lay over the result of a read that runs: what this run has rehearsed. The path `items` leads to a
    /// record or, if `key` names a field, to a list of records. `patch`: fields to lay over those of a record,
    /// recursively, by its key. `remove`: keys of items to drop. `put`: items that replace the one with their key, or
    /// are appended, unless the path `more` says that other pages follow. `text`: changes of a text at `items`: `edits`
    /// (`oldText`, `newText`, first occurrence), lines to `remove` and to `add`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    pub merge: Option<Value>,
    /// Approval to wait for, if `decision` is `ask`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalAnswer>,
    /// Warning about a call that may run nevertheless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Steps of the decision, for a person.
    pub explain: Vec<String>,
    /// Row of the decision in the audit; absent where reads are not audited, or nothing could be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_seq: Option<i64>,
    /// True if the call was decided before. The audit has the decision once.
    #[serde(default)]
    pub replayed: bool,
}

/// Approval that a call waits for. Ask again with the same `call_id`, or with the same arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalAnswer {
    /// Approval id, for `POST /v1/approvals/{id}`.
    #[schema(value_type = String, example = "apr_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub id: ApprovalId,
    /// End of its validity.
    pub expires_at: Timestamp,
}

impl Answer {
    /// Builds the answer to a caller.
    pub fn of(id: DecisionId, call: &Call, decided: &CallDecision) -> Self {
        Self {
            decision_id: id,
            call_id: call.call_id.clone(),
            decision: decided.decision,
            reason: decided.reason.map(ToOwned::to_owned),
            detail: decided.detail.clone(),
            effect: decided.effect,
            effect_source: decided.effect_source,
            execution: decided.execution.execution,
            guard: Guard { explain: Vec::new(), ..decided.guard.clone() },
            contract: decided.contract.clone(),
            stub: decided.stub.clone(),
            sandbox: decided.sandbox.clone(),
            merge: decided.merge.as_ref().and_then(|merge| serde_json::to_value(merge).ok()),
            approval: None,
            warning: None,
            explain: decided.explain.clone(),
            audit_seq: None,
            replayed: false,
        }
    }

    /// Turns a repeated answer into a refusal. `reason` is a code, `words` explain it.
    pub fn refuse(&mut self, reason: &str, words: &str) {
        self.decision = Decision::Block;
        self.reason = Some(reason.to_owned());
        self.detail = Some(format!("{words}: the call does not run again; to repeat it, ask with a new call_id"));
        self.merge = None;
        self.warning = None;
    }

    /// Body of the audit's row, kept forever: words of Umbra and of operators, and names.
    pub fn body(&self, call: &Call, won: &ExecutionSource, binding: &DecisionEffects) -> Value {
        let mut body = json!({
            "decision": self.decision,
            "effect": self.effect,
            "effect_source": self.effect_source,
            "execution": self.execution,
            "execution_source": {"source": won.source, "name": won.name},
            "guard": Guard { explain: Vec::new(), ..self.guard.clone() },
        });
        let mut put = |key: &str, value: Value| {
            if !value.is_null() {
                body[key] = value;
            }
        };
        put("reason", json!(self.reason));
        put("contract", json!(self.contract));
        put("validated_against", json!(self.stub.as_ref().map(|stub| stub.validated_against)));
        put("fault", json!(self.stub.as_ref().map(|stub| &stub.fault)));
        put("approval", json!(self.approval.as_ref().map(|approval| approval.id)));
        put("route", json!(call.route));
        put("parent_run", json!(call.parent_run));
        put("traceparent", json!(call.traceparent));
        put("run_execution", json!(binding.run_execution));
        put("labels", json!(binding.labels));
        if !call.modes.is_empty() {
            put("modes", json!(call.modes));
        }
        body
    }

    /// Payload of the audit's row, kept until it is erased: words of agents and tools. `args` and the stub are redacted
    /// already.
    pub fn payload(&self, args: &Value, call: &Call) -> Value {
        let mut payload = Map::new();
        payload.insert("args".to_owned(), args.clone());
        if let Some(stub) = &self.stub {
            payload.insert("stub_response".to_owned(), stub.result.clone());
        }
        if call.stub_override.is_some() {
            payload.insert("stub_override".to_owned(), json!(true));
        }
        if let Some(detail) = &self.detail {
            payload.insert("detail".to_owned(), json!(detail));
        }
        payload.insert("explain".to_owned(), json!(self.explain));
        Value::Object(payload)
    }
}
