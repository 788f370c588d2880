"""Servers of the marketplace, installed: planned, approved, fetched, entered, updated, removed.

What an entry of the marketplace says is data. It never selects a program, a path, a header or an
option of a runtime beyond the short list of `offered_inputs`.
"""
