//! Counts steps of tasks by coverage: reviewed by a model, by the built-in checks alone, or skipped for a reason.

use sqlx::AssertSqlSafe;
use std::collections::HashMap;

use super::{
    StoreError,
    aggregates::EventStore,
    sql::{self, record},
};
use umbra_domain::{Assessment, Mode, ReviewScope, SkipReason, StepCoverage};

/// Number of steps of one agent in a task that have the same coverage.
#[expect(clippy::struct_excessive_bools, reason = "columns of a row")]
struct CoverageRow {
    task_id: String,
    agent: String,
    watched: bool,
    judged: bool,
    checked: bool,
    open: bool,
    skipped: Vec<i16>,
    steps: u64,
}

record!(CoverageRow: task_id, agent, watched, judged, checked, open, skipped, steps);

/// Parameters: the tasks, the modes whose shadows count, INCONCLUSIVE, the scope of a task's review, and the skip
/// reasons that leave an event to a look of the built-in checks.
///
/// A verdict of a model has a score. A review of the whole task covers the steps before the events that requested it,
/// and those received before it began, whose ids are at most the last of that millisecond.
const STEPS: &str = "
    WITH shown AS MATERIALIZED (SELECT id FROM shadow_version WHERE config::json->>'mode' = ANY($2)),
    step AS MATERIALIZED (SELECT id, seq, task_id, agent, shadows, outcomes FROM event WHERE task_id = ANY($1)),
    review_of_step AS (
        SELECT h.event_id AS id, h.shadow, r.id AS review, r.seq, r.state, r.reason
        FROM step s JOIN review_event h ON h.event_id = s.id JOIN review r ON r.id = h.review_id
        WHERE r.version IN (SELECT id FROM shown)
        UNION ALL
        SELECT s.id, NULL, r.id, r.seq, r.state, NULL
        FROM review r CROSS JOIN LATERAL (
            SELECT max(e.seq) AS seq FROM review_event h JOIN event e ON e.id = h.event_id WHERE h.review_id = r.id) last
        JOIN step s ON s.task_id = r.task_id AND (s.seq <= last.seq
            OR s.id <= (lpad(to_hex(floor(extract(epoch FROM coalesce(r.started_at, r.run_at)) * 1000)::bigint), 12, '0')
                        || repeat('f', 20))::uuid)
        WHERE r.task_id = ANY($1) AND r.scope = $4 AND r.state IN ('queued', 'running', 'done')
            AND r.version IN (SELECT id FROM shown)
    ), looked AS (
        SELECT o.id,
            bool_or(coalesce(CASE WHEN a.review_id IS NULL THEN d.score ELSE a.score END IS NOT NULL
                AND coalesce(a.assessment, d.assessment) <> $3, false)) AS judged,
            bool_or(o.state = 'done') AS checked,
            bool_or(o.state IN ('queued', 'running')) AS open
        FROM review_of_step o LEFT JOIN review_result d ON d.review_id = o.review
        LEFT JOIN review_assessment a ON a.review_id = o.review AND a.event_id = o.id
        GROUP BY o.id
    ), newest AS (
        SELECT DISTINCT ON (id, shadow) id, shadow, reason FROM review_of_step WHERE shadow IS NOT NULL
        ORDER BY id, shadow, state IN ('released', 'failed'), seq DESC
    ), left_out AS (
        -- As of a disposition: a review that was given up says why, and one that was asked for later undoes a skip.
        SELECT s.id, array_agg(DISTINCT p.reason ORDER BY p.reason) FILTER (WHERE p.reason >= 10) AS skipped
        FROM step s CROSS JOIN LATERAL unnest(s.shadows, s.outcomes) u(version, outcome)
        JOIN shown v ON v.id = u.version LEFT JOIN newest n ON n.id = s.id AND n.shadow = u.version
        CROSS JOIN LATERAL (SELECT CASE WHEN n.id IS NULL THEN u.outcome ELSE n.reason END AS reason) p
        GROUP BY s.id
    )
    SELECT s.task_id, s.agent, l.id IS NOT NULL OR o.id IS NOT NULL AS watched, coalesce(l.judged, false) AS judged,
        coalesce(l.checked, false) OR coalesce(o.skipped && $5, false)
            AND s.seq <= (SELECT seq FROM follower WHERE name = 'looks')
            AND NOT EXISTS (SELECT FROM check_backlog b WHERE s.seq BETWEEN b.first_seq AND b.last_seq) AS checked,
        coalesce(l.open, false) AS open, coalesce(o.skipped, '{}') AS skipped,
        count(*) AS steps
    FROM step s LEFT JOIN looked l ON l.id = s.id LEFT JOIN left_out o ON o.id = s.id
    GROUP BY 1, 2, 3, 4, 5, 6, 7";

impl EventStore<'_> {
    /// Counts the steps of these tasks by task, agent and coverage. With `mode`, shadows of this mode's rank count;
    /// without it, all but passive ones.
    ///
    /// # Errors
    /// The database does not answer.
    pub(super) async fn steps_covered(
        self,
        tasks: &[String],
        mode: Option<i16>,
    ) -> Result<HashMap<(String, String), Vec<(StepCoverage, u64)>>, StoreError> {
        let counts = |one: &Mode| mode.map_or(*one != Mode::Passive, |rank| one.priority() == rank);
        let modes: Vec<&str> = Mode::ALL.into_iter().filter(counts).map(Mode::as_str).collect();
        let looked_at: Vec<i16> =
            SkipReason::ALL.into_iter().filter(|reason| reason.leaves_checks()).map(SkipReason::code).collect();
        let query = AssertSqlSafe(format!("/* coverage.steps */ {STEPS}"));
        let rows: Vec<CoverageRow> = sql::all(
            &self.0.read,
            query,
            (tasks, modes, Assessment::Inconclusive.as_str(), ReviewScope::Trajectory.code(), looked_at),
        )
        .await?;
        let mut covered: HashMap<_, Vec<_>> = HashMap::new();
        for CoverageRow { task_id, agent, watched, judged, checked, open, skipped, steps } in rows {
            let skipped = skipped.into_iter().filter_map(SkipReason::from_code).collect();
            let step = StepCoverage { watched, judged, checked, open, skipped };
            covered.entry((task_id, agent)).or_default().push((step, steps));
        }
        Ok(covered)
    }
}
