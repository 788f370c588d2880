-- usable from: 10
-- Until when a job counts as named by a process that has its server in its configuration: a Unix
-- time in seconds by `clock_timestamp()`. NULL where none has that knows this column.
ALTER TABLE discovery.refresh_jobs ADD COLUMN named_until double precision;
