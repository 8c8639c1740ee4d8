-- Documents as files: in which folder of a workspace a session has them, null where it has none.
SET LOCAL lock_timeout = '1s';
ALTER TABLE sidecar_session ADD COLUMN files text;
CREATE INDEX sidecar_session_files ON sidecar_session (state, seen_at) WHERE files IS NOT NULL;

-- Sessions that are gone, whatever deleted them: who has their files removes them. A row goes as old as its session would have become.
CREATE TABLE sidecar_gone (
    session uuid PRIMARY KEY,
    files   text NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock()
);
CREATE INDEX sidecar_gone_at ON sidecar_gone (at, session);
CREATE FUNCTION note_gone() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN INSERT INTO sidecar_gone (session, files) VALUES (OLD.id, OLD.files) ON CONFLICT DO NOTHING; RETURN NULL; END$$;
CREATE TRIGGER note_gone AFTER DELETE ON sidecar_session
    FOR EACH ROW WHEN (OLD.files IS NOT NULL) EXECUTE FUNCTION note_gone();
