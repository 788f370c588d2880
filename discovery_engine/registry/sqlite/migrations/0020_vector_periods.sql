-- The period of 30 days in which a scope last noted that it uses a vector: so unused ones are dropped
-- a few at a time, by whoever comes, and nothing has to be noted anew.
ALTER TABLE vector_uses ADD COLUMN period INTEGER NOT NULL DEFAULT 0;
UPDATE vector_uses SET period = CAST(strftime('%s', 'now') AS INTEGER) / 2592000;
