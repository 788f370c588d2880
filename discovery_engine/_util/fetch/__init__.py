"""Answers of strangers' addresses, bounded; never from a network that is not theirs."""
