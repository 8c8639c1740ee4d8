-- The main path: event, review, finding, and the meters that bound them.
-- Lock order, everywhere: event_key, meter, review, feed; each sorted by key, COLLATE "C". READ COMMITTED.

-- The only clock of our SQL. Tests replace it by one that they set.
CREATE FUNCTION clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT clock_timestamp()';

-- This installation: the key of its hashes (idempotency, samples, API keys). One row.
CREATE TABLE installation (
    only_one   boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    secret     bytea NOT NULL CHECK (length(secret) = 32),
    created_at timestamptz NOT NULL DEFAULT clock()
);

-- One row a running process that performs reviews. Silent for 12 s means dead: its reviews are taken over.
CREATE TABLE worker (
    id           uuid PRIMARY KEY,
    started_at   timestamptz NOT NULL DEFAULT clock(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock()
) WITH (fillfactor = 50);

-- Every version of every shadow that ever matched: a review is pinned to the one that it ran under.
CREATE TABLE shadow_version (
    id      integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name    text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,               -- hash of the configuration
    config  text NOT NULL,                           -- JSON
    seen_at timestamptz NOT NULL DEFAULT clock(),
    UNIQUE (name, version)
);

-- Numbers given in a transaction's last statement become visible in commit order, so `seq > cursor` never skips.
-- intake: events and reservations; result: finished reviews and findings.
CREATE TABLE feed (name text PRIMARY KEY, last bigint NOT NULL DEFAULT 0) WITH (fillfactor = 10);
INSERT INTO feed (name) VALUES ('intake'), ('result');

-- Idempotency, kept 72 h. Apart from event, whose unique indexes must contain the partition key.
CREATE TABLE event_key (
    agent    text COLLATE "C",
    key      bytea,                                  -- keyed hash of the client's id
    body     bytea NOT NULL,                         -- keyed hash of the original event
    event_id uuid NOT NULL,
    PRIMARY KEY (agent, key)
);
CREATE INDEX event_key_by_age ON event_key USING brin (event_id);

-- Events, partitioned by the time in their UUIDv7. No DEFAULT partition: partitions are made ahead.
-- The dispositions stand in the row as accept gave them and are never updated.
CREATE TABLE event (
    id       uuid NOT NULL,
    seq      bigint NOT NULL,
    agent    text COLLATE "C" NOT NULL,
    task_id  text COLLATE "C",
    shadows  integer[] NOT NULL,                     -- shadow_version.id of each matched shadow
    outcomes smallint[] NOT NULL,                    -- 0 queued, 1 batched, else the reason of the skip
    triggers smallint[] NOT NULL,                    -- the trigger of each matched pair
    payload  bytea NOT NULL,                         -- JSON: the event as stored, its triggers and marks
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX event_by_seq ON event (seq);
CREATE INDEX event_by_agent ON event (agent, seq);
CREATE INDEX event_by_task ON event (task_id, seq) WHERE task_id IS NOT NULL;

-- What is counted or timed: (shadow,'','',day) a shadow's day; (shadow,agent,'',day) a target's day;
-- (shadow,agent,trigger,epoch) a cooldown. Money in nano-dollars.
CREATE TABLE meter (
    shadow       text COLLATE "C",
    agent        text COLLATE "C",
    trigger      text COLLATE "C",
    day          date,
    used         bigint NOT NULL DEFAULT 0,
    held_usd     bigint NOT NULL DEFAULT 0,
    spent_usd    bigint NOT NULL DEFAULT 0,
    held_tokens  bigint NOT NULL DEFAULT 0,
    spent_tokens bigint NOT NULL DEFAULT 0,
    next_at      timestamptz NOT NULL DEFAULT 'epoch',
    PRIMARY KEY (shadow, agent, trigger, day)
) WITH (fillfactor = 50);

-- A review is the reservation and the job: narrow, and its result stands apart.
CREATE TABLE review (
    id          uuid PRIMARY KEY,
    seq         bigint NOT NULL,
    shadow      text COLLATE "C" NOT NULL,
    version     integer NOT NULL,                    -- shadow_version.id
    agent       text COLLATE "C" NOT NULL,
    task_id     text COLLATE "C",
    trigger     smallint NOT NULL,
    mode        smallint NOT NULL,                   -- its rank in the queue: 0 active, 1 review, 2 passive
    day         date NOT NULL,                       -- the day whose unit it holds
    state       text NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed', 'released')),
    run_at      timestamptz NOT NULL,
    created_at  timestamptz NOT NULL,
    started_at  timestamptz,
    finished_at timestamptz,
    worker      uuid,
    attempt     integer NOT NULL DEFAULT 0,
    reason      smallint,                            -- why it was released or failed
    failure     text                                 -- the last failure, in words
) WITH (fillfactor = 70);
CREATE INDEX review_queue ON review (mode, run_at, id) WHERE state = 'queued';
CREATE INDEX review_running ON review (worker) WHERE state = 'running';
CREATE INDEX review_by_day ON review (shadow, day);
CREATE INDEX review_by_seq ON review (seq);
CREATE INDEX review_by_agent ON review (agent, seq);
CREATE INDEX review_by_task ON review (task_id, seq) WHERE task_id IS NOT NULL;

CREATE TABLE review_event (
    review_id uuid,
    event_id  uuid,
    shadow    integer NOT NULL,
    PRIMARY KEY (review_id, event_id)
);
CREATE INDEX review_event_by_event ON review_event (event_id);

-- A money hold is this row: committed before bytes leave, settled after. At most three a review.
CREATE TABLE provider_call (
    review_id     uuid,
    n             smallint CHECK (n BETWEEN 1 AND 3),
    shadow        text COLLATE "C" NOT NULL,
    day           date NOT NULL,                     -- the call's own local day
    model         text NOT NULL,
    hold_usd      bigint NOT NULL,
    hold_tokens   bigint NOT NULL,
    actual_usd    bigint,
    actual_tokens bigint,
    state         text NOT NULL DEFAULT 'sent' CHECK (state IN ('sent', 'settled', 'unknown')),
    sent_at       timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (review_id, n)
);
CREATE INDEX provider_call_open ON provider_call (review_id) WHERE state = 'sent';
CREATE INDEX provider_call_by_day ON provider_call (shadow, day);

-- What a finished review concluded. Append-only.
CREATE TABLE review_result (
    review_id      uuid PRIMARY KEY,
    seq            bigint NOT NULL,
    assessment     text NOT NULL,
    score          smallint,
    recommendation text NOT NULL,
    reviewer       text NOT NULL,
    model          text,
    input_tokens   bigint NOT NULL,
    output_tokens  bigint NOT NULL,
    cost_usd       bigint NOT NULL,
    latency_ms     bigint NOT NULL,
    notes          text NOT NULL                     -- JSON array of sentences
);
CREATE UNIQUE INDEX review_result_by_seq ON review_result (seq);

CREATE TABLE finding (
    id             uuid PRIMARY KEY,
    seq            bigint NOT NULL,
    review_id      uuid NOT NULL,
    event_id       uuid NOT NULL,
    shadow         text COLLATE "C" NOT NULL,
    agent          text COLLATE "C" NOT NULL,
    task_id        text COLLATE "C",
    task_type      text COLLATE "C",
    trigger        smallint NOT NULL,
    mode           smallint NOT NULL,
    severity       smallint NOT NULL,
    category       text NOT NULL,
    description    text NOT NULL,
    recommendation text NOT NULL,
    field          text,
    quote          text,
    quote_start    bigint,
    quote_end      bigint,
    verified       boolean NOT NULL,
    source         text NOT NULL,
    rule           text NOT NULL,
    fingerprint    text COLLATE "C" NOT NULL,
    occurrences    bigint NOT NULL,
    created_at     timestamptz NOT NULL,
    status         text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'confirmed', 'false_positive', 'resolved')),
    note           text,
    status_at      timestamptz
);
CREATE UNIQUE INDEX finding_by_seq ON finding (seq);
CREATE INDEX finding_by_agent ON finding (agent, seq);
CREATE INDEX finding_by_shadow ON finding (shadow, seq);
CREATE INDEX finding_by_task ON finding (task_id, seq) WHERE task_id IS NOT NULL;
CREATE INDEX finding_recurring ON finding (agent, fingerprint, seq);
CREATE INDEX finding_by_review ON finding (review_id);

-- Counts of skips. One writer a replica, so that its rows are nobody else's.
CREATE TABLE skip_count (
    shadow  text COLLATE "C",
    reason  smallint,
    day     date,
    replica uuid,
    n       bigint NOT NULL,
    PRIMARY KEY (shadow, reason, day, replica)
) WITH (fillfactor = 50);

CREATE TABLE api_key (
    id         uuid PRIMARY KEY,
    name       text NOT NULL,
    hash       bytea NOT NULL UNIQUE,                -- keyed hash: the key itself is shown once and kept nowhere
    scopes     text[] NOT NULL,
    agents     text[] NOT NULL,                      -- globs of the agents that it may speak for
    created_at timestamptz NOT NULL DEFAULT clock(),
    revoked_at timestamptz
);
