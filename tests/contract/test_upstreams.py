"""Upstreams: what the page specs/upstreams.md promises, on real child processes in both eras."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace

import anyio
import pytest

from discovery_engine.config.settings import ServerSettings, StdioTransport, Timeouts
from discovery_engine.errors import (
    DiscoveryError,
    FailureKind,
    NeedsAuthError,
    NeedsConfigError,
    OutcomeUnknownError,
    UnavailableError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from discovery_engine.events import EventBus, ServerConnecting, ServerDiscovering, ToolsChanged
from discovery_engine.tools import ServerName
from discovery_engine.upstream import Phase, connection_fingerprint
from discovery_engine.upstream.sessions import Upstreams
from tests.servers.programs import (
    Eras,
    descendants,
    eventually,
    fault_server,
    http_server,
    is_running,
    remote_server,
    text_of,
    upstreams,
)

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


@pytest.fixture(autouse=True)
def _nothing_left_running() -> Iterator[None]:
    before = descendants()
    yield
    assert {pid for pid in descendants() - before if is_running(pid)} == set()


async def call(opened: Upstreams, server: ServerSettings, tool: str = "echo", **arguments) -> str:
    with anyio.fail_after(20):
        return text_of(await opened.call(server, tool, arguments))


@ERAS
@pytest.mark.requirement("UPS-1")
async def test_tools_are_listed_and_called_in_either_era(era: str) -> None:
    server = fault_server(era=era)

    async with upstreams() as opened:
        listing = await opened.list_tools(server)
        answer = await call(opened, server, text="hi")

    assert [tool["name"] for tool in listing.tools] == ["echo", "pid", "environment"]
    assert listing.instructions == f"{era} instructions"
    assert listing.connection == connection_fingerprint(server)
    assert (listing.ttl, listing.cut, listing.dropped) == (None, "", ())
    assert json.loads(answer) == {"text": "hi"}


@pytest.mark.parametrize("mode", ["legacy", "modern", "events"])
@pytest.mark.requirement("UPS-1")
async def test_http_servers_are_listed_and_called_in_either_era(mode: str) -> None:
    with http_server(mode) as url:
        server = remote_server(url)

        async with upstreams() as opened:
            listing = await opened.list_tools(server)
            answer = await call(opened, server, text="hé")

    assert [tool["name"] for tool in listing.tools] == ["echo"]
    assert "hé" in answer or "h\\u00e9" in answer
