//! Sums of tasks' costs: kept in the accept transaction for shadows with a cost floor, and computed over stored events.

use std::collections::HashMap;

use super::{StoreError, aggregates::EventStore, intake::Flush, sql};
use umbra_domain::NanoUsd;

/// Largest sum that is counted, in nano-dollars: twice this fits into the column.
const MOST: i64 = 4_000_000_000_000_000_000;

impl Flush {
    /// Adds costs to the sums of these tasks, each once, and locks the sums; returns them and the sums of other tasks.
    /// A task without a known cost is missing.
    ///
    /// # Errors
    /// Contention or a lost connection; nothing is stored.
    pub async fn task_costs(
        &mut self,
        added: &HashMap<&str, NanoUsd>,
        others: &[&str],
    ) -> Result<HashMap<String, NanoUsd>, StoreError> {
        sql::all(
            &mut *self.0,
            "/* task_costs.add */
             WITH a AS (
                 INSERT INTO task_cost (task_id, usd, at)
                 SELECT task_id, least(usd, $4), c.at FROM (SELECT clock() AS at OFFSET 0) c,
                        unnest($1::text[], $2::int8[]) k(task_id, usd)
                 ORDER BY task_id COLLATE \"C\"
                 ON CONFLICT (task_id) DO UPDATE SET usd = least(task_cost.usd, $4) + excluded.usd, at = excluded.at
                 RETURNING task_id, usd
             )
             SELECT task_id, usd FROM a UNION ALL SELECT task_id, usd FROM task_cost WHERE task_id = ANY($3)",
            (
                added.keys().copied().collect::<Vec<_>>(),
                added.values().map(|usd| usd.0).collect::<Vec<_>>(),
                others,
                MOST,
            ),
        )
        .await
    }
}

impl EventStore<'_> {
    /// Returns the sums of the stored events' costs by task. A task without a known cost is missing.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn summed_costs(self, tasks: &[&str]) -> Result<HashMap<String, NanoUsd>, StoreError> {
        sql::all(
            &self.0.read,
            "/* task_costs.of_events */
             SELECT task_id, least(sum(usd), $2)::bigint FROM (
                 SELECT task_id, (convert_from(payload, 'UTF8')::json #>> '{event,cost_usd}')::numeric AS usd
                 FROM event WHERE task_id = ANY($1) AND erased_at IS NULL) e
             WHERE usd IS NOT NULL GROUP BY task_id",
            (tasks, MOST),
        )
        .await
    }
}
