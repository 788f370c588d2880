"""The version of the distribution, in a file of its own so that reading it loads nothing."""

__version__ = "0.1.0"
