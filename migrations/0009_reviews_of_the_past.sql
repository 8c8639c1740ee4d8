-- Reviews of the past: those asked for later than at accept, and backtests.

-- Whether the review was reserved later than its event was accepted: then the event's own row knows nothing of it.
ALTER TABLE review_event ADD COLUMN later boolean NOT NULL DEFAULT false;

INSERT INTO feed (name) VALUES ('backtest');

-- A version of a shadow, tried on stored events. It touches no meter, feed or finding: its money is its own.
CREATE TABLE backtest (
    id           uuid PRIMARY KEY,
    seq          bigint NOT NULL,                    -- drawn from feed `backtest`
    state        text NOT NULL CHECK (state IN ('planning', 'planned', 'running', 'stopped', 'done')),
    by_server    boolean NOT NULL,                   -- posted to a server, which goes on with it after a restart
    shadow       text COLLATE "C" NOT NULL,
    version      text COLLATE "C" NOT NULL,          -- hash of the configuration
    config       text NOT NULL,                      -- JSON
    since        timestamptz NOT NULL,
    until        timestamptz NOT NULL,
    agent        text COLLATE "C",
    max_events   integer NOT NULL,
    max_usd      bigint,                             -- nano-dollars
    max_tokens   bigint,
    forecast     text,                               -- JSON
    held_usd     bigint NOT NULL DEFAULT 0,
    spent_usd    bigint NOT NULL DEFAULT 0,
    held_tokens  bigint NOT NULL DEFAULT 0,
    spent_tokens bigint NOT NULL DEFAULT 0,
    worker       uuid,                               -- who runs it, alone
    heartbeat_at timestamptz,
    failure      text,                               -- why it stopped
    created_at   timestamptz NOT NULL,
    started_at   timestamptz,
    finished_at  timestamptz
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX backtest_by_seq ON backtest (seq);
CREATE INDEX backtest_open ON backtest (seq) WHERE state <> 'done';

-- An event that the version watches, or that the shadow has reviewed.
CREATE TABLE backtest_item (
    backtest          uuid REFERENCES backtest ON DELETE CASCADE,
    seq               bigint,                        -- the event's number in the feed
    event_id          uuid NOT NULL,
    agent             text COLLATE "C" NOT NULL,
    trigger           smallint,                      -- by which the version watches it
    outcome           text NOT NULL CHECK (outcome IN ('waiting', 'reviewed', 'failed', 'skipped', 'not_watched')),
    reason            smallint,                      -- of the skip or the failure
    before_review     uuid,                          -- what really ran
    before_version    text COLLATE "C",
    before_assessment text,
    before_reason     smallint,                      -- why nothing ran, where the shadow watched it
    assessment        text,
    score             smallint,
    reviewer          text,
    severities        smallint[] NOT NULL DEFAULT '{}', -- of each finding
    categories        text[] NOT NULL DEFAULT '{}',     -- of each finding
    findings          text,                          -- JSON, without quotes: their places are in the event
    notes             text,                          -- JSON array of sentences
    change            text,
    PRIMARY KEY (backtest, seq)
) WITH (fillfactor = 70);
CREATE INDEX backtest_item_waiting ON backtest_item (backtest, seq) WHERE outcome = 'waiting';
CREATE INDEX backtest_item_by_change ON backtest_item (backtest, change, seq) WHERE change IS NOT NULL;
CREATE INDEX backtest_item_by_event ON backtest_item (event_id);

-- A call to a model for a backtest: as provider_call, but of the backtest's own money.
CREATE TABLE backtest_call (
    backtest      uuid REFERENCES backtest ON DELETE CASCADE,
    seq           bigint,
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
