-- A scope is one configuration; its settings are JSON without secrets.
CREATE TABLE scopes (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    settings TEXT NOT NULL,
    revision INTEGER NOT NULL DEFAULT 0,
    saved INTEGER NOT NULL -- a number that rises with every save in any scope
);

-- Every server that the settings name; `part` is NULL until it has been listed.
CREATE TABLE servers (
    id INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL REFERENCES scopes ON DELETE CASCADE,
    name TEXT NOT NULL,
    part TEXT,
    UNIQUE (scope, name)
);

-- `id` rises in the order of a server's tools. The fingerprint is made from `source` on reading.
CREATE TABLE tools (
    id INTEGER PRIMARY KEY,
    server INTEGER NOT NULL REFERENCES servers ON DELETE CASCADE,
    name TEXT NOT NULL,
    upstream_name TEXT NOT NULL,
    source TEXT NOT NULL,
    verdict TEXT NOT NULL
);
CREATE INDEX tools_by_server ON tools (server);

-- How servers introduced themselves, by the fingerprint of how they are reached.
CREATE TABLE eras (
    id INTEGER PRIMARY KEY,
    connection TEXT NOT NULL UNIQUE,
    era TEXT NOT NULL
);
