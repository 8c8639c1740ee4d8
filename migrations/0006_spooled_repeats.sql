-- Events of a spool whose client id was taken when they were filed: `id` is what their sender was given. Kept as long as
-- events.
CREATE TABLE spooled_repeat (
    id        uuid PRIMARY KEY,
    original  uuid NOT NULL,                            -- the event that has the client id
    conflicts boolean NOT NULL,                         -- its content is another: it is stored, without the client id
    filed_at  timestamptz NOT NULL DEFAULT clock()
);
