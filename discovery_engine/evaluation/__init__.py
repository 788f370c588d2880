"""Measures how well tools are found: queries of the owner, lint, and typical requests."""
