//! Sessions as this process saw them last: while the database is away, rules hold for whom they are about, and what clings to a
//! session goes on clinging.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;

use super::{May, Sidecar, attach::StepError, patience::Patience, step::Recorded, workspace::Held};
use crate::{
    domain::{Session, SessionId, StepKind},
    store::{documents::StoredDocument, sessions::Stepping},
};

/// Sessions that are remembered.
const MOST: usize = 10_000;

/// Sessions, and when each was seen.
#[derive(Default)]
pub(super) struct Seen(Mutex<HashMap<SessionId, (Session, Instant)>>);

impl Seen {
    fn all(&self) -> MutexGuard<'_, HashMap<SessionId, (Session, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers an open session as it is by now. Where there are too many, the tenth that was seen longest ago goes.
    pub fn keep(&self, session: &Session) {
        let mut all = self.all();
        if all.len() >= MOST && !all.contains_key(&session.id) {
            let mut times: Vec<Instant> = all.values().map(|(_, at)| *at).collect();
            let (_, oldest, _) = times.select_nth_unstable(MOST / 10);
            let oldest = *oldest;
            all.retain(|_, (_, at)| *at > oldest);
        }
        all.insert(session.id, (session.clone(), Instant::now()));
    }

    /// A session as it was seen last.
    pub fn get(&self, id: SessionId) -> Option<Session> {
        self.all().get(&id).map(|(session, _)| session.clone())
    }

    /// It is over, or was erased.
    pub fn forget(&self, id: SessionId) {
        self.all().remove(&id);
    }
}

/// A session that is about to take a step.
#[derive(Default)]
pub(super) struct Taken {
    /// Locked; `None` where it was not had in time.
    pub step: Option<Stepping>,
    /// As it stands, or as it was seen last; `None` where this process never saw it.
    pub session: Option<Session>,
    /// What its files said.
    pub held: Held,
}

impl Sidecar {
    /// Takes a session for its next step, with what its files say by now. Where the database does not answer in time, `missed` is said.
    ///
    /// # Errors
    /// There is none that this caller may see, or it is over.
    pub(super) async fn take(
        &self,
        id: SessionId,
        missed: &str,
        (may, patience): (May<'_>, &mut Patience<'_>),
    ) -> Result<Taken, StepError> {
        let Some(found) = patience.ask(missed, self.store.step(id)).await else {
            let session = self.seen.get(id);
            if session.as_ref().is_some_and(|session| !may(&session.agent)) {
                return Err(StepError::Unknown);
            }
            if session.is_none() {
                patience.warn(
                    "whose session this is is not known here: rules about certain agents were not asked".to_owned(),
                );
            }
            return Ok(Taken { session, ..Taken::default() });
        };
        let Some(mut step) = found.filter(|step| may(&step.session.agent)) else { return Err(StepError::Unknown) };
        if !step.is_open() {
            self.seen.forget(id);
            return Err(StepError::Closed);
        }
        // What was done while the database was away clings to it all the same.
        step.session.taint(self.seen.get(id).map(|session| session.taints).unwrap_or_default());
        let session = Some(step.session.clone());
        let (step, held) = self.hold(step, missed, patience).await.unzip();
        Ok(Taken { step, session, held: held.unwrap_or_default() })
    }

    /// Keeps a step, and gives its files what they lack. What the session has become by it holds here, even if nobody could
    /// keep it.
    pub(super) async fn write(
        &self,
        (step, mut held): (Stepping, Held),
        kind: StepKind,
        recorded: &Recorded,
        (missed, patience): (&str, &mut Patience<'_>),
    ) {
        self.seen.keep(&step.session);
        let (recorded, writes) = (recorded.to_json(), held.plan(&step.documents));
        if patience.ask(missed, step.write(kind, &recorded)).await.is_some() {
            self.write_files(writes, patience).await;
        }
    }

    /// A session with its documents as they stand now, which somebody else may change; as it was seen last, and without
    /// documents, where the database does not answer in time.
    pub(super) async fn look(
        &self,
        id: SessionId,
        patience: &mut Patience<'_>,
    ) -> (Option<Session>, Option<Vec<StoredDocument>>) {
        match patience.ask("rules in words are judged without the session", self.store.session(id)).await {
            Some(found) => found.map_or((None, None), |(session, documents)| (Some(session), Some(documents))),
            None => (self.seen.get(id), None),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_latest_are_remembered() {
        let seen = Seen::default();
        let id = |number: usize| SessionId(Uuid::from_u128(number as u128));
        for number in 0..=MOST {
            seen.keep(&Session::begin(id(number), "a", Timestamp::UNIX_EPOCH));
        }
        assert!(seen.get(id(0)).is_none());
        assert_eq!(seen.get(id(MOST)).map(|session| session.id), Some(id(MOST)));
        seen.forget(id(MOST));
        assert!(seen.get(id(MOST)).is_none());
        assert!(seen.all().len() > MOST / 2);
    }
}
