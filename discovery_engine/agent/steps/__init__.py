"""Several calls in one, with references between their results."""
