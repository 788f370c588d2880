-- What agents asked their owner for, as JSON.
CREATE TABLE agent_requests (
    number INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    id TEXT NOT NULL UNIQUE,
    request TEXT NOT NULL
);
