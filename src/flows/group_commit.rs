//! Group commit without a timer: the loop of a writer that stores all waiting items in one transaction.
//!
//! While one transaction is on its way to the disk, the next batch gathers by itself. A transaction is tried again
//! while the database is busy or away, until the batch's deadline. A batch that the database refuses is halved until
//! the one item at fault fails alone.

use std::time::Duration;

use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use umbra_store::StoreError;

/// Time without items after which a writer gives its connection back.
const QUIET: Duration = Duration::from_secs(1);
/// Longest time that a batch may take, so that a slow database does not hold a writer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A transaction over a batch of items, with its retries and answers.
pub(in crate::flows) trait Commit {
    /// A waiting caller, with the data to store.
    type Item;
    /// Result of a transaction that committed.
    type Stored;
    /// Counter of transactions by result, and histogram of the seconds of those that committed.
    const METRICS: (&'static str, &'static str);
    /// Attempts at one transaction, and the pause before the second attempt; the pause doubles.
    const TRIES: (u32, Duration);

    /// Returns the time by which a batch that starts now must have been answered.
    fn deadline(&self, _batch: &[Self::Item]) -> Instant {
        Instant::now() + PATIENCE
    }

    /// Runs one transaction. If it is dropped at the deadline, its outcome is unknown.
    async fn flush(&mut self, batch: &[Self::Item]) -> Result<Self::Stored, StoreError>;

    /// Looks up the outcome of a failed transaction. `None` if the outcome was never in doubt, cannot be found out, or
    /// is found by the next attempt.
    async fn look_up(&mut self, _batch: &[Self::Item], _error: &StoreError) -> Option<Self::Stored> {
        None
    }

    /// True if a failed transaction is worth another attempt.
    fn may_retry(&self, batch: &[Self::Item], error: &StoreError) -> bool;

    /// Answers a batch that was stored.
    async fn answer(&mut self, batch: Vec<Self::Item>, stored: Self::Stored);

    /// Answers a batch that was not stored, or whose outcome is unknown.
    fn refuse(&mut self, batch: Vec<Self::Item>, error: &StoreError);
}

/// A writer: its queue and its bounds.
pub(in crate::flows) trait GroupCommit: Commit {
    /// Returns the queue of waiting items.
    fn queue(&mut self) -> &mut mpsc::Receiver<Self::Item>;

    /// Adds an item to the batch. If the batch is full, returns the item, which begins the next batch.
    fn add(&mut self, batch: &mut Vec<Self::Item>, item: Self::Item) -> Option<Self::Item>;

    /// Gives the connection back in a quiet time. Returns `false` to be called again.
    async fn rest(&mut self) -> bool;

    /// Closes the writer, after the last item.
    async fn close(&mut self);
}

/// Stores items until every sender is gone or `stop` is cancelled; items taken by then are still answered.
pub(in crate::flows) async fn run<W: GroupCommit>(mut writer: W, stop: CancellationToken) {
    let (mut carried, mut rests) = (None, false);
    loop {
        if carried.is_none() {
            carried = tokio::select! {
                taken = writer.queue().recv() => taken,
                () = stop.cancelled() => { writer.queue().close(); writer.queue().recv().await }
                () = tokio::time::sleep(QUIET), if !rests => { rests = writer.rest().await; continue; }
            };
            if carried.is_none() {
                return writer.close().await;
            }
        }
        let mut batch = Vec::new();
        while let Some(next) = carried.take().or_else(|| writer.queue().try_recv().ok()) {
            carried = writer.add(&mut batch, next);
            if carried.is_some() {
                break;
            }
        }
        store(&mut writer, batch).await;
        rests = false;
    }
}

/// Stores a batch, and answers it.
pub(in crate::flows) async fn store<W: Commit>(writer: &mut W, batch: Vec<W::Item>) {
    let deadline = writer.deadline(&batch);
    let mut parts = vec![batch];
    while let Some(mut part) = parts.pop() {
        let flushed = if Instant::now() < deadline {
            let flushed = timeout_at(deadline, flush_until_known(writer, &part)).await;
            flushed.unwrap_or_else(|_| Err(StoreError::late()))
        } else {
            Err(StoreError::not_tried())
        };
        match flushed {
            Ok(stored) => writer.answer(part, stored).await,
            Err(error) if (error.is_data() || error.is_inconsistent()) && part.len() > 1 => {
                count::<W>("bisected");
                let back = part.split_off(part.len() / 2);
                parts.extend([back, part]);
            }
            Err(error) => {
                count::<W>(if error.is_inconsistent() { "inconsistent" } else { "failed" });
                writer.refuse(part, &error);
            }
        }
    }
}

async fn flush_until_known<W: Commit>(writer: &mut W, batch: &[W::Item]) -> Result<W::Stored, StoreError> {
    let (mut tries, mut pause) = W::TRIES;
    loop {
        let started = Instant::now();
        let error = match writer.flush(batch).await {
            Ok(stored) => {
                count::<W>("stored");
                metrics::histogram!(W::METRICS.1).record(started.elapsed().as_secs_f64());
                return Ok(stored);
            }
            // Nothing was sent to the database, and the store has waited for it already.
            Err(error) if error.is_unreached() => return Err(error),
            Err(error) => error,
        };
        if let Some(stored) = writer.look_up(batch, &error).await {
            return Ok(stored);
        }
        tries -= 1;
        if tries == 0 || !writer.may_retry(batch, &error) {
            return Err(error);
        }
        count::<W>("retried");
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

fn count<W: Commit>(result: &'static str) {
    metrics::counter!(W::METRICS.0, "result" => result).increment(1);
}
