r"""Spellings of a URI that a server may take for the same one.

A client can write a URI that a template allows in many ways: percent-encoded, also twice, with
`/./` and `/../`, with `\` or in capitals. A rule, and what is hidden, holds for all of them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

_ROUNDS = 3  # a server decodes once, and a careless one twice


def spellings(uri: str) -> tuple[str, ...]:
    """The URI as it is, decoded, and without steps such as `..`; each once."""
    decoded = uri
    for _ in range(_ROUNDS):
        decoded = unquote(decoded)
    return tuple(dict.fromkeys((uri, decoded, *_without_steps(decoded.replace("\\", "/")))))


def keys(uri: str) -> frozenset[str]:
    """Return the keys of a URI; two URIs that may be the same have at least one in common."""
    folded = (unicodedata.normalize("NFKC", spelling).casefold() for spelling in spellings(uri))
    return frozenset(_key(unicodedata.normalize("NFKC", spelling)) for spelling in folded)


def _key(uri: str) -> str:
    scheme, _, rest = uri.partition(":")
    return f"{scheme}:{_resolved(rest).strip('/')}"


def without_query(uri: str) -> str:
    """The URI up to its `?` or `#`, which a server may ignore."""
    return uri.partition("#")[0].partition("?")[0]


def _without_steps(uri: str) -> Iterator[str]:
    scheme, colon, rest = uri.partition(":")
    if not rest.startswith("//"):
        yield f"{scheme}{colon}{_resolved(rest)}"
        return
    # What stands behind `//` may be a host, or the first step of a path to a careless server.
    host, slash, path = rest[2:].partition("/")
    yield f"{scheme}://{host}{slash}{_resolved(path)}"
    yield f"{scheme}://{_resolved(rest[2:])}"


def _resolved(path: str) -> str:
    steps: list[str] = []
    for step in path.split("/"):
        if step == "..":
            steps = steps[:-1]
        elif step not in ("", "."):
            steps.append(step)
    if steps and path.endswith("/"):
        steps.append("")
    return ("/" if path.startswith("/") else "") + "/".join(steps)
