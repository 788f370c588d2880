"""From the file that is used to settings: found, read, checked, merged with its sources."""
