//! Spooled events whose client id was in use when they were filed.

use sqlx::FromRow;
use uuid::Uuid;

use super::{StoreError, aggregates::EventStore};
use umbra_domain::EventId;

/// A spooled event whose client id names another event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// Id that the sender was given.
    pub id: EventId,
    /// Event that has the client id.
    pub original: EventId,
    /// True if the contents differ; then the spooled event is stored as well, without the client id.
    pub conflicts: bool,
}

#[derive(FromRow)]
struct RepeatRow {
    original: Uuid,
    conflicts: bool,
}

impl EventStore<'_> {
    /// Records repeats; known ones stay unchanged.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn note_repeats(self, repeats: &[Repeat]) -> Result<(), StoreError> {
        if repeats.is_empty() {
            return Ok(());
        }
        sqlx::query(
            "/* repeats.note */ INSERT INTO spooled_repeat (id, original, conflicts)
             SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::boolean[]) ON CONFLICT DO NOTHING",
        )
        .bind(repeats.iter().map(|repeat| repeat.id.0).collect::<Vec<_>>())
        .bind(repeats.iter().map(|repeat| repeat.original.0).collect::<Vec<_>>())
        .bind(repeats.iter().map(|repeat| repeat.conflicts).collect::<Vec<_>>())
        .execute(&self.0.work)
        .await?;
        Ok(())
    }

    /// Returns the repeat that was recorded under this id, if any.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn repeat_of(self, id: EventId) -> Result<Option<Repeat>, StoreError> {
        let query = sqlx::query_as("/* repeats.of */ SELECT original, conflicts FROM spooled_repeat WHERE id = $1");
        let row: Option<RepeatRow> = query.bind(id.0).fetch_optional(&self.0.read).await?;
        Ok(row.map(|RepeatRow { original, conflicts }| Repeat { id, original: EventId(original), conflicts }))
    }
}
