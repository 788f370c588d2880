"""Installations from the marketplace: planned, pinned, fetched and recorded.

What an entry of the marketplace says is data. It never selects a program, a path, a header or an
option of a runtime beyond the short list of `offered_inputs`.
"""
