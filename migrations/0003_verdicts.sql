-- What active shadows decided about an event, for good: whoever files it first decides for everybody.
CREATE TABLE verdict (
    event_id       uuid PRIMARY KEY,
    seq            bigint NOT NULL,                  -- drawn from feed `result`
    agent          text COLLATE "C" NOT NULL,
    task_id        text COLLATE "C",
    verdict        text NOT NULL CHECK (verdict IN ('accepted', 'rejected')),
    verdict_by     timestamptz NOT NULL,
    shadow         text COLLATE "C" NOT NULL,
    review_id      uuid NOT NULL,
    reasons        text NOT NULL,                    -- JSON array of sentences
    recommendation text,
    decided_at     timestamptz NOT NULL
);
CREATE UNIQUE INDEX verdict_by_seq ON verdict (seq);
CREATE INDEX verdict_by_agent ON verdict (agent, seq);
