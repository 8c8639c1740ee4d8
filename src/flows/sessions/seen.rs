//! Sessions as this process saw them last: while the database is away, rules hold for whom they are about, and what clings to a
//! session goes on clinging.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;

use super::{May, Sidecar, attach::StepError, patience::Patience, step::Recorded, workspace::Held};
use umbra_domain::{PatternOutcome, Session, SessionId, StepKind};
use umbra_store::{documents::StoredDocument, sessions::Stepping};

/// Sessions that are remembered.
const MOST: usize = 10_000;

/// Sessions whose end is remembered until it is kept.
const MOST_ENDS: usize = 1_000;

/// Sessions as they were seen.
#[derive(Default)]
pub(super) struct Seen(Mutex<HashMap<SessionId, Sight>>);

/// Ends of sessions that were told and are not kept yet, with what each came to.
#[derive(Default)]
pub(super) struct Ends(Mutex<HashMap<SessionId, Option<PatternOutcome>>>);

impl Ends {
    fn all(&self) -> MutexGuard<'_, HashMap<SessionId, Option<PatternOutcome>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers an end until [`Ends::forget`]; where too many wait, it is left to the session to close by itself.
    pub fn remember(&self, id: SessionId, outcome: Option<PatternOutcome>) {
        let mut all = self.all();
        if all.len() < MOST_ENDS {
            all.insert(id, outcome);
        }
    }

    /// Forgets an end that is kept, or of which nothing can be.
    pub fn forget(&self, id: SessionId) {
        self.all().remove(&id);
    }

    /// Ends that wait.
    pub fn waiting(&self) -> Vec<(SessionId, Option<PatternOutcome>)> {
        self.all().iter().map(|(id, outcome)| (*id, *outcome)).collect()
    }
}

struct Sight {
    session: Session,
    at: Instant,
    /// Whether the database has it so.
    kept: bool,
}

impl Seen {
    fn all(&self) -> MutexGuard<'_, HashMap<SessionId, Sight>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers an open session as it is by now, and whether the database has it so. Where there are too many, the tenth
    /// that was seen longest ago goes.
    pub fn keep(&self, session: &Session, kept: bool) {
        let mut all = self.all();
        if all.len() >= MOST && !all.contains_key(&session.id) {
            let mut times: Vec<Instant> = all.values().map(|sight| sight.at).collect();
            let (_, oldest, _) = times.select_nth_unstable(MOST / 10);
            let oldest = *oldest;
            all.retain(|_, sight| sight.at > oldest);
        }
        all.insert(session.id, Sight { session: session.clone(), at: Instant::now(), kept });
    }

    /// A session as it was seen last.
    pub fn get(&self, id: SessionId) -> Option<Session> {
        self.all().get(&id).map(|sight| sight.session.clone())
    }

    /// Gives a session what it has become while the database was away: labels, and route and modes unless it took a step
    /// elsewhere since.
    fn catch_up(&self, session: &mut Session) {
        let all = self.all();
        let Some(Sight { session: seen, kept, .. }) = all.get(&session.id) else { return };
        session.taint(seen.taints.iter().cloned());
        if !kept && seen.chain == session.chain {
            session.route.clone_from(&seen.route);
            session.modes.clone_from(&seen.modes);
        }
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
        let Some(found) = patience.ask(missed, self.store.sessions().step(id)).await else {
            let session = self.seen.get(id);
            if session.as_ref().is_some_and(|session| !may(&session.agent)) {
                return Err(StepError::Unknown);
            }
            patience.warn(match session {
                Some(_) => "the session is judged as this server saw it last: its agent, route, modes and labels",
                None => {
                    "whose session this is is not known here: rules about certain agents, and its route, modes and labels, \
                     were not asked"
                }
            });
            return Ok(Taken { session, ..Taken::default() });
        };
        let Some(mut step) = found.filter(|step| may(&step.session.agent)) else { return Err(StepError::Unknown) };
        if !step.is_open() {
            self.seen.forget(id);
            return Err(StepError::Closed);
        }
        self.seen.catch_up(&mut step.session);
        let session = Some(step.session.clone());
        let (step, held) = self.hold(step, missed, patience).await.unzip();
        Ok(Taken { step, session, held: held.unwrap_or_default() })
    }

    /// Keeps a step, and gives its files what they lack. What the session has become by it holds here, even if nobody could
    /// keep it.
    ///
    /// # Errors
    /// The step cannot be serialised.
    pub(super) async fn write(
        &self,
        (step, mut held): (Stepping, Held),
        kind: StepKind,
        recorded: &Recorded,
        (missed, patience): (&str, &mut Patience<'_>),
    ) -> Result<(), StepError> {
        self.seen.keep(&step.session, false);
        let (recorded, writes) = (recorded.to_json()?, held.plan(&step.documents));
        if let Some(session) = patience.ask(missed, step.write(kind, &recorded)).await {
            self.seen.keep(&session, true);
            self.write_files(writes, patience).await;
        }
        Ok(())
    }

    /// A session with its documents as they stand now, which somebody else may change; as it was seen last, and without
    /// documents, where the database does not answer in time.
    pub(super) async fn look(
        &self,
        id: SessionId,
        patience: &mut Patience<'_>,
    ) -> (Option<Session>, Option<Vec<StoredDocument>>) {
        match patience.ask("rules in words are judged without the session", self.store.sessions().get(id)).await {
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
            seen.keep(&Session::begin(id(number), "a", Timestamp::UNIX_EPOCH), true);
        }
        assert!(seen.get(id(0)).is_none());
        assert_eq!(seen.get(id(MOST)).map(|session| session.id), Some(id(MOST)));
        seen.forget(id(MOST));
        assert!(seen.get(id(MOST)).is_none());
        assert!(seen.all().len() > MOST / 2);
    }
}
