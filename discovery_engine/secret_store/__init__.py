"""Secrets that this program obtained itself, encrypted on disk."""
