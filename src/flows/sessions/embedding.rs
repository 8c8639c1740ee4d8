//! Closeness of tools to a task by an embedding model, where the settings have one.
//!
//! Vectors are kept in memory, so that a choice needs one short request, for the task, or none. What does not come in time
//! is had behind the answer: this one is given by the built-in word vectors, and says so, the next one by the model.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{Sidecar, patience::Patience};
use umbra_domain::{Objective, Session, SessionId};
use umbra_llm::Gateway;
use umbra_sidecar::tools::{self, Catalogue};

/// Texts of one request.
const BATCH: usize = 16;
/// Bytes of a text that are sent.
const MOST_BYTES: usize = 2 * 1024;
/// Texts that may wait to be sent.
const MOST_WAITING: usize = 20_000;
/// Numbers of all vectors that are kept, of four bytes each; above that all are forgotten.
const MOST_NUMBERS: usize = 16 * 1024 * 1024;

/// Vectors of texts by the embedding model.
#[derive(Default)]
pub(super) struct Vectors {
    kept: Mutex<Kept>,
    /// Told when a text waits.
    wanted: Notify,
    /// Told when a request has ended.
    ended: watch::Sender<()>,
}

#[derive(Default)]
struct Kept {
    /// Address and name of the model that makes them.
    model: String,
    vectors: HashMap<String, Arc<[f32]>>,
    numbers: usize,
    /// Texts to be sent, in the order in which they were asked for.
    waiting: VecDeque<String>,
    /// These and those that are sent.
    asked: HashSet<String>,
}

impl Vectors {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the vectors of texts that are not kept made behind the answer.
    fn ask(&self, gateway: &Gateway, texts: &[String]) {
        let Some(model) = model(gateway) else { return };
        let mut kept = self.kept();
        if kept.model != model {
            *kept = Kept { model, ..Kept::default() };
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

    /// True while one of these texts is asked for.
    fn is_pending(&self, texts: &[String]) -> bool {
        let kept = self.kept();
        texts.iter().any(|text| kept.asked.contains(text))
    }

    fn next_batch(&self) -> Vec<String> {
        let mut kept = self.kept();
        let batch = kept.waiting.len().min(BATCH);
        kept.waiting.drain(..batch).collect()
    }

    /// Keeps what came of a request.
    fn keep(&self, gateway: &Gateway, texts: &[String], vectors: Option<Vec<Vec<f32>>>) {
        let mut kept = self.kept();
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

    /// Closeness of tools to a task; `None` where a vector is missing.
    fn closeness(&self, task: &str, tools: &Catalogue) -> Option<Vec<f64>> {
        let kept = self.kept();
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
    /// Has the vectors made that are asked for, until it is stopped.
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

    /// Has the vectors of tools, and of a task where there is one, made behind the answer.
    pub(super) fn embed_later(&self, task: &str, tools: &Catalogue) {
        let gateway = self.events.gateway();
        if gateway.embedding_model().is_some() {
            self.vectors.ask(&gateway, &texts(task, Some(tools)));
        }
    }

    /// Waits for the vectors of a task, and of tools where they are given, for half of the time that is left.
    pub(super) async fn embed(&self, task: &str, tools: Option<&Catalogue>, patience: &Patience<'_>) {
        let gateway = self.events.gateway();
        if task.trim().is_empty() || gateway.embedding_model().is_none() {
            return;
        }
        let texts = texts(task, tools);
        let mut ended = self.vectors.ended.subscribe();
        self.vectors.ask(&gateway, &texts);
        let now = Instant::now();
        let until = now + patience.deadline().saturating_duration_since(now) / 2;
        // What is missing is said where tools are ranked.
        drop(timeout_at(until, ended.wait_for(|()| !self.vectors.is_pending(&texts))).await);
    }

    /// The same for what an agent is about to do, before its session is locked, unless the session is known to select no tools.
    pub(super) async fn embed_intent(&self, id: SessionId, intent: Option<&str>, patience: &Patience<'_>) {
        let selects = |session: &Session| session.has(Objective::ToolSelection) && session.tools_digest.is_some();
        if let Some(intent) = intent.filter(|_| self.seen.get(id).as_ref().is_none_or(selects)) {
            self.embed(intent, None, patience).await;
        }
    }

    /// Closeness of tools to a task; `None` where vectors are missing, or there is no embedding model.
    pub(super) fn closeness(&self, tools: &Catalogue, task: &str, patience: &mut Patience<'_>) -> Option<Vec<f64>> {
        let gateway = self.events.gateway();
        let spec = gateway.embedding_model().filter(|_| !task.trim().is_empty() && !tools.is_empty())?;
        let closeness = self.vectors.closeness(task, tools);
        if closeness.is_some() {
            return closeness;
        }
        let why = gateway.last_error(&spec.alias).unwrap_or_else(|| "it has not answered yet".to_owned());
        patience.warn(format!("tools are ranked without the embedding model {}: {why}", spec.alias));
        None
    }
}

/// Address and name of the embedding model.
fn model(gateway: &Gateway) -> Option<String> {
    gateway.embedding_model().map(|spec| format!("{:?} {}", spec.base_url, spec.name))
}

/// Texts that are sent for a task and for tools.
fn texts(task: &str, tools: Option<&Catalogue>) -> Vec<String> {
    let summaries = tools.into_iter().flat_map(|tools| tools.summaries().iter().flatten());
    let task = Some(task_text(task)).filter(|text| !text.is_empty());
    summaries.map(|summary| cut(summary).to_owned()).chain(task).collect()
}

/// The part of a task that is sent, without credentials. Descriptions of tools were cleaned when they came.
fn task_text(task: &str) -> String {
    cut(super::cleaned(cut(task)).trim()).to_owned()
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MOST_BYTES)).unwrap_or_default()
}
