"""The error of a failed fetch, with a reason for the owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import httpx2

PORTS = {"http": 80, "https": 443}

FetchProblem: TypeAlias = Literal[
    "address",  # invalid, or one that must not be fetched from
    "unresolved",
    "unreachable",
    "timeout",
    "tls",
    "redirect",
    "too-long",
    "broken",  # cut off, or not HTTP
    "proxy",
]


class FetchError(Exception):
    """A fetch that failed; `reason` names host and port only: a URL's rest may contain a key."""

    def __init__(self, problem: FetchProblem, reason: str, *, hint: str = "") -> None:
        super().__init__(reason)
        self.problem = problem
        self.reason = reason
        self.hint = hint


def authority(url: httpx2.URL) -> str:
    """The host and port of a URL, the default port too."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{host}:{url.port or PORTS.get(url.scheme, '')}"
