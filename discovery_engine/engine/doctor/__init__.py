"""Checks of the whole set-up, and the next step for each problem."""
