"""What programs write: garbage, text that is not Unicode, answers that cannot be read."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import pytest

from discovery_engine.agent import dispatch
from discovery_engine.agent.caller import Caller
from discovery_engine.agent.definitions import META_TOOLS
from discovery_engine.config.settings import Timeouts
from discovery_engine.errors import (
    UpstreamProtocolError,
)
from tests.engines import Folder, program
from tests.servers.programs import (
    call,
    fault_server,
    http_server,
    remote_server,
    upstreams,
)

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["legacy", pytest.param("modern", marks=pytest.mark.matrix)])


@ERAS
@pytest.mark.requirement("UPS-30")
async def test_what_is_not_a_message_is_counted_and_skipped(era: str) -> None:
    server = fault_server("noise", era=era)

    async with upstreams() as opened:
        await opened.list_tools(server)
        answer = await call(opened, server, text="hi")
        state = opened.sessions()[server.name]

    assert json.loads(answer) == {"text": "hi"}
    assert state.garbage > 10
    assert state.samples[0] == "Welcome to the noisy server!"
    assert len(state.samples) == 3


@pytest.mark.parametrize("mode", ["bad_utf8", "surrogate"])
@pytest.mark.requirement("UPS-31")
async def test_text_that_is_not_unicode_is_mended(mode: str) -> None:
    server = fault_server(mode)

    async with upstreams() as opened:
        answer = await call(opened, server)
        sent_back = await call(opened, server, text="\ud83d")

    assert "\ufffd" in answer
    assert sent_back


@pytest.mark.requirement("UPS-31")
async def test_text_that_is_not_unicode_is_mended_over_http() -> None:
    with http_server("surrogate") as url:
        async with upstreams() as opened:
            answer = await call(opened, remote_server(url), text="\ud83d")

    assert answer == "half \ufffd a pair"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("mode", "said"),
    [
        pytest.param("huge", "longer than 8 MiB", id="huge"),
        pytest.param("huge_id_last", "longer than 8 MiB", id="huge-id-last"),
        pytest.param("deep", "too deeply", id="deep"),
        pytest.param("nested", "100 levels", id="nested"),
        pytest.param("nan", "NaN", id="nan"),
    ],
)
@pytest.mark.requirement("UPS-32")
async def test_an_answer_that_cannot_be_read_fails_its_own_call_at_once(
    mode: str, said: str
) -> None:
    server = fault_server(mode, timeouts=Timeouts(call=60))

    async with upstreams() as opened:
        with anyio.fail_after(60), pytest.raises(UpstreamProtocolError) as caught:
            await call(opened, server, "huge")
        listing = await opened.list_tools(server)

    assert said in caught.value.message
    assert len(listing.tools) == 3


LISTING = """
import json, sys
tools = {"large": '["' + "x" * (9 << 20) + '"]', "deep": "[" * 100_000 + "]" * 100_000}[sys.argv[1]]
for line in sys.stdin:
    message = json.loads(line)
    greeting = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}}
    greeting["serverInfo"] = {"name": "unread", "version": "1"}
    result = '{"tools": %s}' % tools if message["method"] == "tools/list" else json.dumps(greeting)
    if "id" in message:
        print('{"jsonrpc": "2.0", "id": %d, "result": %s}' % (message["id"], result), flush=True)
"""


@pytest.mark.requirement("UPS-32")
@pytest.mark.parametrize(
    ("listed", "said"), [("large", "longer than"), ("deep", "nests too deeply")]
)
async def test_agent_reads_why_a_list_cannot_be_read(
    tmp_path: Path, listed: str, said: str
) -> None:
    folder = Folder(tmp_path)
    folder.write(program("unread", sys.executable, "-c", LISTING, listed))

    async with folder.open() as engine:
        await engine.refresh()
        answer = await dispatch.call(engine, META_TOOLS["list_mcp_servers"], {}, Caller())

    text = answer["content"][0]["text"]
    assert said in text
    assert "-32700" not in text
