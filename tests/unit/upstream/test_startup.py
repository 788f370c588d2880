"""How long a start may take."""

from __future__ import annotations

import pytest

from discovery_engine.config.settings import (
    USUAL_CONNECT,
    RemoteTransport,
    ServerSettings,
    StdioTransport,
    Timeouts,
)
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.handshake import (
    FIRST_START_TIMEOUT,
    RUNNER_START_TIMEOUT,
    startup_timeout,
)
from tests.rows import rows


def server(command: str, *args: str, connect: float | None = None) -> ServerSettings:
    transport = StdioTransport(command, args)
    return ServerSettings(ServerName("s"), transport, timeouts=Timeouts(connect=connect))


@pytest.mark.requirement("UPS-3")
@rows(
    "words",
    [
        pytest.param(("npx", "-y", "a-server"), id="npx"),
        pytest.param(("/usr/local/bin/uvx", "a-server"), id="with its path"),
        pytest.param(("C:\\Program Files\\nodejs\\npx.CMD", "-y", "a"), id="on Windows"),
        pytest.param(("docker", "run", "-i", "--rm", "an/image"), id="an image"),
        pytest.param(("cmd", "/c", "npx", "-y", "a-server"), id="behind a shell of Windows"),
        pytest.param(("sh", "-c", "exec npx -y a-server"), id="behind a shell"),
        pytest.param(("env", "A=1", "uv", "run", "a-server"), id="behind env"),
    ],
)
def test_the_first_start_by_a_package_runner_has_time_for_a_download(words: list[str]) -> None:
    assert startup_timeout(server(*words), is_first=True) == RUNNER_START_TIMEOUT
    assert startup_timeout(server(*words), is_first=False) == USUAL_CONNECT


@pytest.mark.requirement("UPS-3")
def test_another_program_has_twice_the_usual_time_at_first_and_the_owner_decides() -> None:
    program = server("python3", "-m", "a_server")
    remote = ServerSettings(ServerName("s"), RemoteTransport("https://npx.example/npx"))

    assert startup_timeout(program, is_first=True) == FIRST_START_TIMEOUT == 2 * USUAL_CONNECT
    assert startup_timeout(program, is_first=False) == USUAL_CONNECT
    for first in (True, False):
        assert startup_timeout(remote, is_first=first) == USUAL_CONNECT
        for seconds in (0.5, USUAL_CONNECT, 600.0):
            runner = server("npx", "-y", "a-server", connect=seconds)
            assert startup_timeout(runner, is_first=first) == seconds
