"""More than fifty secrets, planted in every way that one may take, and every byte that is written.

The servers print what they are given wherever they can, in plain and encoded. What is searched:
the data folder with the journals of its databases while a gateway runs and after, the log, the
command lines of all processes, what another server gets and what an embedder is sent, the answers
to an agent, and the output of commands. `test_canaries` does the same for values in a
configuration; these come from the store, from programs, from files and from other clients.
"""

from __future__ import annotations

import base64
import json
import random
import string
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import anyio
import httpx2
import pytest

from discovery_engine import open_engine
from tests.contract.discovery import Discovery
from tests.forked import Preloaded
from tests.servers.programs import HERE, http_server
from tests.shared_gateways import Gateways

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc"),
    pytest.mark.timeout(600),  # a hundred processes, beside whatever else a machine does
]

_CHANCE = random.Random(11)
_LETTERS = string.ascii_letters + string.digits
PRINTS_ARGUMENTS = r"""
import json, sys
TOOL = {"name": "take", "description": "Takes a key.", "inputSchema": {
    "type": "object", "properties": {name: {"type": "string"} for name in ("text", *"abcd")}}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"result": {"tools": [TOOL]}}
    if asked["method"] == "initialize":
        answer = {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                             "serverInfo": {"name": "pinned", "version": "1"}}}
    elif asked["method"] == "tools/call":
        told = json.dumps(asked["params"]["arguments"])
        print("called with", told, file=sys.stderr, flush=True)
        answer = {"error": {"code": -32000, "message": "refused: " + told}}
        if asked["params"]["arguments"].get("text") == "give":
            answer = {"result": {"content": [{"type": "text", "text": told}],
                                 "structuredContent": asked["params"]["arguments"]}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""
SHOWS_ITSELF = r"""
import os, pathlib, runpy, sys
given = dict(os.environ), pathlib.Path("/proc/self/cmdline").read_bytes()
pathlib.Path(os.environ["SEEN"]).write_text(repr(given))
runpy.run_path(sys.argv[1], run_name="__main__")
"""


class Planted:
    """The secrets, and what of one must be nowhere."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def one(self, *, odd: str = "") -> str:
        """A secret; `odd` are characters that are encoded in addresses, JSON or base64."""
        half = ["".join(_CHANCE.choices(_LETTERS, k=20)) for _ in range(2)]
        self.all.append(odd.join(half))
        return self.all[-1]

    def some(self, count: int) -> list[str]:
        odd = ["", "+/=", "&%#", "\\\"'"]
        return [self.one(odd=odd[number % len(odd)]) for number in range(count)]

    def traces(self) -> Mapping[bytes, str]:
        return {trace.encode(): secret for secret in self.all for trace in _traces(secret)}

    def found_in(self, outputs: Mapping[str, bytes]) -> list[str]:
        traces = self.traces()
        return [
            f"{name}: …{data[max(0, data.find(trace) - 70) : data.find(trace) + 30]!r}"
            for name, data in outputs.items()
            for trace in traces
            if trace in data
        ]


def _traces(secret: str) -> Iterator[str]:
    yield from (secret[:12], secret[-12:], secret[4:16])
    yield from (secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1])
    for before in range(3):
        whole = base64.b64encode(bytes(before) + secret.encode()).decode()
        yield from (whole[4:20], whole[4:20].translate(str.maketrans("+/", "-_")))


class World:
    """A home whose servers get secrets in every way."""

    def __init__(self, discovery: Discovery, remote: str, embedder: str) -> None:
        self.home, self.discovery, self.secrets = discovery.home, discovery, Planted()
        self.outputs: dict[str, bytes] = {}
        """Of what was run until now."""
        plant, self.stored = self.secrets.some, {}
        self.environ = discovery.environ | {f"VARIABLE_{n}": v for n, v in enumerate(plant(4))}
        self.environ |= {"DISCOVERY_SECRET_KEY": plant(1)[0], "DISCOVERY_TOKEN": plant(1)[0]}
        self.vault = self.home / "vault"
        self.vault.mkdir()
        self.config = {
            "servers": {
                "spills": {
                    "command": sys.executable,
                    "args": ["-I", str(HERE / "canary_server.py"), "serve", *self._arguments()],
                    "env": self._values("spills", "CANARY_"),
                },
                "remote": {
                    "url": f"{remote}/mcp?key={self._store('remote')}",
                    "headers": self._values("remote", "X-Canary-"),
                },
                "login": {
                    "url": f"{remote}/login",
                    "oauth": {
                        "grant": "client_credentials",
                        "clientId": "me",
                        "clientSecret": self._store("login"),
                        "authServerMetadataUrl": f"{remote}/.well-known/none",
                    },
                },
                "pinned": self._program("pinned.py", PRINTS_ARGUMENTS),
                "other": self._other(),
            },
            "overrides": [
                {
                    "pattern": "pinned:take",
                    "arguments": {
                        "a": self._store("pinned"),
                        "b": f"Bearer {self._store('')}",
                        "c": "${VARIABLE_3}",
                        "d": self._file(),
                    },
                }
            ],
            "search": {
                "embeddings": {
                    "provider": "openai",
                    "url": embedder,
                    "model": "m",
                    "apiKey": self._store(""),
                }
            },
            "trust": "open",
            "log": {"level": "debug", "calls": "full"},
            "marketplace": {
                "sources": [{"type": "file", "id": "team", "path": str(self.vault / "team.json")}]
            },
        }
        self._offer(f"{remote}/mcp?team={{team}}")
        self._write()

    def _arguments(self) -> list[str]:
        return ["--token", self._store("spills"), f"--api-key={self._store('spills')}"]

    def _values(self, server: str, prefix: str) -> dict[str, str]:
        """Of a server, in variables or headers."""
        values = [self._store(server) for _ in range(8)] + [self._store("") for _ in range(2)]
        values += [f"Bearer {self._store(server)}", f"user:{self._store(server)}@host"]
        values += [self._command() for _ in range(4)] + [self._file() for _ in range(2)]
        values += [f"${{VARIABLE_{number}}}" for number in range(3)]
        return {f"{prefix}{number}": value for number, value in enumerate(values)}

    def _store(self, server: str) -> str:
        value = self.secrets.some(1)[0]
        name = f"{server}/S{len(self.stored)}" if server else f"S{len(self.stored)}"
        self.stored[name] = value
        return f"${{secret:{name}}}"

    def _command(self) -> str:
        file = self._kept()
        return f"${{command:{json.dumps(['cat', str(file)])}}}"

    def _file(self) -> str:
        return f"${{file:{self._kept()}}}"

    def _kept(self) -> Path:
        file = self.vault / f"kept{len(list(self.vault.iterdir()))}"
        file.write_text(self.secrets.one() + "\n")
        return file

    def _program(self, name: str, code: str, **env: str) -> dict[str, Any]:
        (self.home / name).write_text(code)
        return {"command": sys.executable, "args": ["-I", str(self.home / name)], "env": env}

    def _other(self) -> dict[str, Any]:
        other = self._program("other.py", SHOWS_ITSELF, SEEN=str(self.home / "seen"))
        (self.home / "plain.py").write_text(PRINTS_ARGUMENTS)
        return {**other, "args": [*other["args"], str(self.home / "plain.py")]}

    def _offer(self, url: str) -> None:
        """A server of the marketplace that asks for secrets: in its address, and in headers."""
        asked = {"secret": True, "required": True}
        headers = {"X-Canary-Key": asked, "X-Canary-Token": {"required": True}}
        headers["X-Canary-Login"] = {"value": "Bearer {login}"}
        inputs = {"team": asked, "login": asked}
        listed = {"market": {"url": url, "inputs": inputs, "headers": headers}}
        (self.vault / "team.json").write_text(json.dumps({"servers": listed}), "utf-8")

    def _write(self) -> None:
        (self.home / "discovery.yaml").write_text(json.dumps(self.config), "utf-8")
        first, *others = self.stored.items()
        done = self.run("secrets", "set", first[0], stdin=first[1])
        assert done.code == 0, done.err
        self.outputs["secrets set"] = (done.out + done.err).encode()
        anyio.run(self._store_all, others)
        found = {
            "env": {f"API_TOKEN_{number}": one for number, one in enumerate(self.secrets.some(4))},
            "args": ["--password", self.secrets.one()],
        }
        web = {"url": f"https://h.example.com/mcp?key={self.secrets.one()}"}
        web["headers"] = {"Authorization": f"Bearer {self.secrets.one()}"}
        client = {"mcpServers": {"taken": {"command": "taken", **found}, "web": web}}
        (self.vault / "mcp.json").write_text(json.dumps(client), "utf-8")

    async def _store_all(self, secrets: list[tuple[str, str]]) -> None:
        """As a program does: fifty commands take as long as all else here."""
        config, data = self.home / "discovery.yaml", self.home / "data"
        async with open_engine(config, data_dir=data, environ=self.environ) as engine:
            for name, value in secrets:
                engine.secrets.set(name, value)

    def run(self, *words: str, stdin: str = "") -> Any:
        return self.discovery.forked(
            words, cwd=self.home, environ=self.environ, stdin=stdin.encode()
        )

    def files(self) -> dict[str, bytes]:
        """All that is there, but for what the secrets came from."""
        outputs = {}
        for path in self.home.rglob("*"):
            if path.is_file() and self.vault not in path.parents:
                try:
                    outputs[str(path)] = path.read_bytes()
                except FileNotFoundError:  # a journal, which is gone by now
                    continue
        return outputs


@contextmanager
def recording_embedder() -> Iterator[tuple[str, list[bytes]]]:
    """An embedder, and the bodies that it was sent."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            texts = json.loads(bodies[-1])["input"]
            rows = [{"index": n, "embedding": [1.0, n, 2.0]} for n in range(len(texts))]
            answer = json.dumps({"data": rows}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            with suppress(BrokenPipeError):  # a command does not wait for it
                self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", bodies
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def command_lines(of: int) -> dict[str, bytes]:
    """Those of a process and all below it; `spills` alone may have secrets in its own."""
    parents = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                parents[int(path.name)] = (int(fields[1]), (path / "cmdline").read_bytes())
            except OSError:
                continue
    below = {of}
    while more := {pid for pid, (parent, _) in parents.items() if parent in below} - below:
        below |= more
    return {
        f"command line of {pid}": parents[pid][1]
        for pid in below
        if pid in parents and b"canary_server.py" not in parents[pid][1]
    }


ADDED = ("setup", "by-file", "by-registry")
MARKETS = ("market-file", "market-registry")
READING = [
    *("list", "list --status", "list --json", "health", "health --json", "doctor --json"),
    *("search key", "search key --json", "tools spills", "inspect spills", "inspect pinned take"),
    *("config show", "config show --json", "config validate", "trust", "review", "lint", "lock"),
    *("why spills:fails", "secrets list", "secrets list --json", "cache", "plan"),
    *(f"inspect {name}" for name in (*ADDED, *MARKETS)),
    *("marketplace show market", "marketplace show market --json", "marketplace search market"),
    *("marketplace sources --json", "marketplace sync team --json", "marketplace update --json"),
    *(f"execute {name} x" for name in MARKETS),
    *("metrics", "metrics --json", "logs --limit 500", "logs --json", "logs --export ndjson"),
    *("logs --export csv", "execute spills fails", "execute pinned take text=x --json"),
    *("execute remote x", "refresh login", "refresh -vv remote", "secrets rotate-key"),
]


@pytest.mark.thorough
@pytest.mark.requirement("SEC-7")
def test_no_planted_secret_is_written_anywhere_in_any_form(
    tmp_path: Path, forked: Preloaded
) -> None:
    with http_server("500", program="canary_server.py") as remote, recording_embedder() as embedder:
        world = World(Discovery(tmp_path, forked), remote, embedder[0])
        taken = world.run(
            *(
                "config",
                "import",
                "--from",
                str(world.vault / "mcp.json"),
                "--secrets",
                "store",
                "--yes",
            )
        )
        outputs = {**world.outputs, "import": (taken.out + taken.err).encode(), **added(world)}
        outputs |= installed(world)
        with Gateways(tmp_path, environ=world.environ) as gateways:
            outputs |= answers(gateways, world)
            outputs |= world.files()
            for gateway in gateways.running.values():
                gateway.leave()  # what is logged in batches is written by then
        outputs |= printed(world)
    outputs |= world.files()
    outputs |= {f"embedder {number}": body for number, body in enumerate(embedder[1])}

    assert taken.code == 0, taken.err
    assert len(world.secrets.all) > 50
    assert world.secrets.found_in(outputs) == []
    assert embedder[1]  # it was asked
    assert b"VARIABLE" not in outputs[str(tmp_path / "seen")]
    assert all(b"fails" in outputs[f"inspect {name}"] for name in ADDED)
    for name in MARKETS:
        assert b"HTTP 500" in outputs[f"inspect {name}"]  # it was asked, with all of them
    assert b"refused" in outputs["logs --export ndjson"]
    assert b"structuredContent" in outputs["logs --export ndjson"]
    assert any(name.endswith("calls.db") for name in outputs)


def added(world: World) -> dict[str, bytes]:
    """What is printed when servers that spill are added: by a setup file, into both places."""
    spills = ["-I", str(HERE / "canary_server.py"), "serve"]
    entry = {"name": "setup", "command": sys.executable, "args": spills, "auto_activate": True}
    entry["env"] = {"CANARY_TOKEN": world.secrets.one()}
    entry["secrets"] = {"CANARY_OTHER": world.secrets.one(), "CANARY_REFERENCE": "$VARIABLE_2"}
    (world.vault / "setup.json").write_text(json.dumps([entry]), "utf-8")
    commands = [["config", "sync", str(world.vault / "setup.json"), "--yes"]]
    for place in ("file", "registry"):
        values = {f"CANARY_{name}_TOKEN": world.secrets.one() for name in "AB"}
        variables = [
            word for name, value in values.items() for word in ("--env", f"{name}={value}")
        ]
        words = ["add", f"by-{place}", *variables, "--to", place, "--yes"]
        commands.append([*words, "--", sys.executable, *spills])
    outputs = {}
    for words in commands:
        done = world.run(*words)
        assert done.code == 0, done.err
        outputs[" ".join(words[:2])] = (done.out + done.err).encode()
    return outputs


def installed(world: World) -> dict[str, bytes]:
    """What is printed when a server of the marketplace is installed, into both places."""
    outputs = {}
    for name, place in zip(MARKETS, ("file", "registry"), strict=True):
        words = ["marketplace", "install", "market", "--as", name, "--to", place]
        refused = world.run(*words, "--with", f"X-Canary-Token={world.secrets.one()}", "--yes")
        assert refused.code == 2
        words += ["--with", "X-Canary-Token=${VARIABLE_1}"]
        words += ["--secret", "team", "--secret", "X-Canary-Key", "--secret", "login"]
        lines = "\n".join((*world.secrets.some(3), ""))
        for more in (["--dry-run"], ["--yes", "--json"]):
            done = world.run(*words, *more, stdin=lines)
            assert done.code == 0, done.err
            outputs[f"install {name} {more[0]}"] = (done.out + done.err).encode()
        outputs[f"install {name}, refused"] = (refused.out + refused.err).encode()
    return outputs


def answers(gateways: Gateways, world: World) -> dict[str, bytes]:
    """What an agent is answered, and the command lines meanwhile."""
    gateway = gateways.start()
    calls: list[tuple[str, dict[str, Any]]] = [
        ("list_mcp_servers", {}),
        *(
            ("list_tools", {"server": name})
            for name in (*world.config["servers"], *ADDED, *MARKETS)
        ),
        *(("execute_tool", {"tool": f"{name}:x"}) for name in MARKETS),
        ("search_tools", {"query": "take a key"}),
        ("get_tool_details", {"tool": "spills:fails"}),
        *(("execute_tool", {"tool": f"spills:{name}"}) for name in ("fails", "dies", "fails")),
        *(("execute_tool", {"tool": f"{name}:fails"}) for name in ADDED),
        ("execute_tool", {"tool": "pinned:take", "arguments": {"text": "x"}}),
        ("execute_tool", {"tool": "other:take", "arguments": {"text": "x"}}),
        ("execute_tool", {"tool": "remote:x"}),
        ("search_tools", {"query": "refused"}),
    ]
    outputs = {}
    for number, (name, arguments) in enumerate(calls):
        answer = gateway.ask("tools/call", {"name": name, "arguments": arguments})
        outputs[f"{number} {name} {arguments}"] = json.dumps(answer, ensure_ascii=False).encode()
        outputs |= {
            f"{name}, at {number}": line
            for name, line in command_lines(gateway.process.pid).items()
        }
    given = {"name": "execute_tool", "arguments": {"tool": "pinned:take"}}
    given["arguments"]["arguments"] = {"text": "give"}
    answer = gateway.ask("tools/call", given)
    assert "Bearer" in json.dumps(answer)  # a tool's own result passes whole, to its caller alone
    token = world.environ["DISCOVERY_TOKEN"]
    outputs["over HTTP"] = gateways.ask(token=token).content
    return outputs | pages(gateways.url.removesuffix("/mcp"), token)


def pages(address: str, token: str) -> dict[str, bytes]:
    """What the API gives of everything that it has, by its own description, and the metrics."""
    names = {"server": [*ADDED, *MARKETS, "spills", "remote", "pinned"], "tool": ["fails", "take"]}
    outputs = {}
    with httpx2.Client(headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
        described = client.get(f"{address}/api/openapi.json")
        ways = {
            path: ways["get"] for path, ways in described.json()["paths"].items() if "get" in ways
        }
        for path, way in {**ways, "/metrics": {}}.items():
            needed = [one for one in way.get("parameters", ()) if one.get("required")]
            query = {one["name"]: "key" for one in needed if one["in"] == "query"}
            keys = [key for key in names if f"{{{key}}}" in path]
            for values in product(*(names[key] for key in keys)):
                filled = path
                for key, value in zip(keys, values, strict=True):
                    filled = filled.replace(f"{{{key}}}", value)
                found = client.get(address + filled, params=query)
                outputs[f"GET {filled} {found.status_code}"] = found.content
    assert sum(name.endswith(" 200") for name in outputs) > 10
    return outputs


def printed(world: World) -> dict[str, bytes]:
    """What commands print."""
    outputs = {}
    for words in READING:
        done = world.run(*words.split())
        assert "Traceback" not in done.err, done.err
        outputs[words] = (done.out + done.err).encode()
    return outputs
