"""Long results that gateways of one database read on in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from discovery_engine.engine.result_store import (
    MOST_SHARED_BYTES,
    ResultNotFoundError,
    ResultStore,
    SharedResults,
)
from discovery_engine.store.backends import open_database
from tests.postgres import PostgresServer
from tests.tcp_proxy import TcpProxy, open_proxy

pytestmark = pytest.mark.requirement("RSL-14")

OpenStore = Callable[[str], ResultStore]
"""The results of the gateway of that name."""


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[TcpProxy]:
    with open_proxy(postgres_server.port) as opened:
        yield opened


@pytest.fixture
def url(proxy: TcpProxy, postgres_server: PostgresServer) -> str:
    name = postgres_server.create_database().rpartition("/")[2]
    return postgres_server.url(name, port=proxy.port)


@pytest.fixture
def gateway(url: str, tmp_path: Path) -> Iterator[OpenStore]:
    with ExitStack() as at_end:

        def opened(name: str) -> ResultStore:
            registry = at_end.enter_context(closing(open_database(url, timeout=60.0)))
            shared = SharedResults(registry.gateways)
            store = ResultStore(
                tmp_path / name, clock=lambda: 0.0, most_bytes=2 * MOST_SHARED_BYTES, shared=shared
            )
            return at_end.enter_context(closing(store))

        yield opened


def rows(url: str) -> list[tuple[bytes, float, bytes]]:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT * FROM discovery.kept_results").fetchall()


def kept(store: ResultStore, data: bytes, owner: str | None = "anna") -> str:
    handle = store.put(data, owner=owner, path="structuredContent")
    assert handle
    return handle


def test_a_result_is_read_at_another_gateway_with_its_handle_by_its_client(
    gateway: OpenStore,
) -> None:
    here, there = gateway("here"), gateway("there")

    handle = kept(here, b"x" * 1000)
    here.close()

    assert there.get(handle, owner="anna") == ("structuredContent", b"x" * 1000)
    for wrong, owner in [(handle, "berta"), (handle, None), (f"{handle}0", "anna"), ("", "anna")]:
        with pytest.raises(ResultNotFoundError):
            there.get(wrong, owner=owner)


def test_the_database_has_neither_content_nor_handle_nor_client(
    gateway: OpenStore, url: str
) -> None:
    handle = kept(gateway("here"), b"a secret of the company")

    [(key, _, result)] = rows(url)

    for text in (b"secret", handle.encode(), bytes.fromhex(handle), b"anna", b"structured"):
        assert text not in key + result


def test_a_result_is_over_with_its_hour_and_deleted_with_the_next_one(
    gateway: OpenStore, url: str
) -> None:
    here, there = gateway("here"), gateway("there")
    handle = kept(here, b"x")
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE discovery.kept_results SET kept_until = kept_until - 3600")

    with pytest.raises(ResultNotFoundError):
        there.get(handle, owner="anna")
    kept(there, b"y")

    assert len(rows(url)) == 1


def test_what_a_gateway_drops_is_deleted_in_the_database(gateway: OpenStore, url: str) -> None:
    here = gateway("here")
    for number in range(5):
        kept(here, bytes([number]) * (MOST_SHARED_BYTES // 2))
    here.forget("anna")
    kept(here, b"y", "berta")

    assert len(rows(url)) == 1


def test_the_only_client_of_a_gateway_and_results_that_are_too_long_are_not_shared(
    gateway: OpenStore, url: str
) -> None:
    here = gateway("here")

    longest = kept(here, b"x" * (MOST_SHARED_BYTES + 1))
    kept(here, b"y", None)
    kept(here, b"z")

    assert here.get(longest, owner="anna")
    assert len(rows(url)) == 1


def test_without_the_database_a_result_is_read_where_it_was_kept(
    gateway: OpenStore, proxy: TcpProxy
) -> None:
    here, there = gateway("here"), gateway("there")
    proxy.refuse()

    handle = kept(here, b"x")

    assert here.get(handle, owner="anna")[1] == b"x"
    with pytest.raises(ResultNotFoundError):
        there.get(handle, owner="anna")
