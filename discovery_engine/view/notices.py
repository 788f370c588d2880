"""Notices in an answer: they name missing or hidden items, the reason, and the next step.

An agent that gets an empty list in place of an outage invents a result. Therefore every answer
names the servers that did not respond, and an empty answer gives its reason.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine._util.quantities import counted
from discovery_engine.catalog import Entry, OfferingEntry
from discovery_engine.errors import Diagnostic
from discovery_engine.rules.rule import Subject, decider, describe, public_decider
from discovery_engine.tools.model import ServerName
from discovery_engine.trust.decisions import UNREAD

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.rules.rule import Rule
    from discovery_engine.store.availability import RegistryHealth

ADDING = (
    "`discovery add NAME -- COMMAND` adds a server, `discovery marketplace search WORDS` finds some"
)
_FIRST = "no configuration was found; `discovery init --global` writes one"
_MAX_LISTED_TOOLS = 5  # hidden tools, for each rule or setting, whose names the owner reads
_REASONS = 3  # rules and settings that are named for hidden tools; more would add no advice


# The kind of a notice by its code, in texts and in JSON; all other codes are those of outages.
_KINDS: Mapping[str, str] = {
    "SERVER_STARTING": "loading",
    "TOOL_DISABLED": "hidden",
    "TOOL_WITHHELD": "review",
    "TOOL_UNUSABLE": "unusable",
    "ANSWER_FILTERED": "filtered",
    "ANSWER_NO_MATCH": "no_match",
    "ANSWER_INCOMPLETE": "incomplete",
    "ANSWER_UNKNOWN": "unknown",
    "ANSWER_NO_TOOLS": "empty",
    "CONFIG_NO_SERVERS": "empty",
    "CONFIG_REJECTED": "configuration",
    "CONFIG_SWITCHED_OFF": "configuration",
    "EMBEDDING_ERROR": "by_words",
    "REGISTRY_LOST": "lost",
    "REGISTRY_UNAVAILABLE": "registry",
}


class Notice(Diagnostic, frozen=True):
    """A diagnostic about an answer; its subject, if any, is the name of a server.

    Agents read the message, too: it contains no paths of this machine and no hidden tools.
    """

    to_owner: str = ""
    """The text that the owner reads instead of the message; empty if both are the same."""
    progress: str = ""
    """The last stderr line of a starting program: external text, for people only."""

    @property
    def server(self) -> ServerName | None:
        return ServerName(self.subject) if self.subject else None

    @property
    def kind(self) -> str:
        return _KINDS.get(self.code, "unavailable")


class Rejection(Struct, frozen=True):
    """The errors of a configuration that was read again and is invalid."""

    problems: tuple[Diagnostic, ...]
    since: float
    """Unix time in seconds since which the files have been invalid."""


class RegistryOutage(Struct, frozen=True):
    """An outage of a shared registry."""

    since: float
    """Unix time in seconds at which it began."""
    waiting: int
    """The number of writes that wait for its end."""
    dropped: int
    """The number of writes that are lost."""

    @classmethod
    def of(cls, health: RegistryHealth) -> RegistryOutage | None:
        """Return the outage of a registry; None if the registry is available."""
        return None if health.since is None else cls(health.since, health.waiting, health.dropped)


def registry_outage(outage: RegistryOutage) -> Notice:
    """Return the notice of an outage; it never contains the address of the database.

    Only the owner's text has the number of waiting and dropped writes.
    """
    message = (
        f"the shared registry has not answered since {_minute(outage.since)}; what this gateway"
        " last knew of it is used, and no decision of the owner is accepted meanwhile"
    )
    waiting = f"{counted(outage.waiting, 'write')} wait" + "s" * (outage.waiting == 1)
    dropped = f", {outage.dropped} dropped" if outage.dropped else ""
    to_owner = f"{message}; {waiting}{dropped} (`discovery registry check` shows why)"
    return Notice("REGISTRY_UNAVAILABLE", message, to_owner=to_owner)


def rejected(rejection: Rejection) -> Notice:
    """Return the notice of an invalid configuration.

    It contains the time and the place of the first error, but never the text of the file.
    """
    since = _minute(rejection.since)
    first, *others = rejection.problems
    more = f" and {len(others)} more" if others else ""
    used = "; the last good one is used"
    message = f"the configuration has errors since {since}"
    public, to_owner = (
        f"{message}: {place}{more}{used}" for place in (first.origin.brief, first.origin)
    )
    return Notice("CONFIG_REJECTED", public, to_owner=to_owner)


def lost(at: float) -> Notice:
    """Return the notice that decisions were lost, or cannot be read if `at` is `UNREAD`.

    Otherwise `at` is the Unix time in seconds at which the loss was noticed.
    """
    if at == UNREAD:
        return Notice(
            "REGISTRY_UNAVAILABLE",
            "the decisions of the owner cannot be read now: tools are withheld until the registry "
            "answers",
        )
    message = (
        f"earlier decisions of the owner were lost (noticed {_minute(at)}): approvals of servers,"
        " accepted tools and their pinned descriptions, all or some of them; or they are kept under"
        " another name of the configuration, or its path on another machine. Tools that are not"
        " known to be accepted are withheld until the owner has run `discovery review`"
    )
    return Notice("REGISTRY_LOST", message)


def loading(server: ServerName, status: str, seconds: float | None, progress: str = "") -> Notice:
    """Return the notice that the tools of a starting server are not known yet.

    Args:
        server: Its name.
        status: Its state in words, such as `starting`.
        seconds: The time for which it has been starting; None if that is unknown.
        progress: The last stderr line of its program.
    """
    since = "" if seconds is None else f", {int(seconds)} s"
    message = f"{server}: {status}{since}; its tools are not known yet; ask again in a few seconds"
    return Notice("SERVER_STARTING", message, subject=server, progress=progress)


def nothing_known(server: ServerName | None) -> Notice:
    place = f"of server {server!r} " if server else ""
    return Notice("ANSWER_UNKNOWN", f"no tool {place}is known yet")


def unavailable(
    code: str, server: ServerName, status: str, reason: str, hint: str, *, known_at: float | None
) -> Notice:
    """Return the notice that a server is unavailable.

    Args:
        code: The code of the error that a call of its tools would raise.
        server: Its name.
        status: Its state in words.
        reason: The cause.
        hint: The next step; may be empty.
        known_at: Unix time in seconds at which its last known tools were listed; None if it has
            none.
    """
    fallback = (
        "" if known_at is None else f"; its last known tools are used, of {_minute(known_at)}"
    )
    advice = f" ({hint})" if hint else ""
    return Notice(code, f"{server}: {status}: {reason}{fallback}{advice}", subject=server)


def _minute(at: float) -> str:
    """Format a Unix time as a date in UTC; an age would make equal answers differ."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))


class HiddenTool(Struct, frozen=True):
    name: str
    decider: str
    """The rule or setting that disables it, in words that any client may read."""
    place: str
    """The rule or setting with its place in the configuration, for the owner."""


def hidden(tools: Sequence[HiddenTool]) -> Notice:
    """Return the notice that tools which match a search are disabled.

    It gives their number and the three rules or settings that disable the most of them. The names
    of the tools are in the owner's text only.
    """
    counts = Counter(tool.decider for tool in tools)
    why = "; ".join(decider for decider, _ in counts.most_common(_REASONS))
    noun = "tool that matches is" if len(tools) == 1 else "tools that match are"
    return Notice(
        "TOOL_DISABLED",
        f"{len(tools)} {noun} disabled: {why}",
        to_owner="; ".join(_named_hidden(tools)),
    )


def _named_hidden(tools: Sequence[HiddenTool]) -> Iterator[str]:
    by_place: dict[str, list[str]] = {}
    for tool in tools:
        by_place.setdefault(tool.place, []).append(tool.name)
    for place, names in by_place.items():
        left = (
            f" and {len(names) - _MAX_LISTED_TOOLS} more" if len(names) > _MAX_LISTED_TOOLS else ""
        )
        verb = "is" if len(names) == 1 else "are"
        yield f"{', '.join(names[:_MAX_LISTED_TOOLS])}{left} {verb} disabled: {place}"


def review(server: ServerName, tools: int, others: int = 0) -> Notice:
    """Return the notice that definitions of a server wait for the owner's review.

    It contains no text of theirs, only the number of `tools`, and of `others`: resources,
    templates and prompts.
    """
    wait = "waits" if tools + others == 1 else "wait"
    waiting = f"{_counted(tools, others)} {wait}"
    message = f"{server}: {waiting} for review by the owner (`discovery review {server}`)"
    return Notice("TOOL_WITHHELD", message, subject=server)


def unpinned(server: ServerName, tools: int, others: int = 0) -> Notice:
    """Return the notice that definitions of a server differ from the lock file; see `review`."""
    are = "is" if tools + others == 1 else "are"
    differing = f"{_counted(tools, others)} {are}"
    message = f"{server}: {differing} not as the lock file pins (`discovery config lock --check`)"
    return Notice("TOOL_WITHHELD", message, subject=server)


def unusable(server: ServerName, count: int) -> Notice:
    """Return the notice that definitions were dropped; it contains no text of the server."""
    subject = "1 definition is" if count == 1 else f"{count} definitions are"
    message = f"{server}: {subject} unusable and left out; `discovery health {server}` shows why"
    return Notice("TOOL_UNUSABLE", message, subject=server)


def _counted(tools: int, others: int) -> str:
    parts = [counted(tools, "tool")] if tools or not others else []
    if others:
        parts.append("1 resource or prompt" if others == 1 else f"{others} resources and prompts")
    return " and ".join(parts)


def by_words(reason: str, hint: str = "") -> Notice:
    advice = f" ({hint})" if hint else ""
    return Notice("EMBEDDING_ERROR", f"found by words, not by meaning: {reason}{advice}")


def no_server(settings: Settings) -> Notice:
    message = "no server is configured"
    misnamed = [
        warning.message for warning in settings.warnings if warning.code == "CONFIG_MISNAMED"
    ]
    next_step = misnamed[0] if misnamed else ADDING if settings.path else _FIRST
    return Notice(
        "CONFIG_NO_SERVERS",
        f"{message}: {why_no_server(settings)}",
        to_owner=f"{message}: {next_step}",
    )


def why_no_server(settings: Settings) -> str:
    """Return the reason and the owner's next step; agents read it, so it contains no paths."""
    if settings.path is None:
        return (
            "no configuration was found; its owner runs `discovery init --global`, "
            "or starts this with `--config /absolute/path/discovery.yaml`"
        )
    return "the configuration names none; its owner adds some with `discovery add`"


def switched_off() -> Notice:
    return Notice(
        "CONFIG_SWITCHED_OFF",
        "every server is disabled: the configuration has `enabled: false`",
    )


def no_enabled_tool(server: ServerName | None, why_off: str = "") -> Notice:
    """Return the notice that there is no enabled tool, of one server or at all.

    `why_off` is the reason for which that server is disabled; empty if it is enabled.
    """
    place = f"server {server!r} has" if server else "there is"
    message = f"server {server!r} is disabled: {why_off}" if why_off else f"{place} no enabled tool"
    return Notice("ANSWER_NO_TOOLS", message)


def filtered(count: int, first: str, server: ServerName | None, tags: Iterable[str]) -> Notice:
    """Return the notice that tools would match without the filter by server and tags.

    `count` is their number, `first` the name of the best.
    """
    limits = ([f"server {server!r}"] if server else []) + [f"tag {tag!r}" for tag in sorted(tags)]
    fits = "1 tool elsewhere does:" if count == 1 else f"{count} tools elsewhere do, first"
    message = f"nothing fits within {' and '.join(limits)}, but {fits} {first}"
    return Notice("ANSWER_FILTERED", message)


def too_weak(count: int, best: float, least: float) -> Notice:
    """Return the notice that `count` results are left out, of which the best has `best`."""
    results = f"{counted(count, 'result')} with less relevance than {least:g}"
    return Notice("ANSWER_FILTERED", f"{results} left out, at most {best:.2f}")


def incomplete(servers: int, *, starting: int, unavailable: int) -> Notice:
    """Return the notice that nothing matches, while some servers were never listed.

    It replaces `no_match`, whose reader would not try again.

    Args:
        servers: The number of enabled servers.
        starting: The number of those that are still starting.
        unavailable: The number of those that could not be listed.
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
    # Which servers are unavailable is in a notice of its own.
    to_owner = "no match in the servers that were listed"
    if starting:
        to_owner = f"{missing[0]}; {to_owner}; `discovery refresh` waits for them"
    return Notice("ANSWER_INCOMPLETE", f"{message}{advice}", to_owner=to_owner)


def unindexed() -> Notice:
    message = "some tools are found by their names alone; their other words are still being indexed"
    return Notice("ANSWER_INCOMPLETE", message)


def no_match(tags: Iterable[str]) -> Notice:
    names = ", ".join(sorted(tags))
    among = f" among the tools tagged {names}" if names else ""
    message = f"no tool fits{among}; try other words, or list_tools of a likely server"
    to_owner = f"no tool fits{among}; try other words, or `discovery tools SERVER`"
    return Notice("ANSWER_NO_MATCH", message, to_owner=to_owner)


def verdict_reason(settings: Settings, entry: Entry | OfferingEntry) -> str:
    """Explain the verdict on a tool, a resource or a prompt in a few words."""
    rules, subject = _rules_of(settings, entry)
    return describe(entry.verdict, rules, subject=subject)


def public_reason(entry: Entry | OfferingEntry) -> str:
    """Explain the verdict in words that any client may read; see `verdict_reason`."""
    if isinstance(entry, Entry):
        return public_decider(entry.verdict)
    return public_decider(entry.verdict, subject=entry.offering.subject)


def verdict_place(settings: Settings, entry: Entry | OfferingEntry) -> str:
    """Name the rule or setting behind a verdict, and its place in the file, for the owner."""
    rules, subject = _rules_of(settings, entry)
    return decider(entry.verdict, rules, subject=subject)


def _rules_of(settings: Settings, entry: Entry | OfferingEntry) -> tuple[tuple[Rule, ...], Subject]:
    """Return the rules that judge an entry, and their word for its kind."""
    if isinstance(entry, Entry):
        return settings.tool_rules, "tool"
    subject = entry.offering.subject
    return (settings.prompt_rules if subject == "prompt" else settings.resource_rules), subject
