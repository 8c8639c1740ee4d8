-- Overrides and approvals are known for ours by a keyed hash of what they say; the key is not in here. What has none is of before,
-- or of others: it lets nothing run and approves nothing.
ALTER TABLE execution_override ADD COLUMN mac bytea;
ALTER TABLE approval ADD COLUMN mac bytea;
