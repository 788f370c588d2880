"""The command with which MCP clients start `discovery serve`, from any folder."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine._util.runner import runner
from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.secrets.references import references_in

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings

NAME = "discovery"
_OF_NETWORK = re.compile(
    r"(?i:https?|no)_(?i:proxy)|NODE_EXTRA_CA_CERTS|REQUESTS_CA_BUNDLE|SSL_CERT_(?:DIR|FILE)"
)
_PASSED_ON = ("DISCOVERY_DATA_DIR",)


class GatewayCommand(Struct, frozen=True):
    words: tuple[str, ...]
    """The program and its arguments, with absolute paths."""
    env: Mapping[str, str]
    """The PATH of this moment, certificates and proxies: clients pass on only what stands here."""


def gateway_command(
    config: Path | None, environ: Mapping[str, str], *, data_dir: str | None = None, view: str = ""
) -> GatewayCommand:
    """The command for a configuration; without one it searches the usual places."""
    words = _program(environ)
    for option, path in (("--config", config), ("--data-dir", data_dir)):
        words += [option, str(Path(path).absolute())] if path else []
    words += ["serve", *(("--view", view) if view else ())]
    passed = (*of_network(environ), *(name for name in _PASSED_ON if environ.get(name)))
    env = {name: environ[name] for name in passed if "@" not in environ[name]}
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    if runner():  # its folder may be gone tomorrow
        folders = [folder for folder in folders if not folder.startswith(sys.prefix + os.sep)]
    path = os.pathsep.join(dict.fromkeys(filter(None, folders)))
    return GatewayCommand(tuple(words), {"PATH": path, **env})


def of_network(environ: Mapping[str, str]) -> list[str]:
    """The variables that programs reach the network by; a password may stand before an `@`."""
    return [name for name, value in environ.items() if value and _OF_NETWORK.fullmatch(name)]


class Needs(Struct, frozen=True):
    """The requirements of a configuration before all its servers can be started."""

    variables: tuple[str, ...]
    """Variables without a default that its servers need; a client passes none on by itself."""
    unset: tuple[str, ...]
    """The `variables` that have no value here."""
    unapproved: tuple[str, ...]
    """The servers that come from a project's file."""


def needs_of(settings: Settings, environ: Mapping[str, str]) -> Needs:
    enabled = [server for server in settings.servers if server.enabled]
    names = dict.fromkeys(name for server in enabled for name in _variables(server))
    return Needs(
        tuple(names),
        tuple(name for name in names if not environ.get(name)),
        tuple(server.name for server in enabled if server.is_untrusted_origin),
    )


def _variables(server: ServerSettings) -> Iterator[str]:
    match server.transport:
        case StdioTransport(command, args, env, cwd):
            texts = [command, *args, *env.values(), cwd or ""]
        case RemoteTransport(url, headers, _, oauth):
            texts = [url, *headers.values(), oauth.client_id, oauth.client_secret]
        case None:
            texts = []
    for reference in (reference for text in texts for reference in references_in(text)):
        if reference.kind == "variable" and reference.default is None:
            yield reference.name


def _program(environ: Mapping[str, str]) -> list[str]:
    """The words that start this program from any folder."""
    if words := runner():
        return [shutil.which(words[0], path=environ.get("PATH")) or words[0], *words[1:]]
    started = Path(sys.argv[0]).absolute()
    beside = Path(sys.executable).parent / NAME
    for program in (started, beside):
        if program.stem == NAME and os.access(program, os.X_OK) and program.is_file():
            return [str(program)]
    path = shutil.which(NAME, path=environ.get("PATH"))
    return [path] if path else [sys.executable, "-m", "discovery_cli"]
