"""The single checks: pure functions from what was read to a diagnostic each."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec.structs import replace

from discovery_engine._util.quantities import ago, counted
from discovery_engine._util.text import named
from discovery_engine.config.openapi_entry import LOST, serves_document
from discovery_engine.config.settings import StdioTransport
from discovery_engine.engine.doctor.next_steps import advice, next_command, with_detail
from discovery_engine.errors import (
    Diagnostic,
    DiscoveryError,
    RegistryError,
    SecretStoreError,
    UnavailableError,
)
from discovery_engine.errors.codes import Severity
from discovery_engine.errors.extras import install_command
from discovery_engine.tools.schema_cost import too_costly_tool
from discovery_engine.upstream.connection import secrets_in_arguments
from discovery_engine.view.notices import ADDING
from discovery_engine.view.status import error_code

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import Catalog
    from discovery_engine.config.settings import (
        Calibration,
        LogSettings,
        SearchSettings,
        ServerSettings,
        Settings,
    )
    from discovery_engine.config.sources import ClientFile
    from discovery_engine.engine.owner.configured_webhooks import WebhookReport
    from discovery_engine.engine.owner.fleet import FleetStatus
    from discovery_engine.search.embedders.sentence_model import InstalledModel
    from discovery_engine.secrets.keys import KeyPlace
    from discovery_engine.store.call_log.log_tables import Loss
    from discovery_engine.store.postgres.database_state import DatabaseState
    from discovery_engine.tools.model import Tool
    from discovery_engine.upstream.stdio.sandbox.choice import Choice
    from discovery_engine.upstream.stdio.sandbox.means import MeansState
    from discovery_engine.view.notices import Notice
    from discovery_engine.view.status import ServerReport

MOST_IN_MEMORY = 200_000
"""Tools that a gateway searches in its memory; with more, a database is the better place."""

_TOOLS_NAMED = 5  # in a sentence that counts the rest
_CONFIGURATION = "configuration"
_CALIBRATION_DRIFT = 0.25  # of the tools that a calibration was fitted to
_OVERDUE = 600.0  # seconds; gateways then list by themselves
_CLOCK_DIFFERENCE = 60.0  # seconds
_OLDEST_PYTHON = (3, 11)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

Level: TypeAlias = Literal["good", "note", "problem"]


_LEVELS: Mapping[Severity, Level] = {"error": "problem", "warning": "note", "info": "good"}


class Check(Diagnostic, frozen=True):
    """The result of one check, be it a good one."""

    stderr: str = ""
    """The last lines of a failed server's stderr."""

    @property
    def level(self) -> Level:
        return _LEVELS[self.severity]

    @classmethod
    def passed(cls, subject: str, message: str) -> Check:
        return cls("CHECK_PASSED", message, subject=subject)

    def to_json(self) -> JSONObject:
        return Diagnostic.to_json(self) | {"level": self.level, "stderr": self.stderr}


def runtime(python: tuple[int, int, int], sqlite: str) -> Check:
    version = ".".join(map(str, python))
    if python < _OLDEST_PYTHON:
        oldest = ".".join(map(str, _OLDEST_PYTHON))
        message, hint = f"{version} is too old", f"install {oldest} or newer"
        return Check("PYTHON_UNSUPPORTED", message, hint, "python")
    return Check.passed("python", f"{version}, SQLite {sqlite}")


def configuration(settings: Settings) -> Iterator[Check]:
    servers = counted(len(settings.servers), "server")
    if not settings.enabled:
        message = "`enabled: false` switches everything off"
        yield Check("CONFIG_SWITCHED_OFF", message, subject=_CONFIGURATION)
    if settings.path is None:
        message, hint = f"no discovery.yaml, {servers}", "`discovery init` writes one"
    else:
        rules = counted(len(settings.tool_rules), "tool rule")
        message = f"{settings.path}: {servers}, {rules}"
        hint = ADDING
    if settings.servers:
        yield Check.passed(_CONFIGURATION, message)
    else:
        yield Check("CONFIG_NO_SERVERS", message, hint, _CONFIGURATION)
    reported = {server.problem for server in settings.servers}
    for warning in settings.warnings:
        if warning not in reported:
            yield of_problem(warning)


def server(
    settings: ServerSettings, health: ServerReport, try_out: Callable[[ServerSettings], None]
) -> Check:
    """Check whether a server can be started or reached, as far as is known without trying.

    Args:
        settings: Its entry.
        health: Its state.
        try_out: Resolves its secrets and finds its program; raises UnavailableError.
    """
    subject = f"server {settings.name}"
    if settings.problem:
        return of_problem(settings.problem, subject)
    if health.state == "disabled":
        return Check("SERVER_DISABLED", "disabled", subject=subject)
    if health.state != "untrusted":
        try:
            try_out(settings)
        except UnavailableError as error:
            reason = with_detail(error.reason, error.detail)
            return Check(error.code, reason, advice(replace(health, hint=error.hint)), subject)
    if health.is_healthy:
        return _last_listing(subject, health)
    reason = with_detail(health.reason, health.detail)
    return Check(error_code(health.state), reason, advice(health), subject, stderr=health.stderr)


def effects(subject: str, diagnostics: Iterable[Diagnostic]) -> list[Check]:
    """Check whether each rule, or each override, has an effect."""
    checks = [Check(f.code, f.message, f.hint, subject, f.origin) for f in diagnostics]
    return checks or [Check.passed(subject, "each has an effect")]


def schemas(tools: Iterable[Tool]) -> list[Check]:
    """The enabled tools whose arguments may be sent unchecked."""
    costly = sorted(tool.key.label for tool in tools if too_costly_tool(tool))
    if not costly:
        return []
    labels = ", ".join(costly[:_TOOLS_NAMED])
    more = f" and {len(costly) - _TOOLS_NAMED} more" if len(costly) > _TOOLS_NAMED else ""
    message = f"too costly to check, so that arguments may reach them unchecked: {labels}{more}"
    hint = "only their authors can change that; `discovery tune lint` shows why"
    return [Check("TOOL_SCHEMA_COSTLY", message, hint, "schemas")]


def extensions(catalog: Catalog) -> Iterator[Check]:
    """The extensions of the protocol that servers declare and that are not passed on."""
    for part in catalog.parts.values():
        if part.extensions:
            message = f"declares extensions that are not passed on: {', '.join(part.extensions)}"
            hint = "its tools, resources and prompts work; the methods of an extension do not"
            yield Check("SERVER_EXTENSION_UNKNOWN", message, hint, f"server {part.server}")


def documents(catalog: Catalog, settings: Settings) -> Iterator[Check]:
    """The operations of OpenAPI documents that lack what a reference leads nowhere for."""
    for server in settings.servers:
        if isinstance(server.transport, StdioTransport) and serves_document(server.transport.args):
            for entry in catalog.part(server.name).entries:
                if lost := (entry.tool.definition.get("_meta") or {}).get(LOST):
                    message = f"{entry.tool.name} lacks {', '.join(map(str, lost))}"
                    hint = "correct these references in the OpenAPI document"
                    yield Check("DEFINITION_INVALID", message, hint, f"server {server.name}")


def age(catalog: Catalog, *, ttl: float, now: float) -> Check:
    """The age of the oldest listing of an enabled server; `ttl` and `now` are in seconds."""
    times = [p.listed_at for p in catalog.parts.values() if p.verdict.enabled and p.listed_at]
    if not times:
        message, hint = "no server was listed yet", "`discovery refresh` lists all servers"
        return Check("REGISTRY_EMPTY", message, hint, "cache")
    message = f"{counted(len(catalog), 'tool')}, the oldest listed {ago(now - min(times))} ago"
    if now - min(times) > ttl:
        hint = "`discovery refresh` lists them again"
        return Check("REGISTRY_OUTDATED", message, hint, "cache")
    return Check.passed("cache", message)


def registry(
    path: Path, mode: int | None, error: RegistryError | None, loss: Notice | None = None
) -> Check:
    """Check whether the registry can be used, is complete, and is private.

    Args:
        path: The file of the registry.
        mode: Its mode; None if there is no such file.
        error: Why it cannot be used.
        loss: The notice that decisions were lost.
    """
    if error is not None:
        return Check(error.code, error.message, error.hint, "data")
    if loss is not None:
        hint = "`discovery review` shows servers and tools to accept, each with its command"
        return Check("REGISTRY_LOST", loss.message, hint, "data")
    if mode is None:
        return Check.passed("data", f"{path} is not there yet")
    if mode & _OTHERS:
        message, hint = f"{path} can be read by others", f"`chmod go-rwx {path}`"
        return Check("REGISTRY_EXPOSED", message, hint, "data")
    return Check.passed("data", f"{path} is readable by you only")


def database(place: str, state: DatabaseState | None, error: RegistryError | None) -> Check:
    """Check whether the database of the registry answers, and what could be better.

    Args:
        place: Its address, without a password.
        state: What it says of itself; None if it does not answer.
        error: Why it does not.
    """
    subject = "registry"
    if error is not None:
        message = f"{error.message}; the copy on this machine is used, and decisions are refused"
        return Check(error.code, message, error.hint, subject)
    if state is None:
        return Check.passed(subject, place)
    if state.advice:
        hint = "change that, then run `discovery registry check`"
        return Check("REGISTRY_ADVICE", "; ".join(state.advice), hint, subject)
    return Check.passed(subject, f"{place}, PostgreSQL {state.server}; {state.vector_note}")


def search_place(search: SearchSettings, tools: int) -> Check:
    """Report where this many tools are searched, beside a registry that is a database."""
    subject = "search"
    if search.is_in_database:
        faster = "" if tools > MOST_IN_MEMORY else f"; to {MOST_IN_MEMORY:,}, memory is faster"
        return Check.passed(subject, f"{tools:,} tools, in the database{faster}")
    if tools > MOST_IN_MEMORY:
        message = f"{tools:,} tools are searched in the memory of each gateway"
        hint = "`search: {where: database}` in the configuration searches them in the database"
        return Check("REGISTRY_ADVICE", message, hint, subject)
    return Check.passed(subject, f"{tools:,} tools, in the memory of each gateway")


def calibration(calibration: Calibration, tools: int, *, is_used: bool) -> Check:
    """Check whether the confidence was fitted to this search and to about so many tools."""
    hint = "`discovery tune calibrate` fits it again, and `--reset` removes it"
    if not is_used:
        message = "the calibration is of another version or other search settings, and not used"
        return Check("CALIBRATION_STALE", message, hint, "search")
    if abs(tools - calibration.tools) > _CALIBRATION_DRIFT * calibration.tools:
        message = (
            f"the confidence was fitted to {calibration.tools:,} tools, and {tools:,} are there"
        )
        return Check("CALIBRATION_STALE", message, hint, "search")
    requests = f"{calibration.requests:,} requests for {calibration.tools:,} tools"
    return Check.passed("search", f"the confidence is fitted to {requests}")


def call_log(
    settings: LogSettings, size: int | None, error: DiscoveryError | None, losses: Sequence[Loss]
) -> Check:
    """Check whether the call log can be written, and whether entries were lost lately.

    Args:
        settings: The settings of the log.
        size: The size of its file in bytes; None if there is none.
        error: Why it cannot be read or written.
        losses: Entries that could not be written in the last week.
    """
    subject = "call log"
    if error is not None:
        return Check(error.code, error.message, error.hint, subject)
    if settings.calls == "off":
        return Check.passed(subject, "off; `log.calls: redacted` switches it on")
    if losses:
        lost = sum(loss.entries for loss in losses)
        what = "1 entry" if lost == 1 else f"{lost:,} entries"
        message = f"{what} could not be written: {losses[-1].reason}"
        hint = "calls went on; free the disk, or log less: `log.calls: metadata`"
        return Check("CALL_LOG_LOSSES", message, hint, subject)
    if size is None:
        return Check.passed(subject, "nothing was called yet")
    retention = f"{settings.calls}, {settings.keep_days:g} days, {settings.max_mib:g} MiB at most"
    return Check.passed(subject, f"{size / 1024 / 1024:.1f} MiB ({retention})")


_KEY_PLACES: Mapping[KeyPlace, str] = {
    "passphrase": "made of a passphrase or key of the environment",
    "keyring": "in the system's keyring",
    "file": "in a file beside them",
}


def secrets(
    count: int, place: KeyPlace, error: SecretStoreError | None, *, exists: bool, keyring: str = ""
) -> Check:
    """Check whether stored secrets can be decrypted, and where their key is or would be kept.

    `keyring` is the name of the keyring that works here.
    """
    if error is not None:
        return Check(error.code, error.message, error.hint, "secrets")
    where = _KEY_PLACES[place] + (f", {keyring}" if place == "keyring" and keyring else "")
    if not exists:
        return Check.passed("secrets", f"none stored; their key would be {where}")
    return Check.passed("secrets", f"{counted(count, 'secret')}, encrypted; the key is {where}")


def sandboxes(
    means: Sequence[MeansState], choices: Mapping[str, Choice], clients: Sequence[str] = ()
) -> Check:
    """Check what confines programs here.

    Args:
        means: What this system has.
        choices: What confines each server with a sandbox, by names.
        clients: Programs that run images.
    """
    missing = [f"{state.means}: {state.problem}" for state in means if not state.is_usable]
    without = [name for name, choice in choices.items() if choice.kind == "none"]
    if without:
        message = f"{', '.join(without)} run without one; {'; '.join(missing)}"
        hint = next((state.hint for state in means if state.hint), "")
        return Check("SANDBOX_UNAVAILABLE", message, hint, "sandbox")
    usable = [state.means for state in means if state.is_usable]
    here = f"{' and '.join(usable)} can be used" if usable else f"none here: {'; '.join(missing)}"
    for_images = [f"{' and '.join(clients)} for images"] if clients else []
    by_text: dict[str, list[str]] = {}
    for name, choice in choices.items():
        by_text.setdefault(str(choice), []).append(name)
    used = (f"{', '.join(names)} in {text}" for text, names in by_text.items())
    return Check.passed("sandbox", "; ".join((here, *for_images, *used)))


def visible_secrets(servers: Iterable[ServerSettings]) -> list[Check]:
    """The servers whose programs get a stored secret in an argument."""
    return [
        Check(
            "SECRET_VISIBLE",
            f"{', '.join(names)} in its arguments, which other programs of this machine can see",
            "put it into `env`, if the program takes it from a variable",
            f"server {server.name}",
            server.origin,
        )
        for server in servers
        if (names := secrets_in_arguments(server))
    ]


def model(model: InstalledModel | None, *, is_used: bool) -> Check:
    """Check whether the model of `provider: discovery` is installed, and used."""
    if model is None:
        message = "`provider: discovery` is configured, and no model is installed"
        return Check("MODEL_MISSING", message, f"`{install_command('model')}`", "model")
    use = "is used" if is_used else "is not used: `search.embeddings.provider: discovery` does"
    return Check.passed("model", f"{model}, {use}")


def clients(files: Sequence[ClientFile], used: Iterable[str]) -> Check:
    """The files of other clients that are not used as a source; `used` are types of sources."""
    taken = set(used)
    unused = {file.client: file.label for file in files if file.client not in taken}
    if not unused:
        return Check.passed("clients", "no client's file is left unused")
    message = f"files of {', '.join(unused.values())} are there"
    return Check("CLIENTS_UNUSED", message, "`discovery config import` reads them", "clients")


def reserved(principals: frozenset[str], standing_for: frozenset[str]) -> Check:
    """Check whether a token stands for each team and user that something is reserved for."""
    subject, named = "teams", ", ".join(sorted(principals))
    if not (unused := sorted(principals - standing_for)):
        return Check.passed(subject, f"something is reserved for {named}; tokens stand for all")
    message = f"no access token stands for {', '.join(unused)}: the owner alone sees what is theirs"
    kind, _, name = unused[0].partition(":")
    hint = f"`discovery token create --{kind} {name}` makes one, or correct `visibleTo`"
    return Check("PRINCIPAL_WITHOUT_TOKEN", message, hint, subject)


def webhook(report: WebhookReport) -> Check:
    """Check whether events of servers reach a webhook."""
    subject, state, name = f"webhook {report.name}", report.state, named(report.name)
    if not report.is_enabled:
        return Check.passed(subject, "is switched off")
    if report.problem:
        hint = f"give the reference a value; `discovery webhooks test {name}` tries it"
        return Check("WEBHOOK_UNUSABLE", report.problem, hint, subject)
    if report.condition == "disabled" or state.dead:
        dead = f"{counted(state.dead, 'delivery', 'deliveries')} given up"
        gone = "disabled, since its receiver said that it is gone; "
        message = f"{gone if report.condition == 'disabled' else ''}{dead}: {state.failure}"
        hint = f"mend its receiver, then `discovery webhooks retry {name}`"
        return Check("WEBHOOK_UNDELIVERED", message, hint, subject)
    if state.failure:
        message = f"{counted(state.pending, 'event waits', 'events wait')}: {state.failure}"
        hint = f"they are sent again; `discovery webhooks test {name}` shows the answer"
        return Check("WEBHOOK_FAILING", message, hint, subject)
    return Check.passed(subject, f"{counted(state.delivered, 'event')} delivered")


def queue(status: FleetStatus, now: float) -> Iterator[Check]:
    """Check whether workers list what is due; `now` is Unix time in seconds by this machine."""
    if not status.jobs:
        return
    subject, problems = "refresh queue", []
    if dead := status.counts["dead"]:
        message = f"workers have given up {counted(dead, 'server')}"
        hint = "`discovery fleet status` shows why, `discovery fleet retry SERVER` tries one again"
        problems.append(Check("SERVERS_GIVEN_UP", message, hint, subject))
    if (overdue := status.seconds_overdue) > _OVERDUE:
        first = f"{counted(status.due_count, 'server')} overdue, the first for {ago(overdue)}"
        is_worked_off = status.counts["processing"] > 0
        hint = (
            "start more workers, or give them more `--slots`"
            if is_worked_off
            else "start a worker: `discovery fleet worker`"
        )
        problems.append(Check("REFRESHES_OVERDUE", first, hint, subject))
    if abs(difference := now - status.now) > _CLOCK_DIFFERENCE:
        message = f"the clock of this machine is {abs(difference):.0f} s off that of the registry"
        hint = "synchronize both, with NTP for instance"
        problems.append(Check("CLOCK_WRONG", message, hint, subject))
    yield from problems or [Check.passed(subject, f"{counted(len(status.jobs), 'server')} in time")]


def of_problem(problem: Diagnostic, subject: str = _CONFIGURATION) -> Check:
    message = ": ".join(filter(None, (str(problem.origin), problem.sentence)))
    return Check(problem.code, message, problem.hint, subject, problem.origin)


def _last_listing(subject: str, health: ServerReport) -> Check:
    if health.listed_at is None:
        return Check.passed(subject, "can be tried; `discovery doctor --online` does")
    tools = counted(health.tool_count, "tool")
    names = ", ".join(f"{named(tool.name)} ({tool.reason})" for tool in health.dropped)
    unusable = f"; {len(health.dropped)} unusable: {names}" if names else ""
    if waiting := health.withheld_count:
        message = f"{tools}; {waiting} withheld until reviewed{unusable}"
        hint = f"`{next_command(health)}` shows why"
        return Check("TOOL_WITHHELD", message, hint, subject)
    if unusable:
        hint = "only its author can change that"
        return Check("TOOL_UNUSABLE", tools + unusable, hint, subject)
    return Check.passed(subject, tools)
