"""Secrets of every kind, servers that print them, and all that is written of those servers.

What passes whole is a tool's own result; `execute` shows that, and it is left out here.
"""

from __future__ import annotations

import base64
import json
import os
import random
import string
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import anyio
import anyio.to_thread
from click.testing import CliRunner

from discovery_cli.program import cli
from discovery_engine.agent import resources
from discovery_engine.agent.dispatch import Caller, call
from discovery_engine.agent.instructions import render_instructions
from discovery_engine.config.settings import LogSettings
from discovery_engine.engine import Engine, open_engine
from discovery_engine.errors import DiscoveryError
from discovery_engine.secrets.encrypted_store import EncryptedStore
from discovery_engine.secrets.owner_secrets import OwnerSecrets
from discovery_engine.tools.meta_tools import META_TOOLS
from discovery_server.logs import log_to
from tests.servers.programs import HERE, http_server

_CHANCE = random.Random(7)
_LETTERS = string.ascii_letters + string.digits
CANARIES: list[str] = []


def canary() -> str:
    CANARIES.append("".join(_CHANCE.choices(_LETTERS, k=28)))
    return CANARIES[-1]


def basic(user: str) -> str:
    return base64.b64encode(f"{user}:{canary()}".encode()).decode()


def pem() -> str:
    lines = "\n".join(canary() for _ in range(3))
    return f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n"


ENV: dict[str, str] = {
    "CANARY_PLAIN": canary(),
    "CANARY_API_KEY": f"ntn_{canary()}",
    "CANARY_PREFIXED": f"github_pat_{canary()}",
    "CANARY_PASSWORD": f"{canary()}!x",
    "CANARY_HEADERS": json.dumps({"Authorization": f"Bearer {canary()}", "Version": "2022-06-28"}),
    "CANARY_JSON": json.dumps({"a": [{"token": canary()}, {"b": canary()}], "dir": "/usr/share"}),
    "CANARY_JSON_TWICE": json.dumps(json.dumps({"secret": canary()})),
    "CANARY_NEARLY_JSON": f"{{'token': '{canary()}',}}",
    "CANARY_URL": f"postgres://bob:{canary()}@db.example.com:5432/shop",
    "CANARY_ENCODED": f"mysql://bob:%40{canary()}%2F@h/db",
    "CANARY_UNENCODED": f"postgres://bob:p@{canary()}/x@h/db",
    "CANARY_USER": f"https://{canary()}@github.com/a/b",
    "CANARY_REDIS": f"redis://:{canary()}@redis:6379/0",
    "CANARY_QUERY": f"https://h.example.com/x?sig={canary()}&page=2",
    "CANARY_FRAGMENT": f"https://h.example.com/x#{canary()}",
    "CANARY_HOOK": f"https://hooks.example.com/services/T0/{canary()}",
    "CANARY_JDBC": f"jdbc:sqlserver://h:1433;user=sa;password={canary()}",
    "CANARY_ODBC": f"Driver={{ODBC Driver 18}};Server=h;UID=sa;PWD={{{canary()};x}};Encrypt=yes",
    "CANARY_LIBPQ": f"host=h port=5432 password='{canary()} y' dbname=shop",
    "CANARY_STORAGE": f"AccountName=acme;AccountKey={canary()}==;EndpointSuffix=x.net",
    "CANARY_DRIVER": f"root:{canary()}@tcp(127.0.0.1:3306)/db",
    "CANARY_ORACLE": f"scott/{canary()}@dbhost:1521/orcl",
    "CANARY_PAIRS": f"api-key={canary()},other={canary()}",
    "CANARY_COLONS": f"X-Api-Key: {canary()}, Accept: text/html",
    "CANARY_COOKIE": f"session={canary()}; theme=dark",
    "CANARY_LIST": f"{canary()},{canary()}",
    "CANARY_LOGIN": f"bob:{canary()}",
    "CANARY_BASIC": f"Basic {basic('alice')}",
    "CANARY_BASE64": basic("carol"),
    "CANARY_PEM": pem(),
    "CANARY_PEM_LINE": pem().replace("\n", "\\n"),
    "CANARY_ACCOUNT": json.dumps({"type": "service_account", "private_key": pem()}),
    "CANARY_FLAGS": f"--password {canary()} --port 5432 --api-key={canary()}",
    "CANARY_NETRC": f"machine h login bob password {canary()}",
    "CANARY_NPMRC": f"//r.example.com/:_authToken={canary()}",
    "CANARY_DOTENV": f"A=b\nPASSWORD={canary()}\nC=d",
    "CANARY_ODD": f"ä\"'\\ {canary()} <&>",
    "CANARY_REFERENCE": "${REFERRED}",
    "CANARY_BEARER": "Bearer ${REFERRED_TOO}",
    "CANARY_FILE": "${file:token.txt}",
    "CANARY_STORED": "${secret:STORED}",
}
REFERRED = {"REFERRED": canary(), "REFERRED_TOO": canary(), "REFERRED_ARGUMENT": canary()}
IN_FILE = canary()
STORED = canary()
ARGUMENTS = [
    *("--token", canary(), f"--api-key={canary()}", f"KEY={canary()}", "${REFERRED_ARGUMENT}"),
    *("--header", f"Authorization: Bearer {canary()}", json.dumps({"apiKey": canary()})),
    f"https://bob:{canary()}@h.example.com/x?key={canary()}#{canary()}",
]
HEADERS = {
    "Authorization": f"Bearer {canary()}",
    "X-Canary-Key": canary(),
    "X-Canary-Basic": f"Basic {basic('dave')}",
    "X-Canary-Reference": "Token ${REFERRED_HEADER}",
}
REFERRED["REFERRED_HEADER"] = canary()
IN_ADDRESS = [canary(), canary(), canary()]


def traces(secret: str) -> Iterator[str]:
    """What of a secret must be nowhere."""
    yield from (secret[:9], secret[-9:], secret[6:22])
    for before in range(3):
        yield base64.b64encode(bytes(before) + secret.encode()).decode()[4:20]


TRACES = {trace.encode(): secret for secret in CANARIES for trace in traces(secret)}


def leaks(outputs: Mapping[str, bytes]) -> list[str]:
    """Where a trace of a secret stands, with what stands around it."""
    assert len(CANARIES) >= 60
    return [
        f"{name}: ...{data[max(0, data.find(trace) - 60) : data.find(trace) + 20]!r}"
        for name, data in outputs.items()
        for trace in TRACES
        if trace in data
    ]


def leaked(data: bytes) -> set[str]:
    """The secrets of which a trace stands in `data`."""
    return {secret for trace, secret in TRACES.items() if trace in data}


class Place:
    """A configuration with servers that print whatever they are given."""

    def __init__(self, folder: Path, addresses: Sequence[str]) -> None:
        self.folder, self.data = folder, folder / "data"
        (folder / "token.txt").write_text(IN_FILE + "\n", "utf-8")
        self.environ = {**REFERRED, "PATH": os.environ["PATH"], "WORKDIR": "/no/such/work-place"}
        servers = {mode: self._program(mode) for mode in ("crash", "garbage", "serve")}
        servers["cwd"] = {**self._program("serve"), "cwd": "${WORKDIR}/x"}
        servers["command"] = {"command": "${WORKDIR}/bin/x"}
        user, query, fragment = IN_ADDRESS
        for number, address in enumerate(addresses):
            url = address.replace("//", f"//bob:{user}@") + f"/mcp?key={query}#{fragment}"
            servers[f"remote{number}"] = {"url": url, "headers": HEADERS}
        content = {"trust": "open", "servers": servers, "log": {"level": "debug"}}
        OwnerSecrets(EncryptedStore(self.data, self.environ)).set("STORED", STORED)
        self.config = folder / "discovery.yaml"
        self.config.write_text(json.dumps(content), "utf-8")

    def _program(self, mode: str) -> dict[str, Any]:
        script = str(HERE / "canary_server.py")
        return {"command": sys.executable, "args": ["-I", script, mode, *ARGUMENTS], "env": ENV}

    @property
    def where(self) -> list[str]:
        return ["--config", str(self.config), "--data-dir", str(self.data)]

    def files(self) -> dict[str, bytes]:
        """What is in the data folder, in the lock file and in logs."""
        kept = [*self.data.rglob("*"), *self.folder.glob("*.lock"), *self.folder.glob("*.log")]
        return {str(file): file.read_bytes() for file in kept if file.is_file()}


@contextmanager
def place_in(folder: Path) -> Iterator[Place]:
    """A place whose remote servers run while the block does."""
    with ExitStack() as stack:
        modes = ("500", "401", "400")
        servers = [http_server(mode, program="canary_server.py") for mode in modes]
        yield Place(folder, list(map(stack.enter_context, servers)))


class GatewayOutputs(NamedTuple):
    answers: dict[str, bytes]
    others: dict[str, bytes]
    """The log, the events, and the states of the servers."""


async def gateway_outputs(
    place: Place, *, level: Literal["debug", "info", "warning"] = "debug"
) -> GatewayOutputs:
    """What a gateway answers and writes, but for stdout and stderr of this process."""
    log = place.folder / f"gateway-{level}.log"
    with log_to(LogSettings(level=level, file=str(log)), {}), anyio.fail_after(100):
        async with open_engine(place.config, environ=place.environ, data_dir=place.data) as engine:
            with engine.subscribe() as events:
                await engine.refresh()
                answers = await asked(engine)
                health = await engine.health()
                received = "\n".join(map(repr, events.drain()))
    others = {"log": log.read_bytes(), "health": repr(health).encode(), "events": received.encode()}
    return GatewayOutputs({name: json.dumps(one).encode() for name, one in answers.items()}, others)


async def asked(engine: Engine) -> dict[str, Any]:
    """What an agent is answered by the meta-tools, the resources and the instructions."""
    names = [server.name for server in engine.settings.servers]
    asks: list[tuple[str, dict[str, Any]]] = [
        ("list_mcp_servers", {}),
        ("search_tools", {"query": "call with a key", "maxTokens": 4000}),
        *(("list_tools", {"server": name}) for name in names),
        *(("get_tool_details", {"tool": f"{name}:fails"}) for name in names),
        *(("execute_tool", {"tool": f"{name}:fails"}) for name in names),
        ("execute_tool", {"tool": "serve:dies"}),
        ("list_mcp_servers", {}),
    ]
    answers = {
        f"{number} {tool} {arguments}": await call(engine, META_TOOLS[tool], arguments, Caller())
        for number, (tool, arguments) in enumerate(asks)
    }
    ways = [f"{name}/{way}" for name in names for way in ("info", "tools", "tools/fails")]
    for uri in (*resources.DOCUMENTS, *(f"discovery://servers/{way}" for way in ways)):
        try:
            answers[uri] = resources.read_resource(engine.view, uri)
        except DiscoveryError as error:
            answers[uri] = [error.message, error.hint]
    return answers | {"instructions": render_instructions(engine.view)}


STARTING = [
    "refresh -vv",
    "-vv execute serve fails",
    "-v execute serve dies",
    "doctor --online --json",
]
READING = [
    *("list", "list --status", "list --json", "health", "health crash", "health --json", "doctor"),
    *("search key", "search key --json", "tools serve", "tools remote0", "inspect serve"),
    *("inspect serve fails --json", "inspect crash --json", "config show", "config show --json"),
    *(
        "config check",
        "review servers",
        "review servers --json",
        "review",
        "tune lint",
        "why serve:fails",
        "config lock",
    ),
    *("secrets list", "secrets list --json"),
    *("logs", "logs --json --kind stderr", "logs --export csv", "metrics", "metrics --json"),
    *("registry", "health remote0", "health remote1 --json", "inspect remote2", "doctor --json"),
    *("execute cwd fails", "execute command fails --json"),
]


async def command_outputs(
    place: Place,
    starting: Sequence[str] = STARTING,
    *,
    program: Sequence[str] = ("discovery_cli",),
) -> dict[str, bytes]:
    """What commands print; those of `starting`, which start servers, in processes of their own.

    `program` is a module that is run there, with what it is given before the command.
    """
    environ = {**place.environ, "HOME": str(place.folder), "PYTHONPATH": str(HERE.parents[1])}
    started = {}
    for words in starting:
        with anyio.fail_after(60):
            done = await anyio.run_process(
                [sys.executable, "-m", *program, *place.where, *words.split()],
                env=environ,
                cwd=place.folder,
                check=False,
                stderr=subprocess.PIPE,
            )
        started[words] = done.stdout + done.stderr
    return started | await anyio.to_thread.run_sync(_read, place)


def _read(place: Place) -> dict[str, bytes]:
    runner = CliRunner(env={**place.environ, "HOME": str(place.folder)})
    runs = {words: runner.invoke(cli, [*place.where, *words.split()]) for words in READING}
    return {words: done.stdout_bytes + done.stderr_bytes for words, done in runs.items()}
