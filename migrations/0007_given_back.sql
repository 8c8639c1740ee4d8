-- A review that is given up ends the cooldown that it began.

SET LOCAL lock_timeout = '1s';
ALTER TABLE meter ADD COLUMN begun_by uuid;             -- of a cooldown: the review that began it
