"""Servers that others publish: found, described, compared and installed."""
