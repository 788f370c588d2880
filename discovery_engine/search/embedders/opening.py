"""The embedder that the settings ask for, opened and closed again."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread

from discovery_engine.config.settings import EmbeddingsSettings
from discovery_engine.config.syntax import mounts_for
from discovery_engine.diagnostics import Diagnostic
from discovery_engine.errors.extras import extra_missing, missing_library
from discovery_engine.search.embedders.embedder import Embedder, EmbeddingError, Vector
from discovery_engine.search.embedders.installed_model import installed_model, model_folder
from discovery_engine.secrets.references import MalformedReferenceError, UnsetReference
from discovery_engine.secrets.resolver import SecretResolver, resolve

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
        _installed(data)  # first: the command that installs it names all that it needs
    if problem := missing_extra(settings):
        raise EmbeddingError(problem.message, hint=problem.hint)
    match settings.provider:
        case "hash":
            from discovery_engine.search.embedders.hash import HashEmbedder  # noqa: PLC0415

            yield CheckedEmbedder(HashEmbedder(settings.dimensions))
        case "static":
            from discovery_engine.search.embedders.static import StaticEmbedder  # noqa: PLC0415

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
    from discovery_engine.search.embedders.onnx import OnnxEmbedder  # noqa: PLC0415

    # Its files are read in full, to distinguish models.
    return CheckedEmbedder(await anyio.to_thread.run_sync(OnnxEmbedder, folder))


def _named(path: str, base_dir: Path) -> Path:
    return base_dir / Path(path).expanduser()


def _installed(data: Path) -> Path:
    model = installed_model(data)
    if model is None:
        raise EmbeddingError(
            "the model of `provider: discovery` is not installed",
            hint="`discovery tune model install`",
        )
    return model_folder(data, model)


def _resolved(text: str, key: str, secrets: SecretResolver, base_dir: Path) -> str:
    try:
        return resolve(text, secrets, base_dir=str(base_dir))
    except (UnsetReference, MalformedReferenceError) as error:
        raise EmbeddingError(
            f"search.embeddings.{key}: {error}", hint="give it a value, then reload"
        ) from error


# An embedder whose vectors can be relied on: finite, of one length, and a unit long.
#
# What an embedder gives comes from a foreign model or a foreign host. One bad number in it would
# spoil every comparison, so a batch passes whole or not at all.

_MAX_VECTOR_DIMENSIONS = 16_384  # numbers in a vector


class CheckedEmbedder:
    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def model(self) -> str:
        return self._embedder.model

    @property
    def dimensions(self) -> int | None:
        return self._embedder.dimensions

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        if not texts:
            return []
        expected = self._embedder.dimensions
        vectors = await self._embedder.embed(texts)
        if len(vectors) != len(texts):
            raise EmbeddingError(
                f"the embedder was asked for {len(texts)} vectors and gave {len(vectors)}"
            )
        length = expected or len(vectors[0])
        return [_unit(vector, length) for vector in vectors]


def _unit(vector: Vector, length: int) -> Vector:
    if len(vector) != length or not 0 < length <= _MAX_VECTOR_DIMENSIONS:
        raise EmbeddingError(
            f"the embedder gave a vector of {len(vector)} numbers where {length} were expected",
            hint="check `search.embeddings.model` and `dimensions`",
        )
    size = math.hypot(*vector)
    if not (math.isfinite(size) and size > 0):
        raise EmbeddingError(
            "the embedder gave a vector that is no direction: all zeros, or no numbers"
        )
    return [float(x) / size for x in vector]
