"""The protocol of embedders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol, TypeAlias

from discovery_engine.errors import DiscoveryError

Vector: TypeAlias = Sequence[float]


class EmbeddingError(DiscoveryError):
    """There are no vectors; the message has the cause, the hint the next step of the owner."""

    code: ClassVar[str] = "EMBEDDING_ERROR"


class Embedder(Protocol):
    """Turns texts into vectors, near to each other where the texts mean the same."""

    @property
    def model(self) -> str:
        """Names all that the vectors depend on: the same text under the same name, the same vector.

        It holds no secret.
        """

    @property
    def dimensions(self) -> int | None:
        """How long each vector is; None while the first is still to come."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One vector for each text, in their order.

        Raises:
            EmbeddingError: If they cannot be had.
        """
