//! Input of a review, for its worker: the events under review, and the steps of a task page by page.

use super::{
    StoreError,
    aggregates::EventStore,
    sql::{self, column, record},
};
use umbra_domain::{EventId, ReviewId, Trigger};

/// An event under review.
#[derive(Debug, Clone)]
pub struct EventUnderReview {
    /// Event id.
    pub event: EventId,
    /// Trigger by which the event matched.
    pub trigger: Trigger,
    /// The stored event as JSON.
    pub payload: Vec<u8>,
}

record! {
    EventUnderReview, row: event, payload;
    trigger: column::<Option<_>>(row, "trigger")?.unwrap_or(Trigger::All),
}

/// A step of a task.
#[derive(Debug, Clone)]
pub struct TaskStep {
    /// Number in feed `intake`.
    pub seq: i64,
    /// The event.
    pub event: EventId,
    /// The stored event as JSON.
    pub payload: Vec<u8>,
}

record!(TaskStep: seq, event, payload);

impl EventStore<'_> {
    /// Returns the events under a review, in order of receipt. To be called after the review is claimed: no event joins
    /// it then.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn events_under_review(self, review: ReviewId) -> Result<Vec<EventUnderReview>, StoreError> {
        sql::all(
            &self.0.work,
            "/* steps.held */
             SELECT e.id AS event, (e.triggers)[array_position(e.shadows, h.shadow)] AS trigger, e.payload
             FROM review_event h JOIN event e ON e.id = h.event_id WHERE h.review_id = $1 ORDER BY e.seq",
            (review.0,),
        )
        .await
    }

    /// Returns the number of steps of a task, and the feed number of the step `from_end` from its end, if it has that
    /// many.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn task_length(self, task: &str, from_end: i64) -> Result<(i64, Option<i64>), StoreError> {
        sql::one(
            &self.0.work,
            "/* steps.length */
             SELECT (SELECT count(*) FROM event WHERE task_id = $1),
                    (SELECT seq FROM event WHERE task_id = $1 ORDER BY seq DESC OFFSET $2 LIMIT 1)",
            (task, from_end),
        )
        .await
    }

    /// Returns the steps of a task after number `behind`, in order.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn steps(self, task: &str, behind: i64, most: i64) -> Result<Vec<TaskStep>, StoreError> {
        sql::all(
            &self.0.work,
            "/* steps.page */ SELECT seq, id AS event, payload FROM event
             WHERE task_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
            (task, behind, most),
        )
        .await
    }
}
