"""Why something could not be fetched, in words for the owner."""

from __future__ import annotations

from typing import Literal, TypeAlias

FetchProblem: TypeAlias = Literal[
    "address",  # it is none, or leads where nothing may be read
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
    """Nothing was fetched. The reason names host and port alone: the rest may hold a key."""

    def __init__(self, problem: FetchProblem, reason: str, *, hint: str = "") -> None:
        super().__init__(reason)
        self.problem = problem
        self.reason = reason
        self.hint = hint
