//! Invariants of the database, each a query that returns the rows that break it.

use std::time::Duration;

use super::{StoreError, aggregates::UpkeepStore, sql, transaction::begin, workers::interval};

/// Result of checking an invariant.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct InvariantResult {
    /// Short name.
    pub name: &'static str,
    /// Statement that must hold.
    pub promise: &'static str,
    /// Number of rows that break it.
    pub broken: i64,
    /// Descriptions of the first five such rows.
    pub examples: Vec<String>,
}

struct Invariant {
    name: &'static str,
    promise: &'static str,
    /// Query for one text column: a description of each row that breaks the invariant. `$1` is the time after which a
    /// silent worker must have been taken over.
    sql: &'static str,
}

const INVARIANTS: [Invariant; 18] = [
    Invariant {
        name: "meters_equal_reviews",
        promise: "a day's meter equals the number of its reviews",
        sql:
            "SELECT format('%s %s %s: meter %s, reviews %s', shadow, coalesce(nullif(m.agent, ''), '*'), m.day, m.used,
                     coalesce(r.n, 0))
              FROM (SELECT shadow, agent, day, used FROM meter WHERE trigger = '') m
              FULL JOIN (SELECT shadow, coalesce(agent, '') AS agent, day, count(*) AS n FROM review
                         WHERE state <> 'released' GROUP BY GROUPING SETS ((shadow, day), (shadow, agent, day))) r
              USING (shadow, agent, day) WHERE coalesce(m.used, 0) <> coalesce(r.n, 0)
                AND day >= (SELECT max(before) FROM retention WHERE kind IN ('review', 'count'))",
    },
    Invariant {
        name: "money_equals_calls",
        promise: "reserved and spent money and tokens of a day equal those of its provider calls",
        sql: "SELECT format('%s %s: meter holds %s and spent %s, calls hold %s and spent %s', shadow, day, m.held_usd,
                     m.spent_usd, coalesce(c.held, 0), coalesce(c.spent, 0))
              FROM (SELECT * FROM meter WHERE agent = '' AND trigger = '') m
              FULL JOIN (SELECT shadow, day,
                     coalesce(sum(hold_usd) FILTER (WHERE state = 'sent'), 0) AS held,
                     coalesce(sum(actual_usd) FILTER (WHERE state <> 'sent'), 0) AS spent,
                     coalesce(sum(hold_tokens) FILTER (WHERE state = 'sent'), 0) AS held_tokens,
                     coalesce(sum(actual_tokens) FILTER (WHERE state <> 'sent'), 0) AS spent_tokens
                     FROM provider_call GROUP BY shadow, day) c USING (shadow, day)
              WHERE (coalesce(m.held_usd, 0) <> coalesce(c.held, 0) OR coalesce(m.spent_usd, 0) <> coalesce(c.spent, 0)
                 OR coalesce(m.held_tokens, 0) <> coalesce(c.held_tokens, 0)
                 OR coalesce(m.spent_tokens, 0) <> coalesce(c.spent_tokens, 0))
                AND day >= (SELECT max(before) FROM retention WHERE kind IN ('review', 'count'))",
    },
    Invariant {
        name: "no_call_beyond_its_hold",
        promise: "no call is charged more than was reserved for it",
        sql: "SELECT format('review %s, call %s: held %s and %s tokens, settled at %s and %s tokens', review_id, n,
                     hold_usd, hold_tokens, actual_usd, actual_tokens) FROM provider_call
              WHERE actual_usd NOT BETWEEN 0 AND hold_usd OR actual_tokens NOT BETWEEN 0 AND hold_tokens",
    },
    Invariant {
        name: "one_review_a_pair",
        promise: "an event and a shadow have at most one review that was not given up",
        sql: "SELECT format('event %s, shadow version %s: %s reviews', e.event_id, e.shadow, count(*))
              FROM review_event e JOIN review r ON r.id = e.review_id WHERE r.state NOT IN ('released', 'failed')
              GROUP BY e.event_id, e.shadow HAVING count(*) > 1",
    },
    Invariant {
        name: "queued_pairs_have_reviews",
        promise: "each pair that was queued has its review, and no other pair has a review except by later request",
        sql: "SELECT format('event %s, shadow version %s: queued %s, reviews %s', event, shadow, coalesce(p.n, 0),
                     coalesce(r.n, 0))
              FROM (SELECT e.id AS event, u.shadow, count(*) AS n FROM event e,
                    unnest(e.shadows, e.outcomes) u(shadow, outcome)
                    WHERE u.outcome < 10 AND e.id >= (SELECT first_id FROM retention WHERE kind = 'event')
                    GROUP BY 1, 2) p
              FULL JOIN (SELECT event_id AS event, shadow, count(*) AS n FROM review_event
                    WHERE NOT later
                      AND event_id >= (SELECT first_id FROM retention WHERE kind = 'event')
                    GROUP BY 1, 2) r USING (event, shadow)
              WHERE coalesce(p.n, 0) <> coalesce(r.n, 0)",
    },
    Invariant {
        name: "audit_has_no_gap",
        promise: "the audit has every numbered row",
        sql: "SELECT format('%s rows up to %s, %s were numbered', n, newest, numbered)
              FROM (SELECT count(*) AS n, coalesce(max(seq), 0) AS newest,
                           (SELECT last FROM feed WHERE name = 'audit') AS numbered FROM audit) a
              WHERE n <> numbered OR newest <> numbered",
    },
    Invariant {
        name: "done_has_a_result",
        promise: "a review is done exactly when it has a result",
        sql: "SELECT format('review %s is %s, results %s', r.id, r.state, (d.review_id IS NOT NULL)::int)
              FROM review r LEFT JOIN review_result d ON d.review_id = r.id
              WHERE (r.state = 'done') <> (d.review_id IS NOT NULL)",
    },
    Invariant {
        name: "batches_count_their_events",
        promise: "a review's count of events equals its events",
        sql: "SELECT format('review %s counts %s, holds %s', r.id, r.events, count(e.event_id)) FROM review r
              LEFT JOIN review_event e ON e.review_id = r.id GROUP BY r.id HAVING r.events <> count(e.event_id)",
    },
    Invariant {
        name: "batches_assess_each_event",
        promise: "a finished batch has an assessment of each of its events, and no other review has such assessments",
        sql:
            "SELECT format('review %s, event %s', coalesce(e.review_id, a.review_id), coalesce(e.event_id, a.event_id))
              FROM (SELECT e.review_id, e.event_id FROM review_event e JOIN review r ON r.id = e.review_id
                    WHERE r.scope = 1 AND r.state = 'done') e
              FULL JOIN review_assessment a USING (review_id, event_id)
              WHERE e.review_id IS NULL OR a.review_id IS NULL",
    },
    Invariant {
        name: "no_job_of_a_dead_worker",
        promise: "no running review belongs to a worker that has been silent for longer than dead_after",
        sql: "SELECT format('review %s of worker %s', r.id, r.worker) FROM review r
              LEFT JOIN worker w ON w.id = r.worker
              WHERE r.state = 'running' AND coalesce(w.heartbeat_at, r.started_at) < clock() - $1",
    },
    Invariant {
        name: "no_open_call_without_a_runner",
        promise: "a reserved call belongs to a running review",
        sql: "SELECT format('call %s of review %s (%s)', c.n, c.review_id, r.state) FROM provider_call c
              LEFT JOIN review r ON r.id = c.review_id
              WHERE c.state = 'sent' AND r.state IS DISTINCT FROM 'running'",
    },
    Invariant {
        name: "backtests_equal_their_calls",
        promise: "a backtest's reserved and spent money and tokens equal its calls, and do not exceed its budget",
        sql: "SELECT format('backtest %s: held %s, calls %s; spent %s, calls %s; at most %s', b.id, b.held_usd,
                     coalesce(c.held, 0), b.spent_usd, coalesce(c.spent, 0), coalesce(b.max_usd::text, '-'))
              FROM backtest b LEFT JOIN (SELECT backtest,
                     coalesce(sum(hold_usd) FILTER (WHERE state = 'sent'), 0) AS held,
                     coalesce(sum(actual_usd) FILTER (WHERE state <> 'sent'), 0) AS spent,
                     coalesce(sum(hold_tokens) FILTER (WHERE state = 'sent'), 0) AS held_tokens,
                     coalesce(sum(actual_tokens) FILTER (WHERE state <> 'sent'), 0) AS spent_tokens
                     FROM backtest_call GROUP BY backtest) c ON c.backtest = b.id
              WHERE b.held_usd <> coalesce(c.held, 0) OR b.spent_usd <> coalesce(c.spent, 0)
                 OR b.held_tokens <> coalesce(c.held_tokens, 0) OR b.spent_tokens <> coalesce(c.spent_tokens, 0)
                 OR b.held_usd + b.spent_usd > b.max_usd OR b.held_tokens + b.spent_tokens > b.max_tokens",
    },
    Invariant {
        name: "keys_name_events",
        promise: "each idempotency key names a stored event",
        sql: "SELECT format('key of event %s', k.event_id) FROM event_key k
              WHERE NOT EXISTS (SELECT FROM event e WHERE e.id = k.event_id)
                AND k.event_id >= (SELECT first_id FROM retention WHERE kind = 'event')",
    },
    Invariant {
        name: "events_numbered_once",
        promise: "no two events and no two reviews share a number in the feed",
        sql: "SELECT format('number %s: %s rows', seq, count(*)) FROM
                (SELECT seq FROM event UNION ALL SELECT seq FROM review) s
              GROUP BY seq HAVING count(*) > 1",
    },
    Invariant {
        name: "findings_have_reviews",
        promise: "each finding belongs to a finished review, or to an examination by the built-in checks",
        sql: "SELECT format('finding %s of review %s', f.id, coalesce(f.review_id::text, '-')) FROM finding f
              LEFT JOIN review r ON r.id = f.review_id AND r.state = 'done'
              WHERE r.id IS NULL AND (f.review_id IS NOT NULL OR f.collapse_key IS NULL)",
    },
    Invariant {
        name: "repeats_have_findings",
        promise: "each event that repeats a finding of the built-in checks repeats an existing finding of another \
                  event",
        sql: "SELECT format('event %s of finding %s', o.event_id, o.finding_id) FROM finding_occurrence o
              LEFT JOIN finding f ON f.id = o.finding_id AND f.event_id <> o.event_id
              WHERE f.id IS NULL AND o.finding_id >= (SELECT first_id FROM retention WHERE kind = 'review')",
    },
    Invariant {
        name: "looks_come_in_order",
        promise: "the built-in checks are not ahead of the events, and skipped events lie behind them",
        sql:
            "SELECT format('looks %s, last event %s, passed over up to %s', f.seq, i.last, coalesce(max(b.last_seq), 0))
              FROM follower f JOIN feed i ON i.name = 'intake' LEFT JOIN check_backlog b ON true
              WHERE f.name = 'looks' GROUP BY f.seq, i.last
              HAVING f.seq > i.last OR coalesce(max(b.last_seq), 0) > f.seq",
    },
    Invariant {
        name: "patterns_count_their_tasks",
        promise: "a pattern has at least as many successes as its tasks count",
        sql: "SELECT format('pattern %s: %s successes, its tasks have %s', p.id, p.body::json->>'successes', u.n)
              FROM (SELECT pattern, sum(successes) AS n FROM pattern_use GROUP BY pattern) u
              JOIN pattern p ON p.id = u.pattern WHERE u.n > (p.body::json->>'successes')::bigint",
    },
];

impl UpkeepStore<'_> {
    /// Checks every invariant in one snapshot.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn doctor(self, dead_after: Duration) -> Result<Vec<InvariantResult>, StoreError> {
        let mut tx = begin(&self.0.control).await?;
        sql::execute(&mut *tx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY", ()).await?;
        let grace = interval(dead_after + Duration::from_secs(3));
        let mut findings = Vec::new();
        for Invariant { name, promise, sql } in INVARIANTS {
            let rows: Vec<String> = if sql.contains("$1") {
                sql::all(&mut *tx, sql, (grace,)).await?
            } else {
                sql::all(&mut *tx, sql, ()).await?
            };
            let broken = i64::try_from(rows.len()).unwrap_or(i64::MAX);
            findings.push(InvariantResult { name, promise, broken, examples: rows.into_iter().take(5).collect() });
        }
        tx.commit().await?;
        Ok(findings)
    }
}
