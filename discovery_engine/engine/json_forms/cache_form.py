"""The cache: the servers as they are remembered between runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine.reindex_report import ReindexReport
    from discovery_engine.view.view import View


def cache_form(view: View, path: Path, now: float) -> JSONObject:
    """`path` is that of the registry; `now` is Unix time in seconds."""
    return {
        "path": str(path),
        "decisions_kept_for": view.settings.name or view.settings.path,
        "size_bytes": size_of(path),
        "ttl_seconds": view.settings.cache.ttl,
        "tool_count": len(view.catalog),
        "servers": [
            {
                "name": part.server,
                "tool_count": len(part.entries),
                "listed_at": part.listed_at,
                "age_seconds": now - part.listed_at if part.listed_at else None,
                "is_stale": part.is_stale,
            }
            for part in view.catalog.parts.values()
        ],
    }


def reindex_form(report: ReindexReport) -> JSONObject:
    return {"tool_count": report.tools, "vector_count": report.vectors}


def size_of(path: Path) -> int:
    """In bytes; 0 if it is not there."""
    return path.stat().st_size if path.exists() else 0
