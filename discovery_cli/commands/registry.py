"""`discovery registry`: where the catalog and the owner's decisions are kept."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import click
from msgspec import to_builtins

from discovery_cli.command_group import Group
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_engine._util.quantities import counted

if TYPE_CHECKING:
    from discovery_cli.output import Output
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.settings import Settings
    from discovery_engine.runtime.named_registry import RegistryReport


@click.group("registry", cls=Group)
def command() -> None:
    """Show, check, update or copy the registry."""


@command.command("info")
@pass_invocation
def info(invocation: Invocation) -> None:
    """Show where the registry is, and what is kept on this machine alone."""
    from discovery_engine.runtime.named_registry import ON_THIS_MACHINE

    report, output = _report(invocation), invocation.output
    if output.as_json:
        output.answer(_form(report) | {"on_this_machine": list(ON_THIS_MACHINE)})
        return
    _show(output, report)
    output.say(
        f"kept on this machine alone, whichever registry is named: {'; '.join(ON_THIS_MACHINE)}"
    )


@command.command("check")
@pass_invocation
def check(invocation: Invocation) -> None:
    """Reach the registry, and show what to change.

    It ends with exit code 5 if a database does not answer.
    """
    report, output = _report(invocation), invocation.output
    advice = list(report.database.advice) if report.database else []
    if output.as_json:
        output.answer(_form(report) | {"advice": advice})
        return
    _show(output, report)
    for line in advice:
        output.say(line)
    if not (advice or report.ignored):
        output.say("all is well")


@command.command("migrate")
@pass_invocation
def migrate(invocation: Invocation) -> None:
    """Bring the tables of a database up to date, before gateways of a new version start.

    Each of them does it as well; gateways of the version before work on.
    """
    report, output = _report(invocation), invocation.output
    if output.as_json:
        output.answer(_form(report))
    elif report.database:
        output.line(f"the tables in {report.place} are at version {report.database.version}")
    else:
        output.line(f"{report.place} is up to date")


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
    """Copy the registry into an empty one, and compare both by digests.

    Stop the gateways and workers first. Then name the copy in `registry` of discovery.yaml, and
    start them.
    """
    from discovery_cli.progress import shown_step
    from discovery_engine.registry.transfer import copy_registry
    from discovery_engine.runtime.named_registry import open_named, open_target

    output, settings, data_dir = invocation.output, _settings(invocation), invocation.data_dir
    with (
        closing(open_target(target, settings, data_dir=data_dir, environ=os.environ)) as new,
        closing(open_named(settings, data_dir=data_dir, environ=os.environ)) as source,
        shown_step(invocation) as report,
    ):
        copied = copy_registry(source, new, report=report)
    if output.as_json:
        output.answer(to_builtins(copied))
        return
    for kind, digest in copied.items():
        output.line(f"{digest.count:>8,} {kind}")
    output.say("the copy is complete, and its digests are those of the original")
    if copied["deliveries"].count:
        output.say(
            "what waits for webhooks is in both: a gateway or worker of the original would send it "
            "once more"
        )


def _settings(invocation: Invocation) -> Settings:
    from discovery_engine.config.loading.loader import load_settings

    return load_settings(invocation.config)


def _report(invocation: Invocation) -> RegistryReport:
    from discovery_engine.runtime.named_registry import report_on

    settings = _settings(invocation)
    return report_on(settings, data_dir=invocation.data_dir, environ=os.environ)


def _show(output: Output, report: RegistryReport) -> None:
    output.line(report.place)
    for diagnostic in report.ignored:
        output.say(f"{diagnostic.sentence}: {diagnostic.hint}")
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
    return {"place": report.place, "database": to_builtins(report.database), "ignored": ignored}
