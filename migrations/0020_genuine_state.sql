-- What a call is held to is known for ours as well: runs and what was answered carry a keyed hash of what they say, whose key is not in
-- here; a row without one is of before, or of others, and counts as the stricter. What binds runs and sessions for good stands
-- in the audit's rows, and is looked up there by each decision, so that a row that was changed, set back or deleted frees nobody.
SET LOCAL lock_timeout = '1s';
ALTER TABLE boundary_run ADD COLUMN mac bytea;
ALTER TABLE call ADD COLUMN mac bytea;
CREATE INDEX audit_bound ON audit (agent, run) WHERE body LIKE '%"run_execution":"shadow"%';
CREATE INDEX audit_labels ON audit (agent, session) WHERE body LIKE '%"labels":{%';
