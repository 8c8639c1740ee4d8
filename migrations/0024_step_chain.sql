-- Each step of a session names itself with the one before: what is changed, moved or taken away later is told when the session is
-- judged again. Steps of before have none.
ALTER TABLE sidecar_step ADD COLUMN chain text;
