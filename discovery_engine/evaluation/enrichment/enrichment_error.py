"""The error of an endpoint; apart from what it needs, which is slow to load."""

from __future__ import annotations

from typing import ClassVar, Self

from discovery_engine.errors import DiscoveryError


class EnrichmentError(DiscoveryError):
    """The endpoint cannot be used; the message has the cause, the hint the next step."""

    code: ClassVar[str] = "ENRICHMENT_ERROR"
    is_final: bool = True
    """True if the error would be the same for every other tool."""

    @classmethod
    def of_answer(cls, message: str, *, hint: str = "") -> Self:
        """An answer that is of no use; the next one may be."""
        error = cls(message, hint=hint)
        error.is_final = False
        return error
