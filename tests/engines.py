"""What tests of the engine share: a folder to open it in, and servers that obey the test."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import anyio
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import ServerSettings, StdioTransport
from discovery_engine.engine import Engine, open_engine
from discovery_engine.events import Event, Subscription
from discovery_engine.rpc.client import CallbackClient
from discovery_engine.tools.model import ServerName
from discovery_engine.view.status import ServerReport
from discovery_engine.view.view import View
from tests.servers.programs import HERE, fault_server, text_of

E = TypeVar("E", bound=Event)


@dataclass(frozen=True)
class Folder:
    """A folder with a configuration and what is remembered of it."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "discovery.yaml"

    @property
    def data(self) -> Path:
        return self.path / "data"

    def write(self, *servers: ServerSettings, **sections: Any) -> None:
        """Write the configuration; JSON is YAML, too."""
        content = {"servers": {server.name: entry(server) for server in servers}, **sections}
        self.config.write_text(json.dumps(content), "utf-8")

    def open(
        self, *, environ: Mapping[str, str] = os.environ, **options: Any
    ) -> AbstractAsyncContextManager[Engine]:
        return open_engine(self.config, data_dir=self.data, environ=environ, **options)


def entry(server: ServerSettings) -> JSONObject:
    """A server as `discovery.yaml` has it."""
    transport = server.transport
    assert isinstance(transport, StdioTransport)
    return {
        "command": transport.command,
        "args": list(transport.args),
        "env": dict(transport.env),
        "enabled": server.enabled,
        "prefix": server.prefix,
        "tags": list(server.tags),
        "session": server.session,
    }


def program(name: str, command: str, *args: str, **settings: Any) -> ServerSettings:
    return ServerSettings(ServerName(name), StdioTransport(command, args), **settings)


@dataclass(frozen=True)
class Gate:
    """Holds a server back, so that it neither answers nor fails before the test says so."""

    path: Path

    def before(self, server: ServerSettings) -> ServerSettings:
        """`server`, which starts once the gate is open."""
        transport = server.transport
        assert isinstance(transport, StdioTransport)
        wait = ("-c", 'until [ -e "$0" ]; do sleep 0.01; done; exec "$@"', str(self.path))
        args = (*wait, transport.command, *transport.args)
        return replace(server, transport=replace(transport, command="/bin/sh", args=args))

    def open(self) -> None:
        self.path.touch()


@dataclass(frozen=True)
class Changing:
    """A server whose tools the test changes."""

    file: Path

    @classmethod
    def beside(cls, folder: Path, *tools: str) -> Changing:
        changing = cls(folder / "tools.txt")
        changing.has(*tools)
        return changing

    def has(self, *tools: str) -> None:
        self.file.write_text("\n".join(tools), "utf-8")

    @property
    def asked(self) -> int:
        """How often its tools were listed."""
        log = self.file.with_suffix(".asked")
        return len(log.read_text("utf-8").split()) if log.exists() else 0

    def server(self, name: str, **settings: Any) -> ServerSettings:
        script = str(HERE / "changing_server.py")
        return program(name, sys.executable, "-I", "-S", script, str(self.file), **settings)


def good(name: str = "good", **settings: Any) -> ServerSettings:
    """A server with the tools `echo`, `pid` and `environment`."""
    return fault_server(name=name, era="legacy", **settings)


def broken(server: ServerSettings) -> ServerSettings:
    """The same server, reached by a program that fails at once."""
    return replace(server, transport=StdioTransport("/bin/false"))


async def heard(events: Subscription, kind: type[E], server: str | None = None) -> E:
    """The next event of a kind, of a server if one is named; waited for."""
    with anyio.fail_after(60):
        async for event in events:
            if isinstance(event, kind) and server in (None, getattr(event, "server", None)):
                return event
    raise AssertionError("a subscription has no end")


async def pid_of(engine: Engine, server: str, client: str | None = None) -> int:
    """The process that answers for a server."""
    return int(text_of(await engine.execute(server, "pid", {}, caller=CallbackClient(id=client))))


def summary(view: View, server: str) -> ServerReport:
    return next(s for s in view.servers() if s.name == server)


def tool_names(view: View, server: str) -> list[str]:
    part = view.catalog.parts.get(ServerName(server))
    return [entry.tool.name for entry in part.entries] if part else []


async def python(script: str, **variables: str) -> str:
    """What a script prints in an interpreter of its own, where nothing has been imported yet."""
    with anyio.fail_after(60):
        environ = {**os.environ, **variables}
        done = await anyio.run_process([sys.executable, "-c", script], env=environ)
    return done.stdout.decode()
