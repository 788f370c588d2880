"""The message for a framework that only an extra installs."""

from __future__ import annotations

from discovery_engine.errors.extras import install_command


class MissingFrameworkError(ImportError):
    """An adapter was imported, and its framework cannot be."""


def missing_framework(extra: str, error: ImportError) -> MissingFrameworkError:
    """The error for the adapter of an extra, whose import of its framework failed."""
    return MissingFrameworkError(
        f"the adapter for {extra} cannot import its framework ({error});"
        f" install it with: {install_command(extra)}",
        name=error.name,
    )
