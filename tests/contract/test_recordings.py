"""Exchanges with servers, recorded and replayed: specs/recordings.md."""

from __future__ import annotations

import json
import os
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine import DiscoveryError, Engine, open_engine
from tests.engines import Folder, program
from tests.result_agents import SERVER
from tests.unit.server.wire import INITIALIZE, INITIALIZED
from tests.unit.server.wire import call as asked

pytestmark = pytest.mark.anyio

SECRET = "sk-very-secret-0123456789"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROWS_TOKEN", SECRET)
    pins = [{"pattern": "echo", "arguments": {"token": "${ROWS_TOKEN}"}}]
    log = tmp_path / "calls.jsonl"
    Folder(tmp_path).write(
        program("results", sys.executable, str(SERVER), str(log)), overrides=pins
    )
    return tmp_path


def opened(folder: Path, data: str = "data", **options: Any) -> AbstractAsyncContextManager[Engine]:
    return open_engine(folder / "discovery.yaml", data_dir=folder / data, **options)


def recording(folder: Path) -> AbstractAsyncContextManager[Engine]:
    return opened(folder, record=folder / "tape")


def replaying(folder: Path) -> AbstractAsyncContextManager[Engine]:
    return opened(folder, "replayed", replay=folder / "tape")


async def call(engine: Engine, tool: str, **arguments: Any) -> dict[str, Any]:
    await engine.refresh(only_due=True)
    return await engine.execute("results", tool, arguments)


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((folder / "tape").rglob("*.json"))}


@pytest.mark.requirement("REC-1")
async def test_what_was_recorded_is_served_without_the_server(folder: Path) -> None:
    async with recording(folder) as engine:
        rows, text = await call(engine, "rows", count=3), await call(engine, "text", lines=2)
        failed = await call(engine, "fail")
        await call(engine, "echo", text="hi")
    [sent] = [json.loads(tape) for tape in files(folder).values() if b'"hi"' in tape]
    calls = (folder / "calls.jsonl").read_text("utf-8")
    broken = (folder / "discovery.yaml").read_text("utf-8").replace(str(SERVER), "/nowhere.py")
    (folder / "discovery.yaml").write_text(broken, "utf-8")

    async with replaying(folder) as engine:
        assert await call(engine, "rows", count=3) == rows
        assert await call(engine, "text", lines=2) == text
        assert await call(engine, "fail") == failed
        assert (await engine.search("rows")).hits[0].entry.tool.name == "rows"

    assert (folder / "calls.jsonl").read_text("utf-8") == calls
    assert sent["params"] == {"name": "echo", "arguments": {"text": "hi"}}  # none that is pinned


@pytest.mark.requirement("REC-2")
async def test_no_secret_is_recorded_and_none_is_needed_to_replay(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with recording(folder) as engine:
        echoed = await call(engine, "echo", value={"Authorization": "Bearer abcdefghij0123"})
    assert SECRET in json.dumps(echoed)  # the server gives back what it got

    written = b"".join(files(folder).values())
    assert SECRET.encode() not in written
    assert b"abcdefghij0123" not in written
    monkeypatch.delenv("ROWS_TOKEN")
    async with replaying(folder) as engine:
        found = await call(engine, "echo", value={"Authorization": "Bearer another"})
    assert "given" in found["structuredContent"]


@pytest.mark.requirement("REC-4")
async def test_what_was_not_recorded_is_a_clear_error(folder: Path) -> None:
    async with recording(folder) as engine:
        await call(engine, "rows", count=3)

    async with replaying(folder) as engine:
        with pytest.raises(DiscoveryError) as other_arguments:
            await call(engine, "rows", count=4)
        with pytest.raises(DiscoveryError) as other_tool:
            await call(engine, "text", lines=1)

    assert other_arguments.value.code == other_tool.value.code == "NOT_RECORDED"
    assert other_arguments.value.message == (
        "server 'results' has no recording of 'rows' with these arguments; "
        "1 other call of it recorded"
    )
    assert other_tool.value.message == "server 'results' has no recording of 'text'"


@pytest.mark.thorough
@pytest.mark.requirement("REC-1")
async def test_serve_replays_in_a_data_folder_of_its_own(folder: Path) -> None:
    async with recording(folder) as engine:
        await call(engine, "rows", count=3)
    (folder / "calls.jsonl").unlink()
    words = ["--config", "discovery.yaml", "serve", "--replay", "tape"]
    environ = os.environ | {"DISCOVERY_DATA_DIR": str(folder / "untouched")}
    arguments = {"tool": "results:rows", "arguments": {"count": 3}}

    async with await anyio.open_process(
        [sys.executable, "-m", "discovery_cli", *words], cwd=folder, env=environ
    ) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        with anyio.fail_after(120):
            for message in (INITIALIZE, INITIALIZED, asked(7, "execute_tool", **arguments)):
                await served.stdin.send(json.dumps(message).encode() + b"\n")
            answer = b""
            while b'"id":7' not in answer:
                answer += await served.stdout.receive()
            await served.stdin.aclose()
            assert await served.wait() == 0

    assert b"row 2" in answer
    assert not list((folder / "untouched").rglob("registry*"))
    assert not (folder / "calls.jsonl").exists()
