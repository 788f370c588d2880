"""The configuration: where it is, what may stand in it, and what it comes to."""
