"""Notices with an answer: what is missing from it or hidden, why, and what to do about it.

An agent that gets an empty list in place of an outage invents a result; so every answer names
the servers that did not answer, and an empty one says why it is empty.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.errors import Problem
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings

_NAMED = 5  # hidden tools that the owner reads the names of, of each decider
_REASONS = 3  # named for hidden tools; the rest would add words and no advice


class NoticeKind(StrEnum):
    UNAVAILABLE = "unavailable"
    """A server is unavailable; its tools are missing, or are the last known ones."""
    LOADING = "loading"
    """A server's tools are not known yet."""
    HIDDEN = "hidden"
    """Tools that match better than what is answered are disabled."""
    FILTERED = "filtered"
    """Tools match, but not within the requested server or tags."""
    REVIEW = "review"
    """Tools are held back until their owner has looked at what they say."""
    BY_WORDS = "by_words"
    """Search by meaning is configured, and could not be used for this answer."""
    NO_MATCH = "no_match"
    INCOMPLETE = "incomplete"
    """No known tool matches, and the tools of some servers are not known."""
    LOST = "lost"
    """Decisions of the owner were lost; tools are held back for that."""
    CONFIGURATION = "configuration"
    """The configuration was changed and cannot be used, or switches everything off."""
    UNKNOWN = "unknown"
    """Nothing is known yet of any tool in question."""
    EMPTY = "empty"
    """There is no server, or none with an enabled tool."""


class Notice(Struct, frozen=True):
    kind: NoticeKind
    message: str
    """Readable by everybody: no paths of the owner's disk, and no hidden tools."""
    server: ServerName | None = None
    to_owner: str = ""
    """The text for the owner instead; empty if it is the same."""
    progress: str = ""
    """The last stderr line of a starting program: external text, for people only."""


class Rejection(Struct, frozen=True):
    """A configuration that was read again and could not be used."""

    problems: tuple[Problem, ...]
    since: float
    """Unix time in seconds from which on there was none that could."""


def rejected(rejection: Rejection) -> Notice:
    """Since when, and where the first mistake is; never what is written there."""
    since = _minute(rejection.since)
    first, *others = rejection.problems
    more = f" and {len(others)} more" if others else ""
    used = "; the last good one is used"
    message = f"the configuration has errors since {since}"
    public, to_owner = (
        f"{message}: {place}{more}{used}" for place in (first.origin.brief, first.origin)
    )
    return Notice(NoticeKind.CONFIGURATION, public, to_owner=to_owner)


def lost(at: float) -> Notice:
    """That decisions were lost, what follows, and what ends that; `at` is when it was noticed."""
    message = (
        f"earlier decisions of the owner were lost (noticed {_minute(at)}): approvals of servers,"
        " accepted tools and their pinned descriptions, all or some of them. Tools that are not"
        " known to be accepted are held back until the owner has run `discovery review`"
    )
    return Notice(NoticeKind.LOST, message)


def loading(server: ServerName, status: str, seconds: float | None, progress: str = "") -> Notice:
    """That its tools are not known yet; `seconds` is for how long it has been starting."""
    since = "" if seconds is None else f", {int(seconds)} s"
    message = f"{server}: {status}{since}; its tools are not known yet; ask again in a few seconds"
    return Notice(NoticeKind.LOADING, message, server, progress=progress)


def nothing_known(server: ServerName | None) -> Notice:
    place = f"of server {server!r} " if server else ""
    return Notice(NoticeKind.UNKNOWN, f"no tool {place}is known yet")


def unavailable(
    server: ServerName, status: str, reason: str, hint: str, *, known_at: float | None
) -> Notice:
    """Why a server is unavailable; `known_at` is when its last known tools were listed."""
    known = "" if known_at is None else f"; its last known tools are used, of {_minute(known_at)}"
    advice = f" ({hint})" if hint else ""
    return Notice(NoticeKind.UNAVAILABLE, f"{server}: {status}: {reason}{known}{advice}", server)


def _minute(at: float) -> str:
    """A time in Unix seconds; not how long ago, so that equal answers stay equal."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))


class HiddenTool(Struct, frozen=True):
    name: str
    decider: str
    """What disables it, as anybody may read it."""
    place: str
    """The same with the place in the configuration, for the owner."""


def hidden(tools: Sequence[HiddenTool]) -> Notice:
    """How many are disabled, the commonest deciders first; only the owner reads their names."""
    counts = Counter(tool.decider for tool in tools)
    why = "; ".join(decider for decider, _ in counts.most_common(_REASONS))
    noun = "tool that matches is" if len(tools) == 1 else "tools that match are"
    return Notice(
        NoticeKind.HIDDEN,
        f"{len(tools)} {noun} disabled: {why}",
        to_owner="; ".join(_named_hidden(tools)),
    )


def _named_hidden(tools: Sequence[HiddenTool]) -> Iterator[str]:
    by_place: dict[str, list[str]] = {}
    for tool in tools:
        by_place.setdefault(tool.place, []).append(tool.name)
    for place, names in by_place.items():
        left = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        verb = "is" if len(names) == 1 else "are"
        yield f"{', '.join(names[:_NAMED])}{left} {verb} disabled: {place}"


def review(server: ServerName, count: int) -> Notice:
    """How many tools wait; never what they say."""
    wait = "1 tool waits" if count == 1 else f"{count} tools wait"
    message = f"{server}: {wait} for review by the owner (`discovery review {server}`)"
    return Notice(NoticeKind.REVIEW, message, server)


def unpinned(server: ServerName, count: int) -> Notice:
    """How many tools the lock file keeps away."""
    differ = "1 tool is" if count == 1 else f"{count} tools are"
    message = f"{server}: {differ} not as the lock file pins (`discovery lock --check`)"
    return Notice(NoticeKind.REVIEW, message, server)


def by_words(reason: str, hint: str = "") -> Notice:
    advice = f" ({hint})" if hint else ""
    return Notice(NoticeKind.BY_WORDS, f"found by words, not by meaning: {reason}{advice}")


def no_server(settings: Settings) -> Notice:
    return Notice(NoticeKind.EMPTY, f"no server is configured: {why_no_server(settings)}")


def why_no_server(settings: Settings) -> str:
    """What its owner has to do; agents read it, so it names no place of this machine."""
    if settings.path is None:
        return (
            "no configuration was found; its owner runs `discovery init --global`, "
            "or starts this with `--config /absolute/path/discovery.yaml`"
        )
    return "the configuration names none; its owner adds some with `discovery import`"


def switched_off() -> Notice:
    return Notice(
        NoticeKind.CONFIGURATION,
        "every server is disabled: the configuration says `enabled: false`",
    )


def no_enabled_tool(server: ServerName | None) -> Notice:
    place = f"server {server!r} has" if server else "there is"
    return Notice(NoticeKind.EMPTY, f"{place} no enabled tool")


def filtered(count: int, first: str, server: ServerName | None, tags: Iterable[str]) -> Notice:
    """How many tools would fit without a filter, and the first of them."""
    limits = ([f"server {server!r}"] if server else []) + [f"tag {tag!r}" for tag in sorted(tags)]
    fit = "1 tool fits" if count == 1 else f"{count} tools fit"
    message = f"without the limit to {' and '.join(limits)}, {fit}: {first}"
    return Notice(NoticeKind.FILTERED, f"{message}{' first' if count > 1 else ''}")


def incomplete(servers: int, *, starting: int, unavailable: int) -> Notice:
    """That nothing matches, though `starting` and `unavailable` of the servers were never listed.

    It replaces `no_match`: a reader of `no_match` would not try again.
    """
    of_all = f" of {servers} servers"
    missing = []
    if starting:
        missing.append(f"{starting}{of_all} {'has' if starting == 1 else 'have'} not answered yet")
    if unavailable:
        whose = "" if starting else of_all
        missing.append(f"{unavailable}{whose} {'is' if unavailable == 1 else 'are'} unavailable")
    message = f"{' and '.join(missing)}; no match in the others"
    advice = "; ask again in a few seconds" if starting else ""
    waits = "; `discovery refresh` waits for them" if starting else ""
    return Notice(NoticeKind.INCOMPLETE, f"{message}{advice}", to_owner=f"{message}{waits}")


def no_match(tags: Iterable[str]) -> Notice:
    names = ", ".join(sorted(tags))
    among = f" among the tools tagged {names}" if names else ""
    message = f"no tool fits{among}; try other words, or list_tools of a likely server"
    to_owner = f"no tool fits{among}; try other words, or `discovery tools SERVER`"
    return Notice(NoticeKind.NO_MATCH, message, to_owner=to_owner)
