from __future__ import annotations

import socket

import pytest

from discovery_engine.errors import ConfigurationError
from discovery_server import http
from discovery_server.guard import Endpoint


def test_port_in_use_is_a_problem_of_the_configuration() -> None:
    with http.listen(Endpoint()) as listener:
        port = listener.getsockname()[1]

        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}: "):
            http.listen(Endpoint(port=port))


@pytest.mark.parametrize(
    ("family", "host", "start"),
    [
        pytest.param(socket.AF_INET, "127.0.0.1", "http://127.0.0.1:", id="IPv4"),
        pytest.param(socket.AF_INET6, "::1", "http://[::1]:", id="IPv6"),
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
