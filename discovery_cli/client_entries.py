"""The entry that lets an MCP client start `discovery serve` in any folder, with any PATH."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.secrets.references import references_in

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings

_NAME = "discovery"
_OF_NETWORK = re.compile(
    r"(?i:https?|no)_(?i:proxy)|NODE_EXTRA_CA_CERTS|REQUESTS_CA_BUNDLE|SSL_CERT_(?:DIR|FILE)"
)


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


def client_entry(config: Path, environ: Mapping[str, str]) -> JSONObject:
    """The entry with which a client starts `discovery serve` with this configuration.

    Clients start programs in any folder and with few variables: so every path is absolute, and the
    PATH of this moment, its certificates and its proxies go along, for the servers need them.
    """
    command, *args = _command(environ)
    args += ["--config", str(config.absolute()), "serve"]
    network = {name: environ[name] for name in _of_network(environ) if "@" not in environ[name]}
    env = {"PATH": environ.get("PATH", os.defpath), **network}
    return {"command": command, "args": args, "env": env}


def _of_network(environ: Mapping[str, str]) -> list[str]:
    """The variables that programs reach the network by; a password may stand before an `@`."""
    return [name for name, value in environ.items() if value and _OF_NETWORK.fullmatch(name)]


def connecting_lines(config: Path, environ: Mapping[str, str], needs: Needs) -> Iterator[str]:
    """How to connect each kind of client, ready to paste; without values of variables."""
    entry = client_entry(config, environ)
    yield "to connect Claude Desktop, Cursor, Windsurf and most others, put this into their file:"
    yield from _json({"mcpServers": {_NAME: entry}})
    yield "VS Code (`.vscode/mcp.json`):"
    yield from _json({"servers": {_NAME: {"type": "stdio", **entry}}})
    words = ["claude", "mcp", "add", "--scope", "user", _NAME]
    variables = (word for name, value in entry["env"].items() for word in ("-e", f"{name}={value}"))
    words += [*variables, "--", entry["command"], *entry["args"]]
    yield f"Claude Code: {shlex.join(words)}"
    if names := [*needs.variables, *(n for n in _of_network(environ) if n not in entry["env"])]:
        yield f"add to `env`, beside PATH, with their values: {', '.join(names)}"
        yield "  (your servers refer to them, and clients pass on only what stands there)"


def _json(entry: JSONObject) -> Iterator[str]:
    yield from (f"  {line}" for line in json.dumps(entry, indent=2).splitlines())


def _command(environ: Mapping[str, str]) -> list[str]:
    """The command that starts this program from any folder."""
    started = Path(sys.argv[0]).absolute()
    beside = Path(sys.executable).parent / _NAME
    for program in (started, beside):
        if program.stem == _NAME and os.access(program, os.X_OK) and program.is_file():
            return [str(program)]
    path = shutil.which(_NAME, path=environ.get("PATH"))
    return [path] if path else [sys.executable, "-m", "discovery_cli"]
