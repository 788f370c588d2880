"""A configuration as text: its tree with positions, and excerpts of it without secrets."""
