"""The order of versions: by semver where a version is one, else by PEP 440, else below both."""

from __future__ import annotations

import re
from typing import TypeAlias

_SEMVER = re.compile(
    r"v?(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)
_PEP440 = re.compile(
    r"v?(?:(?P<epoch>\d{1,18})!)?(?P<release>\d{1,18}(?:\.\d{1,18}){0,20})"
    r"(?:[-_.]?(?P<pre>a|b|c|rc|alpha|beta|pre|preview)[-_.]?(?P<pre_number>\d{0,18}))?"
    r"(?:-(?P<post_number1>\d{1,18})|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_number2>\d{0,18}))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_number>\d{0,18}))?"
    r"(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?",
    re.IGNORECASE,
)
_STAGES = {"a": "alpha", "b": "beta", "c": "rc", "pre": "rc", "preview": "rc"}
_LONGEST = 200  # characters

Identifier: TypeAlias = tuple[int, int, str]
VersionKey: TypeAlias = tuple[int, int, tuple[int, ...], tuple[int, tuple[Identifier, ...]], str]
"""Compares like the versions: whether it is one, epoch, release, what precedes or follows the
release, and the text of what is no version."""

_DEV, _PRE, _RELEASE, _POST = range(4)


def version_key(version: str) -> VersionKey:
    """The place of a version among others; what is no version is below all that are."""
    text = version.strip()[:_LONGEST]
    if found := _SEMVER.fullmatch(text):
        release = tuple(map(int, found.group(1, 2, 3)))
        if found[4] is None:
            return (1, 0, _trimmed(release), (_RELEASE, ()), "")
        return (1, 0, _trimmed(release), (_PRE, tuple(map(_identifier, found[4].split(".")))), "")
    if found := _PEP440.fullmatch(text):
        release = tuple(map(int, found["release"].split(".")))
        return (1, int(found["epoch"] or 0), _trimmed(release), _stage(found), "")
    return (0, 0, (), (_RELEASE, ()), text)


def _stage(found: re.Match[str]) -> tuple[int, tuple[Identifier, ...]]:
    # A development version precedes what it develops, and a post-release follows it.
    end: Identifier = (-1, int(found["dev_number"] or 0), "") if found["dev"] else (0, -1, "")
    post = found["post_number1"] or found["post_number2"]
    is_post = post is not None
    follows: tuple[Identifier, ...] = ((1, int(post or 0), ""), end) if is_post else (end,)
    if found["pre"]:
        name = found["pre"].lower()
        stage = ((1, 0, _STAGES.get(name, name)), (0, int(found["pre_number"] or 0), ""))
        return (_PRE, (*stage, *follows))
    if is_post:
        return (_POST, follows)
    return (_DEV, follows) if found["dev"] else (_RELEASE, ())


def _identifier(text: str) -> Identifier:
    """Numbers compare as numbers, and are below words."""
    return (0, int(text), "") if text.isascii() and text.isdigit() else (1, 0, text)


def _trimmed(release: tuple[int, ...]) -> tuple[int, ...]:
    end = len(release)
    while end > 1 and release[end - 1] == 0:
        end -= 1
    return release[:end]
