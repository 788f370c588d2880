-- What one process at a time may hold. A row stays when its lease is released: its fence must not
-- begin anew.
CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    fence INTEGER NOT NULL,
    renewals INTEGER NOT NULL
);
