"""The package that a command runs, as far as its words name one: `npx -y @acme/mail@1.2.3`.

Only the runners of npm and PyPI are read. A word that may be anything else is no package: a path,
an address, a reference, an option that is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.config.command_words import command_words, program_name
from discovery_engine.config.settings import ServerSettings, StdioTransport

if TYPE_CHECKING:
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.status import ServerReport

_NPM = re.compile(
    r"(?P<name>(?:@[a-z0-9~-][\w.~-]*/)?[a-z0-9~-][\w.~-]*)(?:@(?P<version>[\w.+~^-]+))?"
)
_PYPI = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)(?:\[[\w,.\s-]*\])?(?:(?:==|@)(?P<version>[\w.+!-]+))?"
)


class _Runner(Struct, frozen=True):
    form: re.Pattern[str]
    naming: tuple[str, ...]
    """Options that name the package, if it is not the first word."""
    valued: tuple[str, ...] = ()
    """Options whose value is the next word."""
    bare: tuple[str, ...] = ()
    """Options without a value."""


_NPX = _Runner(
    _NPM,
    ("--package", "-p"),
    ("--registry", "--cache", "--prefix", "--userconfig", "--workspace", "-w", "--loglevel"),
    ("-y", "--yes", "-q", "--quiet", "--silent", "--no-install", "--prefer-online"),
)
_BUNX = _Runner(_NPM, ("--package", "-p"), (), ("--bun", "--silent", "--verbose", "--no-install"))
_UVX = _Runner(
    _PYPI,
    ("--from",),
    (
        *("--with", "--with-editable", "--with-requirements", "--python", "-p", "--index", "-i"),
        *("--index-url", "--default-index", "--extra-index-url", "--cache-dir", "--env-file"),
        *("--directory", "--project", "--config-file", "--refresh-package", "--constraints", "-c"),
    ),
    (
        *(
            "--isolated",
            "--offline",
            "--no-cache",
            "-n",
            "--refresh",
            "--quiet",
            "-q",
            "--native-tls",
        ),
        *("--no-config", "--no-progress", "--managed-python", "--no-env-file", "--verbose", "-v"),
    ),
)
_PIPX = _Runner(_PYPI, ("--spec",), ("--python", "--index-url", "-i"), ("--no-cache", "--quiet"))
_RUNNERS: Mapping[tuple[str, ...], _Runner] = {
    ("npx",): _NPX,
    ("npm", "exec"): _NPX,
    ("npm", "x"): _NPX,
    ("pnpx",): _NPX,
    ("pnpm", "dlx"): _NPX,
    ("yarn", "dlx"): _NPX,
    ("bunx",): _BUNX,
    ("bun", "x"): _BUNX,
    ("uvx",): _UVX,
    ("uv", "tool", "run"): _UVX,
    ("uv", "x"): _UVX,
    ("pipx", "run"): _PIPX,
}


def with_run_packages(
    reports: Iterable[ServerReport], servers: Mapping[ServerName, ServerSettings]
) -> list[ServerReport]:
    """The reports; one without a package has that of its command."""
    return [
        replace(one, package=run_package(servers[one.name]))
        if not one.package and one.name in servers
        else one
        for one in reports
    ]


def run_package(server: ServerSettings) -> str:
    """The package that its command names, with the version: `NAME@VERSION`; empty for none."""
    if not isinstance(server.transport, StdioTransport):
        return ""
    program, *words = command_words(server.transport.command, server.transport.args)
    first = program_name(program)
    for begin, runner in _RUNNERS.items():
        if (first, *words)[: len(begin)] == begin:
            return _named(words[len(begin) - 1 :], runner)
    return ""


def _named(words: Sequence[str], runner: _Runner) -> str:
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option in runner.naming:
            return _package(value if equals else next(rest, ""), runner)
        if word == "--" or option in runner.bare or (equals and option in runner.valued):
            continue
        if option in runner.valued:
            next(rest, None)
        elif word.startswith("-"):  # it may have a value, or not
            return ""
        else:
            return _package(word, runner)
    return ""


def _package(word: str, runner: _Runner) -> str:
    found = runner.form.fullmatch(word)
    if found is None:
        return ""
    version = found["version"]
    return f"{found['name']}@{version}" if version else found["name"]
