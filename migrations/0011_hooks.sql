-- Hooks of coding agents: sessions of their hosts, and calls whose results have not been reported yet.

CREATE TABLE hook_session (
    agent      text        NOT NULL,
    session    text        NOT NULL,                  -- the host's id
    host       text        NOT NULL,
    shown_host text,                                  -- another host, by what its payloads show
    mode       text        NOT NULL,                  -- observe or enforce, at the last event
    event      text        NOT NULL,                  -- name of the last event
    prompts    integer     NOT NULL DEFAULT 0,
    task_id    text        NOT NULL,                  -- of the turn
    task       text,                                  -- the turn's prompt, redacted
    calls      bigint      NOT NULL DEFAULT 0,        -- calls that were announced
    undecided  bigint      NOT NULL DEFAULT 0,        -- results in enforce without a decision before them
    held       integer     NOT NULL DEFAULT 0,        -- times that the end of this turn was held
    sidecar    uuid,                                  -- session of the sidecar
    seen_at    timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (agent, session)
);

CREATE TABLE hook_call (
    id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    agent     text        NOT NULL,                   -- a subagent has a name of its own
    session   text        NOT NULL,                   -- the host's id, with that of a subagent behind it
    call_id   text        NOT NULL,
    digest    bytea       NOT NULL,                   -- keyed hash of tool and arguments, for hosts without call ids
    task_id   text        NOT NULL,
    decided   boolean     NOT NULL,
    event     bytea,                                  -- the event to file if no result comes, as JSON, redacted; none if it is filed
    called_at timestamptz NOT NULL DEFAULT clock()
);
CREATE UNIQUE INDEX hook_call_id ON hook_call (agent, session, call_id);
CREATE INDEX hook_call_digest ON hook_call (agent, session, digest, id);
CREATE INDEX hook_call_called ON hook_call (called_at);
