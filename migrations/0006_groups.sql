-- Reviews of several events: batches share a call, a trajectory is a whole task.
ALTER TABLE review
    ADD COLUMN scope      smallint NOT NULL DEFAULT 0,   -- 0 one event, 1 a batch, 2 a trajectory
    ADD COLUMN events     integer  NOT NULL DEFAULT 1,   -- how many events hold it
    ADD COLUMN chars      bigint   NOT NULL DEFAULT 0,   -- of a batch: characters of their texts
    ADD COLUMN not_before timestamptz;                   -- of a batch: it runs no earlier, even when full
CREATE INDEX review_open_batch ON review (version, agent) WHERE state = 'queued' AND scope = 1;

-- What was found in an event.
CREATE INDEX finding_by_event ON finding (event_id);

-- What a review of several events concluded of each. Append-only, with the result.
CREATE TABLE review_assessment (
    review_id      uuid,
    event_id       uuid,
    assessment     text NOT NULL,
    score          smallint,
    recommendation text NOT NULL,
    notes          text NOT NULL,                    -- JSON array of sentences
    PRIMARY KEY (review_id, event_id)
);
