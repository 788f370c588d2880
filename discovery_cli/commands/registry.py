"""`discovery registry`: where the catalog and the owner's decisions are kept."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import click
from msgspec import to_builtins

from discovery_cli.command_group import Group
from discovery_cli.invocation import Invocation
from discovery_cli.options import complete_server, pass_invocation
from discovery_cli.output import Cell, Output
from discovery_engine._util.quantities import ago, counted

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.editing.section_edit import EditableSection
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine import Engine
    from discovery_engine.engine.named_registry import RegistryReport


@click.group("registry", cls=Group)
def command() -> None:
    """Show, check, update, copy or clear the stored catalog and decisions.

    \b
      discovery registry info
      discovery registry clear github
      discovery registry copy --to '${DATABASE_URL}'
    """


@command.command("info")
@pass_invocation
def info(invocation: Invocation) -> None:
    """Show where the registry is, and what is stored in it.

    \b
      discovery registry info
    """
    from discovery_engine.engine.json_forms.owner_forms import cache_form, size_of
    from discovery_engine.engine.named_registry import ON_THIS_MACHINE
    from discovery_engine.engine.restore import registry_path

    report, output, now = _report(invocation), invocation.output, invocation.clock()
    path = registry_path(invocation.data_dir, os.environ)
    # An engine would update the tables.
    view = invocation.recall() if report.is_outdated else invocation.known()
    if output.as_json:
        form = _form(report) | {"on_this_machine": list(ON_THIS_MACHINE)}
        output.answer(form | (cache_form(view, path, now) if view else {}))
        return
    _show(output, report)
    if view is None:
        return
    output.table([_row(output, part, now) for part in view.catalog.parts.values()])
    output.say(f"{counted(len(view.catalog), 'tool')} in {path} ({size_of(path) / 1000:.0f} kB)")
    if name := view.settings.name:
        output.say(f"decisions are kept under the name {name!r}")
    output.say(
        f"kept on this machine alone, whichever registry is named: {'; '.join(ON_THIS_MACHINE)}"
    )


@command.command("check")
@pass_invocation
def check(invocation: Invocation) -> None:
    """Check that the registry can be reached, and how to improve it.

    Exits with 5 if the database does not answer.

    \b
      discovery registry check
    """
    report, output = _report(invocation), invocation.output
    advice = list(report.database.advice) if report.database else []
    if output.as_json:
        output.answer(_form(report) | {"advice": advice})
        return
    _show(output, report)
    for line in advice:
        output.say(line)
    if not (advice or report.ignored or report.is_outdated):
        output.say("all is well")


@command.command("migrate")
@pass_invocation
def migrate(invocation: Invocation) -> None:
    """Update the tables of a database before gateways of a new version start.

    A gateway also does this when it starts. Gateways of the previous version continue to work.

    \b
      discovery registry migrate
    """
    report, output = _report(invocation, is_updated=True), invocation.output
    if output.as_json:
        output.answer(_form(report))
    elif report.database:
        output.line(f"the tables in {report.place} are at version {report.database.version}")
    else:
        output.line(f"{report.place} is up to date")


@command.command("rules")
@click.option("--delete", is_flag=True, help="Delete them.")
@pass_invocation
def rules(invocation: Invocation, *, delete: bool) -> None:
    """Show or delete the rules for all machines that share the registry.

    They come before those of `discovery.yaml`. The page and `discovery disable SERVER:TOOL` write
    them.

    \b
      discovery registry rules
      discovery registry rules --delete
    """
    output = invocation.output

    async def read(engine: Engine) -> list[EditableSection]:
        sections = await engine.changes.sections()
        shared = [section for section in sections if section.where == "registry" and section.text]
        if delete:
            planned = await engine.changes.plan({section.name: "" for section in shared})
            await engine.changes.apply(planned)
        return shared

    shared = invocation.run(read)
    if output.as_json:
        rules = {section.name.removeprefix("registry."): section.text for section in shared}
        output.answer({"rules": rules, "deleted": delete})
        return
    for section in shared:
        output.line(f"{section.name.removeprefix('registry.')}:")
        for line in section.text.splitlines():
            output.line(f"  {line}")
    if delete and shared:
        output.say("deleted")
    elif not shared:
        output.say("there are none: all rules are in discovery.yaml")


@command.command("copy")
@click.option(
    "--to",
    "target",
    metavar="URL",
    required=True,
    help="An empty registry: sqlite:///PATH, or a reference such as '${DATABASE_URL}'.",
)
@pass_invocation
def copy(invocation: Invocation, target: str) -> None:
    """Copy the registry into an empty one, and compare both.

    Stop gateways and workers first. Afterwards name the copy under `registry` in discovery.yaml,
    and start them again.

    \b
      discovery registry copy --to '${DATABASE_URL}'
    """
    from discovery_cli.progress import shown_step
    from discovery_engine.engine.named_registry import open_named, open_target
    from discovery_engine.engine.registered_servers import settle_scope
    from discovery_engine.store.transfer import copy_registry

    output, settings, data_dir = invocation.output, _settings(invocation), invocation.data_dir
    with (
        closing(open_target(target, settings, data_dir=data_dir, environ=os.environ)) as new,
        closing(open_named(settings, data_dir=data_dir, environ=os.environ)) as source,
        shown_step(invocation) as report,
    ):
        settle_scope(source, settings, at=invocation.clock())
        copied = copy_registry(source, new, report=report)
    if output.as_json:
        output.answer(to_builtins(copied))
        return
    for kind, digest in copied.items():
        output.line(f"{digest.count:>8,} {kind}")
    output.say("the copy is complete, and its digests are those of the original")
    if not settings.name and not target.startswith("sqlite:"):
        output.say(
            f"its decisions are kept under {settings.path}: for machines with other paths, add a "
            "`name` to this file first, and the same name to theirs"
        )
    if copied["deliveries"].count:
        output.say(
            "what waits for webhooks is in both: a gateway or worker of the original would send it "
            "once more"
        )


@command.command("reindex")
@pass_invocation
def reindex(invocation: Invocation) -> None:
    """Rebuild the search index and the vectors of all tools.

    Use it when an embedding model has changed under the same name, or when you suspect that the
    index is wrong. No server is started; `discovery refresh` lists tools again. Until its vector is
    computed, a tool is found by words. Other gateways use the new vectors after a restart.

    \b
      discovery registry reindex
    """
    output = invocation.output
    report = invocation.run(lambda engine: engine.reindex())
    if output.as_json:
        from discovery_engine.engine.json_forms.owner_forms import reindex_form

        output.answer(reindex_form(report))
        return
    tools = counted(report.tools, "tool")
    if report.vectors is None:
        output.say(f"indexed {tools}; no vectors, as `search.embeddings` has no provider")
    else:
        output.say(f"indexed {tools}, and made {counted(report.vectors, 'vector')}")


@command.command("clear")
@click.argument("servers", metavar="[SERVER]...", nargs=-1, shell_complete=complete_server)
@pass_invocation
def clear(invocation: Invocation, servers: tuple[str, ...]) -> None:
    """Delete the stored tools of servers, and their usage.

    Without SERVER, those of all servers are deleted. Servers are listed again when needed.

    \b
      discovery registry clear github
    """
    output = invocation.output
    count = invocation.run(lambda engine: engine.forget(servers or None))
    output.report({"forgotten": count}, f"forgot {counted(count, 'tool')}")


def _settings(invocation: Invocation) -> Settings:
    from discovery_engine.config.loading.loader import load_settings

    return load_settings(invocation.config)


def _report(invocation: Invocation, *, is_updated: bool = False) -> RegistryReport:
    from discovery_engine.engine.named_registry import report_on

    return report_on(
        _settings(invocation),
        data_dir=invocation.data_dir,
        environ=os.environ,
        is_updated=is_updated,
    )


def _show(output: Output, report: RegistryReport) -> None:
    output.line(report.place)
    for diagnostic in report.ignored:
        output.say(f"{diagnostic.sentence}: {diagnostic.hint}")
    if report.is_outdated:
        output.line(
            "  its tables are missing, or of an older version: a gateway makes them, or `discovery "
            "registry migrate`"
        )
    if database := report.database:
        tls = "with TLS" if database.is_encrypted else "without TLS"
        output.line(f"  PostgreSQL {database.server}, tables of version {database.version}, {tls}")
        scopes = counted(database.configurations, "configuration")
        output.line(
            f"  {scopes}, {counted(database.decisions, 'decision')}, "
            f"{counted(database.vectors, 'vector')}, {database.size / 1e6:.1f} MB"
        )
        output.line(f"  {database.vector_note}")


def _form(report: RegistryReport) -> JSONObject:
    ignored = [diagnostic.sentence for diagnostic in report.ignored]
    database = to_builtins(report.database)
    return {
        "place": report.place, "database": database, "outdated": report.is_outdated,
        "ignored": ignored,
    }  # fmt: skip


def _row(output: Output, part: ServerPart, now: float) -> list[Cell | str]:
    listed = f"listed {ago(now - part.listed_at)} ago" if part.listed_at else "never listed"
    return [
        output.mark(good=part.failure is None and part.listed_at is not None),
        Cell(part.server, "strong"),
        counted(len(part.entries), "tool"),
        listed,
        "last known, as the newest attempt failed" if part.is_stale else "",
    ]
