"""Typical requests of tools: those that ship with the program, and those that were written here."""
