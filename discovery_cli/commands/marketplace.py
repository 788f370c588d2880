"""`discovery marketplace`: finds and describes servers that others publish."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from discovery_cli.command_group import Group
from discovery_cli.exit_codes import ExitCode
from discovery_cli.install_commands import install, rollback, update
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_cli.output import Cell, Output, Style, wrapped
from discovery_cli.progress import is_watched
from discovery_engine._util.quantities import ago, counted
from discovery_engine._util.text import block, columns_of, named, one_line
from discovery_engine.engine.owner.candidates import visible_line
from discovery_engine.errors import DiscoveryError
from discovery_engine.marketplace.entry_details import inputs_of
from discovery_engine.marketplace.json_forms import (
    entry_details_form,
    page_form,
    source_form,
    sync_form,
)

if TYPE_CHECKING:
    from discovery_engine.engine import Engine
    from discovery_engine.errors import Diagnostic
    from discovery_engine.marketplace.entry import (
        EntryOrigin,
        Input,
        MarketplaceEntry,
        PackageOffer,
    )
    from discovery_engine.marketplace.entry_details import EntryDetails
    from discovery_engine.marketplace.entry_search import FoundEntry
    from discovery_engine.marketplace.installer.plan import InstallPlan
    from discovery_engine.marketplace.marketplace import MarketplacePage
    from discovery_engine.marketplace.package_managers.manager_command import Prerequisite
    from discovery_engine.marketplace.synchronizer import SourceReport, SourceState, SyncProgress

_DEFAULT_ENTRY_LIMIT = 20
_MAX_MARKETPLACE_RESULTS = 100
_STEP = 1_000  # entries between two lines of progress

source_option = click.option(
    "--source",
    "sources",
    metavar="ID",
    multiple=True,
    help="Only this source of `marketplace sources`; may be repeated.",
)
offline_option = click.option(
    "--offline", is_flag=True, help="Send no request: use the copies of the sources."
)


@click.group("marketplace", cls=Group)
def command() -> None:
    """Find servers that others publish, and install them.

    The sources are the official MCP registry, npm and PyPI, unless `marketplace.sources` in
    discovery.yaml names others. Nothing is downloaded or started before `install`.

    \b
      discovery marketplace search read pdf
      discovery marketplace show io.github.acme/files
      discovery marketplace install io.github.acme/files
    """


@command.command("search")
@click.argument("words", metavar="[QUERY]", nargs=-1)
@source_option
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, _MAX_MARKETPLACE_RESULTS),
    default=_DEFAULT_ENTRY_LIMIT,
    show_default=True,
    help="Show at most N results.",
)
@click.option("--cursor", metavar="TEXT", help="Show the results that follow an earlier answer.")
@click.option("--all", "with_all", is_flag=True, help="Also show servers that match much less.")
@offline_option
@pass_invocation
def search(
    invocation: Invocation,
    words: tuple[str, ...],
    *,
    sources: tuple[str, ...],
    limit: int,
    cursor: str | None,
    with_all: bool,
    offline: bool,
) -> ExitCode:
    """Find servers by what they do, or by name.

    Without QUERY, the servers updated last are shown. The search uses a local copy of the registry,
    which the first search makes, and asks your npm registry. PyPI has no search: well-known servers
    and exact names are found. Exits with 2 if nothing is found, and with 5 if a source failed as
    well.

    \b
      discovery marketplace search read pdf
    """
    query = " ".join(words).strip()

    async def work(engine: Engine) -> MarketplacePage:
        return await engine.marketplace.search(
            query,
            limit=limit,
            cursor=cursor,
            sources=sources,
            offline=offline,
            on_progress=_progress(invocation),
        )

    page, output = invocation.run(work), invocation.output
    if output.as_json:
        output.answer(page_form(page))
    else:
        show_page(output, page, query, now=invocation.clock(), with_all=with_all)
    if page.entries:
        return ExitCode.OK
    return ExitCode.UNREACHABLE if page.is_partial else ExitCode.USAGE


@command.command("show")
@click.argument("name")
@click.option("--version", metavar="VERSION", default="", help="Show this version of the package.")
@source_option
@offline_option
@pass_invocation
def show(
    invocation: Invocation, name: str, *, version: str, sources: tuple[str, ...], offline: bool
) -> None:
    """Show a server: publisher, command, requirements and warnings.

    NAME is a name that `marketplace search` shows, or a package of npm or PyPI.

    \b
      discovery marketplace show io.github.acme/files
    """

    async def work(engine: Engine) -> tuple[EntryDetails, InstallPlan | DiscoveryError | None]:
        details = await engine.marketplace.show(
            name, version=version, sources=sources, offline=offline
        )
        if offline or not (details.entry.packages or details.entry.remotes):
            return details, None
        try:
            return details, await engine.installer.preview(details.entry)
        except DiscoveryError as error:
            return details, error

    (details, plan), output = invocation.run(work), invocation.output
    if output.as_json:
        output.answer(entry_details_form(details, plan))
    else:
        # The name as typed: `pypi:NAME` may be the only unambiguous one.
        words = ["discovery", "marketplace", "install", name]
        words += ["--version", version] if version else []
        _show_details(output, details, plan, shlex.join(words), now=invocation.clock())


@command.command("sync")
@click.argument("names", metavar="[SOURCE]...", nargs=-1)
@click.option("--force", is_flag=True, help="Also copy sources that were copied lately.")
@pass_invocation
def sync(invocation: Invocation, names: tuple[str, ...], *, force: bool) -> ExitCode:
    """Copy what has changed in the sources, so that searches need no network.

    Searches do this themselves when a copy is older than `marketplace.syncEvery`. An interrupted
    copy is resumed. Exits with 5 if a source fails; its previous copy is kept.

    \b
      discovery marketplace sync
    """

    async def work(engine: Engine) -> tuple[SourceReport, ...]:
        progress = _progress(invocation)
        return await engine.marketplace.sync(names, force=force, on_progress=progress)

    reports, output = invocation.run(work), invocation.output
    if output.as_json:
        output.answer({"sources": [sync_form(report) for report in reports]})
    else:
        show_sync_reports(output, reports)
    return ExitCode.UNREACHABLE if any(report.is_failed for report in reports) else ExitCode.OK


@command.command("sources")
@pass_invocation
def sources(invocation: Invocation) -> None:
    """List the sources, their trust, and the age of their copies.

    \b
      discovery marketplace sources
    """

    async def work(engine: Engine) -> tuple[SourceState, ...]:
        return await engine.marketplace.sources()

    states, output = invocation.run(work), invocation.output
    if output.as_json:
        output.answer({"sources": [source_form(state) for state in states]})
    else:
        show_sources(output, states, now=invocation.clock())


for subcommand in (install, update, rollback):
    command.add_command(subcommand)


def _progress(invocation: Invocation) -> Callable[[SyncProgress], None]:
    """Return a callback that prints a line for each thousand entries, if a person waits."""
    steps: dict[str, int] = {}

    def say(progress: SyncProgress) -> None:
        step = progress.entries // _STEP
        if step > steps.get(progress.source, 0) and is_watched(invocation):
            steps[progress.source] = step
            invocation.output.say(f"copying {progress.source}: {step * _STEP:,} entries")

    return say


_ABOUT_INDENT = 4
_OLD = 86_400.0  # seconds; the age of a younger copy is not mentioned
_SHARE = 1 / 3  # of the best relevance; entries below it match one word of several
_NO_SOURCES = "there is no source: `marketplace.sources` is empty, or all of it is disabled"
_LIVE = {
    "npm": "your npm is asked at a search",
    "pypi": "it has no search: well-known servers and exact names",
}


def show_page(
    output: Output, page: MarketplacePage, query: str, *, now: float, with_all: bool
) -> None:
    """Print the results of a search, the problems of its sources, and the next step."""
    hits = page.entries if with_all else _fitting(page.entries)
    show_entries(output, [hit.entry for hit in hits])
    _say_problems(output, page.problems)
    if page.synced_at is not None and now - page.synced_at > _OLD:
        since = ago(now - page.synced_at)
        output.say(f"note: as copied {since} ago; `discovery marketplace sync` copies again")
    if not hits and not page.sources:
        return
    if not hits:
        about = f" for {one_line(query)!r}" if query else ""
        output.say(f"no server was found{about}; other words, or an exact name, may find one")
        return
    output.say(_summary(page, len(hits)))
    output.say(f"next: discovery marketplace show {named(hits[0].entry.name)}")


def show_entries(output: Output, entries: Iterable[MarketplaceEntry]) -> None:
    """Print two lines for each entry on a terminal, and one line for programs."""
    if not output.is_terminal:
        output.table(
            [
                [named(entry.name), version(entry) or "-", _kinds(entry), _status(entry), about]
                for entry in entries
                for about in (entry.description or entry.title,)
            ]
        )
        return
    for entry in entries:
        _show_heading(output, entry)
        if about := entry.description or entry.title:
            output.table([[Cell(about, is_summary=True)]], indent=_ABOUT_INDENT)


def show_sync_reports(output: Output, reports: Iterable[SourceReport]) -> None:
    """Print what was copied from each source."""
    rows: list[list[Cell | str]] = []
    syncs = list(reports)
    for sync in syncs:
        done = f"{sync.added:,} new, {sync.updated:,} changed, {sync.removed:,} removed"
        if not sync.was_due:
            done = "was copied lately; `--force` copies again"
        text = _problem_text(sync.problems) if sync.is_failed else done
        rows.append([output.mark(good=not sync.is_failed), Cell(sync.source, "strong"), text])
    output.table(rows)
    _say_problems(output, (note for sync in syncs for note in sync.problems if not sync.is_failed))
    if not syncs:
        output.say(_NO_SOURCES)


def show_sources(output: Output, states: Iterable[SourceState], *, now: float) -> None:
    """Print each source with its trust, the number of its entries, and the age of its copy."""
    copies = list(states)
    rows: list[list[Cell | str]] = [
        [
            _state_mark(output, copy),
            Cell(copy.name, "strong"),
            copy.trust,
            Cell(f"{copy.entries:,}", to_the_right=True),
            _problem_text(copy.problems) if copy.is_failing else _age_of(copy, now),
        ]
        for copy in copies
    ]
    output.table(rows)
    _say_problems(
        output, (note for copy in copies for note in copy.problems if not copy.is_failing)
    )
    if not copies:
        output.say(_NO_SOURCES)
    output.say("`marketplace.sources` of discovery.yaml sets them; `marketplace sync` copies them")


def _state_mark(output: Output, state: SourceState) -> Cell:
    """Return the mark of a source; open if it was never copied, which says nothing about it yet."""
    is_unknown = state.synced_at is None and not state.is_failing
    return output.open_mark() if is_unknown else output.mark(good=not state.is_failing)


def _fitting(entries: Sequence[FoundEntry]) -> Sequence[FoundEntry]:
    """Return entries that fit about as well as the best; others only have a word of the query."""
    least = _SHARE * entries[0].relevance if entries else 0.0
    return [hit for hit in entries if hit.relevance >= least]


def _summary(page: MarketplacePage, count: int) -> str:
    rest = len(page.entries) - count
    if rest:
        more = "at least " if page.next_cursor else ""
        return f"{counted(count, 'server')}; {more}{rest} more fit less, `--all` shows them"
    return counted(count, "server") + ("; `--limit` shows more" if page.next_cursor else "")


def _age_of(state: SourceState, now: float) -> str:
    words = f"; {_LIVE[state.type]}" if state.type in _LIVE else ""
    if state.synced_at is None:
        return f"not copied yet{words}"
    begun = "" if state.is_complete else ", not whole"
    return f"copied {ago(now - state.synced_at)} ago{begun}{words}"


def _problem_text(problems: Iterable[Diagnostic]) -> str:
    return "; ".join(one_line(problem.message) for problem in problems)


# All texts are untrusted: each is sanitized, stays in its place, and never begins a line.

_INDENT = 2
_GAP = "  "
_TOOLS = 12  # names that are shown; JSON has them all
_VERSIONS = 5
_MARKS = {"error": "!!", "warning": "!", "info": "-"}


def _show_details(
    output: Output,
    details: EntryDetails,
    plan: InstallPlan | DiscoveryError | None,
    next_command: str,
    *,
    now: float,
) -> None:
    """Print an entry, what it would run, what it needs, and warnings.

    Args:
        output: The output to print to.
        details: The entry and its details.
        plan: The plan of its installation, or the error that prevents one.
        next_command: The command that installs it.
        now: Unix time in seconds.
    """
    entry = details.entry
    _show_heading(output, entry)
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
    _show_warnings(output, details.warnings)
    _say_problems(output, details.problems)
    if any(warning.severity == "error" for warning in details.warnings):
        output.say("read what is marked with !! before you install it")
    elif entry.packages or entry.remotes:
        output.say(f"next: {next_command}")


def _show_heading(output: Output, entry: MarketplaceEntry) -> None:
    """Print name, version, kinds and trust, on two lines if one is too short."""
    name = named(entry.name)
    about = [text for text in (version(entry), _kinds(entry), _status(entry)) if text]
    row = [Cell(text, "faint") for text in about]
    if output.is_terminal and columns_of(_GAP.join((name, *about))) > output.width:
        output.table([[Cell(name, "strong")]])
        output.table([row], indent=2 * _INDENT)
    else:
        output.table([[Cell(name, "strong"), *row]])


def _show_warnings(output: Output, warnings: Iterable[Diagnostic]) -> None:
    """Print the warnings in order, each with what to do about it."""
    for warning in warnings:
        style: Style = "plain" if warning.severity == "info" else "bad"
        words = one_line(f"{warning.sentence} [{warning.code}]")
        hint = f" ({one_line(warning.hint)})" if warning.hint else ""
        output.table([[Cell(_MARKS[warning.severity], style), f"{words}{hint}"]], indent=_INDENT)


def _say_problems(output: Output, problems: Iterable[Diagnostic]) -> None:
    """Write what could not be found out to stderr."""
    for problem in problems:
        hint = f"; {one_line(problem.hint)}" if problem.hint else ""
        place = f"{one_line(str(problem.origin))}: " if problem.origin.file else ""
        output.say(f"note: {place}{one_line(problem.sentence)}{hint}")


def version(entry: MarketplaceEntry) -> str:
    return named(entry.version) if entry.version else ""


def _kinds(entry: MarketplaceEntry) -> str:
    """Return the ways to start or reach the server: `npm, oci`, `remote`."""
    registry_types: list[str] = [package.registry_type for package in entry.packages]
    remote = ["remote"] if entry.remotes else []
    return ", ".join(dict.fromkeys([*registry_types, *remote])) or "not usable"


def _status(entry: MarketplaceEntry) -> str:
    """Return the trust in the entry, and its status unless it is active."""
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
    """Yield the exact command or URL; `…` stands for values that are asked for first."""
    if isinstance(plan, DiscoveryError):
        yield "would run", f"nothing: {plan.message}"
    elif plan is not None and plan.url:
        yield "would reach", plan.url
    elif plan is not None:
        words = shlex.join(map(visible_line, plan.argv))
        yield "would run", f"{words} …" if plan.missing else words


def _offers(entry: MarketplaceEntry) -> Iterator[tuple[str, str]]:
    """Yield packages and URLs, each with the values that it asks for."""
    for offer in entry.packages:
        yield "package", _package(offer)
        yield "hash", offer.integrity
        yield from _inputs(inputs_of(offer))
    for remote in entry.remotes:
        yield "address", f"{remote.url} ({remote.type})"
        yield from _inputs((*remote.headers, *remote.variables))


def _package(offer: PackageOffer) -> str:
    exact = f" {named(offer.version)}" if offer.version else ""
    return f"{offer.registry_type}: {offer.identifier}{exact}"


def _inputs(inputs: Iterable[Input]) -> Iterator[tuple[str, str]]:
    for field in inputs:
        for part in field.asked:
            name = named(part.name or field.name or "a value")
            about = part.description or field.description
            yield "asks for", f"{name} ({_manner(field, part)}){f': {about}' if about else ''}"


def _manner(field: Input, part: Input) -> str:
    """Return whether a value is required or secret, and its choices, as text."""
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
    """Yield the programs that start it: those that exist, and how to get each of the others."""
    programs = {prerequisite.program: prerequisite for prerequisite in prerequisites}
    # uvx is part of uv: one of them suffices, and installing one installs both.
    uv = next((key for key in ("uvx", "uv") if key in programs and programs[key].is_usable), "uvx")
    for other in {"uvx", "uv"} - {uv}:
        programs.pop(other, None)
    here = [f"{app.program} {app.version}".strip() for app in programs.values() if app.is_usable]
    yield "needs", f"{', '.join(here)}: here" if here else ""
    for prerequisite in programs.values():
        if not prerequisite.is_usable:
            hint = f"; {prerequisite.hint}" if prerequisite.hint else ""
            yield "needs", f"{prerequisite.program}: {prerequisite.problem}{hint}"
