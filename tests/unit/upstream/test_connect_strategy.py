from __future__ import annotations

import pytest

from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import FailureKind, UnavailableError
from discovery_engine.upstream.connect_strategy import (
    ConnectStrategy,
    first_strategy,
    next_strategy,
)
from discovery_engine.upstream.connection import Era
from tests.rows import rows
from tests.servers.programs import fault_server, remote_server

STDIO, AUTO = fault_server(), remote_server("http://h/")
HTTP, SSE = remote_server("http://h/", kind="http"), remote_server("http://h/", kind="sse")
OLD = Era("stdio")


def failed(kind: str) -> UnavailableError:
    return UnavailableError("faulty", FailureKind(kind), "it did not work")


@rows(
    ("server", "remembered", "attempt"),
    [
        pytest.param(STDIO, None, ConnectStrategy("stdio"), id="program"),
        pytest.param(AUTO, None, ConnectStrategy("http", falls_back=True), id="auto"),
        pytest.param(HTTP, None, ConnectStrategy("http"), id="http"),
        pytest.param(SSE, None, ConnectStrategy("sse", Era("sse")), id="sse"),
        pytest.param(STDIO, OLD, ConnectStrategy("stdio", OLD, is_stored=True), id="remembered"),
    ],
)
def test_what_is_remembered_comes_first(
    server: ServerSettings, remembered: Era | None, attempt: ConnectStrategy
) -> None:
    assert first_strategy(server, remembered) == attempt


@rows(
    ("server", "attempt", "kind", "following"),
    [
        pytest.param(
            STDIO, ConnectStrategy("stdio"), "exited", ConnectStrategy("stdio", OLD), id="exits"
        ),
        pytest.param(STDIO, ConnectStrategy("stdio", OLD), "exited", None, id="exits-twice"),
        pytest.param(STDIO, ConnectStrategy("stdio"), "not_mcp", None, id="not-mcp"),
        pytest.param(
            STDIO,
            ConnectStrategy("stdio", OLD, is_stored=True),
            "exited",
            ConnectStrategy("stdio"),
            id="wrong",
        ),
        pytest.param(
            STDIO,
            ConnectStrategy("stdio", OLD, is_stored=True),
            "not_found",
            None,
            id="hopeless",
        ),
        pytest.param(HTTP, ConnectStrategy("http"), "http", None, id="http-only"),
        pytest.param(AUTO, ConnectStrategy("http", falls_back=True), "refused", None, id="refused"),
    ],
)
def test_a_failure_decides_what_is_tried_next(
    server: ServerSettings, attempt: ConnectStrategy, kind: str, following: ConnectStrategy | None
) -> None:
    assert next_strategy(server, attempt, failed(kind)) == following


@rows("kind", ["http", "not_mcp"])
def test_auto_falls_back_to_sse_once(kind: str) -> None:
    first = failed(kind)

    following = next_strategy(AUTO, first_strategy(AUTO, None), first)

    assert following == ConnectStrategy("sse", Era("sse"), first_failure=first)
    assert next_strategy(AUTO, following, failed("http")) is None
