"""The embedder that the settings ask for, opened and closed again."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from discovery_engine.config.syntax import mounts_for
from discovery_engine.errors.extras import extra_missing, install_command, missing_library
from discovery_engine.search.embedders.embedder import (
    CheckedEmbedder,
    Embedder,
    EmbeddingError,
    HashEmbedder,
)
from discovery_engine.search.embedders.sentence_model import installed_model
from discovery_engine.secrets.references import MalformedReferenceError, UnsetReference
from discovery_engine.secrets.resolver import SecretResolver, resolve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from discovery_engine.config.settings import EmbeddingsSettings
    from discovery_engine.errors import Diagnostic

_OPENAI = "https://api.openai.com/v1"
_OPENAI_MODEL = "text-embedding-3-small"
_BATCH_TIMEOUT = 60.0  # seconds for a whole batch; a query has its own, shorter limit


@asynccontextmanager
async def open_embedder(
    settings: EmbeddingsSettings, *, secrets: SecretResolver, base_dir: Path, data: Path
) -> AsyncIterator[Embedder]:
    """Yield the embedder.

    Args:
        settings: Which one.
        secrets: Gives `${references}` their values.
        base_dir: Where relative paths start.
        data: The data folder, where the installed model is.

    Raises:
        EmbeddingError: If it cannot be had: a library, a file or a secret is missing.
        ValueError: If the provider is `none`.
    """
    if settings.provider == "discovery":
        _installed(data)  # first: its extra has all that it needs
    if problem := missing_extra(settings):
        raise EmbeddingError(problem.message, hint=problem.hint)
    match settings.provider:
        case "hash":
            yield CheckedEmbedder(HashEmbedder(settings.dimensions))
        case "static":
            from discovery_engine.search.embedders.local import StaticEmbedder  # noqa: PLC0415

            yield CheckedEmbedder(await anyio.to_thread.run_sync(StaticEmbedder))
        case "onnx":
            yield await _of_folder(_named(settings.path, base_dir))
        case "discovery":
            yield await _of_folder(_installed(data))
        case "openai" | "http":
            async with _http(settings, secrets, base_dir) as embedder:
                yield CheckedEmbedder(embedder)
        case "none":
            raise ValueError("there is no embedder to open")


def missing_extra(settings: EmbeddingsSettings) -> Diagnostic | None:
    """The extra that the provider needs, if a library of it is not installed."""
    extra = "onnx" if settings.provider in ("discovery", "onnx") else "vectors"
    library = missing_library(extra)
    return extra_missing(extra, "search by meaning", library) if library else None


@asynccontextmanager
async def _http(
    settings: EmbeddingsSettings, secrets: SecretResolver, base_dir: Path
) -> AsyncIterator[Embedder]:
    # The client is slow to load, and most embedders do without.
    import httpx2  # noqa: PLC0415

    from discovery_engine.search.embedders.http import HttpEmbedder  # noqa: PLC0415

    is_openai = settings.provider == "openai"
    url = _resolved(settings.url, "url", secrets, base_dir) or _OPENAI
    key = _resolved(settings.api_key, "apiKey", secrets, base_dir)
    model = settings.model or (_OPENAI_MODEL if is_openai else "")
    async with httpx2.AsyncClient(timeout=_BATCH_TIMEOUT, mounts=mounts_for(url)) as client:
        yield HttpEmbedder(client, url, model=model, key=key, dimensions=settings.dimensions)


async def _of_folder(folder: Path) -> Embedder:
    from discovery_engine.search.embedders.local import OnnxEmbedder  # noqa: PLC0415

    # Its files are read in full, to distinguish models.
    return CheckedEmbedder(await anyio.to_thread.run_sync(OnnxEmbedder, folder))


def _named(path: str, base_dir: Path) -> Path:
    return base_dir / Path(path).expanduser()


def _installed(data: Path) -> Path:
    if model := installed_model(data):
        return model.folder
    raise EmbeddingError(
        "the model of `provider: discovery` is not installed", hint=f"`{install_command('model')}`"
    )


def _resolved(text: str, key: str, secrets: SecretResolver, base_dir: Path) -> str:
    try:
        return resolve(text, secrets, base_dir=str(base_dir))
    except (UnsetReference, MalformedReferenceError) as error:
        raise EmbeddingError(
            f"search.embeddings.{key}: {error}", hint="give it a value, then reload"
        ) from error
