//! The accept transaction: claims keys, locks meters, then stores everything in one statement.
//!
//! One flush of the writer is: [`EventStore::begin`] → [`Flush::keys`] (if any event has one) → [`Flush::lock`] (if any
//! review is wanted) → `budget` decides → [`Flush::write`], which commits. A flush without keys and without
//! candidates is [`EventStore::write`] alone: one statement, one round trip.
//!
//! Locking first and writing afterwards makes caps exact: a statement that locks and counts at once reads a snapshot
//! older than its lock. The order of locks is the same everywhere: `event_key`, `task_cost`, `meter`, `review`, `feed`,
//! each sorted by key.

use std::{borrow::Cow, collections::HashMap};

use jiff::{Timestamp, civil::Date};

use uuid::Uuid;

use super::{
    StoreError,
    aggregates::EventStore,
    sql::{self, uuids},
    transaction::{BEGIN, Tx, begin, begin_on},
};
use umbra_domain::{EventId, Trigger};

mod writing;

use writing::write;
pub use writing::{FlushRows, JoinedReview, MeterChange, NewEvent, NewLink, NewPair, NewReview, SkipTally};

/// A client's own id for an event, hashed with the installation's key.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Agent that owns the key.
    pub agent: String,
    /// Keyed hash of the id.
    pub key: [u8; 32],
    /// Keyed hash of the event as it was sent.
    pub body: [u8; 32],
    /// Event that gets the key if it is fresh.
    pub event: EventId,
}

/// Result of claiming a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLookup {
    /// The id was not used in the last 72 h.
    Fresh,
    /// The same event was accepted as this one.
    Replay(EventId),
    /// The id was used for this other event.
    Mismatch(EventId),
}

/// Key of a meter: `(shadow,"","")` a shadow's day, `(shadow,agent,"")` a target's day, `(shadow,agent,trigger)` a
/// cooldown, `(shadow,agent,mark)` the quiet period after a critical mark.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MeterKey {
    /// The shadow.
    pub shadow: String,
    /// The agent, or empty.
    pub agent: String,
    /// The trigger's word or the mark's name, or empty.
    pub trigger: Cow<'static, str>,
}

/// State of a locked meter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeterRow {
    /// Local day that the meter counts; the epoch for a cooldown.
    pub day: Date,
    /// Reviews reserved.
    pub used: i64,
    /// Nano-dollars spent.
    pub spent_usd: i64,
    /// Tokens spent.
    pub spent_tokens: i64,
    /// End of the cooldown or quiet period.
    pub next_at: Timestamp,
}

/// An open accept transaction.
pub struct Flush(pub(super) Tx);

impl EventStore<'_> {
    /// Begins an accept transaction.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn begin(self) -> Result<Flush, StoreError> {
        Ok(Flush(begin_on(self.0.writer.take().await?, BEGIN).await?))
    }

    /// Begins an accept transaction for reservations of events that were stored before.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn begin_later(self) -> Result<Flush, StoreError> {
        Ok(Flush(begin(&self.0.later).await?))
    }

    /// Stores a flush that needs no lock, in one statement that commits by itself.
    ///
    /// # Errors
    /// As [`Flush::write`].
    pub async fn write(self, replica: Uuid, writing: &FlushRows<'_>) -> Result<(), StoreError> {
        let mut connection = self.0.writer.take().await?;
        write(&mut connection, replica, writing).await?;
        connection.keep();
        Ok(())
    }

    /// Returns the idle connection to its pool.
    pub fn release_idle_writer(self) {
        self.0.writer.release_idle();
    }

    /// Returns those of these events that are stored; asked after a commit of unknown outcome.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn stored(self, ids: &[EventId]) -> Result<Vec<EventId>, StoreError> {
        let mut connection = self.0.writer.take().await?;
        sql::all(&mut connection, "SELECT id FROM event WHERE id = ANY($1)", (uuids(ids),)).await
    }
}

impl Flush {
    /// Claims keys, in the order given. Waits for a key that another transaction holds.
    ///
    /// # Errors
    /// Contention or a lost connection; nothing is stored.
    pub async fn keys(&mut self, keys: &[NewKey]) -> Result<Vec<KeyLookup>, StoreError> {
        let agents: Vec<&str> = keys.iter().map(|k| k.agent.as_str()).collect();
        let names: Vec<&[u8]> = keys.iter().map(|k| k.key.as_slice()).collect();
        let bodies: Vec<&[u8]> = keys.iter().map(|k| k.body.as_slice()).collect();
        let events: Vec<Uuid> = keys.iter().map(|k| k.event.0).collect();
        let fresh: Vec<Uuid> = sql::all(
            &mut *self.0,
            "/* intake.keys */
             INSERT INTO event_key (agent, key, body, event_id)
             SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::uuid[]) k(agent, key, body, event_id)
             ORDER BY agent COLLATE \"C\", key ON CONFLICT DO NOTHING RETURNING event_id",
            (&agents, &names, &bodies, &events),
        )
        .await?;
        if fresh.len() == keys.len() {
            return Ok(vec![KeyLookup::Fresh; keys.len()]);
        }
        // A separate statement: only a new snapshot sees rows that the insert waited for.
        let seen: Vec<(String, Vec<u8>, Vec<u8>, Uuid)> = sql::all(
            &mut *self.0,
            "/* intake.keys_seen */
             SELECT agent, key, body, event_id FROM event_key
             JOIN unnest($1::text[], $2::bytea[]) k(agent, key) USING (agent, key)",
            (&agents, &names),
        )
        .await?;
        let seen: HashMap<_, _> = seen
            .iter()
            .map(|(agent, key, body, event)| ((agent.as_str(), key.as_slice()), (body.as_slice(), *event)))
            .collect();
        keys.iter()
            .map(|key| match seen.get(&(key.agent.as_str(), key.key.as_slice())) {
                Some((_, event)) if *event == key.event.0 => Ok(KeyLookup::Fresh),
                Some((body, event)) if *body == key.body => Ok(KeyLookup::Replay(EventId(*event))),
                Some((_, event)) => Ok(KeyLookup::Mismatch(EventId(*event))),
                None => {
                    Err(StoreError::Inconsistent { table: "event_key", problem: "a claimed key is missing".into() })
                }
            })
            .collect()
    }

    /// Creates and locks meters, and reads their newest state and the database's time, which is [`Timestamp::MIN`]
    /// without meters. The zone of a key is the calendar of a day meter, and `None` for a cooldown.
    ///
    /// # Errors
    /// Contention or a lost connection; nothing is stored.
    pub async fn lock(
        &mut self,
        keys: &[(MeterKey, Option<String>)],
    ) -> Result<(Timestamp, HashMap<MeterKey, MeterRow>), StoreError> {
        type Row = (String, String, String, Date, i64, i64, i64, Timestamp, Timestamp);
        if keys.is_empty() {
            return Ok((Timestamp::MIN, HashMap::new()));
        }
        let rows: Vec<Row> = sql::all(
            &mut *self.0,
            "/* intake.lock */
             INSERT INTO meter (shadow, agent, trigger, day)
             SELECT s, a, t, coalesce((c.at AT TIME ZONE z)::date, 'epoch') FROM (SELECT clock() AS at OFFSET 0) c,
                    unnest($1::text[], $2::text[], $3::text[], $4::text[]) k(s, a, t, z)
             ORDER BY s COLLATE \"C\", a COLLATE \"C\", t COLLATE \"C\", 4
             ON CONFLICT (shadow, agent, trigger, day) DO UPDATE SET used = meter.used
             RETURNING shadow, agent, trigger, day, used, spent_usd, spent_tokens, next_at, clock()",
            (
                keys.iter().map(|(k, _)| k.shadow.as_str()).collect::<Vec<_>>(),
                keys.iter().map(|(k, _)| k.agent.as_str()).collect::<Vec<_>>(),
                keys.iter().map(|(k, _)| &*k.trigger).collect::<Vec<_>>(),
                keys.iter().map(|(_, zone)| zone.as_deref()).collect::<Vec<_>>(),
            ),
        )
        .await?;
        let mut now = Timestamp::MIN;
        let mut meters = HashMap::with_capacity(rows.len());
        for (shadow, agent, trigger, day, used, spent_usd, spent_tokens, next_at, at) in rows {
            now = now.max(at);
            let known = Trigger::parse(&trigger).map(Trigger::as_str);
            let trigger = known.map_or(Cow::Owned(trigger), Cow::Borrowed);
            let row = MeterRow { day, used, spent_usd, spent_tokens, next_at };
            meters.insert(MeterKey { shadow, agent, trigger }, row);
        }
        Ok((now, meters))
    }

    /// Stores everything and commits.
    ///
    /// # Errors
    /// [`StoreError::Data`]: a row is refused and nothing is stored. [`StoreError::Unavailable`]: the outcome is
    /// unknown, ask [`EventStore::stored`].
    pub async fn write(mut self, replica: Uuid, writing: &FlushRows<'_>) -> Result<(), StoreError> {
        write(&mut *self.0, replica, writing).await?;
        self.0.commit().await?;
        Ok(())
    }

    /// Ends the transaction without storing anything: every event turned out to be a replay, or was refused.
    ///
    /// # Errors
    /// The connection broke; nothing is stored.
    pub async fn abandon(self) -> Result<(), StoreError> {
        Ok(self.0.rollback().await?)
    }
}
