-- The schema of Umbra 0.1.0.
--
-- Sections: clock; events and keys; shadows, reviews, jobs; findings; calls and money; verdicts, breakers, reflexions;
-- webhooks; briefings, backtests; boundary and audit; sessions, documents, patterns; installation, feeds, workers.
--
-- Conventions
--   Time        Function clock() alone.
--   Ids         UUIDv7, minted by the server from the database's clock.
--   seq         A number drawn from a row of table feed in the transaction's last statement. Numbers therefore become
--               visible in commit order, and a reader that asks for `seq > cursor` never skips a row.
--   Names       COLLATE "C" where rows are locked or listed in order of a name, so that SQL sorts them as Rust does.
--   Money       Nano-dollars, in columns that end in _usd.
--   JSON        Columns of type text or bytea, kept byte for byte.
--   Codes       smallint, as `code()` of the type in crates/domain gives them.
--   fillfactor  Below 100 where rows are updated in place often.
--   Isolation   READ COMMITTED. Each section names the order in which locks are taken; rows of one table are locked in
--               order of their keys. A `feed` row comes last of all.


-- Clock ---------------------------------------------------------------------------------------------------------------

-- The only clock of our SQL. Tests replace it by one that they set.
CREATE FUNCTION clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT clock_timestamp()';


-- Events and keys -----------------------------------------------------------------------------------------------------
-- Lock order of accepting: event_key, meter, review, feed.

-- Idempotency keys of events, kept for 72 hours by default. Apart from event, because a unique index of a partitioned
-- table must contain the partition key.
CREATE TABLE event_key (
    agent    text COLLATE "C",
    key      bytea,                                     -- keyed hash of the client's id
    body     bytea NOT NULL,                            -- keyed hash of the event as it was posted
    event_id uuid NOT NULL,
    PRIMARY KEY (agent, key)
);
CREATE INDEX event_key_by_age ON event_key USING brin (event_id);

-- Accepted events, partitioned by the day in their ids. Partitions are made ahead, named event_YYYYMMDD; there is no
-- DEFAULT partition. Accepting writes the dispositions, and only an erasure ever updates a row.
CREATE TABLE event (
    id        uuid NOT NULL,
    seq       bigint NOT NULL,                          -- from feed `intake`
    agent     text COLLATE "C" NOT NULL,
    task_id   text COLLATE "C",
    shadows   integer[] NOT NULL,                       -- shadow_version.id of each shadow that matched
    outcomes  smallint[] NOT NULL,                      -- for each of them: 0 queued, 1 batched, else the skip reason
    triggers  smallint[] NOT NULL,                      -- for each of them: the trigger by which it matched
    payload   bytea NOT NULL,                           -- JSON: the redacted event, its triggers and marks
    erased_at timestamptz,                              -- erasure; the payload keeps agent, task, triggers
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX event_by_seq ON event (seq);
CREATE INDEX event_by_agent ON event (agent, seq);
CREATE INDEX event_by_task ON event (task_id, seq) WHERE task_id IS NOT NULL;

-- API keys. The key itself is shown once and stored nowhere.
CREATE TABLE api_key (
    id         uuid PRIMARY KEY,
    name       text NOT NULL,
    hash       bytea NOT NULL UNIQUE,                   -- keyed hash of the key
    scopes     text[] NOT NULL,
    agents     text[] NOT NULL,                         -- globs of the agents that the key may speak for
    created_at timestamptz NOT NULL DEFAULT clock(),
    revoked_at timestamptz
);

-- First day of complete data, by kind of row. Older rows are gone or about to go: nothing is concluded from their
-- absence. Kinds: event (partitions by UTC day), review (rows that belong to reviews, by local day), count (meters and
-- skip counts, by local day).
CREATE TABLE retention (
    kind     text PRIMARY KEY CHECK (kind IN ('event', 'review', 'count')),
    before   date NOT NULL DEFAULT '1970-01-01',        -- days before this one are deleted
    first_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000' -- rows with smaller ids are deleted
);
INSERT INTO retention (kind) VALUES ('event'), ('review'), ('count');


-- Shadows, reviews, jobs ----------------------------------------------------------------------------------------------

-- Every version of every shadow that ever matched an event. A review stays with the version that reserved it.
CREATE TABLE shadow_version (
    id      integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name    text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,                  -- hash of the configuration
    config  text NOT NULL,                              -- JSON
    seen_at timestamptz NOT NULL DEFAULT clock(),
    UNIQUE (name, version)
);

-- Reviews. A row is the reservation and the job; the result is a row of review_result, so that this one stays narrow.
CREATE TABLE review (
    id          uuid PRIMARY KEY,
    seq         bigint NOT NULL,                        -- from feed `intake`
    shadow      text COLLATE "C" NOT NULL,
    version     integer NOT NULL,                       -- shadow_version.id
    agent       text COLLATE "C" NOT NULL,
    task_id     text COLLATE "C",
    trigger     smallint NOT NULL,
    mode        smallint NOT NULL,                      -- rank in the queue: 0 active, 1 review, 2 passive
    scope       smallint NOT NULL DEFAULT 0,            -- 0 one event, 1 a batch, 2 a trajectory
    events      integer NOT NULL DEFAULT 1,             -- events under review
    chars       bigint NOT NULL DEFAULT 0,              -- of a batch: characters of its events' texts
    not_before  timestamptz,                            -- of a batch: earliest start, even when full
    day         date NOT NULL,                          -- local day whose caps it counts against
    state       text NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed', 'released')),
    run_at      timestamptz NOT NULL,                   -- earliest next attempt
    created_at  timestamptz NOT NULL,
    started_at  timestamptz,
    finished_at timestamptz,
    worker      uuid,                                   -- worker.id of the lease
    attempt     integer NOT NULL DEFAULT 0,
    reason      smallint,                               -- skip reason of a release or failure
    failure     text                                    -- last failure, in words
) WITH (fillfactor = 70);
CREATE INDEX review_queue ON review (mode, run_at, id) WHERE state = 'queued';
CREATE INDEX review_running ON review (worker) WHERE state = 'running';
CREATE INDEX review_open_batch ON review (version, agent) WHERE state = 'queued' AND scope = 1;
CREATE INDEX review_by_day ON review (shadow, day);
CREATE INDEX review_by_seq ON review (seq);
CREATE INDEX review_by_agent ON review (agent, seq);
CREATE INDEX review_by_task ON review (task_id, seq) WHERE task_id IS NOT NULL;

-- Events under each review.
CREATE TABLE review_event (
    review_id uuid,
    event_id  uuid,
    shadow    integer NOT NULL,                         -- shadow_version.id
    later     boolean NOT NULL DEFAULT false,           -- reserved after accept, so not in event.outcomes
    PRIMARY KEY (review_id, event_id)
);
CREATE INDEX review_event_by_event ON review_event (event_id);

-- Conclusions of finished reviews. Append-only.
CREATE TABLE review_result (
    review_id      uuid PRIMARY KEY,
    seq            bigint NOT NULL,                     -- from feed `result`
    assessment     text NOT NULL,
    score          smallint,
    recommendation text NOT NULL,
    reviewer       text NOT NULL,
    model          text,
    prompt_version smallint,                            -- version of the prompt template; null without a model
    input_tokens   bigint NOT NULL,
    output_tokens  bigint NOT NULL,
    cost_usd       bigint NOT NULL,
    latency_ms     bigint NOT NULL,
    notes          text NOT NULL                        -- JSON array of sentences
);
CREATE UNIQUE INDEX review_result_by_seq ON review_result (seq);

-- Conclusions on each event of a review of several. Append-only, written with the result.
CREATE TABLE review_assessment (
    review_id      uuid,
    event_id       uuid,
    assessment     text NOT NULL,
    score          smallint,
    recommendation text NOT NULL,
    notes          text NOT NULL,                       -- JSON array of sentences
    PRIMARY KEY (review_id, event_id)
);

-- Scores of an agent's work by shadow and reviewer, from which its usual score is taken.
CREATE TABLE agent_score (
    agent     text COLLATE "C" NOT NULL,
    task_type text COLLATE "C" NOT NULL,                -- empty for none
    shadow    text COLLATE "C" NOT NULL,
    reviewer  text NOT NULL,
    event_id  uuid NOT NULL,
    review_id uuid NOT NULL,
    score     smallint NOT NULL,
    at        timestamptz NOT NULL,
    PRIMARY KEY (review_id, event_id)
);
CREATE INDEX agent_score_newest ON agent_score (agent, task_type, shadow, reviewer, at);


-- Findings ------------------------------------------------------------------------------------------------------------

-- Faults that reviews found, each with its evidence. Feedback of a person sets status, note and status_at.
CREATE TABLE finding (
    id             uuid PRIMARY KEY,
    seq            bigint NOT NULL,                     -- from feed `result`
    review_id      uuid NOT NULL,
    event_id       uuid NOT NULL,
    shadow         text COLLATE "C" NOT NULL,
    agent          text COLLATE "C" NOT NULL,
    task_id        text COLLATE "C",
    task_type      text COLLATE "C",
    trigger        smallint NOT NULL,
    mode           smallint NOT NULL,
    severity       smallint NOT NULL,                   -- 0 info, 1 warning, 2 critical
    category       text NOT NULL,
    description    text NOT NULL,
    recommendation text NOT NULL,
    field          text,                                -- of the evidence: the event's field, such as tool.args.command
    quote          text,                                -- of the evidence: the text there, as stored
    quote_start    bigint,                              -- of the evidence: its first byte in the field
    quote_end      bigint,                              -- of the evidence: the byte behind its last
    verified       boolean NOT NULL,                    -- the evidence stands in the text
    source         text NOT NULL,                       -- check or model
    rule           text NOT NULL,                       -- rule of the check, or checklist item of the model
    fingerprint    text COLLATE "C" NOT NULL,           -- equal for the same fault
    occurrences    bigint NOT NULL,                     -- events of this agent with the fingerprint up to this one
    created_at     timestamptz NOT NULL,
    status         text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'confirmed', 'false_positive', 'resolved')),
    note           text,                                -- feedback in words
    status_at      timestamptz
);
CREATE UNIQUE INDEX finding_by_seq ON finding (seq);
CREATE INDEX finding_by_agent ON finding (agent, seq);
CREATE INDEX finding_by_shadow ON finding (shadow, seq);
CREATE INDEX finding_by_task ON finding (task_id, seq) WHERE task_id IS NOT NULL;
CREATE INDEX finding_by_review ON finding (review_id);
CREATE INDEX finding_by_event ON finding (event_id);
CREATE INDEX finding_recurring ON finding (agent, fingerprint, seq);
-- The same fault of an agent in one type of task. Findings of passive shadows (mode 2) do not count.
CREATE INDEX finding_recurring_in_type ON finding (agent, coalesce(task_type, ''), fingerprint, seq) WHERE mode < 2;
-- Findings with feedback: the precision of shadows, and examples for their reviewers.
CREATE INDEX finding_judged ON finding (shadow, seq) WHERE status <> 'open';


-- Calls and money -----------------------------------------------------------------------------------------------------

-- Counters and cooldowns. Three kinds of row, by the columns of the key:
--   (shadow, '', '', day)              a shadow's day
--   (shadow, agent, '', day)           an agent's day with a shadow
--   (shadow, agent, trigger, 'epoch')  a cooldown
CREATE TABLE meter (
    shadow       text COLLATE "C",
    agent        text COLLATE "C",
    trigger      text COLLATE "C",
    day          date,
    used         bigint NOT NULL DEFAULT 0,             -- reviews
    held_usd     bigint NOT NULL DEFAULT 0,
    spent_usd    bigint NOT NULL DEFAULT 0,
    held_tokens  bigint NOT NULL DEFAULT 0,
    spent_tokens bigint NOT NULL DEFAULT 0,
    next_at      timestamptz NOT NULL DEFAULT 'epoch',  -- end of the cooldown
    PRIMARY KEY (shadow, agent, trigger, day)
) WITH (fillfactor = 50);

-- Calls to models for reviews. A hold of money is this row: committed before bytes leave, settled after.
CREATE TABLE provider_call (
    review_id     uuid,
    n             smallint CHECK (n BETWEEN 1 AND 3),   -- at most three calls for a review, over all its attempts
    shadow        text COLLATE "C" NOT NULL,
    day           date NOT NULL,                        -- local day of the call
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

-- Skipped pairs of event and shadow, by local day. Each server counts in rows of its own, so none waits for another.
CREATE TABLE skip_count (
    shadow  text COLLATE "C",
    reason  smallint,
    day     date,
    replica uuid,
    n       bigint NOT NULL,
    PRIMARY KEY (shadow, reason, day, replica)
) WITH (fillfactor = 50);


-- Verdicts, breakers, reflexions --------------------------------------------------------------------------------------
-- Lock order: follower, breaker_agent, breaker, feed.

-- Final decisions of active shadows about events. The first row for an event decides for every waiter.
CREATE TABLE verdict (
    event_id       uuid PRIMARY KEY,
    seq            bigint NOT NULL,                     -- from feed `result`
    agent          text COLLATE "C" NOT NULL,
    task_id        text COLLATE "C",
    verdict        text NOT NULL CHECK (verdict IN ('accepted', 'rejected')),
    verdict_by     timestamptz NOT NULL,                -- deadline
    shadow         text COLLATE "C" NOT NULL,
    review_id      uuid NOT NULL,
    reasons        text NOT NULL,                       -- JSON array of sentences
    recommendation text,
    decided_at     timestamptz NOT NULL
);
CREATE UNIQUE INDEX verdict_by_seq ON verdict (seq);
CREATE INDEX verdict_by_agent ON verdict (agent, seq);

-- Breakers: one shadow's opinion of one agent.
CREATE TABLE breaker (
    agent          text COLLATE "C",
    shadow         text COLLATE "C",
    history        text NOT NULL,                       -- JSON; the columns below are computed from it
    recommendation text NOT NULL CHECK (recommendation IN ('closed', 'half_open', 'open')),
    since          timestamptz,
    half_open_at   timestamptz,                         -- while open: time at which it becomes half open
    troubled_since timestamptz,                         -- start of the time in which it has not been closed
    rejections     integer NOT NULL,                    -- rejections in a row
    rejected_by    uuid[] NOT NULL,                     -- the reviews that rejected, oldest first
    PRIMARY KEY (agent, shadow)
) WITH (fillfactor = 50);
CREATE INDEX breaker_open ON breaker (half_open_at) WHERE half_open_at IS NOT NULL;

-- The last announced recommendation for an agent over all shadows, and the acknowledgement of a person.
CREATE TABLE breaker_agent (
    agent           text COLLATE "C" PRIMARY KEY,
    seq             bigint NOT NULL,                    -- from feed `result`, at the first rejection or approval
    recommendation  text NOT NULL DEFAULT 'closed',
    troubled_since  timestamptz,                        -- start of the time in which it has not been closed
    alerted         boolean NOT NULL DEFAULT false,     -- an alert about that time was sent
    acknowledged_at timestamptz,
    acknowledged_by text,
    note            text
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX breaker_agent_by_seq ON breaker_agent (seq);
CREATE INDEX breaker_agent_troubled ON breaker_agent (troubled_since) WHERE troubled_since IS NOT NULL;

-- Faults that recur. A fault that recurs after its row was closed gets a new row.
CREATE TABLE reflexion (
    id          uuid PRIMARY KEY,
    seq         bigint NOT NULL,                        -- from feed `result`
    agent       text COLLATE "C" NOT NULL,
    task_type   text COLLATE "C",
    fingerprint text COLLATE "C" NOT NULL,              -- that of the findings
    severity    smallint NOT NULL,
    category    text NOT NULL,
    source      text NOT NULL,
    rule        text NOT NULL,
    status      text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'closed')),
    events      bigint NOT NULL,                        -- events with the fault from first_at to last_at
    first_at    timestamptz NOT NULL,
    last_at     timestamptz NOT NULL,
    opened_at   timestamptz NOT NULL,
    closed_at   timestamptz
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX reflexion_by_seq ON reflexion (seq);
CREATE UNIQUE INDEX reflexion_open ON reflexion (agent, coalesce(task_type, ''), fingerprint) WHERE status = 'open';
CREATE INDEX reflexion_by_agent ON reflexion (agent, seq);
CREATE INDEX reflexion_stale ON reflexion (last_at) WHERE status = 'open';


-- Webhooks ------------------------------------------------------------------------------------------------------------

-- Outbox: one row for each message and endpoint, stored in the transaction of the fact that it tells, deleted once the
-- endpoint has accepted it. A claim sets due_at to the end of its lease, so rows of a killed process fall due by
-- themselves.
CREATE TABLE webhook_delivery (
    id         uuid PRIMARY KEY,
    message_id uuid NOT NULL,                           -- the same at every attempt, by which receivers know it
    endpoint   text COLLATE "C" NOT NULL,
    kind       text NOT NULL,
    agent      text COLLATE "C",                        -- subject of the message, by which it is erased
    task_id    text COLLATE "C",
    body       text NOT NULL,                           -- the bytes that are signed and sent
    state      text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'dead')),
    attempt    integer NOT NULL DEFAULT 0,
    due_at     timestamptz NOT NULL DEFAULT clock(),
    created_at timestamptz NOT NULL DEFAULT clock(),
    first_at   timestamptz,                             -- time of the first attempt
    status     integer,                                 -- HTTP status of the last answer
    failure    text,                                    -- last failure, in words
    dead_at    timestamptz,
    seq        bigint,                                  -- from feed `dead`, when it is given up
    UNIQUE (message_id, endpoint)
) WITH (fillfactor = 70);
CREATE INDEX webhook_due ON webhook_delivery (endpoint, due_at) WHERE state = 'waiting';
CREATE INDEX webhook_by_agent ON webhook_delivery (agent) WHERE agent IS NOT NULL;
CREATE INDEX webhook_by_task ON webhook_delivery (task_id) WHERE task_id IS NOT NULL;
CREATE UNIQUE INDEX webhook_dead ON webhook_delivery (seq) WHERE state = 'dead';

-- Endpoints that answered 410 Gone. Nothing is sent to such an address until a person resumes it.
CREATE TABLE webhook_gone (
    endpoint text COLLATE "C",
    url_hash text COLLATE "C",                          -- another URL of the same endpoint is not gone
    gone_at  timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (endpoint, url_hash)
);


-- Briefings, backtests ------------------------------------------------------------------------------------------------

-- Daily briefings and weekly reports, filed at the end of their time.
CREATE TABLE briefing (
    kind     text NOT NULL CHECK (kind IN ('day', 'week')),
    first    date NOT NULL,                             -- the day, or the Monday of the week
    body     text NOT NULL,                             -- JSON
    filed_at timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (kind, first)
);

-- Backtests: a version of a shadow, tried on stored events. They touch no meter, feed `result` or finding, and have a
-- budget of their own.
CREATE TABLE backtest (
    id           uuid PRIMARY KEY,
    seq          bigint NOT NULL,                       -- from feed `backtest`
    state        text NOT NULL CHECK (state IN ('planning', 'planned', 'running', 'stopped', 'done')),
    by_server    boolean NOT NULL,                      -- posted to a server, which resumes it after a restart
    shadow       text COLLATE "C" NOT NULL,
    version      text COLLATE "C" NOT NULL,             -- hash of the configuration
    config       text NOT NULL,                         -- JSON
    since        timestamptz NOT NULL,
    until        timestamptz NOT NULL,
    agent        text COLLATE "C",
    max_events   integer NOT NULL,
    max_usd      bigint,
    max_tokens   bigint,
    forecast     text,                                  -- JSON
    held_usd     bigint NOT NULL DEFAULT 0,
    spent_usd    bigint NOT NULL DEFAULT 0,
    held_tokens  bigint NOT NULL DEFAULT 0,
    spent_tokens bigint NOT NULL DEFAULT 0,
    worker       uuid,                                  -- the one process that runs it
    heartbeat_at timestamptz,
    failure      text,                                  -- reason of the stop, in words
    created_at   timestamptz NOT NULL,
    started_at   timestamptz,
    finished_at  timestamptz
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX backtest_by_seq ON backtest (seq);
CREATE INDEX backtest_open ON backtest (seq) WHERE state <> 'done';

-- Events of a backtest: those that the tried version watches, and those that the shadow really reviewed.
CREATE TABLE backtest_item (
    backtest          uuid REFERENCES backtest ON DELETE CASCADE,
    seq               bigint,                           -- event.seq
    event_id          uuid NOT NULL,
    agent             text COLLATE "C" NOT NULL,
    trigger           smallint,                         -- trigger by which the tried version watches it
    outcome           text NOT NULL CHECK (outcome IN ('waiting', 'reviewed', 'failed', 'skipped', 'not_watched')),
    reason            smallint,                         -- reason of the skip or failure
    before_review     uuid,                             -- the review that really ran
    before_version    text COLLATE "C",
    before_assessment text,
    before_reason     smallint,                         -- skip reason, where the shadow watched it and nothing ran
    assessment        text,
    score             smallint,
    reviewer          text,
    severities        smallint[] NOT NULL DEFAULT '{}', -- of each finding
    categories        text[] NOT NULL DEFAULT '{}',     -- of each finding
    findings          text,                             -- JSON; quotes are left out, their places in the event are not
    notes             text,                             -- JSON array of sentences
    change            text,                             -- difference from the review that really ran
    PRIMARY KEY (backtest, seq)
) WITH (fillfactor = 70);
CREATE INDEX backtest_item_waiting ON backtest_item (backtest, seq) WHERE outcome = 'waiting';
CREATE INDEX backtest_item_by_change ON backtest_item (backtest, change, seq) WHERE change IS NOT NULL;
CREATE INDEX backtest_item_by_event ON backtest_item (event_id);

-- Calls to models for backtests: as provider_call, charged to the backtest's own budget.
CREATE TABLE backtest_call (
    backtest      uuid REFERENCES backtest ON DELETE CASCADE,
    seq           bigint,                               -- backtest_item.seq
    n             smallint CHECK (n BETWEEN 1 AND 3),
    model         text NOT NULL,
    hold_usd      bigint NOT NULL,
    hold_tokens   bigint NOT NULL,
    actual_usd    bigint,
    actual_tokens bigint,
    state         text NOT NULL DEFAULT 'sent' CHECK (state IN ('sent', 'settled', 'unknown')),
    sent_at       timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (backtest, seq, n)
);
CREATE INDEX backtest_call_open ON backtest_call (backtest) WHERE state = 'sent';


-- Boundary and audit --------------------------------------------------------------------------------------------------
-- Decisions about calls of tools, and their audit.
-- Lock order: the boundary's advisory lock, boundary_run, boundary_session, call, approval, feed.
-- A column mac is a keyed hash of its row. The key is not in the database, so a row that no server wrote is recognised:
-- an override or approval then permits nothing, a run counts as begun in shadow, an answer is not given.

-- The audit: rows are inserted, and a trigger refuses to update or delete them, whatever the role. Texts of agents and
-- tools are in audit_payload, where they can be erased; the row keeps a keyed hash of them.
CREATE TABLE audit (
    seq         bigint PRIMARY KEY,                     -- from feed `audit`: without a gap, in commit order
    id          uuid NOT NULL UNIQUE,
    at          timestamptz NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('decision', 'outcome', 'execution', 'approval', 'erasure', 'merged')),
    agent       text,
    session     text,
    run         text,
    call_id     text,
    tool        text,
    body        text NOT NULL,                          -- JSON; hashed into the chain as it is
    payload_mac bytea,                                  -- HMAC-SHA256 of the payload under its salt
    stamp       bytea                                   -- key, row count, signature; in a transaction's first row
);
CREATE INDEX audit_agent ON audit (agent, seq);
CREATE INDEX audit_run ON audit (run, seq) WHERE run IS NOT NULL;
CREATE INDEX audit_session ON audit (session, seq) WHERE session IS NOT NULL;
CREATE INDEX audit_outcome ON audit (agent, tool, seq) WHERE kind = 'outcome';
-- Runs that stay in shadow and sessions that carry labels, as each decision looks them up: changing or deleting their
-- rows in boundary_run and boundary_session frees neither.
CREATE INDEX audit_bound ON audit (agent, run) WHERE body LIKE '%"run_execution":"shadow"%';
CREATE INDEX audit_labels ON audit (agent, session) WHERE body LIKE '%"labels":{%';

-- Erasable part of audit rows.
CREATE TABLE audit_payload (
    seq  bigint PRIMARY KEY REFERENCES audit,
    salt bytea NOT NULL,
    body text NOT NULL                                  -- JSON: arguments, stub, result and error, redacted
);

-- Hash chain over the audit: the hash of a block covers the previous block and its own rows.
CREATE TABLE audit_seal (
    block     bigint PRIMARY KEY,
    first     bigint NOT NULL,                          -- audit.seq of its first row
    last      bigint NOT NULL CHECK (last >= first),    -- audit.seq of its last row
    hash      bytea NOT NULL,
    sealed_at timestamptz NOT NULL DEFAULT clock()
);

-- Refuses any change of the audit and of its chain.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN RAISE EXCEPTION ''% is append-only'', TG_TABLE_NAME USING ERRCODE = ''42501''; END';
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_seal
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Progress of each folder with files of the audit, noted after they are written: files that lost their end are found.
CREATE TABLE audit_folder (
    key      bytea PRIMARY KEY,                         -- public key of the folder's checkpoints
    block    bigint NOT NULL DEFAULT 0,                 -- newest block with a checkpoint there
    written  bigint NOT NULL DEFAULT 0,                 -- newest audit.seq that is written there
    noted_at timestamptz NOT NULL DEFAULT clock()
);

-- Decided calls, so that a repeated call_id gets the same answer.
CREATE TABLE call (
    agent       text NOT NULL,
    call_id     text NOT NULL,
    body        bytea NOT NULL,                         -- keyed hash of the request
    seq         bigint,                                 -- audit.seq of the decision; null where reads are not audited
    decision    text NOT NULL,
    answer      text,                                   -- JSON; null once erased
    approval    uuid,                                   -- the approval that the answer `ask` waits for
    outcome     bytea,                                  -- keyed hash of the reported outcome
    outcome_seq bigint,                                 -- audit.seq of the outcome
    decided_at  timestamptz NOT NULL,
    mac         bytea,
    PRIMARY KEY (agent, call_id)
);
CREATE INDEX call_decided ON call (decided_at);

-- Runs of agents.
CREATE TABLE boundary_run (
    agent      text NOT NULL,
    run        text NOT NULL,
    execution  text NOT NULL,                           -- strictest execution of its calls so far
    began      text,                                    -- execution of its first call; null means `execution`
    parent     text,                                    -- the shadow run that it descends from
    started_by text,                                    -- the run that started it, shadow or not
    session    text,                                    -- session of its last call
    state      text,                                    -- JSON: memory of its stubs; null while none was needed
    updated_at timestamptz NOT NULL,
    mac        bytea,
    PRIMARY KEY (agent, run)
) WITH (fillfactor = 50);
CREATE INDEX boundary_run_name ON boundary_run (run);

-- Sessions of agents.
CREATE TABLE boundary_session (
    agent           text NOT NULL,
    session         text NOT NULL,
    taints          text[] NOT NULL DEFAULT '{}',       -- labels of the data that it has read
    uninterceptable text[] NOT NULL DEFAULT '{}',       -- ways to write that the boundary cannot intercept
    updated_at      timestamptz NOT NULL,
    PRIMARY KEY (agent, session)
);

-- Overrides of the execution, at most one for a scope and value. Previous ones are in the audit.
CREATE TABLE execution_override (
    scope      text NOT NULL,                           -- global, environment, agent, session or tool
    value      text NOT NULL,                           -- name or glob; empty for all
    id         uuid NOT NULL,
    execution  text NOT NULL,
    reason     text NOT NULL,
    set_at     timestamptz NOT NULL,
    expires_at timestamptz,
    mac        bytea,
    PRIMARY KEY (scope, value)
);

-- Requests to approve a call: one use, for one agent, tool and arguments.
CREATE TABLE approval (
    id         uuid PRIMARY KEY,
    agent      text NOT NULL,
    tool       text NOT NULL,
    digest     bytea NOT NULL,                          -- keyed hash of agent, tool and arguments
    rule       text,
    reason     text,
    state      text NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'used')),
    asked_at   timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    note       text,
    mac        bytea
);
CREATE INDEX approval_digest ON approval (digest, asked_at);

-- Definitions of MCP tools as first seen, or as a person last accepted them.
CREATE TABLE mcp_pin (
    profile      text,
    server       text,
    tool         text,
    hash         bytea NOT NULL CHECK (length(hash) = 32),
    description  text NOT NULL,                         -- redacted, for a person to compare
    pinned_at    timestamptz NOT NULL DEFAULT clock(),
    changed_hash bytea CHECK (length(changed_hash) = 32), -- of the last reported definition that differs
    changed_at   timestamptz,
    PRIMARY KEY (profile, server, tool)
);

-- Tools with decided calls.
CREATE TABLE tool_seen (
    tool     text PRIMARY KEY,
    effect   text NOT NULL,                             -- effect in the last decision
    calls    bigint NOT NULL,
    first_at timestamptz NOT NULL,
    last_at  timestamptz NOT NULL
);
CREATE INDEX tool_seen_last ON tool_seen (last_at);

-- Evidence of live results for and against each version of a contract that was in force.
CREATE TABLE contract_state (
    tool         text,
    version      bigint,
    since        timestamptz NOT NULL DEFAULT clock(),  -- first time in force
    results      bigint NOT NULL DEFAULT 0,             -- live results compared with it
    misfits      bigint NOT NULL DEFAULT 0,             -- latest results in a row that did not fit
    last_at      timestamptz,                           -- last result
    fit_at       timestamptz,                           -- last result that fitted
    misfit       text,                                  -- last mismatch, in our words
    recent       bigint[] NOT NULL DEFAULT '{}',        -- audit.seq of results since it stopped fitting
    stale_since  timestamptz,
    stale_why    text CHECK (stale_why IN ('misfits', 'age')),
    confirmed_at timestamptz,                           -- last confirmation by a person
    PRIMARY KEY (tool, version)
);

-- Calls in events for which no decision was asked, by agent and tool.
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

-- Calls that ran, by their outcome, although they were refused or answered by a stub, by agent and tool.
CREATE TABLE unexpected_call (
    agent    text,
    tool     text,
    calls    bigint NOT NULL,
    first_at timestamptz NOT NULL,
    last_at  timestamptz NOT NULL,
    last_seq bigint NOT NULL,                           -- audit.seq of the last outcome
    PRIMARY KEY (agent, tool)
);
CREATE INDEX unexpected_call_last ON unexpected_call (last_at);


-- Sessions, documents, patterns ---------------------------------------------------------------------------------------
-- The sidecar. Its lists go by seq; a row without one has not been numbered yet.
-- Lock order: follower, the tasks' advisory locks, those of the patterns' keys, pattern, sidecar_session,
-- sidecar_document, feed.

-- Sessions of the sidecar. The whole state is in one row, so that any server takes the next step.
CREATE TABLE sidecar_session (
    id        uuid PRIMARY KEY,
    seq       bigint,                                   -- from feed `session`
    agent     text NOT NULL,
    task_id   text,
    state     text NOT NULL CHECK (state IN ('open', 'closed')),
    body      text NOT NULL,                            -- JSON
    files     text,                                     -- folder of its documents in the workspace; null for none
    opened_at timestamptz NOT NULL DEFAULT clock(),
    seen_at   timestamptz NOT NULL DEFAULT clock()
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX sidecar_session_seq ON sidecar_session (seq);
CREATE INDEX sidecar_session_unnumbered ON sidecar_session (id) WHERE seq IS NULL;
CREATE INDEX sidecar_session_open ON sidecar_session (agent) WHERE state = 'open';
CREATE INDEX sidecar_session_idle ON sidecar_session (seen_at) WHERE state = 'open';
CREATE INDEX sidecar_session_files ON sidecar_session (state, seen_at) WHERE files IS NOT NULL;
CREATE INDEX sidecar_session_of_agent ON sidecar_session (agent, id);
CREATE INDEX sidecar_session_of_task ON sidecar_session (task_id) WHERE task_id IS NOT NULL;

-- Deleted sessions with files, however they were deleted: the server that has the files removes them. A row is kept as
-- long as its session would have been.
CREATE TABLE sidecar_gone (
    session uuid PRIMARY KEY,
    files   text NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock()
);
CREATE INDEX sidecar_gone_at ON sidecar_gone (at, session);
-- Notes a deleted session with files.
CREATE FUNCTION note_gone() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN INSERT INTO sidecar_gone (session, files) VALUES (OLD.id, OLD.files) ON CONFLICT DO NOTHING; RETURN NULL; END$$;
CREATE TRIGGER note_gone AFTER DELETE ON sidecar_session
    FOR EACH ROW WHEN (OLD.files IS NOT NULL) EXECUTE FUNCTION note_gone();

-- Sets of tools by their hash, because agents of one kind offer the same set.
CREATE TABLE sidecar_tools (
    digest  text PRIMARY KEY,
    body    text NOT NULL,                              -- JSON
    seen_at timestamptz NOT NULL DEFAULT clock()
);

-- Requests to a session with their answers, in order, as a replay repeats them.
CREATE TABLE sidecar_step (
    session uuid NOT NULL REFERENCES sidecar_session ON DELETE CASCADE,
    number  integer NOT NULL,
    kind    text NOT NULL CHECK (kind IN ('turn', 'message', 'guard', 'close')),
    at      timestamptz NOT NULL DEFAULT clock(),
    body    text NOT NULL,                              -- JSON
    chain   text,                                       -- hash of this step and of the chain up to the previous one
    PRIMARY KEY (session, number)
);

-- Documents of sessions.
CREATE TABLE sidecar_document (
    session uuid NOT NULL REFERENCES sidecar_session ON DELETE CASCADE,
    name    text NOT NULL,
    format  text NOT NULL CHECK (format IN ('markdown', 'yaml')),
    version integer NOT NULL,                           -- number of changes
    first   text NOT NULL,                              -- text at its beginning
    text    text NOT NULL,                              -- current text
    at_turn text NOT NULL,                              -- text at the beginning of the last turn
    PRIMARY KEY (session, name)
);

-- Changes of documents, one for each version.
CREATE TABLE sidecar_change (
    session uuid NOT NULL,
    name    text NOT NULL,
    version integer NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock(),
    before  text NOT NULL,                              -- etag of the text before
    after   text NOT NULL,                              -- etag of the text after
    entry   text NOT NULL,                              -- JSON: edit or merge that made the change
    PRIMARY KEY (session, name, version),
    FOREIGN KEY (session, name) REFERENCES sidecar_document ON DELETE CASCADE
);
CREATE INDEX sidecar_change_after ON sidecar_change (session, name, after);

-- Patterns: procedures for a task, with their successes and failures.
CREATE TABLE pattern (
    id         uuid PRIMARY KEY,
    seq        bigint,                                  -- from feed `pattern`
    key        text NOT NULL UNIQUE,                    -- equal for the same procedure, which is counted, not repeated
    agent      text NOT NULL,
    task_id    text,                                    -- task in which it was first recorded
    state      text NOT NULL,
    body       text NOT NULL,                           -- JSON
    changed_at timestamptz NOT NULL DEFAULT clock()
);
CREATE UNIQUE INDEX pattern_seq ON pattern (seq);
CREATE INDEX pattern_unnumbered ON pattern (id) WHERE seq IS NULL;
CREATE INDEX pattern_agent ON pattern (agent);
CREATE INDEX pattern_task ON pattern (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX pattern_changed ON pattern (changed_at);

-- Tasks that a pattern was counted for: each counts once, and a later review that flags the task takes its successes
-- back.
CREATE TABLE pattern_use (
    pattern   uuid NOT NULL REFERENCES pattern ON DELETE CASCADE,
    agent     text NOT NULL,
    task_id   text NOT NULL,
    successes integer NOT NULL,                         -- 0 once a review flagged the task
    used_at   timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (task_id, pattern)
);
CREATE INDEX pattern_use_pattern ON pattern_use (pattern);
CREATE INDEX pattern_use_agent ON pattern_use (agent);
CREATE INDEX pattern_use_used ON pattern_use (used_at);


-- Installation, feeds, workers ----------------------------------------------------------------------------------------

-- The installation. One row.
CREATE TABLE installation (
    only_one   boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    secret     bytea NOT NULL CHECK (length(secret) = 32), -- key of the hashes of idempotency, samples and API keys
    created_at timestamptz NOT NULL DEFAULT clock()
);

-- Last number of each feed.
--   intake    events and reservations of reviews
--   result    finished reviews, findings, verdicts, reflexions, agents with breakers
--   release   reserved reviews that were given back; while it stands still, a spent cap stays spent
--   dead      webhook deliveries that were given up
--   backtest  backtests
--   audit     rows of the audit
--   pattern   patterns
--   session   sessions of the sidecar
CREATE TABLE feed (name text PRIMARY KEY, last bigint NOT NULL DEFAULT 0) WITH (fillfactor = 10);
INSERT INTO feed (name)
VALUES ('intake'), ('result'), ('release'), ('dead'), ('backtest'), ('audit'), ('pattern'), ('session');

-- Progress of each follower of a feed. The effects of a row of the feed are stored in the transaction that moves the
-- follower past it, and one process of a cluster holds the follower at a time.
--   consequences  feed `result`: breakers, reflexions, webhooks
--   artifacts     feed `result`: files
--   patterns      feed `result`: patterns of approved tasks
--   unguarded     feed `intake`: calls without a decision
--   seal          feed `audit`: the hash chain
--   contracts     feed `audit`: evidence for and against contracts
CREATE TABLE follower (
    name text PRIMARY KEY,
    seq  bigint NOT NULL                                -- last number that it has dealt with
) WITH (fillfactor = 50);
INSERT INTO follower (name, seq)
VALUES ('consequences', 0), ('artifacts', 0), ('patterns', 0), ('unguarded', 0), ('seal', 0), ('contracts', 0);

-- Processes that perform reviews. After 12 s without a heartbeat one is dead, and its reviews are taken over.
CREATE TABLE worker (
    id           uuid PRIMARY KEY,
    started_at   timestamptz NOT NULL DEFAULT clock(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock(),
    standing     text                                   -- JSON for `umbra status`; null if it does not serve
) WITH (fillfactor = 50);
