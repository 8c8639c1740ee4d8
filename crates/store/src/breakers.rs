//! Breakers: the state of one shadow's breaker of one agent, and the state that was announced of the agent.
//!
//! Lock order: `breaker_agent`, `breaker`. The follower may hold `feed` as well; no other holder of these locks asks
//! for it.

mod by_hand;

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use sqlx::{AssertSqlSafe, PgExecutor, QueryBuilder};

pub use self::by_hand::{BreakerReset, Reset, Signature};

use super::{
    StoreError,
    aggregates::BreakerStore,
    follow::FollowerPage,
    paging::{Page, Seek, equals},
    sql::{self, column, record, uuids},
    transaction::Tx,
    workers::interval,
};
use umbra_domain::{BreakerState, ReviewId};

/// State of one shadow's breaker of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerRow {
    /// The agent.
    pub agent: String,
    /// The shadow.
    pub shadow: String,
    /// History from which the state is computed, as JSON.
    pub history: String,
    /// Current state.
    pub recommendation: BreakerState,
    /// Start of the current state.
    pub since: Option<Timestamp>,
    /// When an open breaker becomes half open.
    pub half_open_at: Option<Timestamp>,
    /// When the breaker left the closed state; `None` while it is closed.
    pub troubled_since: Option<Timestamp>,
    /// Rejections in a row.
    pub rejections: u32,
    /// Rejections of the output that was rejected most often; 0 if none was rejected twice.
    pub stuck: u32,
    /// The reviews that rejected, oldest first.
    pub rejected_by: Vec<ReviewId>,
}

record! {
    BreakerRow: agent, shadow, history, recommendation, since, half_open_at, troubled_since, rejections, stuck,
    rejected_by
}

/// State of an agent as a whole, beside its shadows' breakers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerAgent {
    /// The agent.
    pub agent: String,
    /// State that was announced last.
    pub announced: BreakerState,
    /// When the announced state left closed; `None` while it is closed.
    pub troubled_since: Option<Timestamp>,
    /// When the open breaker was last acknowledged.
    pub acknowledged_at: Option<Timestamp>,
    /// Name of the person or key that acknowledged it.
    pub acknowledged_by: Option<String>,
    /// Note of the acknowledgement.
    pub note: Option<String>,
    /// The last reset by hand.
    pub reset: Option<BreakerReset>,
}

record! {
    BreakerAgent, row: agent, troubled_since, acknowledged_at, acknowledged_by, note;
    announced: column(row, "recommendation")?,
    reset: match column(row, "reset_at")? {
        Some(at) => Some(BreakerReset { at, by: column(row, "reset_by")?, note: column(row, "reset_note")? }),
        None => None,
    },
}

/// Filter of a list of agents. A field that is `None` admits all.
#[derive(Debug, Clone, Default)]
pub struct BreakerFilter {
    /// This agent.
    pub agent: Option<String>,
    /// With this recommendation.
    pub recommendation: Option<BreakerState>,
}

const COLUMNS: &str = "agent, shadow, history, recommendation, since, half_open_at, troubled_since, rejections,
    stuck, rejected_by";
const AGENT_COLUMNS: &str =
    "seq, agent, recommendation, troubled_since, acknowledged_at, acknowledged_by, note, reset_at,
    reset_by, reset_note";

impl FollowerPage {
    /// Reads and locks the breakers of these agents until the page is done; inserts a row for each agent that has none.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn hold_breakers(
        &mut self,
        agents: &[String],
    ) -> Result<(Vec<BreakerAgent>, Vec<BreakerRow>), StoreError> {
        let held = "/* breakers.agents */ SELECT * FROM breaker_agent WHERE agent = ANY($1) ORDER BY agent FOR UPDATE";
        let mut rows: Vec<BreakerAgent> = sql::all(&mut *self.tx, held, (agents,)).await?;
        let mut new: Vec<&String> =
            agents.iter().filter(|agent| !rows.iter().any(|row| row.agent == **agent)).collect();
        new.sort_unstable();
        new.dedup();
        if !new.is_empty() {
            let made: Vec<BreakerAgent> = sql::all(
                &mut *self.tx,
                "/* breakers.new_agents */
                 WITH f AS (UPDATE feed SET last = last + cardinality($1) WHERE name = 'result' RETURNING last)
                 INSERT INTO breaker_agent (agent, seq)
                 SELECT a.agent, f.last - cardinality($1) + a.n FROM f, unnest($1) WITH ORDINALITY a(agent, n)
                 RETURNING *",
                (new,),
            )
            .await?;
            rows.extend(made);
        }
        let query = format!(
            "/* breakers.hold */ SELECT {COLUMNS} FROM breaker WHERE agent = ANY($1) ORDER BY agent, shadow FOR UPDATE"
        );
        Ok((rows, sql::all(&mut *self.tx, AssertSqlSafe(query), (agents,)).await?))
    }

    /// Returns agents with an open breaker whose open period is over.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn agents_to_try(&mut self, most: i64) -> Result<Vec<String>, StoreError> {
        let due =
            "/* breakers.due */ SELECT DISTINCT agent FROM breaker WHERE half_open_at <= clock() ORDER BY 1 LIMIT $1";
        sql::all(&mut *self.tx, due, (most,)).await
    }

    /// Stores breakers.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn put_breakers(&mut self, rows: &[&BreakerRow]) -> Result<(), StoreError> {
        for row in rows {
            put(&mut self.tx, row).await?;
        }
        Ok(())
    }

    /// Records the announced state of an agent.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn announced(
        &mut self,
        agent: &str,
        recommendation: BreakerState,
        troubled_since: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        announced(&mut self.tx, agent, recommendation, troubled_since).await
    }

    /// Returns agents whose breaker has not been closed for `after` and that were not reported yet, and marks them as
    /// reported.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn long_troubled(&mut self, after: std::time::Duration, most: i64) -> Result<Vec<String>, StoreError> {
        sql::all(
            &mut *self.tx,
            "/* breakers.long */
             UPDATE breaker_agent SET alerted = true WHERE agent IN
                 (SELECT agent FROM breaker_agent WHERE troubled_since <= clock() - $1 AND NOT alerted LIMIT $2)
             RETURNING agent",
            (interval(after), most),
        )
        .await
    }

    /// Returns the description of each review's worst verified finding against the agent.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn rejections(&mut self, reviews: &[ReviewId]) -> Result<Vec<(ReviewId, String)>, StoreError> {
        rejections(&mut *self.tx, reviews).await
    }

    /// Returns the database's time.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn now(&mut self) -> Result<Timestamp, StoreError> {
        sql::one(&mut *self.tx, "SELECT clock()", ()).await
    }
}

impl BreakerStore<'_> {
    /// Returns a page of agents with a breaker row, in order of their first judgement. `shadows` are those whose
    /// breakers count for the filter.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn agents(
        self,
        filter: &BreakerFilter,
        shadows: &[String],
        seek: Seek,
    ) -> Result<Page<BreakerAgent>, StoreError> {
        let mut query = QueryBuilder::new("/* breakers.list */ SELECT ");
        query.push(AGENT_COLUMNS).push(" FROM breaker_agent a WHERE true");
        equals(&mut query, "agent", filter.agent.as_deref());
        if let Some(wanted) = filter.recommendation {
            query
                .push(
                    " AND coalesce((SELECT max(CASE WHEN b.recommendation = 'closed' THEN 0
                          WHEN b.half_open_at > clock() THEN 2 ELSE 1 END)
                        FROM breaker b WHERE b.agent = a.agent AND b.shadow = ANY(",
                )
                .push_bind(shadows)
                .push(")), 0) = ")
                .push_bind(i32::from(wanted as u8));
        }
        seek.fetch(&mut query, "seq", &self.0.read).await
    }

    /// Returns the breakers of these agents, and the database's time.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn of(self, agents: &[String]) -> Result<(Vec<BreakerRow>, Timestamp), StoreError> {
        let query = format!("/* breakers.of */ SELECT {COLUMNS} FROM breaker WHERE agent = ANY($1) ORDER BY shadow");
        Ok((sql::all(&self.0.read, AssertSqlSafe(query), (agents,)).await?, self.0.now().await?))
    }

    /// Returns agents whose announced state is not closed, those that opened last first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn troubled(self, most: i64) -> Result<Vec<BreakerAgent>, StoreError> {
        let query = format!(
            "/* breakers.troubled */ SELECT {AGENT_COLUMNS} FROM breaker_agent WHERE troubled_since IS NOT NULL
             ORDER BY troubled_since DESC LIMIT $1"
        );
        sql::all(&self.0.read, AssertSqlSafe(query), (most,)).await
    }

    /// Returns the description of each review's worst verified finding against the agent.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn rejections(self, reviews: &[ReviewId]) -> Result<Vec<(ReviewId, String)>, StoreError> {
        rejections(&self.0.read, reviews).await
    }
}

async fn rejections(
    database: impl PgExecutor<'_>,
    reviews: &[ReviewId],
) -> Result<Vec<(ReviewId, String)>, StoreError> {
    sql::all(
        database,
        "/* breakers.reasons */
         SELECT DISTINCT ON (review_id) review_id, description FROM finding
         WHERE review_id = ANY($1) AND verified AND about = 'agent' ORDER BY review_id, severity DESC, seq",
        (uuids(reviews),),
    )
    .await
}

async fn put(tx: &mut Tx, row: &BreakerRow) -> Result<(), StoreError> {
    let time = |at: Option<Timestamp>| at.map(ToSqlx::to_sqlx);
    sql::execute(
        &mut **tx,
        "/* breakers.put */
         INSERT INTO breaker (agent, shadow, history, recommendation, since, half_open_at, troubled_since, rejections,
                              rejected_by, stuck)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT (agent, shadow) DO UPDATE SET history = $3, recommendation = $4, since = $5, half_open_at = $6,
             troubled_since = $7, rejections = $8, rejected_by = $9, stuck = $10",
        (
            &row.agent,
            &row.shadow,
            &row.history,
            row.recommendation.as_str(),
            time(row.since),
            time(row.half_open_at),
            time(row.troubled_since),
            i32::try_from(row.rejections).unwrap_or(i32::MAX),
            uuids(&row.rejected_by),
            i32::try_from(row.stuck).unwrap_or(i32::MAX),
        ),
    )
    .await
}

async fn announced(
    tx: &mut Tx,
    agent: &str,
    recommendation: BreakerState,
    troubled_since: Option<Timestamp>,
) -> Result<(), StoreError> {
    sql::execute(
        &mut **tx,
        "/* breakers.announced */
         UPDATE breaker_agent SET recommendation = $2, troubled_since = $3, alerted = alerted AND $3 IS NOT NULL
         WHERE agent = $1",
        (agent, recommendation.as_str(), troubled_since.map(ToSqlx::to_sqlx)),
    )
    .await
}
