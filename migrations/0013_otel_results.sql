-- Results that models were told in other traces than those of their calls: an agent may export each turn as a trace.

CREATE TABLE otel_result (
    link    bytea       NOT NULL PRIMARY KEY,          -- keyed hash of the tool call's id, an alias in `otel_call`
    result  bytea,                                     -- the result as JSON, redacted, until its call has it
    told_at timestamptz NOT NULL DEFAULT clock()
);
CREATE INDEX otel_result_told ON otel_result (told_at);
