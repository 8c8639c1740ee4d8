-- Approvals are listed with the call that waits, and told by webhook.

SET LOCAL lock_timeout = '1s';
ALTER TABLE approval
    ADD COLUMN asked_seq   bigint,                      -- the audit's row of the call that asked
    ADD COLUMN answered_at timestamptz,
    ADD COLUMN answered_by text,                        -- the key of the person
    ADD COLUMN told        boolean NOT NULL DEFAULT true;
ALTER TABLE approval ALTER COLUMN told SET DEFAULT false;
CREATE INDEX approval_asked ON approval (asked_at);
CREATE INDEX approval_untold ON approval (asked_at) WHERE NOT told;
