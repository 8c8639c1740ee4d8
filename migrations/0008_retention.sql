-- From which day on each kind of rows is whole. Older rows are gone or going: nothing is concluded from their absence.
-- event: partitions of days before it, by UTC, are dropped; review: what hangs on reviews of local days before it;
-- count: meters and counts of skips of days before it.
CREATE TABLE retention (
    kind     text PRIMARY KEY CHECK (kind IN ('event', 'review', 'count')),
    before   date NOT NULL DEFAULT '1970-01-01',
    first_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000'  -- rows with smaller ids go
);
INSERT INTO retention (kind) VALUES ('event'), ('review'), ('count');

-- When an event's contents were erased on request; its payload then says whose it was, and nothing more.
SET LOCAL lock_timeout = '1s';
ALTER TABLE event ADD COLUMN IF NOT EXISTS erased_at timestamptz;
