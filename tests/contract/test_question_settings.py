"""What the configuration settles about the questions of servers, and how a reload changes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.engine import Engine
from discovery_engine.rpc.client import CallbackClient
from tests.engines import Folder
from tests.servers.programs import HERE, text_of

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize(
    "era", ["handshake", pytest.param("modern", marks=pytest.mark.matrix)]
)


async def never(method: str, params: JSONObject) -> JSONObject:
    await anyio.sleep_forever()
    raise AssertionError


SILENT = CallbackClient(never, capabilities={"elicitation": {}, "roots": {}})


def write(folder: Folder, era: str, *, own: Any = None, **section: Any) -> None:
    """A configuration with the server that has all of MCP."""
    args = ["-W", "ignore", str(HERE / "everything_server.py"), "stdio", "--era", era]
    server = {"command": sys.executable, "args": args} | ({} if own is None else {"roots": own})
    content = {"servers": {"everything": server}, "server": section}
    folder.config.write_text(json.dumps(content), "utf-8")


async def pid_of(engine: Engine) -> int:
    (report,) = await engine.health()
    assert report.stats is not None
    assert report.stats.pid is not None
    return report.stats.pid


@ERAS
@pytest.mark.requirement("QST-47", "QST-52")
async def test_changed_roots_are_given_next_and_the_server_keeps_running(
    era: str, tmp_path: Path
) -> None:
    folder = Folder(tmp_path)
    asked: list[str] = []
    pids: list[int] = []
    write(folder, era, roots=["/first"])
    with anyio.fail_after(60):
        async with folder.open() as engine:
            for own in (None, ["~/second"], ["here", "file:///a%20b"], []):
                write(folder, era, roots=["/first"], own=own)
                await engine.reload()
                result = await engine.execute("everything", "test_roots", {}, caller=SILENT)
                asked.append(text_of(result))
                pids.append(await pid_of(engine))

    assert asked == [
        "file:///first",
        (Path.home() / "second").as_uri(),
        f"{(tmp_path / 'here').as_uri()},file:///a%20b",
        "",
    ]
    assert len(set(pids)) == 1


@pytest.mark.thorough
@ERAS
@pytest.mark.requirement("QST-43", "QST-52")
async def test_a_changed_time_limit_holds_for_the_next_question(era: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    write(folder, era, questionTimeout=3600)
    pids: list[int] = []
    with anyio.fail_after(60):
        async with folder.open() as engine:
            await engine.execute("everything", "test_simple_text", {}, caller=SILENT)
            pids.append(await pid_of(engine))
            write(folder, era, questionTimeout=0.1)
            await engine.reload()
            arguments = {"message": "Who?"}
            result = await engine.execute(
                "everything", "test_elicitation", arguments, caller=SILENT
            )
            pids.append(await pid_of(engine))

    assert "decline" in text_of(result)
    assert len(set(pids)) == 1
