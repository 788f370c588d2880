"""The servers of a view that were never listed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.view import View


def unlisted(view: View, names: Iterable[ServerName]) -> list[ServerName]:
    """Return the servers of `names` that are enabled and were never listed."""
    if not view.settings.enabled:
        return []
    return [name for name in names if _is_unlisted(view, name)]


def _is_unlisted(view: View, name: ServerName) -> bool:
    settings = view.server_settings(name)
    if settings.problem or not settings.enabled:
        return False
    part = view.catalog.parts.get(name)
    if part is None:
        return True
    return part.verdict.enabled and part.listed_at is None and part.failure is None
