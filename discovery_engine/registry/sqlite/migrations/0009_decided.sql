-- The version of the program and the number of the newest decision that the verdicts of all servers
-- take into account; NULL where that is not known.
ALTER TABLE scopes ADD COLUMN decided TEXT;
