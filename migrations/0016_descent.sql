-- What runs descend from, and calls that ran although they were told not to.

-- A run that began in shadow stays there. Those that it starts go by how it stands at each of their decisions.
ALTER TABLE boundary_run
    ADD COLUMN began      text,                      -- its execution at its first call; null in rows from before: `execution`
    ADD COLUMN started_by text,                      -- the run that started it, shadow or not
    ADD COLUMN session    text;                      -- of its last call

-- Calls that were answered by a stub or refused, and whose outcome says that they ran; by agent and tool.
CREATE TABLE unexpected_call (
    agent    text,
    tool     text,
    calls    bigint NOT NULL,
    first_at timestamptz NOT NULL,
    last_at  timestamptz NOT NULL,
    last_seq bigint NOT NULL,                        -- of the last outcome in the audit
    PRIMARY KEY (agent, tool)
);
CREATE INDEX unexpected_call_last ON unexpected_call (last_at);
