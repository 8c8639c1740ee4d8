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
    SPOOLED = "umbra_spooled_events_total", counter,
        "Events of the spool by result: spooled, filed, repeated (the same event was stored before), conflicting \
         (another event has the id), revoked (sent with a revoked key), refused (set aside).";
    SPOOL_EVENTS = "umbra_spool_events", gauge, "Events that wait on the local disk until the database answers.";
    SPOOL_BYTES = "umbra_spool_bytes", gauge, "Bytes of events that wait on the local disk, of all processes.";
    SPOOL_AGE = "umbra_spool_oldest_seconds", gauge, "Age of the oldest event that waits on the local disk.";
    DISPOSITIONS = "umbra_dispositions_total", counter, "Matched pairs by shadow, outcome and reason.";
    FLUSHES = "umbra_flushes_total", counter, "Accept transactions by result: stored, retried, bisected, failed.";
    FLUSH_SECONDS = "umbra_flush_seconds", histogram(Seconds),
        "One accept transaction, from its first statement to its commit.";
    FLUSH_EVENTS = "umbra_flush_events_total", counter, "Events in accept transactions that committed.";
    REVIEWS = "umbra_reviews_total", counter,
        "Finished reviews by shadow, assessment and reviewer; CHECKED is a review without findings that no model \
         judged.";
    REVIEW_SECONDS = "umbra_review_seconds", histogram(Seconds), "One review, from its lease to its result.";
    UNSERIALISABLE = "umbra_unserialisable_total", counter,
        "Values that could not be written as JSON, by purpose: a fault in Umbra.";
    REVIEW_ENDS = "umbra_review_ends_total", counter, "Leases by end: done, retried, given up, fenced.";
    FINDINGS = "umbra_findings_total", counter, "Findings by shadow, severity and source.";
    LOOKS = "umbra_looks_total", counter, "Events that the built-in checks examined without a review.";
    CHECK_BACKLOG = "umbra_check_backlog", gauge,
        "Events and reservations that the built-in checks have yet to examine without a review.";
    CHECK_BACKLOG_SHED = "umbra_check_backlog_shed_total", counter,
        "Events that the built-in checks skipped because more waited than the setting `looks.max_backlog` allows.";
    FEEDBACK = "umbra_feedback_total", counter, "People's feedback on findings by shadow, category and status.";
    BREAKER_CHANGES = "umbra_breaker_changes_total", counter, "Changes of agents' breakers by the new recommendation.";
    BREAKER_ALERTS = "umbra_breaker_alerts_total", counter,
        "Breakers that have not been closed for longer than the setting `breaker.alert_after`.";
    REFLEXION_CHANGES = "umbra_reflexion_changes_total", counter,
        "Recurring faults that became a lesson or were closed.";
    NEEDS = "umbra_needs", gauge,
        "Problems that need attention, by kind: shadow (its events are not judged), webhook (its endpoint takes no \
         messages), checks (they skipped events). GET /v1/status names them.";
    JUDGED_FINDINGS = "umbra_judged_findings", gauge,
        "Findings that people judged, by shadow, version, category and whether they were right.";
    PROVIDER_CALLS = "umbra_provider_calls_total", counter, "Calls to models by model and result.";
    PROVIDER_SECONDS = "umbra_provider_call_seconds", histogram(Seconds), "One call to a model.";
    PROVIDER_TOKENS = "umbra_provider_tokens_total", counter, "Tokens by model and direction.";
    PROVIDER_NANO_USD = "umbra_provider_nano_usd_total", counter, "Money spent by model, in billionths of a dollar.";
    ARTIFACT_FAILURES = "umbra_artifact_failures_total", counter,
        "Pages of reviews that could not be written to files yet.";
    PROVIDER_EXCESSIVE = "umbra_provider_excessive_usage_total", counter,
        "Replies for which the provider reported more tokens than the call allowed, by model.";
    QUEUE_REVIEWS = "umbra_queue_reviews", gauge, "Reviews by state: queued, running.";
    RETENTION = "umbra_retention_deleted_total", counter,
        "Rows deleted because of their age, by kind: partitions of events, rows of reviews, counts, cooldowns, keys, \
         calls, sessions, tools.";
    HTTP_REQUESTS = "umbra_http_requests_total", counter, "Requests by route, method and status.";
    HTTP_SECONDS = "umbra_http_request_seconds", histogram(Seconds), "One request.";
    REFUSALS = "umbra_refusals_total", counter,
        "Requests and events refused because of their sender, by the code of the problem; requests without a key are \
         not counted.";
    WEBHOOK_DELIVERIES = "umbra_webhook_deliveries_total", counter,
        "Attempts to deliver a message by endpoint and result: delivered, retried, dead, gone.";
    WEBHOOK_SECONDS = "umbra_webhook_delivery_seconds", histogram(Seconds), "One attempt to deliver a message.";
    WEBHOOK_BACKLOG = "umbra_webhook_backlog", gauge, "Messages by endpoint and state: waiting, dead.";
    DECISIONS = "umbra_decisions_total", counter, "Decided calls of tools by decision and effect.";
    DECISIONS_CLOSED = "umbra_decisions_closed_total", counter,
        "Calls decided without the database, so that only reads could run, by reason: unavailable, deadline, \
         overloaded.";
    DECISION_FLUSHES = "umbra_decision_flushes_total", counter,
        "Transactions of decisions by result: stored, retried, bisected, failed, inconsistent (a row that cannot be \
         read, or a value that cannot be written; the log names it).";
    DECISION_FLUSH_SECONDS = "umbra_decision_flush_seconds", histogram(Seconds),
        "One transaction of decisions, from its first statement to its commit.";
    ENVIRONMENT = "umbra_environment", gauge,
        "1 for the environment of this process: the setting `boundary.environment`.";
    STALE_CONTRACTS = "umbra_stale_contracts", gauge,
        "Contracts in force that live results no longer fit, or that no live result has confirmed for too long.";
    LIVE_RESULTS = "umbra_live_results_total", counter,
        "Results of calls that ran, compared with their contracts, by result: fit, misfit.";
    UNGUARDED_CALLS = "umbra_unguarded_calls_total", counter,
        "Calls seen in events without a decision, although the setting `boundary.require_decisions` requires one.";
    HOOKS = "umbra_hooks_total", counter, "Events of coding agents' hooks by host and event.";
    HOOKS_UNKNOWN = "umbra_hook_unknown_total", counter,
        "Events of hooks that this version does not know, by host: a newer host sends them, and they are ignored.";
    OTEL_RECORDS = "umbra_otel_records_total", counter, "Spans and logs of OpenTelemetry that arrived, by signal.";
    OTEL_REJECTED = "umbra_otel_rejected_total", counter, "Spans and logs of OpenTelemetry that were refused, by signal.";
    OTEL_REFUSED = "umbra_otel_refused_total", counter,
        "Exports of OpenTelemetry that were refused, by wire and code: exporters give up some of them.";
    OTEL_LATE = "umbra_otel_late_seconds", gauge, "Time for which the traces that are assembled now have waited.";
    OTEL_CALLS = "umbra_otel_calls_total", counter,
        "Calls of models and tools that OpenTelemetry told of, by kind; each becomes an event.";
    UNEXPECTED_CALLS = "umbra_unexpected_calls_total", counter,
        "Calls that were answered by a stub or refused, but ran according to their reported outcomes.";
    AUDIT_FILES_FAILING = "umbra_audit_files_failing", gauge,
        "1 while the audit's folder cannot be written: its files fall behind the database, and decisions cannot be \
         recorded while the database does not answer.";
    AUDIT_UNMERGED = "umbra_audit_unmerged_bytes", gauge,
        "Bytes of decisions made without the database that are not in the audit yet.";
    AUDIT_REFUSED_LINES = "umbra_audit_refused_lines_total", counter,
        "Blocks of unreadable lines in the audit's folder `unmerged` that were set aside.";
    UNAUTHENTIC_ROWS = "umbra_unauthentic_rows_total", counter,
        "Rows that are ignored because they fail authentication or contradict the audit, by table: \
         `execution_override`, `approval`, `boundary_run`, `boundary_session`.";
    SIDECAR_RULINGS = "umbra_sidecar_rulings_total", counter,
        "Rulings of the guardrail by decision: allow, warn, block.";
    SIDECAR_RULES = "umbra_sidecar_rules_total", counter,
        "Rules of the guardrail that warned or blocked, by rule, decision and mode: enforce, or audit for a rule that \
         is on trial and changes nothing.";
    SIDECAR_MISSED = "umbra_sidecar_missed_total", counter,
        "Parts missing from answers of the sidecar, by cause: database, deadline, model, passive, workspace.";
    SIDECAR_FILES = "umbra_sidecar_files_total", counter,
        "Files of documents by result: given (written), taken (an outside change was applied to the document), aside \
         (an outside change could not be applied and was set aside), failed (the directory could not be read or \
         written).";
    SIDECAR_PASSIVE = "umbra_sidecar_passive_total", counter,
        "Times that the sidecar became passive after consecutive faults.";
    DURABILITY_DEGRADED = "umbra_durability_degraded", gauge,
        "1 while the database's configuration may lose acknowledged events in a crash.";
}
