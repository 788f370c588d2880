from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn

import anyio
import httpx2
import pytest
from mcp import Client

from discovery_engine.config.settings import LogSettings, Settings
from discovery_engine.errors import ConfigurationError
from discovery_server import app
from discovery_server.gateway import Gateway
from discovery_server.http.guard import Endpoint
from tests.unit.server import web
from tests.unit.server.fakes import make_engine
from tests.unit.server.wire import INITIALIZE, INITIALIZED, call, served

pytestmark = pytest.mark.anyio

QUIET = LogSettings(stderr=False)


@asynccontextmanager
async def serving(config: app.Config, folder: Path) -> AsyncIterator[str]:
    """The address of a server in this process; told to stop by a signal, as people do."""
    send, receive = anyio.create_memory_object_stream[str](1)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks, receive:

            async def serve() -> None:
                with send:
                    await app.serve_http(
                        config,
                        token=None,
                        on_listening=lambda address, _: send.send_nowait(address),
                        environ={},
                        data_dir=folder,
                    )

            tasks.start_soon(serve)
            address = await receive.receive()
            async with Client(address):
                yield address
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.requirement("CAT-25")
async def test_what_lives_when_serving_begins_is_left_out_of_collections(tmp_path: Path) -> None:
    gc.unfreeze()  # what the tests froze

    async with serving(Settings(log=QUIET), tmp_path):
        frozen = gc.get_freeze_count()

    assert gc.get_freeze_count() == 0
    assert frozen > 10_000  # the modules of this process alone are several times as many objects


@pytest.mark.requirement("SRV-3")
async def test_http_serves_until_a_signal_comes(tmp_path: Path) -> None:
    async with (
        serving(Settings(log=QUIET), tmp_path) as address,
        Client(address, mode="legacy") as client,
    ):
        result = await client.call_tool("list_mcp_servers", {})

    assert "no server is configured" in result.content[0].text


@pytest.mark.requirement("SRV-17")
async def test_a_stream_that_listens_ends_with_the_server_and_is_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kinds = {"accept": "application/json, text/event-stream"}

    async with httpx2.AsyncClient(headers=kinds, timeout=20) as client:
        async with serving(Settings(log=QUIET), tmp_path) as address:
            opened = await client.post(address, json=INITIALIZE)
            session = {"mcp-session-id": opened.headers["mcp-session-id"]}
            await client.post(address, json=INITIALIZED, headers=session)
            request = client.build_request("GET", address, headers=session)
            stream = await client.send(request, stream=True)
        rest = await stream.aread()

    assert (stream.status_code, rest) == (200, b"")
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


@pytest.mark.requirement("SRV-15")
async def test_an_address_that_is_told_is_not_logged_as_well(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(Settings(log=QUIET), tmp_path) as address:
        pass

    assert address not in caplog.text


@pytest.mark.requirement("SRV-14")
async def test_clients_over_http_are_told_apart_where_their_era_has_sessions() -> None:
    engine = make_engine()
    async with web.served(engine) as address:
        for mode in ("legacy", "legacy", "auto", "auto"):
            async with Client(address, mode=mode) as client:
                await client.call_tool("execute_tool", {"tool": "list_issues"})

    first, second, *modern = [call.client for call in engine.calls]
    assert first
    assert second
    assert first != second
    assert modern == [None, None]


@pytest.mark.requirement("SRV-4")
async def test_hangup_reloads_and_a_broken_file_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "discovery.yaml"
    config.write_text("{log: {stderr: false}, servers: {one: {command: x, enabled: false}}}")

    async def servers(address: str) -> str:
        async with Client(address) as client:
            result = await client.call_tool("list_mcp_servers", {})
            return result.content[0].text

    async def reloaded(what: str) -> None:
        caplog.clear()
        os.kill(os.getpid(), signal.SIGHUP)
        while what not in caplog.text:  # noqa: ASYNC110 - the log has no event to wait for
            await anyio.sleep(0.01)

    async with serving(config, tmp_path) as address:
        before = await servers(address)
        config.write_text("servers: [")
        await reloaded("The configuration was not reloaded")
        kept = await servers(address)
        config.write_text("{log: {stderr: false}, servers: {two: {command: x, enabled: false}}}")
        await reloaded("The configuration was reloaded")
        after = await servers(address)

    assert before == "one (0 tools) disabled: its entry has enabled: false"
    assert kept.startswith(f"{before}\nNote: the configuration has errors since ")
    assert after == "two (0 tools) disabled: its entry has enabled: false"


@pytest.mark.requirement("SRV-10")
async def test_http_for_other_machines_is_refused_before_anything_opens(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        await app.serve_http(
            Settings(), Endpoint("0.0.0.0"), token="a-token-of-some-length", data_dir=tmp_path
        )

    assert os.listdir(tmp_path) == []  # noqa: PTH208


@pytest.mark.requirement("SRV-2")
async def test_servers_are_asked_only_after_the_first_answer() -> None:
    engine = make_engine()
    asked, answered = anyio.Event(), anyio.Event()

    async def run_maintenance() -> NoReturn:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    engine.run_maintenance = run_maintenance
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                await anyio.lowlevel.checkpoint()
                assert not asked.is_set()
                answered.set()
                await asked.wait()

            tasks.start_soon(lambda: app._run(engine, serve, first=answered))


async def test_serving_goes_on_when_keeping_fresh_fails(caplog: pytest.LogCaptureFixture) -> None:
    engine = make_engine()

    async def run_maintenance() -> NoReturn:
        raise OSError("disk full")

    engine.run_maintenance = run_maintenance
    async with served(Gateway(engine)) as wire:
        await app._keep_fresh(engine, None)
        await wire.ask(INITIALIZE)
        await wire.send(INITIALIZED)
        answer = await wire.ask(call(3, "list_mcp_servers"))

    assert "no longer refreshed" in caplog.text
    assert answer["result"]["content"][0]["text"].startswith("github")


async def test_stdio_is_served_from_the_process_streams(tmp_path: Path) -> None:
    stdin, to_server = os.pipe()
    from_server, stdout = os.pipe()
    kept = os.dup(0), os.dup(1)
    os.dup2(stdin, 0)
    os.dup2(stdout, 1)
    try:
        os.write(to_server, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                settings = Settings(log=QUIET)
                tasks.start_soon(lambda: app.serve_stdio(settings, environ={}, data_dir=tmp_path))
                await anyio.wait_readable(from_server)
                answer = os.read(from_server, 1000)
                os.close(to_server)
    finally:
        os.dup2(kept[0], 0)
        os.dup2(kept[1], 1)
        for descriptor in (stdin, from_server, stdout, *kept):
            os.close(descriptor)

    assert answer == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
