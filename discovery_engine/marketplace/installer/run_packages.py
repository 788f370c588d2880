"""The package that a command runs, as far as its words name one: `npx -y @acme/mail@1.2.3`.

Only the runners of npm and PyPI are read. A word that may be anything else is no package: a path,
an address, a reference, an option that is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from discovery_engine.config.command_words import command_words, program_name
from discovery_engine.config.settings import ServerSettings, StdioTransport

if TYPE_CHECKING:
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.status import ServerReport


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
