//! Spooled events whose client id was in use when they were filed.

use super::{
    StoreError,
    aggregates::EventStore,
    sql::{self, uuids},
};
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

impl EventStore<'_> {
    /// Records repeats; known ones stay unchanged.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn note_repeats(self, repeats: &[Repeat]) -> Result<(), StoreError> {
        if repeats.is_empty() {
            return Ok(());
        }
        sql::execute(
            &self.0.work,
            "/* repeats.note */ INSERT INTO spooled_repeat (id, original, conflicts)
             SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::boolean[]) ON CONFLICT DO NOTHING",
            (
                uuids(repeats.iter().map(|repeat| &repeat.id)),
                uuids(repeats.iter().map(|repeat| &repeat.original)),
                repeats.iter().map(|repeat| repeat.conflicts).collect::<Vec<_>>(),
            ),
        )
        .await
    }

    /// Returns the repeat that was recorded under this id, if any.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn repeat_of(self, id: EventId) -> Result<Option<Repeat>, StoreError> {
        let row = sql::optional(
            &self.0.read,
            "/* repeats.of */ SELECT original, conflicts FROM spooled_repeat WHERE id = $1",
            (id.0,),
        )
        .await?;
        Ok(row.map(|(original, conflicts)| Repeat { id, original, conflicts }))
    }
}
