"""Output of servers is redacted, whatever their secrets are and when they changed."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import anyio
import pytest

from discovery_engine.config.settings import ServerSettings, StdioTransport
from discovery_engine.errors import FailureKind, UnavailableError
from discovery_engine.runtime.lazy_upstreams import LazyUpstreams
from discovery_engine.secrets.resolver import EnvironmentResolver
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.listing import Listing
from discovery_engine.upstream.state import StateInfo
from discovery_engine.upstream.upstreams import OnStderr, Upstreams
from tests.factories import make_server

pytestmark = pytest.mark.anyio


class Talkative:
    """Upstreams that tell whatever the test has them say."""

    def __init__(self) -> None:
        self.says = ""

    @asynccontextmanager
    async def opened(self, on_stderr: OnStderr) -> AsyncIterator[Upstreams]:
        self.on_stderr = on_stderr
        yield cast("Upstreams", self)

    def expect(self, capabilities: object) -> None:
        """They declare nothing."""

    async def list_tools(self, server: ServerSettings) -> Listing:
        self.on_stderr(server.name, [self.says])
        raise UnavailableError(server.name, FailureKind.EXITED, self.says, stderr=self.says)

    def conditions(self) -> Mapping[ServerName, StateInfo]:
        return {}


@pytest.mark.requirement("HEA-15")
async def test_a_token_that_is_renewed_in_its_file_is_hidden_as_the_old_one_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token, talkative = tmp_path / "token", Talkative()
    server = make_server(transport=StdioTransport("x", env={"TOKEN": f"${{file:{token}}}"}))
    told = []

    async with anyio.create_task_group() as tasks:
        upstreams = LazyUpstreams(tasks, talkative.opened, EnvironmentResolver({}))
        with caplog.at_level(logging.INFO):
            for value in ("first-token", "second-token"):
                token.write_text(value, "utf-8")
                talkative.says = f"no user for first-token or {value}"
                with pytest.raises(UnavailableError) as caught:
                    await upstreams.list_tools(server)
                told += [caught.value.reason, caught.value.stderr]
        tasks.cancel_scope.cancel()

    assert told == ["no user for •••• or ••••"] * 4
    assert "token" not in caplog.text
