"""What the SDK's protocols for reading and writing streams have in common."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Stream:
    """A stream whose ends are closed by whoever opened them, not by the SDK."""

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
