-- Messages for webhook endpoints: one row an endpoint, stored in the transaction of what it tells, deleted when the
-- endpoint has taken it. A claim sets `due_at` to the end of its lease, so a killed process needs no relief.
CREATE TABLE webhook_delivery (
    id         uuid PRIMARY KEY,
    message_id uuid NOT NULL,                        -- the same at every attempt: what receivers know it by
    endpoint   text COLLATE "C" NOT NULL,
    kind       text NOT NULL,
    agent      text COLLATE "C",                     -- whom and what it is about, so that it can be erased
    task_id    text COLLATE "C",
    body       text NOT NULL,                        -- what is signed and sent, byte for byte
    state      text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'dead')),
    attempt    integer NOT NULL DEFAULT 0,
    due_at     timestamptz NOT NULL DEFAULT clock(),
    created_at timestamptz NOT NULL DEFAULT clock(),
    first_at   timestamptz,                          -- when it was first tried
    status     integer,                              -- the last answer
    failure    text,                                 -- the last failure, in words
    dead_at    timestamptz,
    seq        bigint,                               -- drawn from feed `dead` when it is given up
    UNIQUE (message_id, endpoint)
) WITH (fillfactor = 70);
CREATE INDEX webhook_due ON webhook_delivery (endpoint, due_at) WHERE state = 'waiting';
CREATE INDEX webhook_by_agent ON webhook_delivery (agent) WHERE agent IS NOT NULL;
CREATE INDEX webhook_by_task ON webhook_delivery (task_id) WHERE task_id IS NOT NULL;
CREATE UNIQUE INDEX webhook_dead ON webhook_delivery (seq) WHERE state = 'dead';

-- Endpoints that answered 410 Gone, by what they are and where they were: nothing is sent until a person says so.
CREATE TABLE webhook_gone (
    endpoint text COLLATE "C",
    url_hash text COLLATE "C",
    gone_at  timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (endpoint, url_hash)
);

INSERT INTO feed (name) VALUES ('dead');

-- Daily briefings and weekly reports that were filed when their time was over.
CREATE TABLE briefing (
    kind     text NOT NULL CHECK (kind IN ('day', 'week')),
    first    date NOT NULL,                          -- the day, or the week's Monday
    body     text NOT NULL,                          -- JSON
    filed_at timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (kind, first)
);
