"""The error of a failed fetch, with a reason for the owner."""

from __future__ import annotations

from typing import Literal, TypeAlias

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
