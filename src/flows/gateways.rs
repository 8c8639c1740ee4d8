//! An exchange with a model that a gateway asks about, from the texts to the ruling. Rules of the sidecar judge messages
//! and planned calls, the built-in checks planned calls; answers of models become events for the shadows.

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::{
    flows::{
        cleaned,
        events::{AcceptError, Events, Origin},
        hooks::{Flagging, bounded, shown},
        sessions::Sidecar,
    },
    ingest::{GuardRequest, GuardSubject, Incoming, NamedCall},
};
use umbra_domain::{Event, GuardVerdict, ToolCall, sidecar::SidecarVerdict};

/// Use case: guardrails of model gateways. Cheap to clone.
#[derive(Clone)]
pub struct Gateways {
    pub(super) sidecar: Sidecar,
    pub(super) events: Events,
    pub(super) flagging: Flagging,
}

/// Request to a model, or its answer.
#[derive(Debug, Clone, Default)]
pub struct Exchange {
    /// Name of the gateway.
    pub gateway: &'static str,
    /// Agent that asks the model.
    pub agent: String,
    /// The gateway's id of the call of the model; its events are stored once.
    pub id: Option<String>,
    /// The gateway's id of the conversation.
    pub session: Option<String>,
    /// True for an answer of the model.
    pub is_answer: bool,
    /// Prompt that the answer serves.
    pub prompt: Option<String>,
    /// Texts: of a request the messages, of an answer what the model says.
    pub texts: Vec<String>,
    /// Calls of tools that the model asks for.
    pub calls: Vec<NamedCall>,
    /// Number of calls in a form that is not known here.
    pub unreadable_calls: usize,
    /// True if credentials in the texts are replaced by markers.
    pub masks: bool,
}

/// Ruling on an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExchangeRuling {
    /// The exchange goes on as it is.
    Pass,
    /// The exchange goes on with these texts in the place of its own.
    Masked(Vec<String>),
    /// The exchange does not go on; the reason is for the caller of the model.
    Blocked(String),
}

impl Gateways {
    /// Judges an exchange. An answer is stored as events when this returns, one for what was said and one for each call.
    ///
    /// # Errors
    /// The events of an answer cannot be stored.
    pub async fn judge(
        &self,
        asked: Instant,
        exchange: Exchange,
        origin: &Origin,
    ) -> Result<ExchangeRuling, AcceptError> {
        let blocked = self.reason_to_block(asked, &exchange).await;
        if exchange.is_answer {
            // A streamed answer is asked about several times under one id, with texts that grow: its first event stands
            // for those that pass, and one that is blocked is an event of its own.
            let fate = if blocked.is_some() { "blocked" } else { "passed" };
            for (part, event) in events_of(&exchange, blocked.as_deref()) {
                let key = exchange.id.as_ref().map(|id| format!("gateway/{}/{id}/{fate}/{part}", exchange.gateway));
                self.events.accept(Incoming { event, key, digest_input: Vec::new() }, origin).await?;
            }
        }
        if let Some(reason) = blocked {
            return Ok(ExchangeRuling::Blocked(reason));
        }
        if exchange.masks {
            let texts = exchange.texts.clone();
            let clean = move || texts.iter().map(|text| cleaned(text)).collect();
            let masked: Vec<String> = tokio::task::block_in_place(clean);
            if masked != exchange.texts {
                return Ok(ExchangeRuling::Masked(masked));
            }
        }
        Ok(ExchangeRuling::Pass)
    }

    /// Returns why an answer is blocked. Rules are about what agents say and do, so that requests pass, with the calls in
    /// their history.
    async fn reason_to_block(&self, asked: Instant, exchange: &Exchange) -> Option<String> {
        if !exchange.is_answer {
            return None;
        }
        if exchange.unreadable_calls > 0 {
            return Some("Umbra could not read a call of a tool in it".to_owned());
        }
        let texts = exchange.texts.iter().filter(|text| !text.trim().is_empty());
        let messages = texts.map(|text| GuardSubject::Message { role: "assistant".to_owned(), content: text.clone() });
        for subject in messages.chain(exchange.calls.iter().cloned().map(GuardSubject::Call)) {
            if let GuardSubject::Call(NamedCall { tool, arguments }) = &subject
                && let Some(flagged) = self.flagging.of(tool, arguments)
                && flagged.verdict != GuardVerdict::Allow
            {
                return Some(format!("Umbra did not allow the call of {tool}: {}", flagged.reason));
            }
            let question = GuardRequest {
                session: None,
                agent: Some(exchange.agent.clone()),
                route: None,
                modes: None,
                subject,
                deadline_ms: None,
            };
            let ruling = match self.sidecar.guard(asked, question, &|_| true).await {
                Ok(answer) => answer.judged.ruling,
                Err(error) => return Some(format!("Umbra could not judge it: {error}")),
            };
            if ruling.decision == SidecarVerdict::Block {
                let reason = ruling.reason.unwrap_or_else(|| "a rule forbids it".to_owned());
                let rule = ruling.rule.map(|rule| format!(" (rule {rule})")).unwrap_or_default();
                return Some(format!("Umbra did not allow it: {reason}{rule}"));
            }
        }
        None
    }
}

/// Returns the events of an answer, each with the name of its part.
fn events_of(exchange: &Exchange, blocked: Option<&str>) -> Vec<(String, Event)> {
    let mut gateway = Map::from_iter([("name".to_owned(), json!(exchange.gateway))]);
    if let Some(id) = &exchange.id {
        gateway.insert("call_id".to_owned(), json!(id));
    }
    if let Some(reason) = blocked {
        gateway.insert("blocked".to_owned(), json!(reason));
    }
    let bare = Event {
        agent: exchange.agent.clone(),
        task_id: exchange.session.clone(),
        session_id: exchange.session.clone(),
        task: exchange.prompt.as_deref().map(shown),
        metadata: Map::from_iter([("gateway".to_owned(), Value::Object(gateway))]),
        ..Event::default()
    };
    let said = exchange.texts.join("\n");
    let output =
        (!said.trim().is_empty()).then(|| ("output".to_owned(), Event { output: Some(shown(&said)), ..bare.clone() }));
    let calls = exchange.calls.iter().enumerate().map(|(number, call)| {
        let tool = ToolCall { name: call.tool.to_string(), args: bounded(&call.arguments), ..ToolCall::default() };
        // The calls of a streamed answer may be told one by one, each as the first.
        let digest = blake3::hash(tool.args.to_string().as_bytes()).to_hex();
        (format!("call{number}/{}/{digest}", tool.name), Event { tool: Some(tool), ..bare.clone() })
    });
    output.into_iter().chain(calls).collect()
}
