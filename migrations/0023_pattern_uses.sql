-- For which tasks a pattern was counted: what the events of a task show is counted once, whoever tells of it before, and a review that
-- flags the task later takes its successes back. Lock order: follower, the tasks' advisory locks, those of the patterns' keys.
CREATE TABLE pattern_use (
    pattern   uuid NOT NULL REFERENCES pattern ON DELETE CASCADE,
    agent     text NOT NULL,
    task_id   text NOT NULL,
    successes integer NOT NULL,                       -- none any more where a review flagged the task
    used_at   timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (task_id, pattern)
);
CREATE INDEX pattern_use_pattern ON pattern_use (pattern);
CREATE INDEX pattern_use_agent ON pattern_use (agent);
CREATE INDEX pattern_use_used ON pattern_use (used_at);

-- Of tasks whose reviews ended before, nothing is mined.
INSERT INTO follower (name, seq) SELECT 'patterns', last FROM feed WHERE name = 'result';
