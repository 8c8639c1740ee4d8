//! Authentication and scopes. Keys are stored as keyed hashes; a key is bound to scopes and to the agents that it may
//! speak for.

use std::{collections::HashMap, fmt, pin::Pin, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, header, request::Parts},
};
use base64::Engine as _;
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

/// Longest age of the list of keys before it is read again: a revoked key works no longer than this on another replica.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// Authenticated sender of a request.
#[derive(Debug, Clone)]
pub struct Caller(Option<Arc<Grant>>);

#[derive(Debug)]
struct Grant {
    id: KeyId,
    scopes: Vec<Scope>,
    agents: AgentGlobs,
}

impl Caller {
    /// Returns the caller of a request that needs no key.
    pub(super) fn anonymous() -> Self {
        Self(None)
    }

    /// Refuses a caller whose key lacks the scope.
    ///
    /// # Errors
    /// `forbidden`: the key lacks the scope.
    pub fn require(&self, scope: Scope) -> Result<(), Problem> {
        match &self.0 {
            Some(grant) if !grant.scopes.contains(&scope) => Err(Problem::forbidden(format!(
                "this key lacks the scope {}; umbra keys create --scope {0} makes a key that has it",
                scope.as_str()
            ))
            .of_key(grant.id)),
            _ => Ok(()),
        }
    }

    /// Returns the id of the key, if there is one.
    pub fn key(&self) -> Option<KeyId> {
        self.0.as_ref().map(|grant| grant.id)
    }

    /// Refuses a caller whose key has none of the scopes.
    ///
    /// # Errors
    /// `forbidden`: the key has none of the scopes.
    pub fn require_any(&self, scopes: &[Scope]) -> Result<(), Problem> {
        match scopes.iter().find_map(|scope| self.require(*scope).ok()) {
            Some(()) => Ok(()),
            None => scopes.first().map_or(Ok(()), |scope| self.require(*scope)),
        }
    }

    /// Leaves out dispositions of passive shadows for a caller without the scope `read`.
    pub fn shown(&self, mut dispositions: Vec<Disposition>) -> Vec<Disposition> {
        if self.require(Scope::Read).is_err() {
            dispositions.retain(|disposition| disposition.mode != Mode::Passive);
        }
        dispositions
    }

    /// Refuses a caller whose key may not send events of this agent. The name counts in its stored, redacted form.
    ///
    /// # Errors
    /// `forbidden_agent`: the key is bound to other agents.
    pub fn speak_for(&self, agent: &str) -> Result<(), Problem> {
        match &self.0 {
            Some(grant) if !grant.agents.contains(umbra_checks::redact(agent).as_str()) => {
                let agent = umbra_checks::redact(agent);
                let detail = format!(
                    "this key is limited to other agents than {:?}; umbra keys create --agent NAME makes a key for it",
                    agent.as_str()
                );
                Err(Problem::forbidden_agent(detail).of_key(grant.id))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a caller that may not read data of this agent, or without an agent of all.
    ///
    /// # Errors
    /// `forbidden` or `forbidden_agent`.
    pub fn read_of(&self, agent: Option<&str>) -> Result<(), Problem> {
        agent.map_or_else(|| self.require(Scope::Read), |agent| self.speak_for(agent))
    }

    /// True if the caller may read data of this agent: the key is not bound to other agents.
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

/// Returns the key of a request: a bearer token; of telemetry also the header `x-api-key`, or the password of Basic.
///
/// # Errors
/// `unauthorized`: there is more than one header.
fn given(headers: &HeaderMap, class: Class) -> Result<Option<String>, Problem> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let is_telemetry = class == Class::Telemetry;
    let Some(given) = all.next() else {
        let other = headers.get("x-api-key").filter(|_| is_telemetry).and_then(|key| key.to_str().ok());
        return Ok(other.map(|key| key.trim().to_owned()));
    };
    if all.next().is_some() {
        return Err(Problem::unauthorized("the request has more than one Authorization header: send one key"));
    }
    let (scheme, value) = given.to_str().unwrap_or_default().split_once(' ').unwrap_or_default();
    let password = || {
        let decoded = base64::engine::general_purpose::STANDARD.decode(value.trim()).ok()?;
        Some(String::from_utf8(decoded).ok()?.split_once(':')?.1.to_owned())
    };
    Ok(Some(match scheme {
        _ if scheme.eq_ignore_ascii_case("bearer") => value.trim().to_owned(),
        _ if is_telemetry && scheme.eq_ignore_ascii_case("basic") => password().unwrap_or_default(),
        _ => String::new(),
    }))
}

/// Longest age of the list at which a key that is not on it counts as unknown.
const UNKNOWN_FRESH_FOR: Duration = Duration::from_millis(50);

/// Longest wait for a new list where an old one is known: calls of tools have deadlines.
const PATIENCE: Duration = Duration::from_millis(200);
/// Longest wait for a new list when the key is not on the old one.
const UNKNOWN_PATIENCE: Duration = Duration::from_secs(2);
/// Longest age of the list while the database is away; decisions, and events that are spooled, have no such limit.
const HOLDS_FOR: Duration = Duration::from_mins(15);

/// Reason to read the list again.
#[derive(Clone, Copy)]
enum Need {
    /// The list may have changed.
    Known,
    /// A key is not on the list: another process may have made it a moment ago.
    Unknown,
}

/// Read of the list that is under way.
type Reading = Pin<Box<dyn Future<Output = Result<KnownKeys, StoreError>> + Send>>;

/// Keys of this installation, at most a second old.
pub struct KeyRing {
    store: Store,
    installation: Installation,
    known: ArcSwap<KnownKeys>,
    /// Read that a request gave up waiting for; the next request continues it.
    reading: Mutex<Option<Reading>>,
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct KnownKeys {
    /// Start of the read.
    at: Instant,
    /// True if no key was ever made: a loopback server is open.
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

    /// True if at least one key works.
    pub fn is_guarded(&self) -> bool {
        !self.known.load().by_hash.is_empty()
    }

    /// True if no key was ever made: once the first exists, every request needs one.
    pub fn is_first(&self) -> bool {
        self.known.load().none
    }

    /// Reads the keys again, after one was made or revoked here.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        self.known.store(Arc::new(read(self.store.clone()).await?));
        Ok(())
    }

    /// Returns the hash under which a key is stored.
    pub fn hash(&self, key: &str) -> [u8; 32] {
        self.installation.hash_key(key)
    }

    /// Authenticates the sender of a request by its headers.
    ///
    /// # Errors
    /// `unauthorized`, or the database is away.
    pub(super) async fn identify(
        &self,
        headers: &HeaderMap,
        class: Class,
        spools: impl Fn() -> bool,
    ) -> Result<Caller, Problem> {
        // Decisions, and events while they are spooled, go by the keys in memory however long the database is away.
        let holds_for = match class {
            Class::Decide => Duration::MAX,
            Class::Ingest if self.known.load().at.elapsed() > HOLDS_FOR && spools() => Duration::MAX,
            _ => HOLDS_FOR,
        };
        self.keep_fresh(Need::Known, holds_for).await?;
        let known = self.known.load();
        if class == Class::Telemetry && known.none {
            // Exporters of other products always send some key.
            return Ok(Caller(None));
        }
        let key = match given(headers, class)? {
            Some(key) => key,
            None if known.none => return Ok(Caller(None)),
            None => return Err(Problem::unauthorized("send a key: Authorization: Bearer umbra_sk_...")),
        };
        let unusable = || {
            Problem::unauthorized(if known.none {
                "this server has no keys: leave the Authorization header out, or make a key with umbra keys create"
            } else {
                "this key is unknown or revoked; umbra keys list shows the valid keys"
            })
        };
        let key = Some(key.as_str()).filter(|key| key.starts_with(PREFIX)).ok_or_else(unusable)?;
        let hash = self.hash(key);
        if let Some(grant) = known.by_hash.get(hash.as_slice()) {
            return Ok(Caller(Some(Arc::clone(grant))));
        }
        self.keep_fresh(Need::Unknown, holds_for).await?;
        match self.known.load().by_hash.get(hash.as_slice()) {
            Some(grant) => Ok(Caller(Some(Arc::clone(grant)))),
            None if self.store.is_away() => Err(Problem::database_unavailable(
                "this key cannot be verified because the database does not answer: send the request again later",
            )),
            None => Err(unusable()),
        }
    }

    /// Reads the keys again if they are too old. One request at a time does so. Meanwhile requests with a known key go on
    /// with the known list, also while the database hangs; those with an unknown key wait for the new list.
    async fn keep_fresh(&self, need: Need, holds_for: Duration) -> Result<(), Problem> {
        let (fresh_for, patience) = match need {
            Need::Known => (FRESH_FOR, PATIENCE),
            Need::Unknown => (UNKNOWN_FRESH_FOR, UNKNOWN_PATIENCE),
        };
        let age = || self.known.load().at.elapsed();
        if age() < fresh_for {
            return Ok(());
        }
        let reading = match need {
            Need::Known => self.reading.try_lock().ok(),
            Need::Unknown => timeout(patience, self.reading.lock()).await.ok(),
        };
        let Some(mut reading) = reading.filter(|_| age() >= fresh_for) else { return Ok(()) };
        let mut result = Ok(());
        for waits in [if reading.is_some() { Duration::ZERO } else { patience }, patience] {
            let known = reading.get_or_insert_with(|| Box::pin(read(self.store.clone())));
            let Ok(known) = timeout(waits, known).await else {
                result = Err(Problem::database_unavailable(
                    "the keys cannot be read because the database does not answer: send the request again later",
                ));
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
            // A read that an earlier request left behind may be old by now.
            if waits > Duration::ZERO || age() < fresh_for {
                break;
            }
        }
        // While the database is away, the known list holds for a while: calls and events can still be answered
        // properly.
        if age() < holds_for { Ok(()) } else { result }
    }
}

async fn read(store: Store) -> Result<KnownKeys, StoreError> {
    let at = Instant::now();
    let rows = store.keys().list().await?;
    let none = rows.is_empty();
    let by_hash = rows.into_iter().filter(|row| row.revoked_at.is_none()).filter_map(grant).collect();
    Ok(KnownKeys { at, none, by_hash })
}

fn grant(row: KeyRow) -> Option<(Vec<u8>, Arc<Grant>)> {
    let scopes = row.scopes.iter().filter_map(|word| Scope::parse(word)).collect();
    // A key whose globs cannot be read speaks for no agent.
    let agents = AgentGlobs::compile(&row.agents).ok()?;
    Some((row.hash, Arc::new(Grant { id: row.id, scopes, agents })))
}
