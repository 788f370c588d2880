"""Calls that provably never left this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import FailureKind, UnavailableError
from tests.servers.programs import (
    call,
    eventually,
    fault_server,
    http_server,
    remote_server,
    text_of,
    upstreams,
)

pytestmark = pytest.mark.anyio


def deaf(mode: str, mark: Path) -> ServerSettings:
    environ = {"MARK": str(mark)}
    return fault_server(mode, era="legacy", program="asking_server.py", env=environ)


async def outcome(mode: str, mark: Path) -> Any:
    """Of a call to a server that reads no more, which nobody has noticed yet."""
    server = deaf(mode, mark)
    async with upstreams() as opened:
        with anyio.fail_after(60):
            session = opened._sessions.for_listing(server)
            async with session.lease():
                await eventually(mark.with_suffix(".closed").exists)
            try:
                return text_of(await opened.call(server, "echo", {}))
            except UnavailableError as error:
                return error


@pytest.mark.requirement("UPS-91")
async def test_a_call_that_was_never_written_is_sent_to_the_server_that_is_started_next(
    tmp_path: Path,
) -> None:
    assert await outcome("deaf", tmp_path / "mark") == "[]"


@pytest.mark.requirement("UPS-91")
async def test_a_call_that_could_not_be_written_twice_fails_and_says_so(tmp_path: Path) -> None:
    error = await outcome("always_deaf", tmp_path / "mark")

    assert isinstance(error, UnavailableError)
    assert error.kind is FailureKind.LOST
    assert "before 'echo' was sent" in error.message
    assert "nothing was sent" in error.hint


@pytest.mark.requirement("UPS-91")
async def test_a_refused_connection_says_that_nothing_was_sent() -> None:
    async with upstreams() as opened:
        with http_server("modern") as address:
            server = remote_server(f"{address}/mcp")
            await call(opened, server, text="first")
        with anyio.fail_after(60), pytest.raises(UnavailableError) as raised:
            await opened.call(server, "echo", {})

    assert raised.value.kind is FailureKind.REFUSED
    assert "nothing was sent" in raised.value.hint
