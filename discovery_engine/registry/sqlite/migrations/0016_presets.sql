-- Arguments of tools that their owner keeps under names.
CREATE TABLE presets (
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    name TEXT NOT NULL,
    arguments TEXT NOT NULL, -- JSON
    updated_at REAL NOT NULL,
    PRIMARY KEY (scope, server, tool, name)
);
