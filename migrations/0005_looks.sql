-- Looks of the built-in checks at events that no review looks at, and what tasks have cost. Servers of the version before
-- run beside this schema, but cannot list the findings of looks.

SET LOCAL lock_timeout = '1s';

-- A finding of a look has no review until one of the same event finds it as well.
ALTER TABLE finding
    ALTER COLUMN review_id DROP NOT NULL,
    ADD COLUMN collapse_key bytea,                      -- of a look: keyed hash by which repeats within an hour collapse
    ADD COLUMN version integer;                         -- of a look: shadow_version.id
CREATE UNIQUE INDEX finding_collapse_key ON finding (collapse_key) WHERE collapse_key IS NOT NULL;
CREATE INDEX finding_of_look ON finding (seq) WHERE collapse_key IS NOT NULL;
CREATE INDEX finding_of_look_by_time ON finding (created_at) WHERE collapse_key IS NOT NULL;

-- Events that repeat a finding of a look: the same value in the same place, for the same shadow, agent and task, within the
-- same hour (UTC).
CREATE TABLE finding_occurrence (
    finding_id uuid,
    event_id   uuid,
    at         timestamptz NOT NULL,
    seq        bigint NOT NULL,                         -- from feed `result`, for followers; no list goes by it
    PRIMARY KEY (finding_id, event_id)
);
CREATE INDEX finding_occurrence_by_event ON finding_occurrence (event_id);
CREATE INDEX finding_occurrence_by_seq ON finding_occurrence (seq);
CREATE INDEX finding_occurrence_newest ON finding_occurrence (finding_id, seq);

-- Stretches of feed `intake` that looks passed over, because too many events waited.
CREATE TABLE check_backlog (
    first_seq bigint PRIMARY KEY,
    last_seq  bigint NOT NULL,
    events    bigint NOT NULL,                          -- events of the stretch that were to be looked at
    first_at  timestamptz NOT NULL,                     -- receipt of the first of them
    last_at   timestamptz NOT NULL,                     -- receipt of the last of them
    at        timestamptz NOT NULL                      -- when they were passed over
);
CREATE INDEX check_backlog_by_time ON check_backlog (at);

-- What the events of a task have cost, where a shadow with a cost floor watches their agents; counted until it reaches the
-- highest floor in force.
-- Lock order: behind event_key, before meter.
CREATE TABLE task_cost (
    task_id text COLLATE "C" PRIMARY KEY,
    usd     bigint NOT NULL,
    at      timestamptz NOT NULL                        -- last event that added to it
) WITH (fillfactor = 50);

-- looks  feed `intake`: events that no review looks at. What was stored before this version is left alone.
INSERT INTO follower (name, seq) SELECT 'looks', last FROM feed WHERE name = 'intake';
