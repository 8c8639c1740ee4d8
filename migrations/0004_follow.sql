-- How far each follower of feed `result` has come. What follows from a review is stored in the transaction that
-- moves its row; one process of a cluster holds the row at a time.
CREATE TABLE follower (
    name text PRIMARY KEY,
    seq  bigint NOT NULL                             -- the last number of the feed that it has dealt with
) WITH (fillfactor = 50);
-- What ended before there were followers has no consequences.
INSERT INTO follower (name, seq)
SELECT f.name, r.last FROM (VALUES ('consequences'), ('artifacts')) f (name), feed r WHERE r.name = 'result';
