"""Loads settings: finds the file, reads and checks it, merges it with its sources."""
