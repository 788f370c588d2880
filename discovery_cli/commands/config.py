"""`discovery config`: shows, checks, writes and pins the configuration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from discovery_cli.command_group import Group, did_you_mean
from discovery_cli.error_output import problem_lines
from discovery_cli.exit_codes import ExitCode, exit_code_of_failure
from discovery_cli.invocation import Invocation, view_of
from discovery_cli.options import complete_server, pass_invocation
from discovery_cli.output import Cell, Output
from discovery_cli.server_changes import show_sync
from discovery_engine._util.quantities import counted
from discovery_engine._util.suggestions import nearest
from discovery_engine.engine.json_forms.error_form import problem_form
from discovery_engine.errors import ServerNotFoundError, UnavailableError, plain_reason

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine import Engine
    from discovery_engine.engine.owner.catalog_lock import LockReport, Unlisted
    from discovery_engine.engine.owner.setup_sync import SyncPlan
    from discovery_engine.errors import Diagnostic
    from discovery_engine.trust.lockfile import Deviation


@click.group("config", cls=Group, modules={"import": "import_"})
def command() -> None:
    """Show and check the configuration, import servers, and pin tools.

    \b
      discovery config check
      discovery config import --from cursor
      discovery config export --format vscode
      discovery config lock --check
    """


@command.command("show")
@click.option("--set", "is_set", is_flag=True, help="Show only what differs from the defaults.")
@pass_invocation
def show(invocation: Invocation, *, is_set: bool) -> None:
    """Show the effective configuration, without secrets.

    \b
      discovery config show
      discovery config show --set
    """
    from discovery_engine.config.editing.yaml_text import block
    from discovery_engine.config.serialization import serialize_redacted

    output = invocation.output
    settings = _load(invocation)
    entries = serialize_redacted(settings, with_defaults=not is_set)
    if output.as_json:
        output.answer({"path": settings.path, "configuration": entries})
        return
    output.line(f"# {settings.path or 'built-in defaults: there is no discovery.yaml'}", "faint")
    output.text(block(entries).rstrip())


@command.command("check")
@pass_invocation
def check(invocation: Invocation) -> ExitCode:
    """Check the configuration, and its rules against the known tools.

    No server is started. Exits with 2 if the configuration, or the entry of a server, is invalid.

    \b
      discovery config check
      discovery --config new.yaml config check
    """
    from discovery_cli.finding_output import entry_form, show_diagnostic
    from discovery_engine.engine.doctor.entry_lint import lint_entries

    output = invocation.output
    settings = _load(invocation)
    broken = [server.problem for server in settings.servers if server.problem]
    warnings = [problem for problem in settings.warnings if problem not in broken]
    findings = lint_entries(invocation.known())
    if output.as_json:
        output.answer(
            {
                "path": settings.path,
                "valid": not broken,
                "problems": [problem_form(problem) for problem in broken],
                "warnings": [problem_form(problem) for problem in warnings],
                "findings": list(map(entry_form, findings)),
            }
        )
    else:
        _show_problems(output, (*broken, *warnings))
        for finding in findings:
            show_diagnostic(output, finding)
        _say_sum(output, settings, good=not broken)
    return ExitCode.USAGE if broken else ExitCode.OK


@command.command("sources")
@pass_invocation
def sources(invocation: Invocation) -> None:
    """List where servers come from.

    These are discovery.yaml, the files of other clients, and the registry.

    \b
      discovery config sources
    """
    from discovery_engine.engine.restore import registry_path

    output = invocation.output
    settings = _load(invocation)
    forms = _source_forms(settings, str(registry_path(invocation.data_dir, os.environ)))
    if output.as_json:
        output.answer({"sources": forms})
        return
    output.table(
        [
            [
                output.mark(good=form["is_there"] and form["is_readable"]),
                Cell(form["type"], "strong"),
                counted(len(form["servers"]), "server"),
                ", ".join(form["files"] or filter(None, [form["path"]])),
            ]
            for form in forms
        ]
    )
    for problem in settings.warnings:
        for line in problem_lines(problem):
            output.say(line)


@command.command("schema")
@pass_invocation
def schema(invocation: Invocation) -> None:
    """Print the JSON Schema of discovery.yaml, for editors.

    \b
      discovery config schema > discovery.schema.json
    """
    import json

    from discovery_engine.config.model.config_file import json_schema

    # The output is the bare schema, with and without --json, because editors read it.
    invocation.output.text(json.dumps(json_schema(), indent=2))


@command.command("path")
@pass_invocation
def path(invocation: Invocation) -> ExitCode:
    """Print the path of the configuration.

    Nothing is printed if there is no configuration. Exits with 2 if the file that --config or
    $DISCOVERY_CONFIG names does not exist.

    \b
      discovery config path
    """
    from discovery_engine.config.files.location import FILE_NAME, locate
    from discovery_engine.engine.restore import registry_path

    output = invocation.output
    location = locate(invocation.config)
    is_there = location.path is None or Path(location.path).exists()
    if output.as_json:
        registry = str(registry_path(invocation.data_dir, os.environ))
        absent = list(location.absent)
        file_form = {"path": location.path, "exists": is_there and location.path is not None}
        output.answer({**file_form, "looked_at": absent, "registry": registry})
    elif location.path is None:
        output.say("there is no discovery.yaml; looked for")
        for place in location.absent:
            output.say(f"  {place}")
        for place in filter(os.path.exists, location.near_misses):
            output.say(f"{place} is not read: rename it to {FILE_NAME}")
    else:
        output.line(location.path)
    if not is_there:
        output.say(
            f"there is no such file, although {location.named_by}; `discovery init` writes one"
        )
    return ExitCode.OK if is_there else ExitCode.USAGE


@command.command("reload")
@pass_invocation
def reload(invocation: Invocation) -> None:
    """Read the configuration again, and apply it to the known tools.

    No server is started. A running `discovery serve` reloads when its file changes, and on SIGHUP.

    \b
      discovery config reload
    """
    output = invocation.output
    view = invocation.run(view_of)
    servers, tools = len(view.settings.servers), len(view.catalog)
    if output.as_json:
        path = view.settings.path
        output.answer({"path": path, "server_count": servers, "tool_count": tools})
    else:
        output.say(f"{counted(servers, 'server')}, {counted(tools, 'tool')} known")


def _load(invocation: Invocation) -> Settings:
    from discovery_engine.config.loading.loader import load_settings
    from discovery_engine.engine.restore import with_registered

    settings = load_settings(invocation.config)
    return with_registered(settings, data_dir=invocation.data_dir, environ=os.environ)


def _show_problems(output: Output, problems: Iterable[Diagnostic]) -> None:
    for problem in problems:
        for line in problem_lines(problem):
            output.line(line)


def _say_sum(output: Output, settings: Settings, *, good: bool) -> None:
    servers = counted(len(settings.servers), "server")
    rules = counted(len(settings.tool_rules) + len(settings.server_rules), "rule")
    word = "can be used" if good else "has entries that cannot be used"
    output.say(f"{settings.path or 'the built-in configuration'} {word}: {servers}, {rules}")


def _source_forms(settings: Settings, registry: str) -> list[JSONObject]:
    """Return the configuration, each source and the registry, with the servers of each."""
    from discovery_engine.config.loading.loader import read_sources
    from discovery_engine.config.settings import OWN_SOURCE, REGISTRY

    data = Path(registry).parent
    others = [server for server in settings.servers if server.source != OWN_SOURCE]
    own = [server.name for server in settings.servers if server.source == OWN_SOURCE]
    forms = [_source_form(OWN_SOURCE, settings.path, [settings.path or ""], own)]
    for source, imported in zip(
        settings.sources, read_sources(settings, environ=os.environ), strict=True
    ):
        files = [file.path for file in imported.inputs if file.digest]
        files = [file for file in files if data not in Path(file).parents]  # of running gateways
        files += [s.origin.file for s in imported.servers if Path(s.origin.file).is_file()]
        servers = [s for s in others if s.source == source.type and s.origin.file in files]
        others = [server for server in others if server not in servers]
        form = _source_form(source.type, source.path, files, [s.name for s in servers])
        is_broken = any(warning.code == "SOURCE_UNREADABLE" for warning in imported.warnings)
        forms.append({**form, "is_readable": not is_broken})
    if registered := [server.name for server in others if server.is_registered]:
        forms.append(_source_form(REGISTRY, None, [registry], registered))
    return forms


def _source_form(
    kind: str, path: str | None, files: Iterable[str], servers: Sequence[str]
) -> JSONObject:
    """Return a source: `path` from its entry, the files that exist, and what was used of them."""
    paths = list(dict.fromkeys(filter(None, files)))
    return {
        "type": kind,
        "path": path,
        "is_there": bool(paths),
        "is_readable": True,
        "files": paths,
        "servers": list(servers),
    }


@command.command("sync")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would be registered, and write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask: register, and approve, what is shown.")
@pass_invocation
def sync(invocation: Invocation, *, file: Path | None, dry_run: bool, yes: bool) -> ExitCode:
    """Register and approve the servers of a setup file.

    Servers that are registered already are not changed. FILE, or $DISCOVERY_SETUP_FILE, is a JSON
    list of servers with `name`, `command` and `args`, or `url`; optional are `env`, `headers`,
    `description`, `tags`, `secrets` and `auto_activate` (`true` by default). NAME.local.json beside
    NAME.json adds to it. `$NAME` refers to an environment variable; other `secrets` are stored
    encrypted. Exits with 2 if an entry is invalid; the others are registered.

    \b
      discovery config sync servers.json --dry-run
    """
    from discovery_cli.terminal_input import confirm
    from discovery_engine.engine.json_forms.owner_forms import sync_plan_form

    output = invocation.output

    async def plan_and_apply(engine: Engine) -> tuple[SyncPlan, bool]:
        plan = await engine.servers.plan_sync(file)
        if not output.as_json:
            show_sync(output, plan)
        question = f"Register {_count(plan)}, and approve what they run?"
        agreed = bool(plan.plans) and not dry_run and confirm(question, yes=yes)
        if agreed:
            await engine.servers.apply(*plan.plans)
        return plan, agreed

    plan, agreed = invocation.run(plan_and_apply)
    if output.as_json:
        output.answer(sync_plan_form(plan, is_written=agreed))
    elif plan.plans:
        output.say(f"registered {_count(plan)}" if agreed else "nothing was registered")
    else:
        output.say("nothing to register")
    return ExitCode.USAGE if plan.report.errors else ExitCode.OK


def _count(plan: SyncPlan) -> str:
    return counted(len(plan.plans), "server")


def _export_formats(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from discovery_engine.engine.owner.server_export import EXPORT_CLIENTS

    return [name for name in EXPORT_CLIENTS if name.startswith(incomplete)]


@command.command("export")
@click.argument("names", metavar="[SERVER]...", nargs=-1, shell_complete=complete_server)
@click.option(
    "--format",
    "client",
    metavar="CLIENT",
    required=True,
    shell_complete=_export_formats,
    help="The client whose file is written, for instance cursor, vscode or codex; or discovery.",
)
@pass_invocation
def export(invocation: Invocation, names: tuple[str, ...], *, client: str) -> None:
    """Print the servers as the file of another client.

    Without SERVER, all that are enabled. Secrets are left out: references stay where the client
    has them, otherwise `<NAME>` stands for the value to enter.

    \b
      discovery config export --format vscode > .vscode/mcp.json
      discovery config export --format codex github
    """
    from discovery_engine.engine.owner.server_export import EXPORT_CLIENTS, export_servers

    if client not in EXPORT_CLIENTS:
        formats = did_you_mean(client, EXPORT_CLIENTS) or f"; formats: {', '.join(EXPORT_CLIENTS)}"
        raise click.UsageError(f"there is no format {client!r}{formats}")
    output, settings = invocation.output, _load(invocation)
    by_name = {str(server.name): server for server in settings.servers}
    for name in names:
        if name not in by_name:
            raise ServerNotFoundError(name, nearest(name, by_name))
    chosen = [by_name[name] for name in dict.fromkeys(names or by_name)]
    left_out = [s.name for s in chosen if not (s.transport and (s.enabled or names))]
    exported = export_servers([s for s in chosen if s.name not in left_out], client)
    if output.as_json:
        form = {"format": client, "text": exported.text, "left_out": left_out}
        lists = {"values": list(exported.values), "notes": list(exported.notes)}
        output.answer({**form, **lists})
        return
    output.write(exported.text)
    for note in exported.notes:
        output.say(f"note: {note}")
    if left_out:
        output.say(f"left out, since it is off or broken: {', '.join(left_out)}")
    if exported.values:
        output.say(f"{exported.label} needs values for {', '.join(exported.values)}")


@command.command("lock")
@click.option("--check", is_flag=True, help="Write nothing; exit with 7 if anything differs.")
@pass_invocation
def lock(invocation: Invocation, *, check: bool) -> ExitCode:
    """Pin every server and tool in discovery.lock, beside the configuration.

    All servers are listed first. Nothing is written while a server cannot be listed or a tool waits
    for review. With --frozen, every command uses only what is pinned.

    \b
      discovery config lock
      discovery config lock --check
    """
    invocation.frozen = False
    if check:
        return _show_check(invocation.output, invocation.run(lambda engine: engine.lock.check()))
    return _show_write(invocation.output, invocation.run(lambda engine: engine.lock.write()))


def _refuse(output: Output, unlisted: Unlisted) -> ExitCode:
    for name, failure in unlisted.items():
        if failure:
            output.say(f"{name}: {plain_reason(name, failure.message)} ({failure.hint})")
        else:
            output.say(
                f"{name}: it is still starting (`discovery refresh {name}` waits for it to the end)"
            )
    if output.as_json:
        output.answer({"path": None, "written": False, "deviations": [], "failed": [*unlisted]})
    output.say("nothing is pinned before every enabled server has listed its tools")
    return min(
        exit_code_of_failure(failure.code if failure else UnavailableError.code)
        for failure in unlisted.values()
    )


def _show_write(output: Output, report: LockReport) -> ExitCode:
    if report.unlisted:
        return _refuse(output, report.unlisted)
    waiting = report.waiting_count
    if output.as_json:
        form = {"path": str(report.path), "written": report.is_written}
        output.answer({**form, "deviations": [], "failed": []})
    elif waiting:
        tools = counted(waiting, "tool")
        output.say(
            f"nothing is pinned while {tools} wait for review; `discovery review` shows them"
        )
    else:
        output.say(f"pinned {counted(report.tool_count, 'tool')} in {report.path}")
    return ExitCode.DISABLED if waiting else ExitCode.OK


def _show_check(output: Output, report: LockReport) -> ExitCode:
    from discovery_cli.finding_output import deviation_lines
    from discovery_engine.engine.json_forms.owner_forms import deviation_form

    if report.unlisted:
        return _refuse(output, report.unlisted)
    deviations = report.deviations
    if output.as_json:
        forms = list(map(deviation_form, deviations))
        output.answer(
            {"path": str(report.path), "written": False, "deviations": forms, "failed": []}
        )
    else:
        for deviation in deviations:
            for line in deviation_lines(deviation):
                output.line(line)
        output.say(_sum(deviations))
    return ExitCode.UNHEALTHY if deviations else ExitCode.OK


def _sum(deviations: tuple[Deviation, ...]) -> str:
    from discovery_engine.trust.definition_diff import WEIGHTS

    if not deviations:
        return "everything is as it is pinned"
    counts = {
        weight: sum(deviation.weight == weight for deviation in deviations) for weight in WEIGHTS
    }
    return ", ".join(f"{count} {weight}" for weight, count in counts.items() if count)
