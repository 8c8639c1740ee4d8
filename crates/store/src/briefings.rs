//! Figures for briefings and reports, counted by the local days of each shadow.
//!
//! A review belongs to the day whose unit it holds, a cost to the day of its call, a skip to the day on which it was
//! counted, and a finding of a look to the day on which it was found. All days are in the shadow's own time zone.

use jiff::civil::Date;
use jiff_sqlx::ToSqlx;
use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, postgres::PgRow};

use super::{
    StoreError,
    aggregates::BriefingStore,
    sql::{self, Record, column, record},
};
use umbra_domain::{Mode, Severity, SkipReason};

/// Counts of reviews, findings and costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReviewCounts {
    /// Reviews with an assessment.
    pub reviews: i64,
    /// Reviews that approve.
    pub approve: i64,
    /// Reviews by the built-in checks alone that found nothing.
    pub checked: i64,
    /// Reviews that are inconclusive.
    pub inconclusive: i64,
    /// Reviews that suggest.
    pub suggest: i64,
    /// Reviews that flag.
    pub flag: i64,
    /// Reviews that were given up.
    pub failed: i64,
    /// Reviews that have not ended.
    pub open: i64,
    /// Reviews with findings.
    pub with_findings: i64,
    /// Findings of severity info.
    pub info: i64,
    /// Findings of severity warning.
    pub warning: i64,
    /// Findings of severity critical.
    pub critical: i64,
    /// Findings of a model, warning or critical, whose evidence does not stand in the text.
    pub unverified: i64,
    /// Money spent, in nano-dollars.
    pub nano_usd: i64,
    /// Tokens spent.
    pub tokens: i64,
}

record! {
    ReviewCounts: reviews, approve, checked, inconclusive, suggest, flag, failed, open, with_findings, info, warning,
    critical, unverified, nano_usd, tokens
}

impl std::ops::AddAssign for ReviewCounts {
    fn add_assign(&mut self, other: Self) {
        self.reviews += other.reviews;
        self.approve += other.approve;
        self.checked += other.checked;
        self.inconclusive += other.inconclusive;
        self.suggest += other.suggest;
        self.flag += other.flag;
        self.failed += other.failed;
        self.open += other.open;
        self.with_findings += other.with_findings;
        self.info += other.info;
        self.warning += other.warning;
        self.critical += other.critical;
        self.unverified += other.unverified;
        self.nano_usd = self.nano_usd.saturating_add(other.nano_usd);
        self.tokens = self.tokens.saturating_add(other.tokens);
    }
}

/// Counts of a shadow's reviews of one day in one mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowCounts {
    /// The shadow.
    pub shadow: String,
    /// Mode of the reviews.
    pub mode: Mode,
    /// The shadow's local day.
    pub day: Date,
    /// The counts.
    pub counts: ReviewCounts,
}

/// `None` for a mode that only a later version of Umbra knows.
impl Record for Option<ShadowCounts> {
    fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        let Some(mode) = column(row, "mode")? else { return Ok(None) };
        let (shadow, day) = (column(row, "shadow")?, column(row, "day")?);
        Ok(Some(ShadowCounts { shadow, mode, day, counts: ReviewCounts::read(row)? }))
    }
}

/// Counts of an agent's reviews, without passive shadows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCounts {
    /// The agent.
    pub agent: String,
    /// The counts.
    pub counts: ReviewCounts,
}

record!(AgentCounts, row: agent; counts: ReviewCounts::read(row)?);

/// A fault that was found more than once in an agent's work, without passive shadows and false positives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = RecurringFault)]
pub struct RecurringFault {
    /// The agent.
    pub agent: String,
    /// Fingerprint that findings of the same fault share.
    pub fingerprint: String,
    /// The check's rule, or the model's checklist item.
    pub rule: String,
    /// Category of the fault.
    pub category: String,
    /// Worst severity.
    pub severity: Severity,
    /// Description of the newest finding.
    pub description: String,
    /// Occurrences of the fault in this period.
    pub times: i64,
    /// Findings of the fault before this period, counted up to 1,000.
    pub before: i64,
}

record!(RecurringFault: agent, fingerprint, rule, category, severity, description, times, before);

/// An agent whose breaker is not closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = TroubledAgent)]
pub struct TroubledAgent {
    /// The agent.
    pub agent: String,
    /// `open` or `half_open`.
    pub recommendation: String,
    /// When the breaker left the closed state.
    pub since: Option<jiff::Timestamp>,
    /// True if a person has acknowledged it.
    pub acknowledged: bool,
}

record!(TroubledAgent: agent, recommendation, since, acknowledged);

/// Findings by people's judgement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = FeedbackCounts)]
pub struct FeedbackCounts {
    /// Not judged yet.
    pub open: i64,
    /// Confirmed as right.
    pub confirmed: i64,
    /// Judged as wrong.
    pub false_positive: i64,
    /// Confirmed and dealt with.
    pub resolved: i64,
}

record!(FeedbackCounts: open, confirmed, false_positive, resolved);

/// Counts over reviews `r`, their results `d` and findings `f`.
const COUNTS: &str = "
    count(*) FILTER (WHERE r.state = 'done') AS reviews,
    count(*) FILTER (WHERE d.assessment = 'APPROVE') AS approve,
    count(*) FILTER (WHERE d.assessment = 'CHECKED') AS checked,
    count(*) FILTER (WHERE d.assessment = 'INCONCLUSIVE') AS inconclusive,
    count(*) FILTER (WHERE d.assessment = 'SUGGEST') AS suggest,
    count(*) FILTER (WHERE d.assessment = 'FLAG') AS flag,
    count(*) FILTER (WHERE r.state = 'failed') AS failed,
    count(*) FILTER (WHERE r.state IN ('queued', 'running')) AS open,
    count(*) FILTER (WHERE f.info + f.warning + f.critical > 0) AS with_findings,
    coalesce(sum(f.info), 0)::bigint AS info,
    coalesce(sum(f.warning), 0)::bigint AS warning,
    coalesce(sum(f.critical), 0)::bigint AS critical,
    coalesce(sum(f.unverified), 0)::bigint AS unverified";

/// Reviews of days $1 to $2. Each shadow is looked up by its index.
const REVIEWS: &str = "
    FROM (SELECT DISTINCT name FROM shadow_version) s JOIN review r ON r.shadow = s.name
    LEFT JOIN review_result d ON d.review_id = r.id
    CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE severity = $3) AS info,
        count(*) FILTER (WHERE severity = $4) AS warning, count(*) FILTER (WHERE severity = $5) AS critical,
        count(*) FILTER (WHERE severity IN ($4, $5) AND source = 'model' AND NOT verified) AS unverified
        FROM finding WHERE review_id = r.id) f
    WHERE r.day BETWEEN $1 AND $2 AND r.state <> 'released'";

/// Findings of looks on days $1 to $2 that no review has adopted, with their days.
const LOOKS: &str = "(
    SELECT * FROM (
        SELECT f.*, (f.created_at AT TIME ZONE coalesce(v.config::json->'cost_control'->>'time_zone', 'UTC'))::date AS day
        FROM finding f JOIN shadow_version v ON v.id = f.version
        WHERE f.collapse_key IS NOT NULL AND f.review_id IS NULL
            AND f.created_at >= ($1::date - 2)::timestamp AT TIME ZONE 'UTC'
            AND f.created_at < ($2::date + 3)::timestamp AT TIME ZONE 'UTC') f
    WHERE day BETWEEN $1 AND $2)";

/// Counts of findings of looks, by severity.
const LOOK_COUNTS: &str = "count(*) FILTER (WHERE severity = $3) AS info,
    count(*) FILTER (WHERE severity = $4) AS warning, count(*) FILTER (WHERE severity = $5) AS critical";

/// Sums of the counts of reviews `r`, their costs, and looks `l`.
const BOTH_COUNTS: &str = "coalesce(reviews, 0) AS reviews, coalesce(approve, 0) AS approve,
    coalesce(checked, 0) AS checked, coalesce(inconclusive, 0) AS inconclusive, coalesce(suggest, 0) AS suggest,
    coalesce(flag, 0) AS flag, coalesce(failed, 0) AS failed, coalesce(open, 0) AS open,
    coalesce(with_findings, 0) AS with_findings, coalesce(r.info, 0) + coalesce(l.info, 0) AS info,
    coalesce(r.warning, 0) + coalesce(l.warning, 0) AS warning,
    coalesce(r.critical, 0) + coalesce(l.critical, 0) AS critical, coalesce(unverified, 0) AS unverified,
    coalesce(nano_usd, 0) AS nano_usd, coalesce(tokens, 0) AS tokens";

/// Returns a subquery for the findings of the reviews of days $1 to $2, and of looks on these days.
pub(super) fn findings_of_days() -> String {
    const FINDING: &str = "f.id, f.seq, f.agent, f.task_id, f.shadow, f.fingerprint, f.severity, f.category, \
        f.description, f.mode, f.status, f.verified, f.source";
    format!(
        "(SELECT {FINDING}
          FROM (SELECT DISTINCT name FROM shadow_version) s JOIN review r ON r.shadow = s.name
          JOIN finding f ON f.review_id = r.id WHERE r.day BETWEEN $1 AND $2
          UNION ALL SELECT {FINDING} FROM {LOOKS} f)"
    )
}

impl BriefingStore<'_> {
    /// Returns agents whose breakers are not closed now, those open longest first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn troubled_agents(self, most: i64) -> Result<Vec<TroubledAgent>, StoreError> {
        sql::all(
            &self.0.read,
            "/* briefings.breakers */
             SELECT agent, recommendation, troubled_since AS since, acknowledged_at IS NOT NULL AS acknowledged
             FROM breaker_agent WHERE recommendation <> 'closed' ORDER BY troubled_since, agent LIMIT $1",
            (most,),
        )
        .await
    }

    /// Returns counts of reviews, findings and costs of the days `first` to `last`, by shadow, mode and day.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn shadow_counts(self, first: Date, last: Date) -> Result<Vec<ShadowCounts>, StoreError> {
        let sql = format!(
            "/* briefings.shadows */
             WITH r AS (SELECT r.shadow, r.mode, r.day, {COUNTS} {REVIEWS} GROUP BY 1, 2, 3),
             c AS (SELECT c.shadow, r.mode, c.day,
                     coalesce(sum(coalesce(c.actual_usd, c.hold_usd)), 0)::bigint AS nano_usd,
                     coalesce(sum(coalesce(c.actual_tokens, c.hold_tokens)), 0)::bigint AS tokens
                   FROM (SELECT DISTINCT name FROM shadow_version) s JOIN provider_call c ON c.shadow = s.name
                   JOIN review r ON r.id = c.review_id WHERE c.day BETWEEN $1 AND $2 GROUP BY 1, 2, 3),
             l AS (SELECT shadow, mode, day, {LOOK_COUNTS} FROM {LOOKS} l GROUP BY 1, 2, 3)
             SELECT shadow, mode, day, {BOTH_COUNTS}
             FROM r FULL JOIN c USING (shadow, mode, day) FULL JOIN l USING (shadow, mode, day)
             ORDER BY shadow, day, mode"
        );
        let counts: Vec<Option<ShadowCounts>> = sql::all(&self.0.read, AssertSqlSafe(sql), days(first, last)).await?;
        Ok(counts.into_iter().flatten().collect())
    }

    /// Returns counts by agent, without passive shadows: at most `most` agents, those with the gravest and most
    /// findings first; and the number of all agents. Costs are those of the reviews of these days.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn agent_counts(self, first: Date, last: Date, most: i64) -> Result<(Vec<AgentCounts>, i64), StoreError> {
        let passive = Mode::Passive.priority();
        let sql = format!(
            "/* briefings.agents */
             WITH r AS (SELECT r.agent, {COUNTS}, coalesce(sum(c.nano_usd), 0)::bigint AS nano_usd,
                     coalesce(sum(c.tokens), 0)::bigint AS tokens
                 {} AND r.mode <> {passive} GROUP BY r.agent),
             l AS (SELECT agent, {LOOK_COUNTS} FROM {LOOKS} l WHERE mode <> {passive} GROUP BY agent)
             SELECT agent, {BOTH_COUNTS}
             FROM r FULL JOIN l USING (agent)
             ORDER BY critical DESC, warning DESC, info DESC, reviews DESC, agent LIMIT $6",
            REVIEWS.replace(
                "WHERE r.day",
                "CROSS JOIN LATERAL (SELECT sum(coalesce(actual_usd, hold_usd)) AS nano_usd,
                     sum(coalesce(actual_tokens, hold_tokens)) AS tokens
                     FROM provider_call WHERE review_id = r.id) c WHERE r.day"
            ),
        );
        let (first, last, info, warning, critical) = days(first, last);
        let rows = sql::all(&self.0.read, AssertSqlSafe(sql), (first, last, info, warning, critical, most)).await?;
        let all = format!(
            "/* briefings.all_agents */
             SELECT count(*) FROM (
                 SELECT r.agent FROM (SELECT DISTINCT name FROM shadow_version) s JOIN review r ON r.shadow = s.name
                 WHERE r.day BETWEEN $1 AND $2 AND r.state <> 'released' AND r.mode <> $3
                 UNION SELECT agent FROM {LOOKS} l WHERE mode <> $3) a"
        );
        Ok((rows, sql::one(&self.0.read, AssertSqlSafe(all), (first, last, passive)).await?))
    }

    /// Returns faults of these days that were found more than once, within these days or before them: the gravest and
    /// most frequent, at most `most`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn recurring(self, first: Date, last: Date, most: i64) -> Result<Vec<RecurringFault>, StoreError> {
        let found = findings_of_days();
        let sql = format!(
            "/* briefings.recurring */
             WITH found AS (
                 SELECT f.agent, f.fingerprint, min(f.seq) AS first, max(f.seq) AS last,
                        sum(1 + (SELECT count(*) FROM finding_occurrence o WHERE o.finding_id = f.id))::bigint AS times,
                        max(f.severity) AS severity
                 FROM {found} f WHERE f.mode <> $3 AND f.status <> 'false_positive'
                 GROUP BY f.agent, f.fingerprint
             ), again AS (
                 SELECT found.*, b.before FROM found CROSS JOIN LATERAL (
                     SELECT count(*) AS before FROM (
                         SELECT FROM finding p WHERE p.agent = found.agent AND p.fingerprint = found.fingerprint
                         AND p.seq < found.first AND p.mode <> $3 AND p.status <> 'false_positive' LIMIT 1000) p) b
                 WHERE found.times + b.before > 1
             )
             SELECT a.agent, a.fingerprint, n.rule, n.category, a.severity, n.description, a.times, a.before
             FROM again a JOIN finding n ON n.seq = a.last
             ORDER BY a.severity DESC, a.times DESC, a.before DESC, a.agent, a.fingerprint LIMIT $4"
        );
        sql::all(&self.0.read, AssertSqlSafe(sql), (first.to_sqlx(), last.to_sqlx(), Mode::Passive.priority(), most))
            .await
    }

    /// Counts the findings of these days by people's judgement, without passive shadows.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn feedback_counts(self, first: Date, last: Date) -> Result<FeedbackCounts, StoreError> {
        let found = findings_of_days();
        let sql = format!(
            "/* briefings.feedback */
             SELECT count(*) FILTER (WHERE f.status = 'open') AS open,
                    count(*) FILTER (WHERE f.status = 'confirmed') AS confirmed,
                    count(*) FILTER (WHERE f.status = 'false_positive') AS false_positive,
                    count(*) FILTER (WHERE f.status = 'resolved') AS resolved
             FROM {found} f WHERE f.mode <> $3"
        );
        sql::one(&self.0.read, AssertSqlSafe(sql), (first.to_sqlx(), last.to_sqlx(), Mode::Passive.priority())).await
    }

    /// Returns the skips of these days by shadow and reason.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn skip_counts(self, first: Date, last: Date) -> Result<Vec<(String, SkipReason, i64)>, StoreError> {
        let rows: Vec<(String, Option<SkipReason>, i64)> = sql::all(
            &self.0.read,
            "/* briefings.skips */ SELECT shadow, reason, sum(n)::bigint FROM skip_count WHERE day BETWEEN $1 AND $2
             GROUP BY shadow, reason ORDER BY shadow, reason",
            (first.to_sqlx(), last.to_sqlx()),
        )
        .await?;
        Ok(rows.into_iter().filter_map(|(shadow, reason, n)| Some((shadow, reason?, n))).collect())
    }
}

/// Returns the parameters of `REVIEWS`: the days and the severity codes.
fn days(first: Date, last: Date) -> (jiff_sqlx::Date, jiff_sqlx::Date, i16, i16, i16) {
    let [info, warning, critical] = Severity::ALL.map(Severity::code);
    (first.to_sqlx(), last.to_sqlx(), info, warning, critical)
}
