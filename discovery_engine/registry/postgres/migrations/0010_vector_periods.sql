-- usable from: 9
-- The period of 30 days in which a scope last noted that it uses a vector: so unused ones are dropped
-- a few at a time, by whoever comes, and nothing has to be noted anew.
ALTER TABLE discovery.vector_uses
    ADD COLUMN period bigint NOT NULL DEFAULT floor(extract(epoch FROM now()) / 2592000);
