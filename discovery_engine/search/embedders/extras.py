"""The message for a library that only an extra installs."""

from __future__ import annotations

from discovery_engine.search.embedders.embedder import EmbeddingError


def missing_extra(extra: str, module: str | None) -> EmbeddingError:
    return EmbeddingError(
        f"search by meaning needs {module or 'a library'}, which is not installed",
        hint=f"pip install 'mcp-discovery-engine[{extra}]'",
    )
