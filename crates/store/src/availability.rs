//! Availability of the database, as a circuit breaker: no call waits for a database that is known to be away.
//!
//! An answer that is overdue and a connection that cannot be made or breaks are suspicions. A probe, on a connection of
//! its own, confirms or refutes them. While the database is away, waits end and nothing is sent. A probe four times a
//! second finds it again. Without a probe ([`Store::watch`]), as in short commands, suspicions have no effect.

use std::{convert::Infallible, sync::Arc, time::Duration};

use sqlx::{ConnectOptions, Connection, postgres::PgConnectOptions};
use tokio::{
    pin,
    sync::{Notify, watch},
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    Store, StoreError,
    error::{is_absence, unreached},
};

/// Pause between probes.
const BETWEEN_PROBES: Duration = Duration::from_millis(250);
/// Time that callers wait for the end of an outage: a private Postgres that died is back within it.
const GRACE: Duration = Duration::from_millis(500);

/// State of the circuit breaker. Cheap to clone; all clones share it.
#[derive(Debug, Clone)]
pub(super) struct Availability(Arc<AvailabilityState>);

#[derive(Debug)]
struct AvailabilityState {
    /// Start of the outage; `None` while the database answers.
    away: watch::Sender<Option<Instant>>,
    suspicions: Notify,
    patience: Duration,
}

impl Availability {
    /// Starts with an available database. After `patience` an answer is overdue, also the answer to a probe.
    pub fn new(patience: Duration) -> Self {
        Self(Arc::new(AvailabilityState { away: watch::Sender::new(None), suspicions: Notify::new(), patience }))
    }

    /// True while the database is known to be away.
    pub fn is_away(&self) -> bool {
        self.0.away.borrow().is_some()
    }

    /// Returns the time after which an answer is overdue.
    pub fn patience(&self) -> Duration {
        self.0.patience
    }

    /// Asks for a probe.
    pub fn suspect(&self) {
        self.0.suspicions.notify_one();
    }

    /// Waits until the database is known to be away, as long as that takes.
    pub async fn lost(&self) {
        // The sender lives as long as `self`.
        drop(self.0.away.subscribe().wait_for(Option::is_some).await);
    }

    /// Waits for the end of an outage that has just begun.
    ///
    /// # Errors
    /// The database is away; nothing was sent.
    pub async fn available(&self) -> Result<(), sqlx::Error> {
        let mut away = self.0.away.subscribe();
        let since = *away.borrow();
        let Some(since) = since else { return Ok(()) };
        let back = timeout_at(since + GRACE, away.wait_for(Option::is_none)).await;
        if matches!(back, Ok(Ok(_))) { Ok(()) } else { Err(unreached(sqlx::Error::PoolTimedOut)) }
    }

    /// Returns the answer, or `None` once the database is away. Reports a suspicion if the answer is overdue or is a
    /// broken connection.
    pub async fn guard<T>(
        &self,
        overdue: Duration,
        answer: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Option<Result<T, sqlx::Error>> {
        let lost = self.lost();
        pin!(answer, lost);
        loop {
            tokio::select! {
                biased;
                answered = &mut answer => {
                    if answered.as_ref().is_err_and(is_absence) {
                        self.suspect();
                    }
                    return Some(answered);
                }
                () = &mut lost => return None,
                () = sleep(overdue) => self.suspect(),
            }
        }
    }

    fn set_away(&self, away: bool) {
        self.0.away.send_replace(away.then(Instant::now));
    }

    /// Connects anew and asks the database.
    async fn probe(&self, target: &PgConnectOptions) -> Result<(), StoreError> {
        let asked = async {
            let mut connection = target.connect().await?;
            sqlx::query("SELECT 1").execute(&mut connection).await?;
            Ok::<_, sqlx::Error>(connection)
        };
        match timeout(self.0.patience, asked).await {
            Ok(Ok(connection)) => {
                drop(timeout(self.0.patience, connection.close()).await);
                Ok(())
            }
            // A refusal shows that the database is there; connections that are open go on.
            Ok(Err(error)) if !is_absence(&error) => Ok(()),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(StoreError::late()),
        }
    }
}

impl Store {
    /// True while the database is known to be away.
    pub fn is_away(&self) -> bool {
        self.availability.is_away()
    }

    /// Probes the database on each suspicion, and reports when it is away (`true`) and when it is back; never ends.
    pub async fn watch(&self, report: impl Fn(bool)) -> Infallible {
        let target = self.control.connect_options();
        report(false);
        loop {
            self.availability.0.suspicions.notified().await;
            if let Err(error) = self.availability.probe(&target).await {
                tracing::warn!(%error, "the database does not answer; trying again four times a second");
                self.availability.set_away(true);
                self.renew_pools();
                report(true);
                while self.availability.probe(&target).await.is_err() {
                    sleep(BETWEEN_PROBES).await;
                }
                self.availability.set_away(false);
                tracing::info!("the database answers again");
                report(false);
            }
            sleep(BETWEEN_PROBES).await;
        }
    }
}
