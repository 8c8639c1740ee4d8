//! Metrics of the service: names with `_total` are counters; `_seconds` and `_bytes` are units. No label carries an
//! agent's name, since agents choose their names.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Buckets of durations, from a database round trip to a slow model, in seconds.
pub const SECONDS_BUCKETS: &[f64] =
    &[0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

macro_rules! metrics_list {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $kind:ident $(($unit:ident))?, $help:literal;)*) => {
        $(#[doc = $help] pub const $name: &str = $text;)*

        /// Describes each metric to the recorder.
        pub(super) fn describe() {
            $(metrics_list!(@describe $kind $(($unit))?, $name, $help);)*
        }

        /// Names of all metrics with their meanings, for the documentation.
        pub const ALL: &[(&str, &str)] = &[$(($text, $help),)*];
    };
    (@describe counter, $name:ident, $help:literal) => { describe_counter!($name, $help) };
    (@describe gauge, $name:ident, $help:literal) => { describe_gauge!($name, $help) };
    (@describe histogram($unit:ident), $name:ident, $help:literal) => { describe_histogram!($name, Unit::$unit, $help) };
}

metrics_list! {
    EVENTS = "umbra_events_total", counter, "Events by outcome: accepted, replayed, mismatched, unstorable, refused.";
    DATABASE_AWAY = "umbra_database_away", gauge, "1 while the database does not answer this process.";
    SPOOLED = "umbra_spooled_events_total", counter, "Events of the spool by what became of them: spooled, filed, repeated (their id was taken by the same event), conflicting (by another), revoked (came by a key that was revoked before), refused (set aside).";
    SPOOL_EVENTS = "umbra_spool_events", gauge, "Events that wait on the local disk for the database.";
    SPOOL_BYTES = "umbra_spool_bytes", gauge, "Bytes of events that wait on the local disk, of whichever process.";
    SPOOL_AGE = "umbra_spool_oldest_seconds", gauge, "Age of the oldest event that waits on the local disk.";
    DISPOSITIONS = "umbra_dispositions_total", counter, "Matched pairs by shadow, outcome and reason.";
    FLUSHES = "umbra_flushes_total", counter, "Accept transactions by result: stored, retried, bisected, failed.";
    FLUSH_SECONDS = "umbra_flush_seconds", histogram(Seconds), "One accept transaction, from its first statement to its commit.";
    FLUSH_EVENTS = "umbra_flush_events_total", counter, "Events in accept transactions that committed.";
    REVIEWS = "umbra_reviews_total", counter, "Finished reviews by shadow, assessment and reviewer; CHECKED is a clean one that no model judged.";
    REVIEW_SECONDS = "umbra_review_seconds", histogram(Seconds), "One review, from its lease to its result.";
    UNSERIALISABLE = "umbra_unserialisable_total", counter, "Values that could not be written as JSON, by what they are for: a fault in Umbra.";
    REVIEW_ENDS = "umbra_review_ends_total", counter, "Leases by how they ended: done, retried, given up, fenced.";
    FINDINGS = "umbra_findings_total", counter, "Findings by shadow, severity and source.";
    LOOKS = "umbra_looks_total", counter, "Events that the built-in checks looked at without a review.";
    CHECK_BACKLOG = "umbra_check_backlog", gauge, "Events and reservations behind the last event that the built-in checks have reached without a review.";
    CHECK_BACKLOG_SHED = "umbra_check_backlog_shed_total", counter, "Events that the built-in checks passed over, because more waited than the setting `looks.max_backlog` allows.";
    FEEDBACK = "umbra_feedback_total", counter, "What people made of findings, by shadow, category and status.";
    BREAKER_CHANGES = "umbra_breaker_changes_total", counter, "Changes of agents' breakers by what is recommended from then on.";
    BREAKER_ALERTS = "umbra_breaker_alerts_total", counter, "Breakers that were not closed for longer than the setting `breaker.alert_after`.";
    REFLEXION_CHANGES = "umbra_reflexion_changes_total", counter, "Recurring faults that became a lesson or were closed.";
    NEEDS = "umbra_needs", gauge, "Matters that a person has to see to, by kind: shadow (its events are not judged), webhook (it takes nothing), checks (they passed over events). GET /v1/status names them.";
    JUDGED_FINDINGS = "umbra_judged_findings", gauge, "Findings that people judged, by shadow, version, category and whether they were right.";
    PROVIDER_CALLS = "umbra_provider_calls_total", counter, "Calls to models by model and result.";
    PROVIDER_SECONDS = "umbra_provider_call_seconds", histogram(Seconds), "One call to a model.";
    PROVIDER_TOKENS = "umbra_provider_tokens_total", counter, "Tokens by model and direction.";
    PROVIDER_NANO_USD = "umbra_provider_nano_usd_total", counter, "Money spent by model, in billionths of a dollar.";
    ARTIFACT_FAILURES = "umbra_artifact_failures_total", counter, "Pages of reviews that could not be written to files yet.";
    PROVIDER_EXCESSIVE = "umbra_provider_excessive_usage_total", counter, "Replies whose provider counted more tokens than the call could take, by model.";
    QUEUE_REVIEWS = "umbra_queue_reviews", gauge, "Reviews by state: queued, running.";
    RETENTION = "umbra_retention_deleted_total", counter, "Deleted for their age, by kind: partitions of events, rows of reviews, counts, cooldowns, keys, calls, sessions, tools.";
    HTTP_REQUESTS = "umbra_http_requests_total", counter, "Requests by route, method and status.";
    HTTP_SECONDS = "umbra_http_request_seconds", histogram(Seconds), "One request.";
    REFUSALS = "umbra_refusals_total", counter, "Requests and events refused for who sent them, by the code of the problem; of requests without a key none.";
    WEBHOOK_DELIVERIES = "umbra_webhook_deliveries_total", counter, "Attempts to deliver a message by endpoint and result: delivered, retried, dead, gone.";
    WEBHOOK_SECONDS = "umbra_webhook_delivery_seconds", histogram(Seconds), "One attempt to deliver a message.";
    WEBHOOK_BACKLOG = "umbra_webhook_backlog", gauge, "Messages by endpoint and state: waiting, dead.";
    DECISIONS = "umbra_decisions_total", counter, "Decided calls of tools by decision and effect.";
    DECISIONS_CLOSED = "umbra_decisions_closed_total", counter, "Calls answered without the database, so that nothing could be changed, by reason: unavailable, deadline, overloaded.";
    DECISION_FLUSHES = "umbra_decision_flushes_total", counter, "Transactions of decisions by result: stored, retried, bisected, failed, inconsistent (a row that cannot be read, or a value that cannot be written; the log says which).";
    DECISION_FLUSH_SECONDS = "umbra_decision_flush_seconds", histogram(Seconds), "One transaction of decisions, from its first statement to its commit.";
    ENVIRONMENT = "umbra_environment", gauge, "1 for the environment that this process is of: the setting `boundary.environment`.";
    STALE_CONTRACTS = "umbra_stale_contracts", gauge, "Contracts in force that live results no longer fit, or that none has confirmed for too long.";
    LIVE_RESULTS = "umbra_live_results_total", counter, "Results of calls that ran, held against their contracts, by result: fit, misfit.";
    UNGUARDED_CALLS = "umbra_unguarded_calls_total", counter, "Calls seen in events that no decision was asked for, where the setting `boundary.require_decisions` asks for one.";
    UNEXPECTED_CALLS = "umbra_unexpected_calls_total", counter, "Calls that were answered by a stub or refused, and ran all the same, as their outcomes say.";
    AUDIT_FILES_FAILING = "umbra_audit_files_failing", gauge, "1 while the audit's folder cannot be written: its files fall behind the database, and nothing can be noted while that is away.";
    AUDIT_UNMERGED = "umbra_audit_unmerged_bytes", gauge, "Bytes of decisions that were made without the database and are not in the audit yet.";
    AUDIT_REFUSED_LINES = "umbra_audit_refused_lines_total", counter, "Stretches of lines of the audit's folder unmerged that cannot be read, and were set aside.";
    UNAUTHENTIC_ROWS = "umbra_unauthentic_rows_total", counter, "Rows that are not obeyed since they fail authentication or say less than the audit, by table: `execution_override`, `approval`, `boundary_run`, `boundary_session`.";
    SIDECAR_RULINGS = "umbra_sidecar_rulings_total", counter, "What the guardrail said, by decision: allow, warn, block.";
    SIDECAR_RULES = "umbra_sidecar_rules_total", counter, "Rules of the guardrail that warned or blocked, by rule, decision and mode: enforce, or audit for what a rule that is tried would have said.";
    SIDECAR_MISSED = "umbra_sidecar_missed_total", counter, "Parts of answers of the sidecar that were not had, by why: database, deadline, model, passive, workspace.";
    SIDECAR_FILES = "umbra_sidecar_files_total", counter, "Files of documents by what became of them: given (written), taken (a change of somebody else's became one of the document), aside (it could not be taken, and lies beside), failed (the directory could not be read or written).";
    SIDECAR_PASSIVE = "umbra_sidecar_passive_total", counter, "Times that the sidecar became passive after faults in a row.";
    DURABILITY_DEGRADED = "umbra_durability_degraded", gauge, "1 while the database may lose acknowledged events in a crash.";
}
