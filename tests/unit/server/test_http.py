from __future__ import annotations

import asyncio
import errno
import os
import socket

import anyio
import pytest

from discovery_engine.errors import ConfigurationError
from discovery_server.http import http_server as http
from discovery_server.http.guard import Endpoint
from tests.rows import rows


def test_port_in_use_is_a_problem_of_the_configuration() -> None:
    with http.listen(Endpoint()) as listener:
        port = listener.getsockname()[1]

        with pytest.raises(ConfigurationError) as caught:
            http.listen(Endpoint(port=port))

    [problem] = caught.value.problems
    assert problem.message == (
        f"cannot listen on 127.0.0.1:{port}: {os.strerror(errno.EADDRINUSE)}"
    )
    assert "another port" in problem.hint


def test_address_of_another_machine_is_a_problem_of_the_configuration() -> None:
    with pytest.raises(ConfigurationError) as caught:
        http.listen(Endpoint("no..host"))

    [problem] = caught.value.problems
    assert problem.message.startswith("cannot listen on no..host:0: ")
    assert "while attempting" not in problem.message
    assert "address of this machine" in problem.hint


@pytest.mark.requirement("SRV-15")
@rows(
    ("family", "host", "start"),
    [
        pytest.param(socket.AF_INET, "127.0.0.1", "http://127.0.0.1:", id="IPv4"),
        pytest.param(socket.AF_INET6, "::1", "http://[::1]:", id="IPv6"),
        pytest.param(socket.AF_INET, "0.0.0.0", "http://127.0.0.1:", id="all of IPv4"),
        pytest.param(socket.AF_INET6, "::", "http://[::1]:", id="all of IPv6"),
    ],
)
def test_address_is_what_clients_connect_to(family: int, host: str, start: str) -> None:
    try:
        listener = http.listen(Endpoint(host))
    except ConfigurationError:
        pytest.skip("this machine has no such address")
    with listener:
        assert listener.family == family
        assert http.address(listener).startswith(start)
        assert http.address(listener).endswith("/mcp")


@pytest.mark.anyio
@pytest.mark.requirement("SRV-18")
@rows("host", ["127.0.0.1", "::1"])
async def test_an_accepted_connection_sends_without_delay(host: str) -> None:
    try:
        listener = http.listen(Endpoint(host))
    except ConfigurationError:
        pytest.skip("this machine has no such address")
    option: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        option.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async with await asyncio.start_server(connected, sock=listener):
        with socket.create_connection(listener.getsockname()[:2]), anyio.fail_after(60):
            assert await option
