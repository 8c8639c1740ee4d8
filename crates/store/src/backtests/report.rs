//! A backtest as the API shows it: state, budget, and results so far. Counts are computed from the items on each read,
//! so they cannot differ from them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use sqlx::QueryBuilder;
use utoipa::ToSchema;

use crate::{
    StoreError,
    aggregates::BacktestStore,
    paging::{Page, Seek, equals},
    sql::{self, column, json, record},
};
use umbra_domain::{
    AssessmentChange, BacktestId, BacktestState, EventId, FindingCategory, Forecast, ItemOutcome, NanoUsd, Severity,
    SkipReason,
};

/// Most event ids listed for each change; the list of items has them all.
const NAMED: i64 = 20;
/// Most agents listed, those with the most flags first.
const AGENTS: i64 = 50;

/// A version of a shadow, tried on stored events.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Backtest {
    /// Backtest id.
    #[schema(value_type = String, example = "bkt_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub id: BacktestId,
    /// State.
    pub state: Option<BacktestState>,
    /// The shadow.
    pub shadow: String,
    /// The hash of the configuration that is tried.
    pub version: String,
    /// Start of the time of receipt, inclusive.
    pub since: Timestamp,
    /// End of the time of receipt, exclusive.
    pub until: Timestamp,
    /// Only events of this agent; null for all agents.
    pub agent: Option<String>,
    /// Most events, the newest.
    pub max_events: i32,
    /// Limits on money and tokens.
    pub budget: Budget,
    /// Forecast of reviews and costs; null until the plan is complete.
    pub forecast: Option<Forecast>,
    /// Calls, money and tokens so far.
    pub spend: Spend,
    /// Results of the events; only where one backtest is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Outcomes>,
    /// Differences from the real outcomes, by change; only where one backtest is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<HashMap<String, Difference>>)]
    pub diff: Option<BTreeMap<&'static str, Difference>>,
    /// Why the backtest stopped.
    pub failure: Option<String>,
    /// When the backtest was requested.
    pub created_at: Timestamp,
    /// When the reviews began.
    pub started_at: Option<Timestamp>,
    /// When the backtest was done.
    pub finished_at: Option<Timestamp>,
}

/// Limits of a backtest.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct Budget {
    /// Most US dollars; null for no limit.
    pub max_usd: Option<f64>,
    /// Most tokens; null for no limit.
    pub max_tokens: Option<i64>,
}

/// Calls and costs of a backtest.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(as = BacktestSpend)]
pub struct Spend {
    /// Calls made.
    pub calls: i64,
    /// US dollars spent.
    pub usd: f64,
    /// US dollars held for calls under way.
    pub held_usd: f64,
    /// Tokens spent.
    pub tokens: i64,
}

record! {
    Backtest, row: id, state, shadow, version, since, until, agent, max_events, failure, created_at, started_at,
    finished_at;
    budget: Budget {
        max_usd: column::<Option<NanoUsd>>(row, "max_usd")?.map(NanoUsd::usd),
        max_tokens: column(row, "max_tokens")?,
    },
    forecast: json(row, "forecast")?,
    spend: Spend {
        calls: column(row, "calls")?,
        usd: column::<NanoUsd>(row, "spent_usd")?.usd(),
        held_usd: column::<NanoUsd>(row, "held_usd")?.usd(),
        tokens: column(row, "spent_tokens")?,
    },
    result: None,
    diff: None,
}

/// Results of the events under the version that is tried.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
#[schema(as = BacktestResult)]
pub struct Outcomes {
    /// Events by outcome; `waiting` events are still to come.
    #[schema(value_type = HashMap<String, i64>)]
    pub outcomes: BTreeMap<&'static str, i64>,
    /// Skipped events by reason.
    #[schema(value_type = HashMap<String, i64>)]
    pub skips: BTreeMap<&'static str, i64>,
    /// Failed events by reason.
    #[schema(value_type = HashMap<String, i64>)]
    pub failures: BTreeMap<&'static str, i64>,
    /// Reviewed events by assessment.
    pub assessments: BTreeMap<String, i64>,
    /// Findings by severity.
    #[schema(value_type = HashMap<String, i64>)]
    pub severities: BTreeMap<&'static str, i64>,
    /// Findings by category.
    #[schema(value_type = HashMap<String, i64>)]
    pub categories: BTreeMap<&'static str, i64>,
    /// Counts by agent, those with the most flags first; fifty at most.
    pub agents: Vec<AgentCount>,
    /// Versions that really ran, each with its number of reviews.
    pub versions_before: BTreeMap<String, i64>,
}

/// Results of an agent's events.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = BacktestAgent)]
pub struct AgentCount {
    /// The agent.
    pub agent: String,
    /// Events reviewed.
    pub reviewed: i64,
    /// Events flagged by the version that is tried.
    pub flagged: i64,
    /// Events flagged by the real reviews.
    pub flagged_before: i64,
}

record!(AgentCount: agent, reviewed, flagged, flagged_before);

/// Events with one change.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct Difference {
    /// Number of events.
    pub count: i64,
    /// First events of the change; `GET /v1/backtests/{id}/items?change=` lists all.
    #[schema(value_type = Vec<String>)]
    pub event_ids: Vec<EventId>,
}

const COLUMNS: &str = "SELECT b.seq, b.id, b.state, b.shadow, b.version, b.since, b.until, b.agent, b.max_events,
    b.max_usd, b.max_tokens, b.forecast, b.held_usd, b.spent_usd, b.spent_tokens,
    (SELECT count(*) FROM backtest_call c WHERE c.backtest = b.id) AS calls,
    b.failure, b.created_at, b.started_at, b.finished_at FROM backtest b WHERE true";

impl Backtest {
    /// Returns the number of events whose review has ended, reviewed or failed.
    pub fn ended(&self) -> u64 {
        let count = |outcome: ItemOutcome| {
            self.result.as_ref().and_then(|result| result.outcomes.get(outcome.as_str()).copied()).unwrap_or(0)
        };
        u64::try_from(count(ItemOutcome::Reviewed) + count(ItemOutcome::Failed)).unwrap_or(0)
    }
}

impl BacktestStore<'_> {
    /// Returns a backtest with its results so far.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn get(self, id: BacktestId) -> Result<Option<Backtest>, StoreError> {
        let mut query = QueryBuilder::new(COLUMNS);
        query.push(" AND b.id = ").push_bind(id.0);
        let Some(mut backtest): Option<Backtest> = sql::built(&self.0.read, &mut query).await?.pop() else {
            return Ok(None);
        };
        let (result, diff) = self.outcomes(id).await?;
        (backtest.result, backtest.diff) = (Some(result), Some(diff));
        Ok(Some(backtest))
    }

    /// Returns a page of backtests, in order of request.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list(self, shadow: Option<&str>, seek: Seek) -> Result<Page<Backtest>, StoreError> {
        let mut query = QueryBuilder::new(COLUMNS);
        equals(&mut query, "b.shadow", shadow);
        seek.fetch(&mut query, "b.seq", &self.0.read).await
    }

    async fn outcomes(self, id: BacktestId) -> Result<(Outcomes, BTreeMap<&'static str, Difference>), StoreError> {
        type Counted = (Option<ItemOutcome>, Option<SkipReason>, Option<String>, i64);
        let mut result = Outcomes::default();
        let counts: Vec<Counted> = sql::all(
            &self.0.read,
            "/* backtests.outcomes */ SELECT outcome, reason, assessment, count(*) FROM backtest_item
             WHERE backtest = $1 GROUP BY 1, 2, 3",
            (id.0,),
        )
        .await?;
        for (outcome, reason, assessment, n) in counts {
            let Some(outcome) = outcome else { continue };
            *result.outcomes.entry(outcome.as_str()).or_default() += n;
            let reasons = if outcome == ItemOutcome::Failed { &mut result.failures } else { &mut result.skips };
            if let Some(reason) = reason {
                *reasons.entry(reason.as_str()).or_default() += n;
            }
            if let Some(assessment) = assessment {
                *result.assessments.entry(assessment).or_default() += n;
            }
        }
        let findings: Vec<(Severity, String, i64)> = sql::all(
            &self.0.read,
            "/* backtests.findings */ SELECT f.severity, f.category, count(*) FROM backtest_item i,
             unnest(i.severities, i.categories) f(severity, category) WHERE i.backtest = $1 GROUP BY 1, 2",
            (id.0,),
        )
        .await?;
        for (severity, category, n) in findings {
            *result.severities.entry(severity.as_str()).or_default() += n;
            if let Some(category) = FindingCategory::parse(&category) {
                *result.categories.entry(category.as_str()).or_default() += n;
            }
        }
        result.agents = sql::all(
            &self.0.read,
            "/* backtests.agents */ SELECT agent, count(*) FILTER (WHERE outcome = 'reviewed') AS reviewed,
                 count(*) FILTER (WHERE assessment = 'FLAG') AS flagged,
                 count(*) FILTER (WHERE before_assessment = 'FLAG') AS flagged_before
             FROM backtest_item WHERE backtest = $1 GROUP BY agent ORDER BY 3 DESC, 4 DESC, 2 DESC, 1 LIMIT $2",
            (id.0, AGENTS),
        )
        .await?;
        result.versions_before = sql::all(
            &self.0.read,
            "/* backtests.versions */ SELECT before_version, count(*) FROM backtest_item
             WHERE backtest = $1 AND before_version IS NOT NULL GROUP BY 1",
            (id.0,),
        )
        .await?;
        let changes: Vec<(Option<AssessmentChange>, i64, Vec<EventId>)> = sql::all(
            &self.0.read,
            "/* backtests.changes */ SELECT change, count(*), ARRAY(SELECT event_id FROM backtest_item n
                 WHERE n.backtest = $1 AND n.change = i.change ORDER BY n.seq LIMIT $2)
             FROM backtest_item i WHERE backtest = $1 AND change IS NOT NULL GROUP BY change",
            (id.0, NAMED),
        )
        .await?;
        let mut diff: BTreeMap<_, _> =
            AssessmentChange::ALL.iter().map(|change| (change.as_str(), Difference::default())).collect();
        for (change, count, event_ids) in changes {
            if let Some(change) = change {
                diff.insert(change.as_str(), Difference { count, event_ids });
            }
        }
        Ok((result, diff))
    }
}
