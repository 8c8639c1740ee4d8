//! Who is calling, and what they may do. Keys are kept as keyed hashes; a key is bound to scopes and to the agents
//! that it may speak for.

use std::{collections::HashMap, fmt, pin::Pin, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, header, request::Parts},
};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use super::{admission::Class, problem::Problem};
use umbra_domain::{
    Disposition, KeyId, Mode,
    key::{AgentGlobs, PREFIX, Scope},
};
use umbra_store::{Store, StoreError, installation::Installation, keys::KeyRow};

/// How old the list of keys may be: a revoked key works no longer than this on another replica.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// Who is calling.
#[derive(Debug, Clone)]
pub struct Caller(Option<Arc<Grant>>);

#[derive(Debug)]
struct Grant {
    id: KeyId,
    scopes: Vec<Scope>,
    agents: AgentGlobs,
}

impl Caller {
    /// Somebody who needs no key.
    pub(super) fn nobody() -> Self {
        Self(None)
    }

    /// # Errors
    /// `forbidden`: the key lacks the scope.
    pub fn require(&self, scope: Scope) -> Result<(), Problem> {
        match &self.0 {
            Some(grant) if !grant.scopes.contains(&scope) => Err(Problem::forbidden(format!(
                "this key lacks the scope {}; umbra keys create --scope {0} makes one that has it",
                scope.as_str()
            ))
            .of_key(grant.id)),
            _ => Ok(()),
        }
    }

    /// The key, if there is one.
    pub fn key(&self) -> Option<KeyId> {
        self.0.as_ref().map(|grant| grant.id)
    }

    /// # Errors
    /// `forbidden`: the key has none of the scopes.
    pub fn require_any(&self, scopes: &[Scope]) -> Result<(), Problem> {
        match scopes.iter().find_map(|scope| self.require(*scope).ok()) {
            Some(()) => Ok(()),
            None => scopes.first().map_or(Ok(()), |scope| self.require(*scope)),
        }
    }

    /// Dispositions as far as the caller may know them: passive shadows are named to those alone who may read.
    pub fn shown(&self, mut dispositions: Vec<Disposition>) -> Vec<Disposition> {
        if self.require(Scope::Read).is_err() {
            dispositions.retain(|disposition| disposition.mode != Mode::Passive);
        }
        dispositions
    }

    /// The name counts as it is stored, since that is whom others take the event for.
    ///
    /// # Errors
    /// `forbidden_agent`: the key is bound to other agents.
    pub fn speak_for(&self, agent: &str) -> Result<(), Problem> {
        match &self.0 {
            Some(grant) if !grant.agents.contains(umbra_checks::redact(agent).as_str()) => {
                Err(Problem::forbidden_agent(
                    "this key may not speak for this agent; umbra keys create --agent NAME makes one that may",
                )
                .of_key(grant.id))
            }
            _ => Ok(()),
        }
    }
}

impl Caller {
    /// Whether what this agent did may be shown: the key is bound to no others.
    pub fn sees(&self, agent: &str) -> bool {
        self.0.as_ref().is_none_or(|grant| grant.agents.contains(agent))
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // The entrance stands before every handler.
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Problem::internal("a route without an entrance"))
    }
}

/// How old it may be before a key is called unknown.
const UNKNOWN_FRESH_FOR: Duration = Duration::from_millis(50);

/// How long a request waits for the list, where there is one: calls of tools have deadlines.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long one with a key that is not on it waits.
const UNKNOWN_PATIENCE: Duration = Duration::from_secs(2);
/// Longest age of the list while the database is away, for all but decisions, and events where they are spooled.
const HOLDS_FOR: Duration = Duration::from_mins(15);

/// The list on its way.
type Reading = Pin<Box<dyn Future<Output = Result<Known, StoreError>> + Send>>;

/// The keys of this installation, at most a second old.
pub struct KeyRing {
    store: Store,
    installation: Installation,
    known: ArcSwap<Known>,
    /// What a request has waited for in vain stays here for the next.
    reading: Mutex<Option<Reading>>,
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Known {
    /// When it was asked for.
    at: Instant,
    /// No key was ever made: a loopback server is open.
    none: bool,
    by_hash: HashMap<Vec<u8>, Arc<Grant>>,
}

impl KeyRing {
    /// Reads the keys.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn open(store: Store, installation: Installation) -> Result<Self, StoreError> {
        let known = ArcSwap::from_pointee(read(store.clone()).await?);
        Ok(Self { store, installation, known, reading: Mutex::default() })
    }

    /// Whether any key works.
    pub fn is_guarded(&self) -> bool {
        !self.known.load().by_hash.is_empty()
    }

    /// Whether no key was ever made: the next one closes the door behind it.
    pub fn is_first(&self) -> bool {
        self.known.load().none
    }

    /// Reads the keys anew: one was made or revoked here.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        self.known.store(Arc::new(read(self.store.clone()).await?));
        Ok(())
    }

    /// The hash under which a key is filed.
    pub fn hash(&self, key: &str) -> [u8; 32] {
        self.installation.hash_key(key)
    }

    /// Who sends these headers.
    ///
    /// # Errors
    /// `unauthorized`, or the database is away.
    pub(super) async fn identify(
        &self,
        headers: &HeaderMap,
        class: Class,
        spools: impl Fn() -> bool,
    ) -> Result<Caller, Problem> {
        // An agent that waits for a decision is answered from memory, however long the database is away; and so is one that
        // posts events, as long as they are spooled.
        let holds_for = match class {
            Class::Decide => Duration::MAX,
            Class::Ingest if self.known.load().at.elapsed() > HOLDS_FOR && spools() => Duration::MAX,
            _ => HOLDS_FOR,
        };
        self.keep_fresh(FRESH_FOR, PATIENCE, holds_for).await?;
        let known = self.known.load();
        let mut all = headers.get_all(header::AUTHORIZATION).iter();
        let Some(given) = all.next() else {
            return if known.none {
                Ok(Caller(None))
            } else {
                Err(Problem::unauthorized("send a key: Authorization: Bearer umbra_sk_..."))
            };
        };
        if all.next().is_some() {
            return Err(Problem::unauthorized("the header Authorization stands here more than once: send one key"));
        }
        let unusable = || {
            Problem::unauthorized(if known.none {
                "this server has no keys: send no Authorization header, or make a key with umbra keys create"
            } else {
                "this key is unknown or revoked; umbra keys list shows those that work"
            })
        };
        let key = given
            .to_str()
            .ok()
            .and_then(|text| text.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let key = key.map(|(_, key)| key.trim()).filter(|key| key.starts_with(PREFIX)).ok_or_else(unusable)?;
        let hash = self.hash(key);
        if let Some(grant) = known.by_hash.get(hash.as_slice()) {
            return Ok(Caller(Some(Arc::clone(grant))));
        }
        // It may have been made a moment ago, by another process.
        self.keep_fresh(UNKNOWN_FRESH_FOR, UNKNOWN_PATIENCE, holds_for).await?;
        match self.known.load().by_hash.get(hash.as_slice()) {
            Some(grant) => Ok(Caller(Some(Arc::clone(grant)))),
            None if self.store.is_away() => Err(Problem::database_unavailable(
                "this key is not known here, and the database, which may know it, does not answer: try again",
            )),
            None => Err(unusable()),
        }
    }

    /// One request at a time reads the keys anew, and waits so long for them; the others go on with what is known, unless
    /// it is long out of date. While the database hangs, only the first waits.
    async fn keep_fresh(&self, fresh_for: Duration, patience: Duration, holds_for: Duration) -> Result<(), Problem> {
        let age = || self.known.load().at.elapsed();
        if age() < fresh_for {
            return Ok(());
        }
        let Ok(mut reading) = self.reading.try_lock() else { return Ok(()) };
        let mut result = Ok(());
        for waits in [if reading.is_some() { Duration::ZERO } else { patience }, patience] {
            let known = reading.get_or_insert_with(|| Box::pin(read(self.store.clone())));
            let Ok(known) = timeout(waits, known).await else {
                result = Err(Problem::database_unavailable("the keys cannot be read now; try again"));
                break;
            };
            *reading = None;
            match known {
                Ok(known) => self.known.store(Arc::new(known)),
                Err(error) => {
                    result = Err(error.into());
                    break;
                }
            }
            // What was left here may be old by now.
            if waits > Duration::ZERO || age() < fresh_for {
                break;
            }
        }
        // The database is away: what is known holds for a while, so that calls and events can still be answered properly.
        if age() < holds_for { Ok(()) } else { result }
    }
}

async fn read(store: Store) -> Result<Known, StoreError> {
    let at = Instant::now();
    let rows = store.keys().list().await?;
    let none = rows.is_empty();
    let by_hash = rows.into_iter().filter(|row| row.revoked_at.is_none()).filter_map(grant).collect();
    Ok(Known { at, none, by_hash })
}

fn grant(row: KeyRow) -> Option<(Vec<u8>, Arc<Grant>)> {
    let scopes = row.scopes.iter().filter_map(|word| Scope::parse(word)).collect();
    // A key whose globs cannot be read speaks for nobody.
    let agents = AgentGlobs::compile(&row.agents).ok()?;
    Some((row.hash, Arc::new(Grant { id: row.id, scopes, agents })))
}
