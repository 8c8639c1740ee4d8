//! Reviews the events of a planned backtest: checks, then the model, each event once, in order of receipt.
//!
//! What has come of an event is stored before the next page is read, so that a run which ends anyhow goes on where it
//! was: the result is the same as that of one run without a break.

use std::{sync::Arc, time::Duration};

use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::plan::lacks_budget;
use crate::flows::{
    backtests::Backtests,
    reviews::{
        call::{Asked, Conversation},
        call_budget::CallBudget,
    },
};
use umbra_domain::{BacktestId, Change, ItemOutcome, SkipReason, StoredEvent};
use umbra_llm::{Gateway, Readiness, Rest};
use umbra_review::{Judgement, Matter, Subject};
use umbra_store::{
    StoreError,
    backtests::{Claim, Reviewed, Waiting},
};

/// Events read at a time: with the largest that are accepted, some 16 MiB.
const PAGE: i64 = 64;
/// Models asked at a time: live reviews need them too.
const CONVERSATIONS: usize = 4;
/// Between signs of life, and the silence after which another may go on.
const HEARTBEAT: Duration = Duration::from_secs(3);
const DEAD_AFTER: Duration = Duration::from_secs(15);
/// Between looks for a backtest that a server is to run.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);
/// How long a process that stops waits for answers on their way.
const GRACE: Duration = Duration::from_secs(3);
/// Longest that one event waits for its model.
const PATIENCE: Duration = Duration::from_mins(10);

/// Why a run ended before all was reviewed.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// Asked to, or the claim was lost: another goes on.
    #[error("the backtest goes on elsewhere, or was deleted")]
    Left,
    /// Nothing helps but a person.
    #[error("{0}")]
    Failed(String),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What every review of a run needs.
struct Bench {
    backtests: Backtests,
    gateway: Gateway,
    claim: Claim,
    /// The process stops.
    leaving: CancellationToken,
    /// The run stops, for that or another reason.
    stop: CancellationToken,
}

impl Backtests {
    /// Runs backtests that were posted to a server, one at a time, until `stop`.
    pub async fn backtest_until(self, stop: CancellationToken) {
        let mut failing = false;
        while !stop.is_cancelled() {
            let ran = self.run_backtest(None, &stop, &|_| ()).await;
            match &ran {
                Ok(Some(id)) => tracing::info!(backtest = %id, "a backtest is done"),
                Err(Stop::Failed(why)) => tracing::warn!("a backtest stopped: {why}"),
                Err(Stop::Store(error)) if !failing => tracing::warn!(%error, "backtests wait; trying again"),
                Ok(None) | Err(_) => {}
            }
            failing = matches!(ran, Err(Stop::Store(_)));
            if !matches!(ran, Ok(Some(_))) {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = self.bell.notified() => {}
                    () = tokio::time::sleep(BETWEEN_LOOKS) => {}
                }
            }
        }
    }

    /// Claims a backtest and runs it to its end: this one, or the oldest that was posted to a server. `None`: there is
    /// none, or another process runs it. `progress` is told how many events have come to their end.
    ///
    /// # Errors
    /// See [`Stop`]: the backtest can be resumed.
    pub async fn run_backtest(
        &self,
        id: Option<BacktestId>,
        stop: &CancellationToken,
        progress: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<Option<BacktestId>, Stop> {
        let Some(claim) = self.store.backtests().claim(id, self.clock.new_id(), DEAD_AFTER).await? else {
            return Ok(None);
        };
        let gateway = self.rules.load().gateway.apart();
        let (leaving, stop) = (stop.clone(), stop.child_token());
        let bench = Arc::new(Bench { backtests: self.clone(), gateway, claim: claim.clone(), leaving, stop });
        let ran = tokio::select! {
            ran = bench.review_all(progress) => ran,
            lost = bench.keep_claim() => Err(lost),
        };
        bench.stop.cancel();
        match ran {
            Ok(()) => self.store.backtests().leave(&claim, None).await?,
            Err(Stop::Failed(why)) => {
                let why = umbra_checks::redact(&why).as_str().to_owned();
                self.store.backtests().leave(&claim, Some(&why)).await?;
                return Err(Stop::Failed(why));
            }
            Err(stop) => {
                // The claim ends by itself where the database does not answer.
                drop(self.store.backtests().leave(&claim, None).await);
                return Err(stop);
            }
        }
        Ok(Some(claim.id))
    }
}

impl Bench {
    /// Says that we live; ends only when the claim is lost.
    async fn keep_claim(&self) -> Stop {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(HEARTBEAT).await;
            match self.backtests.store.backtests().renew(&self.claim).await {
                Ok(true) => renewed = Instant::now(),
                Ok(false) => return Stop::Left,
                Err(error) if renewed.elapsed() > DEAD_AFTER => return error.into(),
                Err(_) => {}
            }
        }
    }

    async fn review_all(self: &Arc<Self>, progress: &(dyn Fn(u64) + Send + Sync)) -> Result<(), Stop> {
        let asks = self.gateway.reviewer(&self.claim.shadow.model) == Readiness::Ready;
        if lacks_budget(&self.gateway, &self.claim.shadow, self.claim.limits) {
            let model = &self.claim.shadow.model;
            return Err(Stop::Failed(format!("the model {model} would be called without a budget: resume with one")));
        }
        let (mut after, mut ended) = (0, 0);
        loop {
            let page = self.backtests.store.backtests().waiting_items(&self.claim, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.seq;
            if asks {
                self.ask_all(page, &mut ended, progress).await?;
            } else {
                let mut reviewed = Vec::with_capacity(page.len());
                for item in &page {
                    reviewed.push(self.by_checks(item));
                    // A long page must not keep others waiting.
                    tokio::task::yield_now().await;
                }
                self.store(&reviewed).await?;
                ended += reviewed.len() as u64;
                progress(ended);
            }
            if self.stop.is_cancelled() {
                return Err(Stop::Left);
            }
        }
    }

    /// Reviews a page by the model, a few at a time; each result is stored as it comes.
    async fn ask_all(
        self: &Arc<Self>,
        page: Vec<Waiting>,
        ended: &mut u64,
        progress: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), Stop> {
        let mut page = page.into_iter();
        let mut running = JoinSet::new();
        let mut stopped = None;
        loop {
            while running.len() < CONVERSATIONS
                && stopped.is_none()
                && !self.stop.is_cancelled()
                && let Some(item) = page.next()
            {
                let bench = Arc::clone(self);
                running.spawn(async move { bench.by_model(item).await });
            }
            // Those that are asked already are paid for: their answers are kept, whatever stops the run.
            let done = tokio::select! {
                done = running.join_next() => done,
                () = self.overtime() => return Err(Stop::Left),
            };
            let Some(done) = done else { return stopped.map_or(Ok(()), Err) };
            match done.map_err(|error| Stop::Failed(format!("a review ended abnormally: {error}"))).flatten() {
                Ok(reviewed) => {
                    self.store(&[reviewed]).await?;
                    *ended += 1;
                    progress(*ended);
                }
                Err(stop) => {
                    stopped = stopped.or(Some(stop));
                    // Those that only wait for their next call wait no longer.
                    self.stop.cancel();
                }
            }
        }
    }

    /// Ends when the process has waited long enough for answers, which then are charged at their hold.
    async fn overtime(&self) {
        self.leaving.cancelled().await;
        tokio::time::sleep(GRACE).await;
    }

    async fn store(&self, reviewed: &[Reviewed]) -> Result<(), Stop> {
        let stored = self.backtests.store.backtests().store_items(&self.claim, reviewed).await?;
        if stored { Ok(()) } else { Err(Stop::Left) }
    }

    fn by_checks(&self, item: &Waiting) -> Reviewed {
        let Some(stored) = read(item) else { return gone(item) };
        let shadow = &self.claim.shadow;
        let hits = umbra_checks::by_shadow(&stored, shadow);
        concluded(item, umbra_review::of_checks(shadow, &subject(item, &stored, &hits)))
    }

    async fn by_model(&self, item: Waiting) -> Result<Reviewed, Stop> {
        let Some(stored) = read(&item) else { return Ok(gone(&item)) };
        let shadow = &self.claim.shadow;
        let hits = umbra_checks::by_shadow(&stored, shadow);
        let subject = subject(&item, &stored, &hits);
        let (store, gateway) = (&self.backtests.store, &self.gateway);
        let budget = CallBudget::Backtest(store, &self.claim, item.seq);
        let conversation = Conversation { gateway, shadow, budget, installation: Some(&self.backtests.installation) };
        let until = Instant::now() + PATIENCE;
        let (reason, why) = loop {
            if let Some(Rest::Barred { why }) = gateway.rest(&shadow.model) {
                return Err(Stop::Failed(format!("the model {} refuses us: {why}", shadow.model)));
            }
            match conversation.ask(&Matter::Event(subject)).await? {
                Asked::Judged(mut judgements, _) => {
                    let judgement = judgements.pop().unwrap_or_else(|| umbra_review::of_checks(shadow, &subject));
                    return Ok(concluded(&item, judgement));
                }
                Asked::Fenced => return Err(Stop::Left),
                Asked::Later { delay, .. } if Instant::now() + delay < until => {
                    tokio::select! {
                        () = self.stop.cancelled() => return Err(Stop::Left),
                        () = tokio::time::sleep(delay) => {}
                    }
                }
                Asked::Later { why, .. } => break (SkipReason::ProviderUnavailable, why),
                Asked::Never { reason: SkipReason::UsdCap | SkipReason::TokenCap, .. } => {
                    return Err(Stop::Failed(
                        "the budget does not suffice for another call: resume with a larger one".into(),
                    ));
                }
                Asked::Never { reason, why } => break (reason, why),
            }
        };
        // What the checks found stands without the model; where they found nothing, nothing is concluded.
        let mut judgement = umbra_review::of_checks(shadow, &subject);
        let why = format!("The model gave no opinion: {why}.");
        if judgement.assessment.is_clean() {
            return Ok(failed(&item, reason, &why));
        }
        judgement.notes.push(why);
        Ok(concluded(&item, judgement))
    }
}

fn read(item: &Waiting) -> Option<StoredEvent> {
    serde_json::from_slice(item.payload.as_deref()?).ok()
}

fn subject<'a>(item: &Waiting, stored: &'a StoredEvent, hits: &'a [umbra_domain::Hit]) -> Subject<'a> {
    Subject { event_id: item.event, event: &stored.event, trigger: item.trigger, hits, baseline: None, memory: &[] }
}

fn concluded(item: &Waiting, judgement: Judgement) -> Reviewed {
    // What a model says may repeat what it saw; what it saw was redacted, and so is what it says.
    let clean = |text: &str| umbra_checks::redact(text).as_str().to_owned();
    let findings = judgement.findings.into_iter().map(|mut finding| {
        finding.description = clean(&finding.description);
        finding
    });
    Reviewed {
        seq: item.seq,
        outcome: ItemOutcome::Reviewed,
        reason: None,
        assessment: Some(judgement.assessment),
        score: judgement.score,
        reviewer: Some(judgement.reviewer),
        findings: findings.collect(),
        notes: judgement.notes.iter().map(|note| clean(note)).collect(),
        change: Change::between(item.before, Some(judgement.assessment)),
    }
}

/// Nothing is known of it, so nothing has changed.
fn failed(item: &Waiting, reason: SkipReason, why: &str) -> Reviewed {
    Reviewed {
        seq: item.seq,
        outcome: ItemOutcome::Failed,
        reason: Some(reason),
        assessment: None,
        score: None,
        reviewer: None,
        findings: Vec::new(),
        notes: vec![umbra_checks::redact(why).as_str().to_owned()],
        change: None,
    }
}

fn gone(item: &Waiting) -> Reviewed {
    let notes = vec!["The event is not stored any more.".into()];
    Reviewed { reason: None, notes, ..failed(item, SkipReason::ProviderUnavailable, "") }
}
