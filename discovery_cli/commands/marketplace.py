"""`discovery marketplace`: servers that others publish, found and described."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from discovery_cli.command_group import Group
from discovery_cli.entry_output import show_details
from discovery_cli.exit_codes import ExitCode
from discovery_cli.install_commands import install, rollback, uninstall, update
from discovery_cli.invocation import Invocation
from discovery_cli.marketplace_output import show_page, show_sources, show_sync_reports
from discovery_cli.options import pass_invocation
from discovery_cli.progress import is_watched
from discovery_engine.errors import DiscoveryError
from discovery_engine.json_forms.marketplace_form import (
    entry_details_form,
    page_form,
    source_form,
    sync_form,
)

if TYPE_CHECKING:
    from discovery_engine.engine import Engine
    from discovery_engine.installer.plan import InstallPlan
    from discovery_engine.marketplace.entry_details import EntryDetails
    from discovery_engine.marketplace.marketplace import MarketplacePage
    from discovery_engine.marketplace.source_copies import SourceState
    from discovery_engine.marketplace.synchronizer import SourceReport, SyncProgress

_DEFAULT_ENTRY_LIMIT = 20
_MAX_MARKETPLACE_RESULTS = 100
_STEP = 1_000  # entries between two lines of progress

source_option = click.option(
    "--source",
    "sources",
    metavar="ID",
    multiple=True,
    help="Only this source, as `marketplace sources` names it; may be repeated.",
)
offline_option = click.option(
    "--offline", is_flag=True, help="Send no request; use what was copied before."
)


@click.group("marketplace", cls=Group)
def command() -> None:
    """Find servers that others publish, and install them.

    The sources are the official MCP registry, npm and PyPI, or those of `marketplace.sources` in
    discovery.yaml. Nothing is downloaded or started before `marketplace install`.

    \b
      discovery marketplace search read pdf
      discovery marketplace show NAME
      discovery marketplace install NAME
    """  # noqa: D301 - click wants the character itself


@command.command("search")
@click.argument("words", metavar="[QUERY]", nargs=-1)
@source_option
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, _MAX_MARKETPLACE_RESULTS),
    default=_DEFAULT_ENTRY_LIMIT,
    show_default=True,
    help="The most results.",
)
@click.option("--cursor", metavar="TEXT", help="The results behind those of an earlier answer.")
@click.option("--all", "with_all", is_flag=True, help="Also those that fit much less.")
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
    """Find servers by what they do, or by name; without a query, those updated last.

    A copy of the registry is searched; the first search makes it. Your own npm is asked as well.
    PyPI has no search: of it, well-known servers and exact names are found. A source that fails
    costs only itself. The exit code is 2 if nothing was found, and 5 if a source failed as well.
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
@click.option("--version", metavar="VERSION", default="", help="Another version of its package.")
@source_option
@offline_option
@pass_invocation
def show(
    invocation: Invocation, name: str, *, version: str, sources: tuple[str, ...], offline: bool
) -> None:
    """Show a server: its publisher, what it would run, what it needs, and warnings.

    NAME is one of `marketplace search`, or that of a package of npm or PyPI.
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
        # As it was typed: `pypi:NAME` may be the only name that is not ambiguous.
        words = ["discovery", "marketplace", "install", name]
        words += ["--version", version] if version else []
        show_details(output, details, plan, shlex.join(words), now=invocation.clock())


@command.command("sync")
@click.argument("names", metavar="[SOURCE]...", nargs=-1)
@click.option("--force", is_flag=True, help="Also those that were asked lately.")
@pass_invocation
def sync(invocation: Invocation, names: tuple[str, ...], *, force: bool) -> ExitCode:
    """Copy what has changed in the sources; searches then need no network.

    A search does this by itself when a copy is older than `marketplace.syncEvery`. A run that was
    interrupted goes on where it was. The exit code is 5 if a source failed; its copy stays. Entries
    that cannot be read are named, and cost only themselves.
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
    """Show the sources, how far they are trusted, and how old their copies are."""

    async def work(engine: Engine) -> tuple[SourceState, ...]:
        return await engine.marketplace.sources()

    states, output = invocation.run(work), invocation.output
    if output.as_json:
        output.answer({"sources": [source_form(state) for state in states]})
    else:
        show_sources(output, states, now=invocation.clock())


for one in (install, update, rollback, uninstall):
    command.add_command(one)


def _progress(invocation: Invocation) -> Callable[[SyncProgress], None]:
    """A line on stderr for each thousand entries that are copied, where a person waits for them."""
    said: dict[str, int] = {}

    def say(progress: SyncProgress) -> None:
        step = progress.entries // _STEP
        if step > said.get(progress.source, 0) and is_watched(invocation):
            said[progress.source] = step
            invocation.output.say(f"copying {progress.source}: {step * _STEP:,} entries")

    return say
