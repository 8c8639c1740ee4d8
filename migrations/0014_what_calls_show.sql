-- What calls show behind their answers: which tools there are, whether contracts still hold, calls that nobody asked about.
-- Lock order: follower, then the rows of one table, sorted.

INSERT INTO follower (name, seq) VALUES ('contracts', 0);        -- of feed `audit`
-- Events from before are not looked at: nobody could have been told to ask.
INSERT INTO follower (name, seq) SELECT 'unguarded', last FROM feed WHERE name = 'intake';

-- Tools that calls were decided of.
CREATE TABLE tool_seen (
    tool     text PRIMARY KEY,
    effect   text NOT NULL,                          -- as it was decided last
    calls    bigint NOT NULL,
    first_at timestamptz NOT NULL,
    last_at  timestamptz NOT NULL
);
CREATE INDEX tool_seen_last ON tool_seen (last_at);

-- What live results have shown of each edition of a contract that was in force.
CREATE TABLE contract_state (
    tool         text,
    version      bigint,
    since        timestamptz NOT NULL DEFAULT clock(), -- when it was first in force
    results      bigint NOT NULL DEFAULT 0,            -- live results that were held against it
    misfits      bigint NOT NULL DEFAULT 0,            -- in a row, the last of them
    last_at      timestamptz,
    fit_at       timestamptz,                          -- the last that fitted
    misfit       text,                                 -- what did not fit last, in words of ours
    recent       bigint[] NOT NULL DEFAULT '{}',       -- results since it no longer fits: numbers in the audit
    stale_since  timestamptz,
    stale_why    text CHECK (stale_why IN ('misfits', 'age')),
    confirmed_at timestamptz,                          -- when a person last said that it holds
    PRIMARY KEY (tool, version)
);

-- Calls seen in events that no decision was asked for, by agent and tool.
CREATE TABLE unguarded_call (
    agent      text,
    tool       text,
    calls      bigint NOT NULL,
    first_at   timestamptz NOT NULL,
    last_at    timestamptz NOT NULL,
    last_event uuid NOT NULL,
    PRIMARY KEY (agent, tool)
);
CREATE INDEX unguarded_call_last ON unguarded_call (last_at);
