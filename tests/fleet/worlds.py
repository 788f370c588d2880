"""A fleet to act upon: servers, a database of its own behind a proxy, and its audit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from discovery_engine.store.backends import open_database
from tests import postgres
from tests.fleet.audit import Audit
from tests.fleet.chaos import World
from tests.fleet.fleet import open_fleet
from tests.fleet.loopback_servers import open_servers
from tests.tcp_proxy import open_proxy

_TIMEOUT = 60.0  # seconds for an operation of the driver, on a busy machine


@contextmanager
def open_world(folder: Path, *, servers: int, lease: float) -> Iterator[World]:
    """A fleet without workers; its database server is its own, for it is to be restarted."""
    names = [f"server{number}" for number in range(servers)]
    with (
        postgres.open_server() as server,
        open_servers(names) as opened,
        open_proxy(server.port) as proxy,
        closing(open_database(server.create_database(), timeout=_TIMEOUT)) as store,
    ):
        assert store.newest_decision() == 0  # makes the tables
        name = str(store.database.address.parameters["dbname"])
        audit = Audit(server, name)
        audit.install()
        with open_fleet(folder, server.url(name, port=proxy.port)) as fleet:
            fleet.configure(opened.entries())
            yield World(fleet, opened, server, proxy, store, audit, lease)
