-- The execution boundary: decisions about calls of tools, and their audit.
-- Lock order: the boundary's advisory lock, boundary_run, boundary_session, call, approval, feed.

INSERT INTO feed (name) VALUES ('audit');

-- What happened, for ever: rows are inserted, never updated or deleted, by whichever role (a trigger refuses). What
-- agents and tools said lies beside it and can be erased; the row keeps a keyed hash of it.
CREATE TABLE audit (
    seq         bigint PRIMARY KEY,                  -- of feed `audit`: without a gap, in order of commit
    id          uuid NOT NULL UNIQUE,
    at          timestamptz NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('decision', 'outcome', 'execution', 'approval', 'erasure', 'merged')),
    agent       text,
    session     text,
    run         text,
    call_id     text,
    tool        text,
    body        text NOT NULL,                       -- JSON; part of the row's hash as it is
    payload_mac bytea                                -- HMAC-SHA256(salt, payload)
);
CREATE INDEX audit_agent ON audit (agent, seq);
CREATE INDEX audit_outcome ON audit (agent, tool, seq) WHERE kind = 'outcome';
CREATE INDEX audit_run ON audit (run, seq) WHERE run IS NOT NULL;
CREATE INDEX audit_session ON audit (session, seq) WHERE session IS NOT NULL;

CREATE TABLE audit_payload (
    seq  bigint PRIMARY KEY REFERENCES audit,
    salt bytea NOT NULL,
    body text NOT NULL                               -- JSON: arguments, stub, result, error; redacted
);

-- The chain: each block's hash covers the one before and its rows.
CREATE TABLE audit_seal (
    block     bigint PRIMARY KEY,
    first     bigint NOT NULL,
    last      bigint NOT NULL CHECK (last >= first),
    hash      bytea NOT NULL,
    sealed_at timestamptz NOT NULL DEFAULT clock()
);
INSERT INTO follower (name, seq) VALUES ('seal', 0);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN RAISE EXCEPTION ''% is append-only'', TG_TABLE_NAME USING ERRCODE = ''42501''; END';
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_seal
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What was decided under which id, so that a repetition gets the same answer.
CREATE TABLE call (
    agent      text NOT NULL,
    call_id    text NOT NULL,
    body       bytea NOT NULL,                       -- keyed hash of the request
    seq        bigint,                               -- of the decision in the audit; null where reads are not audited
    decision   text NOT NULL,
    answer     text,                                 -- JSON; null once erased
    approval   uuid,                                 -- what it waits for, if the answer is `ask`
    outcome    bytea,                                -- keyed hash of the outcome that was reported
    outcome_seq bigint,
    decided_at timestamptz NOT NULL,
    PRIMARY KEY (agent, call_id)
);
CREATE INDEX call_decided ON call (decided_at);

-- What stubs of a run remember, and the strictest execution that it has seen: runs that it starts inherit it.
CREATE TABLE boundary_run (
    agent      text NOT NULL,
    run        text NOT NULL,
    execution  text NOT NULL,
    parent     text,                                 -- the shadow run that started it
    state      text,                                 -- JSON; null while no stub was needed
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (agent, run)
) WITH (fillfactor = 50);
CREATE INDEX boundary_run_name ON boundary_run (run);

CREATE TABLE boundary_session (
    agent           text NOT NULL,
    session         text NOT NULL,
    taints          text[] NOT NULL DEFAULT '{}',
    uninterceptable text[] NOT NULL DEFAULT '{}',
    updated_at      timestamptz NOT NULL,
    PRIMARY KEY (agent, session)
);

-- What is laid over the settings. At most one a scope and value; what was before stands in the audit.
CREATE TABLE execution_override (
    scope      text NOT NULL,
    value      text NOT NULL,
    id         uuid NOT NULL,
    execution  text NOT NULL,
    reason     text NOT NULL,
    set_at     timestamptz NOT NULL,
    expires_at timestamptz,
    PRIMARY KEY (scope, value)
);

-- A call that somebody must permit: for these arguments, this tool and this agent, once.
CREATE TABLE approval (
    id         uuid PRIMARY KEY,
    agent      text NOT NULL,
    tool       text NOT NULL,
    digest     bytea NOT NULL,                       -- keyed hash of agent, tool and arguments
    rule       text,
    reason     text,
    state      text NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'used')),
    asked_at   timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    note       text
);
CREATE INDEX approval_digest ON approval (digest, asked_at);
