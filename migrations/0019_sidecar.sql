-- The sidecar: sessions of agents, what was asked and answered in them, their documents, and what worked.
-- Lock order: sidecar_session, sidecar_document.

-- What a session is by now, as JSON: one row, so that any process takes the next step.
CREATE TABLE sidecar_session (
    id        uuid PRIMARY KEY,
    agent     text NOT NULL,
    task_id   text,
    state     text NOT NULL CHECK (state IN ('open', 'closed')),
    body      text NOT NULL,
    opened_at timestamptz NOT NULL DEFAULT clock(),
    seen_at   timestamptz NOT NULL DEFAULT clock()
) WITH (fillfactor = 50);
CREATE INDEX sidecar_session_open ON sidecar_session (agent) WHERE state = 'open';
CREATE INDEX sidecar_session_idle ON sidecar_session (seen_at) WHERE state = 'open';
CREATE INDEX sidecar_session_of_agent ON sidecar_session (agent, id);
CREATE INDEX sidecar_session_of_task ON sidecar_session (task_id) WHERE task_id IS NOT NULL;

-- Sets of tools by what they say: agents of one kind show the same ones.
CREATE TABLE sidecar_tools (
    digest  text PRIMARY KEY,
    body    text NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT clock()
);

-- What was asked and answered, in order: what a replay repeats.
CREATE TABLE sidecar_step (
    session uuid NOT NULL REFERENCES sidecar_session ON DELETE CASCADE,
    number  integer NOT NULL,
    kind    text NOT NULL CHECK (kind IN ('turn', 'message', 'guard', 'close')),
    at      timestamptz NOT NULL DEFAULT clock(),
    body    text NOT NULL,
    PRIMARY KEY (session, number)
);

-- A document's text by now, and the one that it began with.
CREATE TABLE sidecar_document (
    session uuid NOT NULL REFERENCES sidecar_session ON DELETE CASCADE,
    name    text NOT NULL,
    format  text NOT NULL CHECK (format IN ('markdown', 'yaml')),
    version integer NOT NULL,
    first   text NOT NULL,
    text    text NOT NULL,
    at_turn text NOT NULL,                            -- its text when the last turn began
    PRIMARY KEY (session, name)
);

-- How a document came from one version to the next.
CREATE TABLE sidecar_change (
    session uuid NOT NULL,
    name    text NOT NULL,
    version integer NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock(),
    before  text NOT NULL,                            -- etags
    after   text NOT NULL,
    entry   text NOT NULL,
    PRIMARY KEY (session, name, version),
    FOREIGN KEY (session, name) REFERENCES sidecar_document ON DELETE CASCADE
);
CREATE INDEX sidecar_change_after ON sidecar_change (session, name, after);

-- What was done for a task, and what came of it.
CREATE TABLE pattern (
    id         uuid PRIMARY KEY,
    key        text NOT NULL UNIQUE,                  -- the same thing recorded twice is counted
    agent      text NOT NULL,
    task_id    text,
    state      text NOT NULL,
    body       text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock()
);
CREATE INDEX pattern_agent ON pattern (agent);
CREATE INDEX pattern_task ON pattern (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX pattern_changed ON pattern (changed_at);
