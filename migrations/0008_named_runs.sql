-- A run that nobody named, one for a session or a process, ends when shadow is lifted.

SET LOCAL lock_timeout = '1s';
ALTER TABLE boundary_run ADD COLUMN named boolean NOT NULL DEFAULT true;
