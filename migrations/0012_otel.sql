-- OpenTelemetry: records of spans and logs until their traces are silent, and the calls that they tell of.

CREATE TABLE otel_trace (
    trace       text        PRIMARY KEY,               -- trace id in hex, or a name made from a log's session
    key_id      uuid,                                  -- API key of its first export
    arrivals    bigint      NOT NULL DEFAULT 0,        -- exports with records of it
    records     bigint      NOT NULL DEFAULT 0,        -- records of it
    due_at      timestamptz,                           -- time at which new records are assembled; none without new ones
    lease_until timestamptz,                           -- a worker assembles it
    task_id     text,                                  -- of its events, for good
    ended       boolean     NOT NULL DEFAULT false,    -- its task is complete
    silent_at   timestamptz,                           -- time at which a final answer without more completes the task
    seen_at     timestamptz NOT NULL DEFAULT clock()
);
CREATE INDEX otel_trace_due ON otel_trace (least(due_at, silent_at)) WHERE due_at IS NOT NULL OR silent_at IS NOT NULL;
CREATE INDEX otel_trace_seen ON otel_trace (seen_at);

CREATE TABLE otel_record (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    trace      text        NOT NULL,
    digest     bytea       NOT NULL,                   -- keyed hash of the record as it came: a batch may come twice
    record     bytea       NOT NULL,                   -- the record as JSON, redacted
    arrived_at timestamptz NOT NULL DEFAULT clock(),
    UNIQUE (trace, digest)
);

CREATE TABLE otel_call (
    alias    bytea       NOT NULL PRIMARY KEY,         -- keyed hash of a span, a response or a tool call
    call     uuid        NOT NULL,
    trace    text        NOT NULL,
    event_id uuid,                                     -- none until the event is stored
    task_id  text        NOT NULL,
    told     bytea,                                    -- hash of what is known of it
    made_at  timestamptz NOT NULL DEFAULT clock()
);
CREATE INDEX otel_call_call ON otel_call (call);
CREATE INDEX otel_call_event ON otel_call (event_id);
CREATE INDEX otel_call_made ON otel_call (made_at);

CREATE TABLE otel_service (
    service     text        NOT NULL,
    scope       text        NOT NULL,
    model_calls bigint      NOT NULL DEFAULT 0,
    withheld    bigint      NOT NULL DEFAULT 0,        -- model calls that came without content
    tool_calls  bigint      NOT NULL DEFAULT 0,
    cut         bigint      NOT NULL DEFAULT 0,        -- spans and logs of which the sender dropped a part
    rejected    bigint      NOT NULL DEFAULT 0,        -- spans and logs that were refused
    reason      text,                                  -- of the last refusal
    seen_at     timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (service, scope)
);
