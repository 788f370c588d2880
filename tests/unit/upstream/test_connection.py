from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from msgspec.structs import replace

from discovery_engine.config.settings import RemoteTransport, StdioTransport, Timeouts
from discovery_engine.diagnostics import Origin
from discovery_engine.secrets.resolver import EnvironmentResolver
from discovery_engine.upstream.connection import (
    Era,
    connection_fingerprint,
    resolved_transport,
)
from tests.rows import rows
from tests.servers.programs import fault_server, remote_server


def test_the_fingerprint_is_that_of_the_way_to_the_server_alone() -> None:
    server = fault_server(env={"A": "1", "B": "${B}"})
    same = replace(server, name="other", tags=("x",), timeouts=Timeouts(call=1))
    assert isinstance(server.transport, StdioTransport)
    reordered = replace(server, transport=replace(server.transport, env={"B": "${B}", "A": "1"}))

    found = {connection_fingerprint(s) for s in (server, same, reordered)}

    assert len(found) == 1


def test_every_difference_in_the_way_gives_another_fingerprint() -> None:
    base = StdioTransport("run", ("a", "b"), {"A": "1"})
    ways = [
        base,
        replace(base, command="ran"),
        replace(base, args=("a b",)),
        replace(base, args=("b", "a")),
        replace(base, env={"A": "2"}),
        replace(base, cwd="/"),
    ]
    servers = [replace(fault_server(), transport=way) for way in ways]
    servers += [
        remote_server("http://h/"),
        remote_server("http://h/", kind="sse"),
        remote_server("http://h/", headers={"A": "1"}),
        replace(fault_server(), transport=None),
    ]

    assert len({connection_fingerprint(server) for server in servers}) == len(servers)


@rows("era", [Era("stdio"), Era("http", {"supportedVersions": ["x"]})])
def test_an_era_comes_back_from_json(era: Era) -> None:
    assert Era.from_json(era.to_json()) == era


@rows("remembered", [None, {}, {"carrier": "pigeon", "discover": None}, {"carrier": "sse"}])
def test_what_is_not_an_era_is_not_remembered(remembered: dict | None) -> None:
    assert Era.from_json(remembered) is None


def test_the_face_of_the_room_does_not_load_the_sdk() -> None:
    code = "import sys, discovery_engine.upstream; print('mcp' in sys.modules)"

    printed = subprocess.check_output([sys.executable, "-c", code], text=True)

    assert printed == "False\n"


def test_a_relative_file_reference_starts_at_the_folder_of_its_entry(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n", encoding="utf-8")
    server = replace(
        remote_server("http://h/", headers={"Authorization": "Bearer ${file:token}"}),
        origin=Origin(str(tmp_path / "discovery.yaml"), 3, 1),
    )

    found = resolved_transport(server, EnvironmentResolver({}))

    assert isinstance(found, RemoteTransport)
    assert found.headers == {"Authorization": "Bearer s3cret"}
