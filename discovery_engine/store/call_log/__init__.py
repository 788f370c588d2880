"""The call log: what was called, read, asked and written, in one file for all processes."""
