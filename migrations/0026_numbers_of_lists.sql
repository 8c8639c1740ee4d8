-- Sessions and patterns are listed as all else is: by numbers in the order of commits, so that a reader neither skips nor
-- repeats. A row gets its number last in its transaction; one without has none yet, such as of a server that is older.
-- Lock order: pattern, sidecar_session, feed.
INSERT INTO feed (name) VALUES ('pattern'), ('session');

ALTER TABLE pattern ADD COLUMN seq bigint;                -- drawn from feed `pattern`
UPDATE pattern p SET seq = n.seq
FROM (SELECT id, row_number() OVER (ORDER BY id) AS seq FROM pattern) n WHERE n.id = p.id;
UPDATE feed SET last = (SELECT count(*) FROM pattern) WHERE name = 'pattern';
CREATE UNIQUE INDEX pattern_seq ON pattern (seq);
CREATE INDEX pattern_unnumbered ON pattern (id) WHERE seq IS NULL;

ALTER TABLE sidecar_session ADD COLUMN seq bigint;        -- drawn from feed `session`
UPDATE sidecar_session s SET seq = n.seq
FROM (SELECT id, row_number() OVER (ORDER BY id) AS seq FROM sidecar_session) n WHERE n.id = s.id;
UPDATE feed SET last = (SELECT count(*) FROM sidecar_session) WHERE name = 'session';
CREATE UNIQUE INDEX sidecar_session_seq ON sidecar_session (seq);
CREATE INDEX sidecar_session_unnumbered ON sidecar_session (id) WHERE seq IS NULL;
