-- What tools of MCP servers said of themselves when they were first seen, or when a person last accepted it.
CREATE TABLE mcp_pin (
    profile      text,
    server       text,
    tool         text,
    hash         bytea NOT NULL CHECK (length(hash) = 32),
    description  text NOT NULL,                       -- redacted, for a person to compare
    pinned_at    timestamptz NOT NULL DEFAULT clock(),
    changed_hash bytea CHECK (length(changed_hash) = 32), -- the other definition that was reported last
    changed_at   timestamptz,
    PRIMARY KEY (profile, server, tool)
);
