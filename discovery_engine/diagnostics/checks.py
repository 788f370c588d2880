"""The single checks: pure functions from what was read to a message and a next step."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from discovery_engine._util.quantities import ago, counted
from discovery_engine._util.text import named
from discovery_engine.diagnostics.next_steps import advice, next_command, with_detail
from discovery_engine.errors import Problem, RegistryError, UnavailableError
from discovery_engine.tools.validation.cost import too_costly_tool

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import Catalog
    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.config.sources import ClientFile
    from discovery_engine.diagnostics.findings import EntryFinding
    from discovery_engine.tools.model import Tool
    from discovery_engine.view.notices import Notice
    from discovery_engine.view.status import ServerReport

_TOOLS_NAMED = 5  # in a sentence that counts the rest
_OLDEST_PYTHON = (3, 11)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Check(Struct, frozen=True):
    subject: str
    level: Literal["good", "note", "problem"]
    message: str
    hint: str = ""
    stderr: str = ""
    """The last lines of a failed server's stderr."""

    def to_json(self) -> JSONObject:
        return {
            "subject": self.subject,
            "level": self.level,
            "message": self.message,
            "hint": self.hint,
            "stderr": self.stderr,
        }


def runtime(python: tuple[int, int, int], sqlite: str) -> Check:
    version = ".".join(map(str, python))
    if python < _OLDEST_PYTHON:
        oldest = ".".join(map(str, _OLDEST_PYTHON))
        return Check("python", "problem", f"{version} is too old", f"install {oldest} or newer")
    return Check("python", "good", f"{version}, SQLite {sqlite}")


def configuration(settings: Settings) -> Iterator[Check]:
    servers = counted(len(settings.servers), "server")
    if not settings.enabled:
        yield Check("configuration", "note", "`enabled: false` switches everything off")
    if settings.path is None:
        hint = "" if settings.servers else "`discovery init` writes one"
        level: Literal["good", "note"] = "good" if settings.servers else "note"
        yield Check("configuration", level, f"no discovery.yaml, {servers}", hint)
    else:
        rules = counted(len(settings.tool_rules), "tool rule")
        message = f"{settings.path}: {servers}, {rules}"
        if settings.servers:
            yield Check("configuration", "good", message)
        else:
            hint = "`discovery import` adds those of other clients"
            yield Check("configuration", "note", message, hint)
    told = {server.problem for server in settings.servers}
    for warning in settings.warnings:
        if warning not in told:
            yield of_problem("configuration", warning, "note")


def server(
    settings: ServerSettings, health: ServerReport, try_out: Callable[[ServerSettings], None]
) -> Check:
    """Whether a server can be started or reached, as far as is known without trying.

    Args:
        settings: Its entry.
        health: Its state.
        try_out: Resolves its secrets and finds its program; raises UnavailableError.
    """
    subject = f"server {settings.name}"
    if settings.problem:
        return of_problem(subject, settings.problem, "problem")
    if health.state == "disabled":
        return Check(subject, "good", "disabled")
    if health.state != "untrusted":
        try:
            try_out(settings)
        except UnavailableError as error:
            return Check(subject, "problem", with_detail(error.reason, error.detail), error.hint)
    if health.is_healthy:
        return _last_listing(subject, health)
    reason = with_detail(health.reason, health.detail)
    return Check(subject, "problem", reason, advice(health), health.stderr)


def effects(subject: str, findings: Iterable[EntryFinding]) -> list[Check]:
    """Whether each rule, or each override, has an effect."""
    found = [Check(subject, "note", f.message, f.hint) for f in findings]
    return found or [Check(subject, "good", "each has an effect")]


def schemas(tools: Iterable[Tool]) -> list[Check]:
    """The enabled tools whose arguments may be sent unchecked."""
    costly = sorted(tool.key.label for tool in tools if too_costly_tool(tool))
    if not costly:
        return []
    shown = ", ".join(costly[:_TOOLS_NAMED])
    more = f" and {len(costly) - _TOOLS_NAMED} more" if len(costly) > _TOOLS_NAMED else ""
    message = f"too costly to check, so that arguments may reach them unchecked: {shown}{more}"
    return [
        Check(
            "schemas",
            "note",
            message,
            "only their authors can change that; `discovery lint` shows why",
        )
    ]


def age(catalog: Catalog, *, ttl: float, now: float) -> Check:
    """The age of the oldest listing of an enabled server; `ttl` and `now` are in seconds."""
    times = [p.listed_at for p in catalog.parts.values() if p.verdict.enabled and p.listed_at]
    if not times:
        return Check(
            "cache", "note", "no server was listed yet", "`discovery refresh` lists all servers"
        )
    message = f"{counted(len(catalog), 'tool')}, the oldest listed {ago(now - min(times))} ago"
    if now - min(times) > ttl:
        return Check("cache", "note", message, "`discovery refresh` lists them again")
    return Check("cache", "good", message)


def registry(
    path: Path, mode: int | None, error: RegistryError | None, loss: Notice | None = None
) -> Check:
    """Whether the registry can be used, is complete, and is private.

    Args:
        path: The file of the registry.
        mode: Its mode; None if there is no such file.
        error: Why it cannot be used.
        loss: The notice that decisions were lost.
    """
    if error is not None:
        return Check("data", "problem", error.message, error.hint)
    if loss is not None:
        hint = "`discovery review` shows and accepts tools; `discovery trust` approves servers"
        return Check("data", "problem", loss.message, hint)
    if mode is None:
        return Check("data", "good", f"{path} is not there yet")
    if mode & _OTHERS:
        return Check("data", "problem", f"{path} can be read by others", f"`chmod go-rwx {path}`")
    return Check("data", "good", f"{path} is readable by you only")


def clients(files: Sequence[ClientFile], used: Iterable[str]) -> Check:
    """The files of other clients that are not used as a source; `used` are types of sources."""
    taken = set(used)
    unused = {file.client: file.label for file in files if file.client not in taken}
    if not unused:
        return Check("clients", "good", "no client's file is left unused")
    names = ", ".join(unused.values())
    return Check("clients", "good", f"files of {names} are there", "`discovery import` reads them")


def of_problem(subject: str, problem: Problem, level: Literal["note", "problem"]) -> Check:
    message = ": ".join(filter(None, (str(problem.origin), problem.sentence)))
    return Check(subject, level, message, problem.hint)


def _last_listing(subject: str, health: ServerReport) -> Check:
    if health.listed_at is None:
        return Check(subject, "good", "can be tried; `discovery doctor --online` does")
    tools = counted(health.tool_count, "tool")
    if waiting := health.withheld_count:
        message = f"{tools}; {waiting} withheld until reviewed"
        return Check(subject, "note", message, f"`{next_command(health)}` shows why")
    if health.dropped:
        names = ", ".join(f"{named(tool.name)} ({tool.reason})" for tool in health.dropped)
        return Check(
            subject, "note", f"{tools}; unusable: {names}", "only its author can change that"
        )
    return Check(subject, "good", tools)
