"""The refresh queue as plain values: what a job is, and each step of its life; without any I/O."""
