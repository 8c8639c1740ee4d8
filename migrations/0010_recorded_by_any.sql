-- Results of a tool are recorded for any agent that asks for a stub of it.

SET LOCAL lock_timeout = '1s';
CREATE INDEX audit_outcome_of_any ON audit (tool, seq) WHERE kind = 'outcome';
