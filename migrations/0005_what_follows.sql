-- What follows from findings: breakers, reflexions, and what agents usually score.

-- What one shadow's reviews say of one agent: `history` (JSON) is the truth, the columns beside it are read from it.
CREATE TABLE breaker (
    agent          text COLLATE "C",
    shadow         text COLLATE "C",
    history        text NOT NULL,
    recommendation text NOT NULL CHECK (recommendation IN ('closed', 'half_open', 'open')),
    since          timestamptz,
    half_open_at   timestamptz,                      -- when it becomes half open, if it is open
    troubled_since timestamptz,                      -- since when it has not been closed
    rejections     integer NOT NULL,
    rejected_by    uuid[] NOT NULL,                  -- the reviews that rejected, oldest first
    PRIMARY KEY (agent, shadow)
) WITH (fillfactor = 50);
CREATE INDEX breaker_open ON breaker (half_open_at) WHERE half_open_at IS NOT NULL;

-- What was last announced of an agent, all shadows together, and what people said to it.
CREATE TABLE breaker_agent (
    agent           text COLLATE "C" PRIMARY KEY,
    seq             bigint NOT NULL,                 -- drawn from feed `result` when the agent was first rejected or approved
    recommendation  text NOT NULL DEFAULT 'closed',
    troubled_since  timestamptz,
    alerted         boolean NOT NULL DEFAULT false,  -- that it has not been closed for too long
    acknowledged_at timestamptz,
    acknowledged_by text,
    note            text
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX breaker_agent_by_seq ON breaker_agent (seq);
CREATE INDEX breaker_agent_troubled ON breaker_agent (troubled_since) WHERE troubled_since IS NOT NULL;

-- A fault that recurs. One that recurs again after it was closed is a new row.
CREATE TABLE reflexion (
    id          uuid PRIMARY KEY,
    seq         bigint NOT NULL,                     -- drawn from feed `result`
    agent       text COLLATE "C" NOT NULL,
    task_type   text COLLATE "C",
    fingerprint text COLLATE "C" NOT NULL,
    severity    smallint NOT NULL,
    category    text NOT NULL,
    source      text NOT NULL,
    rule        text NOT NULL,
    status      text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'closed')),
    events      bigint NOT NULL,                     -- events in which it was found, from first_at to last_at
    first_at    timestamptz NOT NULL,
    last_at     timestamptz NOT NULL,
    opened_at   timestamptz NOT NULL,
    closed_at   timestamptz
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX reflexion_by_seq ON reflexion (seq);
CREATE UNIQUE INDEX reflexion_open ON reflexion (agent, coalesce(task_type, ''), fingerprint) WHERE status = 'open';
CREATE INDEX reflexion_by_agent ON reflexion (agent, seq);
CREATE INDEX reflexion_stale ON reflexion (last_at) WHERE status = 'open';

-- What an agent's work scored with a shadow and its reviewer.
CREATE TABLE agent_score (
    agent     text COLLATE "C" NOT NULL,
    task_type text COLLATE "C" NOT NULL,             -- '' for none
    shadow    text COLLATE "C" NOT NULL,
    reviewer  text NOT NULL,
    event_id  uuid NOT NULL,
    review_id uuid NOT NULL,
    score     smallint NOT NULL,
    at        timestamptz NOT NULL,
    PRIMARY KEY (review_id, event_id)
);
CREATE INDEX agent_score_newest ON agent_score (agent, task_type, shadow, reviewer, at);

-- The same fault of an agent in a type of task. Findings of passive shadows do not count.
CREATE INDEX finding_recurring_in_type ON finding (agent, coalesce(task_type, ''), fingerprint, seq) WHERE mode < 2;

-- What people have judged: the precision of shadows, and cases for their reviewers.
CREATE INDEX finding_judged ON finding (shadow, seq) WHERE status <> 'open';
