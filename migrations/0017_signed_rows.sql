-- Who writes into the audit signs it, with a key that is not in here: what is inserted from elsewhere is known by that.

-- Key, number of rows and signature, in the first row of a transaction; null in the others, and in rows of before.
ALTER TABLE audit ADD COLUMN stamp bytea;

-- How far the files of each folder are, told after they were written: what is missing from their end shows.
CREATE TABLE audit_folder (
    key      bytea PRIMARY KEY,                      -- the public key of its checkpoints
    block    bigint NOT NULL DEFAULT 0,              -- the newest that has a checkpoint there
    written  bigint NOT NULL DEFAULT 0,              -- the last row that is written there
    noted_at timestamptz NOT NULL DEFAULT clock()
);
