//! Followers of feed `result`: each processes ended reviews, filed verdicts and findings of looks exactly once, in one
//! process of a cluster at a time.
//!
//! A follower's row is locked while its page is processed. Consequences are stored in the same transaction as the row's
//! new number, so a crash in between leaves neither.

use std::collections::HashMap;

use super::{
    StoreError,
    aggregates::ReviewStore,
    findings,
    paging::Feed,
    pool::Pool,
    reflexions, reviews,
    sql::{self, uuids},
    transaction::{Tx, begin},
    verdicts,
};
use crate::{findings::FindingItem, reflexions::FaultKey, reviews::Review, verdicts::EventVerdict};
use umbra_domain::{EventId, ReviewId};

umbra_domain::words! {
    /// A follower of feed `result`.
    pub enum Follower {
        /// Stores consequences of reviews: scores, breakers, reflexions, messages.
        Consequences = "consequences",
        /// Writes files.
        Artifacts = "artifacts",
        /// Makes patterns of tasks that reviews approve.
        Patterns = "patterns",
    }
}

/// Reviews, verdicts and findings of a page, in the order in which they became visible.
#[derive(Debug, Default)]
pub struct FollowedItems {
    /// Done reviews, each with its findings.
    pub reviews: Vec<Review>,
    /// Filed verdicts.
    pub verdicts: Vec<EventVerdict>,
    /// Findings of looks, each with the hash of its shadow's configuration.
    pub looks: Vec<(FindingItem, String)>,
    /// Faults of looks' findings that were repeated, without passive shadows.
    pub repeated: Vec<FaultKey>,
    /// True if more is there already.
    pub more: bool,
}

/// A page that this process follows. Dropping it leaves the page to be read again.
pub struct FollowerPage {
    /// Reviews, verdicts and findings of the page; may be empty.
    pub ended: FollowedItems,
    /// Transaction that stores all consequences.
    pub(super) tx: Tx,
    follower: Follower,
    until: i64,
}

/// Locks the row of a follower until the end of the transaction; returns the last number that it has followed, or
/// `None` while another process follows.
pub(super) async fn hold(mut tx: Tx, follower: &str) -> Result<Option<(Tx, i64)>, StoreError> {
    let hold = "/* follow.hold */ SELECT seq FROM follower WHERE name = $1 FOR UPDATE SKIP LOCKED";
    if let Some(from) = sql::optional(&mut *tx, hold, (follower,)).await? {
        return Ok(Some((tx, from)));
    }
    tx.rollback().await?;
    Ok(None)
}

/// Stores the new number of a follower, and commits.
pub(super) async fn move_on(mut tx: Tx, follower: &str, until: i64) -> Result<(), StoreError> {
    let done = "/* follow.done */ UPDATE follower SET seq = $2 WHERE name = $1 AND seq < $2";
    sql::execute(&mut *tx, done, (follower, until)).await?;
    Ok(tx.commit().await?)
}

/// Moves a follower to the end of a feed.
pub(super) async fn skip(pool: &Pool, follower: &str, feed: Feed) -> Result<(), StoreError> {
    let skip = "/* follow.skip */ UPDATE follower f SET seq = feed.last FROM feed
                WHERE f.name = $1 AND feed.name = $2 AND f.seq < feed.last";
    sql::execute(pool, skip, (follower, feed.as_str())).await
}

impl ReviewStore<'_> {
    /// Returns the next page of a follower, at most `most` reviews; `None` while another process follows.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn follow(self, follower: Follower, most: i64) -> Result<Option<FollowerPage>, StoreError> {
        let Some((mut tx, from)) = hold(begin(&self.0.work).await?, follower.as_str()).await? else { return Ok(None) };
        // Read first: each row with a number up to this one is committed, and visible to later statements.
        let last: i64 = sql::one(&mut *tx, "/* follow.last */ SELECT last FROM feed WHERE name = 'result'", ()).await?;
        if last <= from {
            return Ok(Some(FollowerPage { ended: FollowedItems::default(), tx, follower, until: from }));
        }
        let full = |count: usize| i64::try_from(count).is_ok_and(|count| count >= most);
        let mut looks = findings::looked_between(&mut *tx, from, last, most).await?;
        let last = if full(looks.len()) { looks.last().map_or(last, |(seq, ..)| *seq) } else { last };
        let mut rows = reviews::ended_between(&mut tx, from, last, most).await?;
        let more = full(rows.len()) || full(looks.len());
        let until = if full(rows.len()) { rows.last().map_or(last, |(seq, _)| *seq) } else { last };
        looks.retain(|(seq, ..)| *seq <= until);
        let repeated = reflexions::repeated_between(&mut tx, from, until).await?;
        let ids: Vec<ReviewId> = rows.iter().map(|(_, review)| review.id).collect();
        for finding in findings::of_reviews(&mut *tx, &ids).await? {
            if let Some((_, review)) = rows.iter_mut().find(|(_, review)| Some(review.id) == finding.review_id) {
                review.findings.get_or_insert_default().push(finding);
            }
        }
        let verdicts = verdicts::filed_between(&mut tx, from, until).await?;
        let reviews = rows.into_iter().map(|(_, review)| review).collect();
        let looks = looks.into_iter().map(|(_, look)| look).collect();
        Ok(Some(FollowerPage {
            ended: FollowedItems { reviews, verdicts, looks, repeated, more },
            tx,
            follower,
            until,
        }))
    }

    /// Moves the follower to the end of the feed: it skips everything up to now.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn skip_following(self, follower: Follower) -> Result<(), StoreError> {
        skip(&self.0.work, follower.as_str(), Feed::Result).await
    }
}

impl FollowerPage {
    /// True if the page is empty.
    pub fn is_empty(&self) -> bool {
        let FollowedItems { reviews, verdicts, looks, repeated, .. } = &self.ended;
        reviews.is_empty() && verdicts.is_empty() && looks.is_empty() && repeated.is_empty()
    }

    /// Returns the events under the reviews and looks of this page, each with its number in feed `intake` and its payload.
    /// Events that are gone are missing.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn events(&mut self) -> Result<HashMap<EventId, (i64, Vec<u8>)>, StoreError> {
        let reviewed = self.ended.reviews.iter().flat_map(|review| &review.events);
        let ids = uuids(reviewed.chain(self.ended.looks.iter().map(|(finding, _)| &finding.event_id)));
        let rows: Vec<(EventId, i64, Vec<u8>)> = sql::all(
            &mut *self.tx,
            "/* follow.events */ SELECT id, seq, payload FROM event WHERE id = ANY($1)",
            (ids,),
        )
        .await?;
        Ok(rows.into_iter().map(|(id, seq, payload)| (id, (seq, payload))).collect())
    }

    /// Commits what was stored and the follower's new number.
    ///
    /// # Errors
    /// The database does not answer: the page may come again.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        if self.follower == Follower::Patterns {
            self.patterns().number().await?;
        }
        move_on(self.tx, self.follower.as_str(), self.until).await
    }
}
