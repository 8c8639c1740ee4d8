//! Closeness of tools to a task, by the embedding model of the settings, if there is one.
//!
//! Vectors are kept in memory, so a choice needs one short request for the task, or none. Vectors that are late are
//! made behind the answer: this answer uses the built-in word vectors, and says so; the next one uses the model.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::timeout_at,
};
use tokio_util::sync::CancellationToken;

use super::{Sidecar, request_deadline::RequestDeadline};
use umbra_domain::{Objective, Session, SessionId};
use umbra_llm::Gateway;
use umbra_sidecar::tools::{self, Catalogue};

/// Texts per request.
const BATCH: usize = 16;
/// Most bytes of a text that are sent.
const MOST_BYTES: usize = 2 * 1024;
/// Most texts that wait to be sent.
const MOST_WAITING: usize = 20_000;
/// Most numbers in all vectors that are kept, of four bytes each; above that, all vectors are dropped.
const MOST_NUMBERS: usize = 16 * 1024 * 1024;

/// Cache of the embedding model's vectors, by text.
#[derive(Default)]
pub(super) struct Vectors {
    kept: Mutex<CachedVectors>,
    /// Notified when a text waits.
    wanted: Notify,
    /// Changed when a request has ended.
    ended: watch::Sender<()>,
}

#[derive(Default)]
struct CachedVectors {
    /// Address and name of the model that made the vectors.
    model: String,
    vectors: HashMap<String, Arc<[f32]>>,
    numbers: usize,
    /// Texts to send, in the order of requests.
    waiting: VecDeque<String>,
    /// Texts that wait or are being sent.
    asked: HashSet<String>,
}

impl Vectors {
    /// Queues the texts without a vector, to be embedded behind the answer.
    fn ask(&self, gateway: &Gateway, texts: &[String]) {
        let Some(model) = model(gateway) else { return };
        let mut kept = self.kept.lock();
        if kept.model != model {
            *kept = CachedVectors { model, ..CachedVectors::default() };
        }
        for text in texts {
            let known = kept.vectors.contains_key(text) || kept.waiting.len() >= MOST_WAITING;
            if !known && kept.asked.insert(text.clone()) {
                kept.waiting.push_back(text.clone());
            }
        }
        drop(kept);
        self.wanted.notify_one();
    }

    /// True while one of these texts waits or is being sent.
    fn is_pending(&self, texts: &[String]) -> bool {
        let kept = self.kept.lock();
        texts.iter().any(|text| kept.asked.contains(text))
    }

    fn next_batch(&self) -> Vec<String> {
        let mut kept = self.kept.lock();
        let batch = kept.waiting.len().min(BATCH);
        kept.waiting.drain(..batch).collect()
    }

    /// Keeps the vectors of a request; `None` if the request failed.
    fn keep(&self, gateway: &Gateway, texts: &[String], vectors: Option<Vec<Vec<f32>>>) {
        let mut kept = self.kept.lock();
        if model(gateway).as_ref() == Some(&kept.model) {
            for text in texts {
                kept.asked.remove(text);
            }
            for (text, vector) in texts.iter().zip(vectors.into_iter().flatten()) {
                if kept.numbers + vector.len() > MOST_NUMBERS {
                    kept.vectors.clear();
                    kept.numbers = 0;
                }
                kept.numbers += vector.len();
                kept.vectors.insert(text.clone(), vector.into());
            }
        }
        drop(kept);
        self.ended.send_replace(());
    }

    /// Returns the closeness of tools to a task; `None` if a vector is missing.
    fn closeness(&self, task: &str, tools: &Catalogue) -> Option<Vec<f64>> {
        let kept = self.kept.lock();
        let task = kept.vectors.get(&task_text(task)).cloned()?;
        let of = |summary: &Option<String>| match summary {
            Some(summary) => kept.vectors.get(cut(summary)).map(|vector| Some(Arc::clone(vector))),
            None => Some(None),
        };
        let vectors: Vec<_> = tools.summaries().iter().map(of).collect::<Option<_>>()?;
        drop(kept);
        Some(tools::closeness(&task, vectors.iter().map(Option::as_deref)))
    }
}

impl Sidecar {
    /// Embeds the queued texts until `stop`.
    pub async fn embed_until(self, stop: CancellationToken) {
        loop {
            let batch = self.vectors.next_batch();
            let gateway = self.events.gateway();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.vectors.wanted.notified(), if batch.is_empty() => {}
                vectors = gateway.embed(&batch), if !batch.is_empty() => {
                    self.vectors.keep(&gateway, &batch, vectors.ok());
                }
            }
        }
    }

    /// Queues the tools, and the task if there is one, to be embedded behind the answer.
    pub(super) fn embed_later(&self, task: &str, tools: &Catalogue) {
        let gateway = self.events.gateway();
        if gateway.embedding_model().is_some() {
            self.vectors.ask(&gateway, &texts(task, Some(tools)));
        }
    }

    /// Waits for the vectors of a task, and of tools if given, for half of the time that is left.
    pub(super) async fn embed(&self, task: &str, tools: Option<&Catalogue>, patience: &RequestDeadline<'_>) {
        let gateway = self.events.gateway();
        if task.trim().is_empty() || gateway.embedding_model().is_none() {
            return;
        }
        let texts = texts(task, tools);
        let mut ended = self.vectors.ended.subscribe();
        self.vectors.ask(&gateway, &texts);
        // Missing vectors are reported when tools are ranked.
        drop(timeout_at(patience.half(), ended.wait_for(|()| !self.vectors.is_pending(&texts))).await);
    }

    /// Embeds an agent's intent, before its session is locked, unless the session is known to select no tools.
    pub(super) async fn embed_intent(&self, id: SessionId, intent: Option<&str>, patience: &RequestDeadline<'_>) {
        let selects =
            |session: &Session| session.has_objective(Objective::ToolSelection) && session.tools_digest.is_some();
        if let Some(intent) = intent.filter(|_| self.seen.get(id).as_ref().is_none_or(selects)) {
            self.embed(intent, None, patience).await;
        }
    }

    /// Returns the closeness of tools to a task; `None` if vectors are missing, or there is no embedding model.
    pub(super) fn closeness(
        &self,
        tools: &Catalogue,
        task: &str,
        patience: &mut RequestDeadline<'_>,
    ) -> Option<Vec<f64>> {
        let gateway = self.events.gateway();
        let spec = gateway.embedding_model().filter(|_| !task.trim().is_empty() && !tools.is_empty())?;
        let closeness = self.vectors.closeness(task, tools);
        if closeness.is_some() {
            return closeness;
        }
        let why = gateway.last_error(&spec.alias).unwrap_or_else(|| "the model has not answered yet".to_owned());
        patience.warn(format!("tools are ranked without the embedding model {}: {why}", spec.alias));
        None
    }
}

/// Returns address and name of the embedding model.
fn model(gateway: &Gateway) -> Option<String> {
    gateway.embedding_model().map(|spec| format!("{:?} {}", spec.base_url, spec.name))
}

/// Returns the texts that are sent for a task and for tools.
fn texts(task: &str, tools: Option<&Catalogue>) -> Vec<String> {
    let summaries = tools.into_iter().flat_map(|tools| tools.summaries().iter().flatten());
    let task = Some(task_text(task)).filter(|text| !text.is_empty());
    summaries.map(|summary| cut(summary).to_owned()).chain(task).collect()
}

/// Returns the part of a task that is sent, without credentials. Descriptions of tools were cleaned when they came.
fn task_text(task: &str) -> String {
    cut(super::cleaned(cut(task)).trim()).to_owned()
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MOST_BYTES)).unwrap_or_default()
}
