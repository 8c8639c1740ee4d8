//! Cache of the last seen sessions, so that rules about their agents still apply and their labels stay while the
//! database is away.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    AgentFilter, Sidecar, attach::StepError, request_deadline::RequestDeadline, step::StepRecord,
    workspace::SessionFiles,
};
use crate::flows::serialise::to_json;
use umbra_domain::{PatternOutcome, Session, SessionId, StepKind};
use umbra_store::{documents::StoredDocument, sessions::LockedSession};

/// Most sessions in the cache.
const MOST: usize = 10_000;

/// Most ends of sessions that wait to be stored.
const MOST_ENDS: usize = 1_000;

/// Cache of the last seen sessions.
#[derive(Default)]
pub(super) struct SessionCache(Mutex<HashMap<SessionId, CachedSession>>);

/// Ends of sessions that were requested and are not stored yet, with their outcomes.
#[derive(Default)]
pub(super) struct PendingEnds(Mutex<HashMap<SessionId, Option<PatternOutcome>>>);

impl PendingEnds {
    /// Remembers an end until [`PendingEnds::forget`]. If too many wait, the session is left to close for being idle.
    pub fn remember(&self, id: SessionId, outcome: Option<PatternOutcome>) {
        let mut all = self.0.lock();
        if all.len() < MOST_ENDS {
            all.insert(id, outcome);
        }
    }

    /// Forgets an end that is stored, or that cannot be stored.
    pub fn forget(&self, id: SessionId) {
        self.0.lock().remove(&id);
    }

    /// Returns the ends that wait.
    pub fn waiting(&self) -> Vec<(SessionId, Option<PatternOutcome>)> {
        self.0.lock().iter().map(|(id, outcome)| (*id, *outcome)).collect()
    }
}

struct CachedSession {
    session: Session,
    at: Instant,
    /// True if the database has this state.
    kept: bool,
}

impl SessionCache {
    /// Caches the present state of an open session, with a flag if the database has it. If the cache is full, the tenth
    /// that was seen longest ago is dropped.
    pub fn keep(&self, session: &Session, kept: bool) {
        let mut all = self.0.lock();
        if all.len() >= MOST && !all.contains_key(&session.id) {
            let mut times: Vec<Instant> = all.values().map(|sight| sight.at).collect();
            let (_, oldest, _) = times.select_nth_unstable(MOST / 10);
            let oldest = *oldest;
            all.retain(|_, sight| sight.at > oldest);
        }
        all.insert(session.id, CachedSession { session: session.clone(), at: Instant::now(), kept });
    }

    /// Returns a session as it was last seen.
    pub fn get(&self, id: SessionId) -> Option<Session> {
        self.0.lock().get(&id).map(|sight| sight.session.clone())
    }

    /// Gives a session the changes made while the database was away: labels, and route and modes unless the session
    /// took a step elsewhere since.
    fn catch_up(&self, session: &mut Session) {
        let all = self.0.lock();
        let Some(CachedSession { session: seen, kept, .. }) = all.get(&session.id) else { return };
        session.add_taints(seen.taints.iter().cloned());
        if !kept && seen.chain == session.chain {
            session.route.clone_from(&seen.route);
            session.modes.clone_from(&seen.modes);
        }
    }

    /// Drops a session that is closed, or was erased.
    pub fn forget(&self, id: SessionId) {
        self.0.lock().remove(&id);
    }
}

/// A session that is about to take a step.
#[derive(Default)]
pub(super) struct AcquiredSession {
    /// Locked step; `None` if it was not available in time.
    pub step: Option<LockedSession>,
    /// Session as it is, or as last seen; `None` if this process never saw it.
    pub session: Option<Session>,
    /// Files of the session.
    pub held: SessionFiles,
}

impl Sidecar {
    /// Takes a session for its next step, with the present content of its files. If the database does not answer in
    /// time, `missed` becomes a warning.
    ///
    /// # Errors
    /// There is no such session for this caller, or it is closed.
    pub(super) async fn acquire_session(
        &self,
        id: SessionId,
        missed: &str,
        (may, patience): (AgentFilter<'_>, &mut RequestDeadline<'_>),
    ) -> Result<AcquiredSession, StepError> {
        let Some(found) = patience.ask(missed, self.store.sessions().step(id)).await else {
            let session = self.seen.get(id);
            if session.as_ref().is_some_and(|session| !may(&session.agent)) {
                return Err(StepError::Unknown);
            }
            patience.warn(match session {
                Some(_) => "the session is judged with the agent, route, modes and labels that this server saw last",
                None => "the session's agent, route, modes and labels are unknown: rules about them were not applied",
            });
            return Ok(AcquiredSession { session, ..AcquiredSession::default() });
        };
        let Some(mut step) = found.filter(|step| may(&step.session.agent)) else { return Err(StepError::Unknown) };
        if !step.is_open() {
            self.seen.forget(id);
            return Err(StepError::Closed);
        }
        self.seen.catch_up(&mut step.session);
        let session = step.session.clone();
        let (step, held) = self.read_session_files(step, missed, patience).await.unzip();
        // Its files may have added notices.
        let session = Some(step.as_ref().map_or(session, |step| step.session.clone()));
        Ok(AcquiredSession { step, session, held: held.unwrap_or_default() })
    }

    /// Stores a step, and brings its files up to date. The new state of the session counts in this process even if it
    /// could not be stored.
    ///
    /// # Errors
    /// The step cannot be serialised.
    pub(super) async fn write(
        &self,
        (step, mut held): (LockedSession, SessionFiles),
        kind: StepKind,
        recorded: &StepRecord,
        (missed, patience): (&str, &mut RequestDeadline<'_>),
    ) -> Result<(), StepError> {
        self.seen.keep(&step.session, false);
        let (recorded, writes) = (to_json("session_step.body", recorded)?, held.plan(&step.documents));
        if let Some(session) = patience.ask(missed, step.write(kind, &recorded)).await {
            self.seen.keep(&session, true);
            self.write_files(writes, patience).await;
        }
        Ok(())
    }

    /// Returns a session with its present documents, not locked; if the database does not answer in time, the session
    /// as last seen, without documents.
    pub(super) async fn read_session(
        &self,
        id: SessionId,
        patience: &mut RequestDeadline<'_>,
    ) -> (Option<Session>, Option<Vec<StoredDocument>>) {
        match patience.ask("rules in words are judged without the session's state", self.store.sessions().get(id)).await
        {
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
    fn latest_sessions_are_cached_and_older_ones_dropped() {
        let seen = SessionCache::default();
        let id = |number: usize| SessionId(Uuid::from_u128(number as u128));
        for number in 0..=MOST {
            seen.keep(&Session::begin(id(number), "a", Timestamp::UNIX_EPOCH), true);
        }
        assert!(seen.get(id(0)).is_none());
        assert_eq!(seen.get(id(MOST)).map(|session| session.id), Some(id(MOST)));
        seen.forget(id(MOST));
        assert!(seen.get(id(MOST)).is_none());
        assert!(seen.0.lock().len() > MOST / 2);
    }
}
