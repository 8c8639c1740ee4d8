//! Run of a planned backtest: checks, then the model, each event once, in order of receipt.
//!
//! Results are stored before the next page is read, so an interrupted run resumes where it was, and its result equals
//! that of an unbroken run.

use std::{sync::Arc, time::Duration};

use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::backtest_plan::lacks_budget;
use crate::flows::{
    backtests::Backtests,
    cleaned,
    reviews::{
        call_budget::CallBudget,
        conversation::{Conversation, ModelOutcome},
        redacted,
    },
};
use umbra_domain::{AssessmentChange, BacktestId, ItemOutcome, SkipReason, StoredEvent};
use umbra_llm::{Gateway, SuspensionReason};
use umbra_review::{EventInput, Judgement, ReviewSubject};
use umbra_store::{
    StoreError,
    backtests::{BacktestClaim, ItemResult, WaitingItem},
};

/// Events per page: some 16 MiB if all have the largest size that is accepted.
const PAGE: i64 = 64;
/// Model conversations at a time; few, since live reviews need the models too.
const CONVERSATIONS: usize = 4;
/// Interval between renewals of the claim, and the silence after which another process may take the backtest over.
const HEARTBEAT: Duration = Duration::from_secs(3);
const DEAD_AFTER: Duration = Duration::from_secs(15);
/// Pause between looks for a backtest that a server is to run.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);
/// Longest time that a stopping process waits for answers on their way.
const GRACE: Duration = Duration::from_secs(3);
/// Longest time that one event waits for its model.
const PATIENCE: Duration = Duration::from_mins(10);

/// Reason why a run ended before all was reviewed.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// The process stops, or the claim was lost to another process or a deletion.
    #[error("another process runs the backtest, or it was deleted")]
    Left,
    /// The run needs a person; a further attempt would fail too.
    #[error("{0}")]
    Failed(String),
    /// The database does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Context of the reviews of one run.
struct BacktestRun {
    backtests: Backtests,
    gateway: Gateway,
    claim: BacktestClaim,
    /// Cancelled when the process stops.
    leaving: CancellationToken,
    /// Cancelled when the run stops, for that or another reason.
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
                Err(Stop::Failed(why)) => tracing::warn!("a backtest stopped before its end: {why}"),
                Err(Stop::Store(error)) if !failing => {
                    tracing::warn!(%error, "backtests cannot run because the database failed; trying again");
                }
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

    /// Claims a backtest and runs it to its end: the one named by `id`, or the oldest that was posted to a server.
    /// `None` if there is none, or another process runs it. `progress` gets the number of finished events.
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
        let gateway = self.rules.load().gateway.with_own_health();
        let (leaving, stop) = (stop.clone(), stop.child_token());
        let bench = Arc::new(BacktestRun { backtests: self.clone(), gateway, claim: claim.clone(), leaving, stop });
        let ran = tokio::select! {
            ran = bench.review_all(progress) => ran,
            lost = bench.keep_claim() => Err(lost),
        };
        bench.stop.cancel();
        match ran {
            Ok(()) => self.store.backtests().leave(&claim, None).await?,
            Err(Stop::Failed(why)) => {
                let why = cleaned(&why);
                self.store.backtests().leave(&claim, Some(&why)).await?;
                return Err(Stop::Failed(why));
            }
            Err(stop) => {
                // The claim expires by itself if the database does not answer.
                drop(self.store.backtests().leave(&claim, None).await);
                return Err(stop);
            }
        }
        Ok(Some(claim.id))
    }
}

impl BacktestRun {
    /// Renews the claim; returns only when the claim is lost.
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
        let asks = self.gateway.reviewer(&self.claim.shadow.model).is_ok();
        if lacks_budget(&self.gateway, &self.claim.shadow, self.claim.limits) {
            let model = &self.claim.shadow.model;
            return Err(Stop::Failed(format!(
                "the backtest calls the model {model} and has no budget: resume it with a budget"
            )));
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
                    // A long page must not keep other tasks waiting.
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

    /// Reviews a page by the model, a few events at a time, and stores each result as it comes.
    async fn ask_all(
        self: &Arc<Self>,
        page: Vec<WaitingItem>,
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
            // Calls under way are paid for, so their answers are kept, whatever stops the run.
            let done = tokio::select! {
                done = running.join_next() => done,
                () = self.overtime() => return Err(Stop::Left),
            };
            let Some(done) = done else { return stopped.map_or(Ok(()), Err) };
            match done
                .map_err(|error| Stop::Failed(format!("a review failed because of a fault in Umbra: {error}")))
                .flatten()
            {
                Ok(reviewed) => {
                    self.store(&[reviewed]).await?;
                    *ended += 1;
                    progress(*ended);
                }
                Err(stop) => {
                    stopped = stopped.or(Some(stop));
                    // Events that only wait for their next call stop waiting.
                    self.stop.cancel();
                }
            }
        }
    }

    /// Returns when a stopping process has waited long enough for answers; calls without one are charged at their hold.
    async fn overtime(&self) {
        self.leaving.cancelled().await;
        tokio::time::sleep(GRACE).await;
    }

    async fn store(&self, reviewed: &[ItemResult]) -> Result<(), Stop> {
        let stored = self.backtests.store.backtests().store_items(&self.claim, reviewed).await?;
        if stored { Ok(()) } else { Err(Stop::Left) }
    }

    fn by_checks(&self, item: &WaitingItem) -> ItemResult {
        let Some(stored) = read(item) else { return gone(item) };
        let shadow = &self.claim.shadow;
        let hits = umbra_checks::by_shadow(&stored, shadow);
        concluded(item, umbra_review::of_checks(shadow, &subject(item, &stored, &hits)))
    }

    async fn by_model(&self, item: WaitingItem) -> Result<ItemResult, Stop> {
        let Some(stored) = read(&item) else { return Ok(gone(&item)) };
        let shadow = &self.claim.shadow;
        let hits = umbra_checks::by_shadow(&stored, shadow);
        let subject = subject(&item, &stored, &hits);
        let (store, gateway) = (&self.backtests.store, &self.gateway);
        let budget = CallBudget::Backtest(store, &self.claim, item.seq);
        let conversation = Conversation { gateway, shadow, budget, installation: Some(&self.backtests.installation) };
        let until = Instant::now() + PATIENCE;
        let (reason, why) = loop {
            if let Some(SuspensionReason::Refused { why }) = gateway.suspension(&shadow.model) {
                return Err(Stop::Failed(format!("the model {} refuses calls: {why}", shadow.model)));
            }
            match conversation.ask(&ReviewSubject::Event(subject)).await? {
                ModelOutcome::Judged((mut judgements, _)) => {
                    let judgement = judgements.pop().unwrap_or_else(|| umbra_review::of_checks(shadow, &subject));
                    return Ok(concluded(&item, judgement));
                }
                ModelOutcome::LeaseLost => return Err(Stop::Left),
                ModelOutcome::Retry { delay, .. } if Instant::now() + delay < until => {
                    tokio::select! {
                        () = self.stop.cancelled() => return Err(Stop::Left),
                        () = tokio::time::sleep(delay) => {}
                    }
                }
                ModelOutcome::Retry { why, .. } => break (SkipReason::ProviderUnavailable, why),
                ModelOutcome::GiveUp { reason: SkipReason::UsdCap | SkipReason::TokenCap, .. } => {
                    return Err(Stop::Failed(
                        "the budget does not cover another call: resume with a larger budget".into(),
                    ));
                }
                ModelOutcome::GiveUp { reason, why } => break (reason, why),
            }
        };
        // Without the model, what the checks found stands; if they found nothing, the event has no conclusion.
        let mut judgement = umbra_review::of_checks(shadow, &subject);
        let why = format!("The model gave no verdict: {why}.");
        if judgement.assessment.is_clean() {
            return Ok(failed(&item, reason, &why));
        }
        judgement.notes.push(why);
        Ok(concluded(&item, judgement))
    }
}

fn read(item: &WaitingItem) -> Option<StoredEvent> {
    serde_json::from_slice(item.payload.as_deref()?).ok()
}

fn subject<'a>(item: &WaitingItem, stored: &'a StoredEvent, hits: &'a [umbra_domain::Hit]) -> EventInput<'a> {
    EventInput { event_id: item.event, event: &stored.event, trigger: item.trigger, hits, baseline: None, memory: &[] }
}

fn concluded(item: &WaitingItem, judgement: Judgement) -> ItemResult {
    let judgement = redacted(judgement);
    ItemResult {
        seq: item.seq,
        outcome: ItemOutcome::Reviewed,
        reason: None,
        assessment: Some(judgement.assessment),
        score: judgement.score,
        reviewer: Some(judgement.reviewer),
        findings: judgement.findings,
        notes: judgement.notes,
        change: AssessmentChange::between(item.before, Some(judgement.assessment)),
    }
}

/// Returns the item of a failed review: no assessment, and therefore no change.
fn failed(item: &WaitingItem, reason: SkipReason, why: &str) -> ItemResult {
    ItemResult {
        seq: item.seq,
        outcome: ItemOutcome::Failed,
        reason: Some(reason),
        assessment: None,
        score: None,
        reviewer: None,
        findings: Vec::new(),
        notes: vec![cleaned(why)],
        change: None,
    }
}

fn gone(item: &WaitingItem) -> ItemResult {
    let notes = vec!["The event is no longer stored.".into()];
    ItemResult { reason: None, notes, ..failed(item, SkipReason::ProviderUnavailable, "") }
}
