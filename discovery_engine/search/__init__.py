"""Finds tools for a query, and estimates how likely they fit."""
