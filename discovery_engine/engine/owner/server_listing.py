"""The configured servers as their owner sees them: what is wanted, and what is observed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.config.settings import StdioTransport
from discovery_engine.config.syntax import command_words, program_name

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.engine.registered_servers import Registrations
    from discovery_engine.store.server_records import PackagePin, RegisteredServer
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.status import ServerReport
    from discovery_engine.view.view import View


class OwnedServer(Struct, frozen=True):
    """A configured server, wherever it stands."""

    settings: ServerSettings
    report: ServerReport
    record: RegisteredServer | None = None
    """Its record in the registry; None if it stands in a file."""
    package: PackagePin | None = None
    """The package that it runs, if it was installed from a marketplace."""

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def source(self) -> str:
        """`discovery.yaml`, `registry`, or the id of another source."""
        return self.settings.source

    @property
    def is_wanted(self) -> bool:
        """True if its owner wants it; a failure of the server changes nothing about that."""
        return self.settings.enabled

    @property
    def state(self) -> str:
        """The observed `ServerState`."""
        return self.report.state

    @property
    def description(self) -> str:
        return self.report.description or self.settings.description

    @property
    def tags(self) -> tuple[str, ...]:
        return self.report.tags or self.settings.tags

    @property
    def created_at(self) -> float | None:
        """Unix time in seconds; None if it stands in a file."""
        return self.settings.created_at

    @property
    def updated_at(self) -> float | None:
        return self.settings.updated_at


def owned_servers(
    view: View,
    reports: Iterable[ServerReport],
    registrations: Registrations,
    installed: Mapping[ServerName, PackagePin],
) -> Iterator[OwnedServer]:
    """The servers of these reports, in their order; `installed` are packages of install records."""
    by_name = view.settings.by_name
    for report in reports:
        server = by_name[report.name]
        name = server.renamed_from or server.name
        record = registrations.servers.get(name) if server.is_registered else None
        package = (record.package if record else None) or installed.get(report.name)
        yield OwnedServer(server, report, record, package)


def with_packages(
    reports: Iterable[ServerReport], packages: Mapping[ServerName, PackagePin]
) -> list[ServerReport]:
    """The reports, those of installed servers with their package."""
    return [
        report
        if report.package or report.name not in packages
        else replace(report, package=str(packages[report.name]))
        for report in reports
    ]


# The package that a command runs, as far as its words name one: `npx -y @acme/mail@1.2.3`.
#
# Only the runners of npm and PyPI are read. A word that may be anything else is no package: a path,
# an address, a reference, an option that is not known.


class _Runner(NamedTuple):
    form: re.Pattern[str]
    naming: str
    """Options that name the package, if it is not the first word."""
    valued: str
    """Options whose value is the next word."""
    bare: str
    """Options without a value."""


_NPM = _Runner(
    re.compile(r"((?:@[a-z0-9~-][\w.~-]*/)?[a-z0-9~-][\w.~-]*)(?:@([\w.+~^-]+))?"),
    "--package -p",
    "--registry --cache --prefix --userconfig --workspace -w --loglevel",
    "-y --yes -q --quiet --silent --no-install --prefer-online --bun --verbose",
)
_PYPI = _Runner(
    re.compile(r"([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)(?:\[[\w,.\s-]*\])?(?:(?:==|@)([\w.+!-]+))?"),
    "--from --spec",
    "--with --with-editable --with-requirements --python -p --index -i --index-url --default-index"
    " --extra-index-url --cache-dir --env-file --directory --project --config-file"
    " --refresh-package --constraints -c",
    "--isolated --offline --no-cache -n --refresh --quiet -q --native-tls --no-config --no-progress"
    " --managed-python --no-env-file --verbose -v",
)
_RUNNERS: Mapping[str, _Runner] = {
    **dict.fromkeys(("npx", "npm exec", "npm x", "pnpx", "pnpm dlx", "yarn dlx"), _NPM),
    **dict.fromkeys(("bunx", "bun x"), _NPM),
    **dict.fromkeys(("uvx", "uv tool run", "uv x", "pipx run"), _PYPI),
}


def with_run_packages(
    reports: Iterable[ServerReport], servers: Mapping[ServerName, ServerSettings]
) -> list[ServerReport]:
    """The reports; one without a package has that of its command."""
    return [
        replace(report, package=run_package(servers[report.name]))
        if not report.package and report.name in servers
        else report
        for report in reports
    ]


def run_package(server: ServerSettings) -> str:
    """The package that its command names, with the version: `NAME@VERSION`; empty for none."""
    if not isinstance(server.transport, StdioTransport):
        return ""
    program, *arguments = command_words(server.transport.command, server.transport.args)
    words = [program_name(program), *arguments]
    for begin, runner in _RUNNERS.items():
        count = len(begin.split())
        if words[:count] == begin.split():
            return _named(words[count:], runner)
    return ""


def _named(words: Iterable[str], runner: _Runner) -> str:
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option in runner.naming.split():
            word = value if equals else next(rest, "")  # noqa: PLW2901
        elif word == "--" or option in runner.bare.split():
            continue
        elif option in runner.valued.split():
            if not equals:
                next(rest, None)
            continue
        elif word.startswith("-"):  # it may have a value, or not
            return ""
        package = runner.form.fullmatch(word)
        return "@".join(filter(None, package.groups())) if package else ""
    return ""
