-- The rule behind a review's assessment, the subject of a finding, agents that are stuck on one output, and who reset a
-- breaker. All columns have constant defaults or none, so that no row is rewritten.

SET LOCAL lock_timeout = '1s';
ALTER TABLE review_result ADD COLUMN decided_by text;       -- rule behind the assessment; null before this column
ALTER TABLE review_assessment ADD COLUMN decided_by text;   -- the same for an event of a batch
ALTER TABLE finding ADD COLUMN about text NOT NULL DEFAULT 'agent' CHECK (about IN ('agent', 'given'));
    -- agent, or what the agent was given, which no breaker counts
ALTER TABLE breaker ADD COLUMN stuck integer NOT NULL DEFAULT 0;    -- rejections of the most rejected output; 0: no copy
ALTER TABLE breaker_agent
    ADD COLUMN reset_at timestamptz,                        -- the last reset by hand
    ADD COLUMN reset_by text,
    ADD COLUMN reset_note text;
