"""Ranking: scores, their fusion with vectors, confidence and explanations."""
