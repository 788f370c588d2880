"""The version of the distribution, in a module of its own, so that reading it imports nothing."""

__version__ = "0.1.0"
