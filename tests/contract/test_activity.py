"""What was called, and how long it took: the call log and the metrics of an engine."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from opentelemetry import propagate, trace
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler, SamplingResult
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from discovery_engine import CallbackClient, DiscoveryError, Engine, LogFilter, sync
from discovery_server.access_tokens import AccessTokens
from discovery_server.tokens import parse_tokens
from tests.contract.discovery import Discovery
from tests.engines import Folder, broken, good, program
from tests.factories import make_definition
from tests.forked import Preloaded
from tests.servers.offerings import World, resource
from tests.servers.programs import fault_server
from tests.unit.server import web

pytestmark = pytest.mark.anyio

TRACE = "0af7651916cd43dd8448eb211c80319c"
SECRET = "ntn_4f9QzK2mXv8LrT6w"
LONG = "word " * 600
"""No run of one letter: tests of the same process may have made that a secret."""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.write(good())
    return folder


def everything(data: Path) -> bytes:
    """Every byte of the log."""
    return b"".join(file.read_bytes() for file in data.glob("calls.*"))


async def say(engine: Engine, *texts: str, server: str = "good") -> None:
    for text in texts:
        await engine.execute(server, "echo", {"text": text})


@pytest.mark.requirement("LOG-1")
async def test_each_call_is_an_entry_with_who_called_and_how_it_ended(folder: Folder) -> None:
    client = CallbackClient(
        id="0123456789abcdef", meta={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    )
    async with folder.open() as engine:
        await engine.execute("good", "echo", {"text": "hello"}, caller=client, by="agent")
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "echo", {"text": 7})
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "no_such_tool", {})
        entries = await engine.call_log.entries()
        of_client = await engine.call_log.entries(LogFilter(text="01234567"))

    assert of_client == entries[:1]
    first, second, third = entries
    assert (first.kind, first.server, first.tool, first.outcome) == ("call", "good", "echo", "ok")
    assert (first.client, first.by, first.trace_id) == ("01234567", "agent", TRACE)
    assert first.arguments == {"text": "hello"}
    assert first.result["content"][0]["text"] == '{"text": "hello"}'
    assert first.argument_size == 5
    assert first.seconds > first.queue_seconds >= 0
    assert (second.outcome, second.by) == ("INVALID_ARGUMENTS", "program")
    assert second.result["error"]["code"] == "INVALID_ARGUMENTS"
    assert (third.outcome, third.tool) == ("TOOL_NOT_FOUND", "no_such_tool")


@pytest.mark.requirement("LOG-1")
async def test_lines_of_stderr_are_entries_without_secrets_and_bounded(folder: Folder) -> None:
    script = (
        "import os, sys\n"
        "os.write(2, b'Traceback:\\n  in main\\nKeyError\\n')\n"
        "print('starting with', sys.argv[-1], file=sys.stderr)\n"
        "for n in range(500): print('line', n, file=sys.stderr)\n"
    )
    folder.write(program("noisy", sys.executable, "-I", "-c", script, "--token", SECRET))
    async with folder.open() as engine:
        await engine.refresh()
        texts: list[str] = []
        with anyio.fail_after(60):
            async for entry in engine.call_log.follow(LogFilter(kinds=("stderr",)), after=0):
                texts.append(str(entry.result))
                if "line 45" in texts[-1]:
                    break
        entries = await engine.call_log.entries(LogFilter(kinds=("stderr",)), limit=1000)

    assert texts[0].startswith("Traceback:\n  in main\nKeyError")
    assert "\n".join(texts).splitlines()[3] == "starting with ••••"
    assert sum(len(str(one.result).splitlines()) for one in entries) == 50
    assert SECRET.encode() not in everything(folder.data)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("off", None),
        ("metadata", (None, None)),
        ("redacted", ({"text": LONG[:2044] + "… [956 more characters]"}, "cut")),
        ("full", ({"text": LONG}, "whole")),
    ],
)
@pytest.mark.requirement("LOG-2")
async def test_the_mode_decides_what_is_kept_of_a_call(
    folder: Folder, mode: str, expected: Any
) -> None:
    folder.write(good(), log={"calls": mode})
    async with folder.open() as engine:
        await engine.execute("good", "echo", {"text": LONG})
        entries = await engine.call_log.entries()

    if expected is None:
        assert entries == ()
        assert not (folder.data / "calls.db").exists()
        return
    [entry] = entries
    assert (entry.outcome, entry.argument_size) == ("ok", 3000)
    assert entry.arguments == expected[0]
    if expected[1] is None:
        assert entry.result is None
    else:
        assert ("more characters" in json.dumps(entry.result)) == (expected[1] == "cut")


@pytest.mark.requirement("LOG-3")
async def test_no_secret_is_in_any_byte_of_the_file(folder: Folder) -> None:
    folder.write(good(env={"SERVICE_TOKEN": SECRET}))
    texts = [
        f"known {SECRET} in a text",
        "x" * (2044 - 12) + SECRET,  # the cut divides it
        "password=hunter22x and more",
        '{"api_key": "abc123def"}',
        "see https://bob:s3cretpw@example.com/x",
        "Authorization: Bearer abcdefgh12345678",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    ]
    async with folder.open() as engine:
        await say(engine, *texts)
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "echo", {"apiKey": {"value": "y1y1y1"}, "text": 7})
        entries = await engine.call_log.entries()

        modes = {file.stat().st_mode & 0o077 for file in folder.data.glob("calls.*")}

    written = everything(folder.data).decode("utf-8", "replace")
    assert modes == {0}
    for part in (
        SECRET[:9],
        SECRET[-9:],
        "hunter22x",
        "abc123def",
        "s3cretpw",
        "abcdefgh12345678",
        "y1y1y1",
    ):
        assert part not in written
    assert "16C7e42F" not in written
    assert entries[0].arguments == {"text": "known •••• in a text"}
    assert "more characters" in entries[1].arguments["text"]


def damage(path: Path) -> None:
    path.write_bytes(b"this is no database at all, and never was" * 100)


def forbid(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("harm", [damage, forbid])
@pytest.mark.requirement("LOG-6")
async def test_a_file_that_cannot_be_used_costs_the_log_only(
    folder: Folder, harm: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    folder.data.mkdir()
    harm(folder.data / "calls.db")
    async with folder.open() as engine:
        if harm is damage:
            with pytest.raises(DiscoveryError) as refused:
                await engine.call_log.entries()
            assert refused.value.code == "CALL_LOG_ERROR"
        result = await engine.execute("good", "echo", {"text": "hello"})
        await engine.call_log.flush()
        await engine.execute("good", "echo", {"text": "again"})

    assert result["content"][0]["text"] == '{"text": "hello"}'
    warnings = [line for line in caplog.messages if "call log" in line]
    assert len(warnings) == 1
    if harm is damage:
        assert (folder.data / "calls.db.damaged").exists()
        async with folder.open() as engine:
            assert len(await engine.call_log.entries()) == 2


WRITER = """
import sys

from discovery_engine.sync import open_engine

with open_engine("discovery.yaml", data_dir="data") as engine:
    for number in range(30):
        engine.execute("good", "echo", {"text": f"{sys.argv[1]} {number}"})
"""


@pytest.mark.requirement("LOG-8")
def test_several_processes_write_at_once_and_nothing_is_lost(folder: Folder) -> None:
    command = [sys.executable, "-c", WRITER]
    writers = [subprocess.Popen([*command, name], cwd=folder.path) for name in "abc"]
    assert [writer.wait(100) for writer in writers] == [0, 0, 0]
    with sync.open_engine(folder.config, data_dir=folder.data) as engine:
        entries = engine.call_log.entries(limit=1000)
        [metrics] = engine.metrics()

    texts = [entry.arguments["text"] for entry in entries if entry.kind == "call"]
    for name in "abc":
        own = [text for text in texts if text.startswith(name)]
        assert own == [f"{name} {number}" for number in range(30)]
    assert metrics.total.calls == 90


@pytest.mark.requirement("LOG-20")
async def test_entries_are_read_in_pages_filtered_and_cleared(folder: Folder) -> None:
    folder.write(good(), good("other"))
    async with folder.open() as engine:
        await say(engine, "a confidential line", "No. 1", "No. 2")
        await say(engine, "No. 3", server="other")
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "echo", {"text": 7})
        log = engine.call_log
        calls = LogFilter(kinds=("call",))
        last = await log.entries(calls, limit=2)
        before = await log.entries(calls, limit=2, before=last[0].id)

        async def found(**chosen: Any) -> list[Any]:
            entries = await log.entries(LogFilter(kinds=("call",), **chosen))
            return [entry.arguments["text"] for entry in entries]

        filtered = [
            await found(servers=("other",)),
            await found(statuses=("error",)),
            await found(statuses=("INVALID_ARGUMENTS",)),
            await found(tools=("good:echo",), text="no. 1"),
            await found(since=last[0].at, statuses=("ok",)),
            await found(text="%' OR 1=1 --"),
        ]
        exported = await log.export(form="ndjson")
        cleared = await log.clear()
        left = await log.entries()

    texts = [entry.arguments["text"] for entry in (*before, *last)]
    assert texts == ["No. 1", "No. 2", "No. 3", 7]
    assert filtered == [["No. 3"], [7], [7], ["No. 1"], ["No. 3"], []]
    assert "a confidential line" in exported
    assert cleared >= 5
    assert left == ()
    assert b"confidential" not in everything(folder.data)


@pytest.mark.requirement("LOG-20")
async def test_a_follower_gets_what_another_process_writes(folder: Folder) -> None:
    async with folder.open() as engine, folder.open() as other:
        await say(engine, "before")
        [*_, newest] = await engine.call_log.entries()
        texts: list[str] = []
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:

                async def follow() -> None:
                    calls = LogFilter(kinds=("call",))
                    async for entry in engine.call_log.follow(calls, after=newest.id):
                        texts.append(entry.arguments["text"])
                        if len(texts) == 2:
                            tasks.cancel_scope.cancel()

                tasks.start_soon(follow)
                await say(other, "one", "two")

    assert texts == ["one", "two"]


CALLER = """
import sys
from discovery_engine.sync import open_engine

arguments = {"text": sys.argv[1], "password": "hunter22x"}
with open_engine("discovery.yaml", data_dir="data") as engine:
    engine.execute("slow", "echo", arguments, by="agent", on_progress=print)
"""


@pytest.mark.requirement("LOG-1")
def test_a_call_is_seen_by_other_processes_while_it_runs(folder: Folder, tmp_path: Path) -> None:
    folder.write(fault_server("awaits_file", name="slow"))
    done = tmp_path / "done"
    command = [sys.executable, "-c", CALLER]
    with sync.open_engine(folder.config, data_dir=folder.data) as engine:
        log = engine.call_log
        ends = subprocess.Popen([*command, str(done)], cwd=folder.path)
        while not (calls := log.running()):
            assert ends.poll() is None
        done.touch()
        assert ends.wait(60) == 0
        after = log.running()
        dies = subprocess.Popen([*command, str(tmp_path / "never")], cwd=folder.path)
        while not log.running():
            assert dies.poll() is None
        dies.kill()
        dies.wait(60)
        left = log.reader.running(log.now() + 60)

    [call] = calls
    assert (call.server, call.tool, call.by, call.question) == ("slow", "echo", "agent", None)
    assert call.arguments == {"text": str(done), "password": "••••"}
    assert b"hunter22x" not in everything(folder.data)
    assert (after, left) == ((), ())


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("redacted", ('input from its user: "Who are you?"', {"text": "x"})),
        ("metadata", ("", None)),
    ],
)
@pytest.mark.requirement("LOG-1", "LOG-2")
async def test_a_question_that_waits_is_seen_with_the_client_that_it_waits_for(
    folder: Folder, mode: str, expected: Any
) -> None:
    asks = fault_server("asks", era="legacy", name="asking", program="asking_server.py")
    folder.write(asks, log={"calls": mode})
    answer = anyio.Event()

    async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
        await answer.wait()
        return {"action": "decline"}

    form: dict[str, Any] = {"elicitation": {"form": {}}}
    client = CallbackClient(ask, id="0123456789abcdef", capabilities=form)
    async with folder.open() as engine, folder.open() as other, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(engine.execute, "asking", "echo", {"text": "x"}, caller=client))
        with anyio.fail_after(60):
            while not (calls := await other.call_log.running()):
                pass
            answer.set()
            while await other.call_log.running():
                pass

    [call] = calls
    assert (call.client, call.tool) == ("01234567", "echo")
    assert (call.question, call.arguments) == expected


@pytest.mark.requirement("MTR-1")
async def test_metrics_count_calls_of_servers_and_tools(folder: Folder) -> None:
    async with folder.open() as engine:
        for text in ("one", "two"):
            await engine.execute("good", "echo", {"text": text})
        await engine.execute("good", "pid", {})
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "echo", {"text": 7})
        with pytest.raises(DiscoveryError):
            await engine.execute("nowhere", "at-all-1", {})
        [unknown, server] = await engine.metrics()
        await engine.reset_errors("good")
        [reset] = await engine.metrics("good")
        await engine.call_log.clear()
        [cleared] = await engine.metrics("good")

    assert (unknown.total.server, unknown.tools[0].tool, unknown.total.errors) == ("", "", 1)
    assert (server.total.calls, server.total.errors) == (4, 1)
    assert [(one.tool, one.calls, one.errors) for one in server.tools] == [
        ("echo", 3, 1),
        ("pid", 1, 0),
    ]
    echo = server.tools[0]
    assert echo.p50_seconds is not None
    assert echo.p95_seconds is not None
    assert 0 < echo.p50_seconds <= echo.p95_seconds
    assert echo.since is not None
    assert echo.last_called_at is not None
    assert echo.since <= echo.last_called_at
    assert (reset.total.calls, reset.total.errors) == (4, 0)
    assert cleared == reset


ESCAPES = "\x1b[2J\x1b]0;evil\x07\u202e"


@pytest.fixture
def discovery(tmp_path: Path, forked: Preloaded) -> Discovery:
    made = Discovery(tmp_path, forked)
    made.configure()
    return made


def call_some(discovery: Discovery) -> None:
    discovery("execute", "demo:echo", "text=hello")
    discovery("execute", "demo:boom")


@pytest.mark.thorough
@pytest.mark.requirement("LOG-11")
def test_a_call_on_the_command_line_is_in_the_log_as_a_persons(discovery: Discovery) -> None:
    call_some(discovery)

    shown = discovery("logs")

    echo, boom = shown.out.splitlines()
    assert "demo:echo" in echo
    assert echo.index("(person)") == boom.index("(person)") > 0
    assert "hello" in echo
    assert "tool_error" in boom
    assert "\x1b" not in shown.out
    chosen = discovery("logs", "--status", "error", "--kind", "call", "--server", "demo", "--json")
    assert [one["tool"] for one in chosen.json["entries"]] == ["boom"]
    assert discovery("logs", "--limit", "1").out.splitlines() == [boom]
    recent = discovery("logs", "--since", "1h", "--text", "HELLO")
    assert recent.out.split() == echo.split()
    assert discovery("logs", "--until", "1h").out == ""


@pytest.mark.requirement("LOG-12")
def test_what_a_server_wrote_controls_no_terminal_and_no_spreadsheet(discovery: Discovery) -> None:
    text = f"{ESCAPES}=cmd|' /C calc'!A0\nsecond, line\r\n"
    home = discovery.home
    environ = discovery.environ
    with sync.open_engine(
        home / "discovery.yaml", data_dir=home / "data", environ=environ
    ) as engine:
        engine.execute("demo", "echo", {"text": text})
        for tool in ("=1+1", f"@x{ESCAPES}"):
            with pytest.raises(DiscoveryError):
                engine.execute("demo", tool, {})

    shown = discovery("logs", "--kind", "call").out
    assert len(shown.splitlines()) == 3
    assert not any(code in shown for code in ("\x1b", "\x07", "\u202e", "\r"))

    lines = discovery("logs", "--kind", "call", "--export", "ndjson").out
    assert lines.isascii()
    assert json.loads(lines.splitlines()[0])["arguments"] == {"text": text}

    exported = discovery("logs", "--kind", "call", "--export", "csv").out
    rows = list(csv.DictReader(io.StringIO(exported)))
    assert rows[1]["tool"] == "'=1+1"
    assert rows[2]["tool"].startswith("'@x")
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row.values())


@pytest.mark.requirement("CLI-5")
def test_a_server_or_a_status_that_does_not_exist_is_named_where_nothing_is_found(
    discovery: Discovery,
) -> None:
    call_some(discovery)

    server = discovery("logs", "demmo")
    status = discovery("logs", "--status", "errror")

    assert (server.code, status.code) == (2, 2)
    assert "did you mean 'demo'?" in server.err
    assert "did you mean error?" in status.err
    assert discovery("logs", "--status", "TOOL_DISABLED").code == 0


@pytest.mark.requirement("MTR-1")
def test_metrics_are_shown_for_servers_and_for_the_tools_of_one(discovery: Discovery) -> None:
    assert "no call was counted yet" in discovery("metrics").err
    call_some(discovery)

    servers = discovery("metrics")
    tools = discovery("metrics", "demo")
    form = discovery("metrics", "--json").json["servers"][0]

    assert servers.out.splitlines()[1].split()[:4] == ["demo", "2", "1", "(50%)"]
    assert [line.split()[0] for line in tools.out.splitlines()] == ["TOOL", "boom", "echo"]
    assert (form["calls"], form["errors"], len(form["tools"])) == (2, 1, 2)
    assert discovery("metrics", "nowhere").code == 2
    reset = discovery("metrics", "--reset", "--json").json["servers"][0]
    assert (reset["calls"], reset["errors"]) == (2, 0)


PARENT = "b7ad6b7169203331"
EXPORTED = InMemorySpanExporter()


class Switch(Sampler):
    """Records while a test wants it: a process can have one provider, which stays."""

    is_on = False

    def should_sample(self, *args: Any, **options: Any) -> SamplingResult:
        return (ALWAYS_ON if self.is_on else ALWAYS_OFF).should_sample(*args, **options)

    def get_description(self) -> str:
        return "Switch"


SWITCH = Switch()
CARRIED = propagate.get_global_textmap()


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    """The spans of one test."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider(sampler=SWITCH)
        provider.add_span_processor(SimpleSpanProcessor(EXPORTED))
        trace.set_tracer_provider(provider)
    propagate.set_global_textmap(CARRIED)
    SWITCH.is_on = True
    yield EXPORTED
    SWITCH.is_on = False
    EXPORTED.clear()
    # The provider stays for the whole process; messages of other tests carry nothing of it.
    propagate.set_global_textmap(CompositePropagator([]))


@pytest.mark.requirement("MTR-14")
async def test_a_call_is_a_span_in_the_trace_of_its_client(
    folder: Folder, exported: InMemorySpanExporter
) -> None:
    folder.write(good())
    parent = f"00-{TRACE}-{PARENT}-01"
    client = CallbackClient(id="c", meta={"traceparent": parent, "vendor": 1})
    async with folder.open() as engine:
        await engine.execute("good", "echo", {"text": "confidential"}, caller=client)
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "echo", {"text": 7}, caller=client)
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "made_up_s3cret", {})
        entries = await engine.call_log.entries()

    ok, failed, unknown = exported.get_finished_spans()
    assert (ok.name, ok.kind) == ("tools/call echo", SpanKind.CLIENT)
    assert ok.attributes
    assert ok.attributes["gen_ai.tool.name"] == "echo"
    assert ok.attributes["discovery.server"] == "good"
    assert ok.attributes["discovery.outcome"] == "ok"
    assert ok.attributes["discovery.queue_seconds"] == 0
    assert ok.parent
    assert f"{ok.context.trace_id:032x}" == TRACE == entries[0].trace_id
    assert f"{ok.parent.span_id:016x}" == PARENT
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes
    assert failed.attributes["error.type"] == "INVALID_ARGUMENTS"
    assert unknown.name == "tools/call"
    written = "".join(span.to_json() for span in (ok, failed, unknown))
    assert "confidential" not in written
    assert "made_up_s3cret" not in written
    assert entries[2].trace_id == f"{unknown.context.trace_id:032x}"


@pytest.mark.requirement("MTR-14")
async def test_the_server_gets_the_span_of_the_call_as_its_parent(
    tmp_path: Path, exported: InMemorySpanExporter
) -> None:
    folder, world = Folder(tmp_path), World(tmp_path / "world.json")
    world.offer(tools=[make_definition("t")], resources=[resource("x:/a")])
    folder.write(world.server(era="modern"))
    client = CallbackClient(meta={"traceparent": f"00-{TRACE}-{PARENT}-01", "vendor": "kept"})
    async with folder.open() as engine:
        await engine.refresh()
        await engine.execute("docs", "t", {}, caller=client)
        await engine.execute("docs", "t", {})
        await engine.offerings.read_resource("x:/a", caller=client)

    first, second, third = exported.get_finished_spans()
    with_client, alone = (one["params"]["_meta"] for one in world.asked("tools/call"))
    [read] = (one["params"]["_meta"] for one in world.asked("resources/read"))
    assert with_client["vendor"] == "kept"
    assert with_client["traceparent"] == f"00-{TRACE}-{first.context.span_id:016x}-01"
    assert alone["traceparent"].split("-")[2] == f"{second.context.span_id:016x}"
    assert read["traceparent"] == f"00-{TRACE}-{third.context.span_id:016x}-01"
    assert third.name == "resources/read resource:x:/a"


OWN = "owner-token-of-forty-three-characters-12345"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@asynccontextmanager
async def served(
    folder: Folder, token: str | None = OWN
) -> AsyncIterator[tuple[Engine, httpx2.AsyncClient]]:
    folder.write(good(), broken(good("dead")), views={"few": {"servers": ["good"]}})
    async with folder.open() as engine:
        tokens = parse_tokens(token) if token else None
        async with web.served(engine, tokens, data=folder.data) as address:
            base = address.removesuffix("/mcp")
            async with httpx2.AsyncClient(base_url=base, timeout=60) as http:
                yield engine, http


def samples(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.requirement("MTR-10")
async def test_metrics_are_valid_and_count_what_was_called(folder: Folder) -> None:
    async with served(folder) as (engine, http):
        await engine.refresh()
        for _ in range(3):
            await engine.execute("good", "echo", {"text": "confidential"})
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "echo", {"text": 7})
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "s3cret_name", {})
        await engine.call_log.flush()
        answer = await http.get("/metrics", headers=bearer(OWN))
        accept = {"accept": "application/openmetrics-text; version=1.0.0"}
        other = await http.get("/metrics", headers=bearer(OWN) | accept)

    found = samples(answer.text)
    echo = {("server", "good"), ("tool", "echo")}
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert found["discovery_calls_total", frozenset(echo | {("outcome", "ok")})] == 3
    assert found["discovery_call_duration_seconds_count", frozenset(echo)] == 4
    assert found["discovery_server_healthy", frozenset({("server", "good"), ("state", "ready")})]
    dead = frozenset({("server", "dead"), ("state", "failing")})
    assert found["discovery_server_healthy", dead] == 0
    assert ("process_open_fds", frozenset()) in found
    assert "confidential" not in answer.text
    assert "s3cret_name" not in answer.text
    assert "(unknown)" in answer.text
    assert other.headers["content-type"].startswith("application/openmetrics-text")
    assert len(list(parse_openmetrics(other.text))) >= 7  # type: ignore[no-untyped-call]


@pytest.mark.requirement("MTR-11")
async def test_metrics_need_a_token_of_all_views(folder: Folder) -> None:
    async with served(folder) as (_, http):
        tokens = AccessTokens(folder.data / "tokens.json")
        reader = tokens.create(scopes=frozenset({"read"}))[0]
        bound = tokens.create(view="few", scopes=frozenset({"read"}))[0]
        statuses = {
            "none": (await http.get("/metrics")).status_code,
            "wrong": (await http.get("/metrics", headers=bearer("x" * 43))).status_code,
            "reader": (await http.get("/metrics", headers=bearer(reader))).status_code,
            "bound": (await http.get("/metrics", headers=bearer(bound))).status_code,
            "post": (await http.post("/metrics", headers=bearer(OWN))).status_code,
            "below": (await http.get("/metrics/x", headers=bearer(OWN))).status_code,
            "rebound": (
                await http.get("/metrics", headers=bearer(OWN) | {"host": "evil.example"})
            ).status_code,
        }
    assert statuses == {
        "none": 401,
        "wrong": 401,
        "reader": 200,
        "bound": 403,
        "post": 405,
        "below": 404,
        "rebound": 421,
    }
    async with served(folder, token=None) as (_, http):
        assert (await http.get("/metrics")).status_code == 404


@pytest.mark.thorough
@pytest.mark.requirement("MTR-13")
async def test_health_needs_no_token_and_says_nothing_of_servers(folder: Folder) -> None:
    for token in (OWN, None):
        async with served(folder, token) as (_, http):
            answer = await http.get("/health")
            foreign = await http.get("/health", headers={"host": "evil.example"})
            deeper = await http.get("/health/good")

        form = json.loads(answer.text)
        assert (answer.status_code, foreign.status_code, deeper.status_code) == (200, 421, 404)
        assert form.keys() == {"status", "version", "uptime"}
        assert form["status"] == "ok"
        assert form["uptime"] >= 0


@pytest.mark.requirement("MTR-1")
async def test_the_timeline_has_calls_of_the_server_that_is_asked_for(folder: Folder) -> None:
    folder.write(good(), good("other"))
    async with folder.open() as engine:
        await engine.refresh()
        await engine.execute("good", "echo", {"text": "hello"})
        await engine.execute("other", "echo", {"text": "hello"})
        now = engine.call_log.now()
        every = await engine.call_log.timeline(since=now - 600, until=now + 600, step=60)
        one = await engine.call_log.timeline(since=now - 600, until=now + 600, server="good")

        await engine.call_log.clear()
        kept = await engine.call_log.timeline(since=now - 600, until=now + 600)

        recent = await engine.call_log.recent_timeline(600, step=120, server="good")
        with pytest.raises(ValueError, match="positive"):
            await engine.call_log.recent_timeline(600, step=0)

    assert (recent.total.calls, len(recent.spans)) == (1, 5)
    assert all(span.at % 120 == 0 for span in recent.spans)
    assert (every.total.calls, one.total.calls, kept.total.calls) == (2, 1, 2)
    assert len(every.spans) == len(one.spans) == 20
