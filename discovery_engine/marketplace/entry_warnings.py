"""Warnings for the owner about an entry before it is installed; nothing is forbidden here.

It was first published yesterday; a name is one letter from a well-known one; it has no repository;
a version was yanked; a description gives orders to a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from discovery_engine._util.quantities import ago
from discovery_engine._util.text import named, quoted
from discovery_engine.diagnostics import Diagnostic, Severity
from discovery_engine.marketplace.entry import Input, MarketplaceEntry, PackageOffer
from discovery_engine.marketplace.known_packages import KnownPackages, known_packages
from discovery_engine.trust import scanner

_NEW = 14 * 86_400.0
"""Seconds. Most malicious packages are reported and withdrawn within days."""
_FRESH = 2 * 86_400.0  # seconds of a version; a hijacked one is mostly found within these
_MIN_LOOKALIKE_LENGTH = 5  # letters; of shorter names a letter more or less makes another word
_MENTIONS = re.compile(
    r"(?<![A-Za-z])(?:fast)?mcp(?![a-z])|model[ _-]?context[ _-]?protocol", re.IGNORECASE
)
_LOOKALIKES = (
    ("rn", "m"),
    ("vv", "w"),
    ("cl", "d"),
    ("0", "o"),
    ("1", "l"),
    ("5", "s"),
    ("i", "l"),
)


class SuspiciousText(Diagnostic, frozen=True, kw_only=True):
    """A text of its publisher in which the scanner found something."""

    is_severe: bool = False
    """True if no honest publisher writes this."""

    @property
    def severity(self) -> Severity:
        return "error" if self.is_severe else "warning"


def entry_warnings(
    entry: MarketplaceEntry, *, now: float, known: KnownPackages | None = None
) -> tuple[Diagnostic, ...]:
    """The warnings about an entry, the gravest first.

    Args:
        entry: What is to be judged.
        now: Unix time in seconds.
        known: The names that others may imitate; by default those that ship with the program.
    """
    known = known or known_packages()
    warnings = [
        *_in_texts(entry),
        *_about_names(entry, known),
        *_about_status(entry),
        *_about_age(entry, now),
        *_about_origin(entry, known),
        *_about_offers(entry),
    ]
    return tuple(dict.fromkeys(warnings))


def imitated_name(name: str, known: Iterable[str]) -> tuple[str, str]:
    """The well-known name that `name` may be mistaken for, and why; empty if there is none."""
    known = tuple(known)
    if name.lower() in {other.lower() for other in known}:
        return "", ""
    for judge in (_reads_alike, _is_a_typo, _has_its_words, _has_its_name_elsewhere):
        for other in known:
            if reason := judge(name.lower(), other.lower()):
                return other, reason
    return "", ""


def _reads_alike(name: str, other: str) -> str:
    return "it reads like" if _skeleton(name) == _skeleton(other) else ""


def _is_a_typo(name: str, other: str) -> str:
    # The library is slow to load, and only needed to look at an entry.
    from rapidfuzz.distance import OSA  # noqa: PLC0415

    scope, _, unscoped = name.rpartition("/")
    other_scope, _, other_unscoped = other.rpartition("/")
    for mine, theirs, is_rest_same in (
        (name, other, True),
        (scope, other_scope, unscoped == other_unscoped),
        (unscoped, other_unscoped, scope == other_scope),
    ):
        if (
            is_rest_same
            and len(theirs) >= _MIN_LOOKALIKE_LENGTH
            and OSA.distance(mine, theirs) == 1
        ):
            return "it is one letter from"
    return ""


def _has_its_words(name: str, other: str) -> str:
    return "it has the words of" if _words(name) == _words(other) else ""


def _has_its_name_elsewhere(name: str, other: str) -> str:
    scope, _, unscoped = name.rpartition("/")
    other_scope, _, other_unscoped = other.rpartition("/")
    is_telling = len(_words(other_unscoped) - {"mcp", "server"}) > 0
    if is_telling and other_scope and unscoped == other_unscoped and scope != other_scope:
        return "it has the name of" if scope else "it lacks the scope of"
    return ""


def _skeleton(name: str) -> str:
    for seen, meant in _LOOKALIKES:
        name = name.replace(seen, meant)
    return name


def _words(name: str) -> frozenset[str]:
    return frozenset(word for word in re.split(r"[^a-z0-9]+", name.lower()) if word)


def _about_names(entry: MarketplaceEntry, known: KnownPackages) -> Iterator[Diagnostic]:
    for offer in entry.packages:
        other, reason = imitated_name(offer.identifier, known.of(offer.registry_type))
        if other:
            yield Diagnostic(
                "OFFER_LOOKALIKE",
                f"{offer.identifier!r} may be mistaken for {other!r}: {reason} that well-known one",
                f"check which of the two you mean: `discovery marketplace show {other}`",
            )


def _about_status(entry: MarketplaceEntry) -> Iterator[Diagnostic]:
    if entry.status != "active":
        words = f": {quoted(entry.status_message)}" if entry.status_message else ""
        yield Diagnostic(
            "OFFER_DEPRECATED",
            f"it is {entry.status}{words}",
            "look for what its publisher names instead",
        )


def _about_age(entry: MarketplaceEntry, now: float) -> Iterator[Diagnostic]:
    first = _unix_time(entry.first_published_at)
    if first and now - first < _NEW:
        yield Diagnostic(
            "OFFER_NEW",
            f"it was first published {ago(now - first)} ago",
            "look at its repository and its publisher first",
        )
        return
    latest = _unix_time(entry.published_at)
    if latest and now - latest < _FRESH:
        yield Diagnostic(
            "OFFER_NEW",
            f"version {entry.version} was published {ago(now - latest)} ago",
            "an older version may be the safer choice",
        )


def _about_origin(entry: MarketplaceEntry, known: KnownPackages) -> Iterator[Diagnostic]:
    if not entry.repository and entry.version:  # of a bare name nothing is known yet
        yield Diagnostic(
            "OFFER_NO_REPOSITORY",
            "it names no repository, so its source cannot be read",
            "install it only if you know its publisher",
        )
    if entry.trust == "unreviewed" and not _is_about_mcp(entry, known):
        yield Diagnostic(
            "OFFER_UNRELATED",
            "nothing in its name and description says that it is an MCP server",
            "check its documentation; starting another program is of no use",
        )
    if not entry.is_reviewed:
        but = "" if entry.trust == "unreviewed" else " except by its publisher"
        yield Diagnostic(
            "OFFER_UNREVIEWED", f"not reviewed{but}", "read its source, or run it in a sandbox"
        )


def _is_about_mcp(entry: MarketplaceEntry, known: KnownPackages) -> bool:
    """Return whether its publisher, a registry of servers or our list calls it a server."""
    if (
        entry.tools
        or entry.remotes
        or entry.name not in {offer.identifier for offer in entry.packages}
    ):
        return True  # a registry of servers lists it under a name of its own
    if any(offer.identifier in known.of(offer.registry_type) for offer in entry.packages):
        return True
    texts = (entry.name, entry.title, entry.description, entry.repository, *entry.tags)
    return any(mentions_mcp(text) for text in texts)


def mentions_mcp(text: str) -> bool:
    return _MENTIONS.search(text) is not None


def _about_offers(entry: MarketplaceEntry) -> Iterator[Diagnostic]:
    for refused in entry.refused:
        what = f"{refused.registry_type} {refused.identifier}".strip()
        yield Diagnostic("OFFER_REFUSED", f"{what!r} cannot be used: {refused.reason}")
    for offer in entry.packages:
        if offer.registry_url:
            yield Diagnostic(
                "OFFER_OTHER_REGISTRY",
                f"{offer.identifier!r} is meant to come from {offer.registry_url!r}",
                "your package manager asks the registry of its own settings",
            )


def _in_texts(entry: MarketplaceEntry) -> Iterator[Diagnostic]:
    for where, text in _texts(entry):
        for finding in scanner.alarms(scanner.scan_text(text, where=where)):
            yield SuspiciousText(
                finding.code,
                f"{finding.message}: {quoted(finding.excerpt)}",
                "do not install it unless you understand why this is there",
                subject=where,
                is_severe=finding.is_severe,
            )


def _texts(entry: MarketplaceEntry) -> Iterator[tuple[str, str]]:
    """The texts of its publisher that a person or a model may read."""
    yield from (
        ("name", entry.name),
        ("title", entry.title),
        ("description", entry.description),
        ("status message", entry.status_message),
        ("tags", " ".join(entry.tags)),
    )
    for tool in entry.tools or ():
        yield f"tool {named(tool.name)}", f"{tool.name}: {tool.description}"
    for offer in entry.packages:
        yield from _texts_of_inputs(offer.identifier, inputs_of(offer))
    for remote in entry.remotes:
        yield from _texts_of_inputs("remote", (*remote.headers, *remote.variables))


def _texts_of_inputs(whose: str, inputs: Iterable[Input]) -> Iterator[tuple[str, str]]:
    for offered_input in inputs:
        texts = (
            offered_input.name,
            offered_input.description,
            offered_input.placeholder,
            offered_input.default,
            *offered_input.choices,
        )
        yield f"input {named(offered_input.name)} of {named(whose)}", " ".join(filter(None, texts))
        yield from _texts_of_inputs(whose, offered_input.variables)


def inputs_of(offer: PackageOffer) -> tuple[Input, ...]:
    """Everything of an offer that a person may be asked for, or that is shown."""
    transport = (*offer.transport.headers, *offer.transport.variables)
    return (
        *offer.runtime_arguments,
        *offer.package_arguments,
        *offer.environment,
        *transport,
    )


def _unix_time(text: str) -> float:
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return date.replace(tzinfo=date.tzinfo or UTC).timestamp()
