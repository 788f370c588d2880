"""One entry of the marketplace for people, with all that is known of it before it is installed.

All texts are of strangers: each is cleaned, kept to its place, and never begins a line.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from discovery_cli.output import Cell, Output, Style, wrapped
from discovery_engine._util.quantities import ago, counted
from discovery_engine._util.text import block, columns_of, named, one_line
from discovery_engine.engine.owner.candidates import visible_line
from discovery_engine.errors import DiscoveryError
from discovery_engine.marketplace.entry_details import inputs_of

if TYPE_CHECKING:
    from discovery_engine.diagnostics import Diagnostic
    from discovery_engine.marketplace.entry import (
        EntryOrigin,
        Input,
        MarketplaceEntry,
        PackageOffer,
        RemoteOffer,
    )
    from discovery_engine.marketplace.entry_details import EntryDetails
    from discovery_engine.marketplace.installer.plan import InstallPlan
    from discovery_engine.marketplace.package_managers.manager_command import Prerequisite

_INDENT = 2
_GAP = "  "
_TOOLS = 12  # names that are shown; JSON has them all
_VERSIONS = 5
_MARKS = {"error": "!!", "warning": "!", "info": "-"}


def show_details(
    output: Output,
    details: EntryDetails,
    plan: InstallPlan | DiscoveryError | None,
    next_command: str,
    *,
    now: float,
) -> None:
    """An entry, what it would run, what it needs, and what to be careful about.

    Args:
        output: Where it is shown.
        details: What is known of the entry.
        plan: Of its installation, or why there is none.
        next_command: What installs it.
        now: Unix time in seconds.
    """
    entry = details.entry
    show_heading(output, entry)
    if entry.title and entry.title != entry.name:
        output.table([[Cell(entry.title, "strong")]], indent=_INDENT)
    for line in _paragraphs(output, entry.description):
        output.line(line)
    facts = (
        *_facts(entry, now),
        *_runs(plan),
        *_offers(entry),
        *_needs(_prerequisites(details, plan)),
    )
    rows: list[list[Cell | str]] = [[Cell(name, "faint"), text] for name, text in facts if text]
    output.table(rows, indent=_INDENT)
    show_warnings(output, details.warnings)
    say_problems(output, details.problems)
    if any(warning.severity == "error" for warning in details.warnings):
        output.say("read what is marked with !! before you install it")
    elif entry.packages or entry.remotes:
        output.say(f"next: {next_command}")


def show_heading(output: Output, entry: MarketplaceEntry) -> None:
    """Name, version, kinds and trust; on two lines where one is too short for them."""
    name = named(entry.name)
    about = [text for text in (version(entry), kinds(entry), status(entry)) if text]
    row = [Cell(text, "faint") for text in about]
    if output.is_terminal and columns_of(_GAP.join((name, *about))) > output.width:
        output.table([[Cell(name, "strong")]])
        output.table([row], indent=2 * _INDENT)
    else:
        output.table([[Cell(name, "strong"), *row]])


def show_warnings(output: Output, warnings: Iterable[Diagnostic]) -> None:
    """One for each, in their order, with what to do about it."""
    for warning in warnings:
        style: Style = "plain" if warning.severity == "info" else "bad"
        words = one_line(f"{warning.sentence} [{warning.code}]")
        hint = f" ({one_line(warning.hint)})" if warning.hint else ""
        output.table([[Cell(_MARKS[warning.severity], style), f"{words}{hint}"]], indent=_INDENT)


def say_problems(output: Output, problems: Iterable[Diagnostic]) -> None:
    """Write what could not be found out to stderr."""
    for problem in problems:
        hint = f"; {one_line(problem.hint)}" if problem.hint else ""
        place = f"{one_line(str(problem.origin))}: " if problem.origin.file else ""
        output.say(f"note: {place}{one_line(problem.sentence)}{hint}")


def version(entry: MarketplaceEntry) -> str:
    return named(entry.version) if entry.version else ""


def kinds(entry: MarketplaceEntry) -> str:
    """How it can be started or reached: `npm, oci`, `remote`."""
    registry_types: list[str] = [package.registry_type for package in entry.packages]
    remote = ["remote"] if entry.remotes else []
    return ", ".join(dict.fromkeys([*registry_types, *remote])) or "not usable"


def status(entry: MarketplaceEntry) -> str:
    """How far it is trusted, and whether it is still meant to be used."""
    return entry.trust if entry.status == "active" else f"{entry.trust}, {entry.status}"


def _paragraphs(output: Output, text: str) -> Iterator[str]:
    if not text.strip():
        return
    before = f"{' ' * _INDENT}| "
    for line in block(text, before=""):
        parts = wrapped(line, output.width - len(before)) if output.is_terminal else [line]
        for part in parts:
            yield f"{before}{part}".rstrip()


def _facts(entry: MarketplaceEntry, now: float) -> Iterator[tuple[str, str]]:
    yield "publisher", entry.publisher
    yield "repository", entry.repository or "none is named"
    yield "website", entry.website
    yield "published", _dates(entry, now)
    yield "versions", _versions(entry)
    yield "listed by", ", ".join(map(_origin, entry.origins))
    yield "tags", ", ".join(map(named, entry.tags))
    yield "tools", _tools(entry)


def _dates(entry: MarketplaceEntry, now: float) -> str:
    if not entry.published_at:
        return "no date is known"
    since = _age(entry.published_at, now)
    first = entry.first_published_at
    begun = f"; first {first[:10]}" if first and first != entry.published_at else ""
    return f"{entry.published_at[:10]}{since}{begun}"


def _age(date: str, now: float) -> str:
    try:
        at = datetime.fromisoformat(date)
    except ValueError:
        return ""
    return f", {ago(now - at.replace(tzinfo=at.tzinfo or UTC).timestamp())} ago"


def _versions(entry: MarketplaceEntry) -> str:
    names = [named(note.version) for note in entry.versions[:_VERSIONS]]
    more = len(entry.versions) - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def _origin(origin: EntryOrigin) -> str:
    return f"{origin.source} ({origin.trust})" if origin.source != origin.trust else origin.source


def _tools(entry: MarketplaceEntry) -> str:
    if entry.tools is None:
        return "not known before it runs"
    names = ", ".join(named(tool.name) for tool in entry.tools[:_TOOLS])
    more = len(entry.tools) - _TOOLS
    rest = f" and {more} more" if more > 0 else ""
    return f"{counted(len(entry.tools), 'tool')}: {names}{rest}" if names else "none"


def _runs(plan: InstallPlan | DiscoveryError | None) -> Iterator[tuple[str, str]]:
    """The exact command or address; `…` stands for values that are asked for first."""
    if isinstance(plan, DiscoveryError):
        yield "would run", f"nothing: {plan.message}"
    elif plan is not None and plan.url:
        yield "would reach", plan.url
    elif plan is not None:
        words = shlex.join(map(visible_line, plan.argv))
        yield "would run", f"{words} …" if plan.missing else words


def _offers(entry: MarketplaceEntry) -> Iterator[tuple[str, str]]:
    """Its packages and addresses, each with the values that it asks for."""
    for offer in entry.packages:
        yield "package", _package(offer)
        yield "hash", offer.integrity
        yield from _inputs(inputs_of(offer))
    for remote in entry.remotes:
        yield "address", _remote(remote)
        yield from _inputs((*remote.headers, *remote.variables))


def _package(offer: PackageOffer) -> str:
    exact = f" {named(offer.version)}" if offer.version else ""
    return f"{offer.registry_type}: {offer.identifier}{exact}"


def _remote(remote: RemoteOffer) -> str:
    return f"{remote.url} ({remote.type})"


def _inputs(inputs: Iterable[Input]) -> Iterator[tuple[str, str]]:
    for field in inputs:
        for part in field.asked:
            name = named(part.name or field.name or "a value")
            about = part.description or field.description
            yield "asks for", f"{name} ({_manner(field, part)}){f': {about}' if about else ''}"


def _manner(field: Input, part: Input) -> str:
    """Say whether a value is required or secret, and which values it may have."""
    is_secret = field.is_secret or part.is_secret
    words = ["required" if field.is_required or part.is_required else "optional"]
    if is_secret:
        words.append("secret")
    if part.choices:
        words.append(f"one of {', '.join(map(named, part.choices))}")
    if part.default and not is_secret:
        words.append(f"default {named(part.default)}")
    return ", ".join(words)


def _prerequisites(
    details: EntryDetails, plan: InstallPlan | DiscoveryError | None
) -> tuple[Prerequisite, ...]:
    """Return the plan's prerequisites if there is one: another way to start may need less."""
    if plan is None or isinstance(plan, DiscoveryError):
        return details.prerequisites
    return plan.prerequisites


def _needs(prerequisites: Iterable[Prerequisite]) -> Iterator[tuple[str, str]]:
    """The programs that start it: those that are here, and how to get each of the others."""
    programs = {prerequisite.program: prerequisite for prerequisite in prerequisites}
    # uvx is a part of uv: one of them is enough, and to get one is to get both.
    uv = next((key for key in ("uvx", "uv") if key in programs and programs[key].is_usable), "uvx")
    for other in {"uvx", "uv"} - {uv}:
        programs.pop(other, None)
    here = [f"{app.program} {app.version}".strip() for app in programs.values() if app.is_usable]
    yield "needs", f"{', '.join(here)}: here" if here else ""
    for prerequisite in programs.values():
        if not prerequisite.is_usable:
            hint = f"; {prerequisite.hint}" if prerequisite.hint else ""
            yield "needs", f"{prerequisite.program}: {prerequisite.problem}{hint}"
