"""The digest that approvals of earlier versions hold: it must stay what it was."""

from __future__ import annotations

import json
from typing import Any

from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.diagnostics import Origin
from discovery_engine.tools.model import ServerName, canonical_json, fingerprint
from discovery_engine.trust.server_identity import earlier_identity


def server(transport: StdioTransport | RemoteTransport) -> ServerSettings:
    return ServerSettings(
        ServerName("db"),
        transport,
        description="Rows",
        bound_to="lock",
        origin=Origin("/home/x/discovery.yaml", 2, 3),
    )


def digest(**what: Any) -> str:
    entry = {"file": "/home/x/discovery.yaml", "description": "Rows", "bound_to": "lock"}
    return fingerprint(canonical_json(json.loads(json.dumps({**entry, **what}))))


def test_of_a_program_it_is_what_would_run_with_files_read_and_variables_as_written() -> None:
    env = {"A": "${file:a.txt}", "B": "${B}", "C": "plain", "D": "${file:gone}"}
    written = StdioTransport("${RUN}", ("${X}",), env, "work")
    resolved = StdioTransport("run", ("x",), {"A": "content", "B": "secret", "C": "plain"}, "work")

    found = earlier_identity(server(written), resolved, "/usr/bin/run")

    kept = {"A": "content", "B": "${B}", "C": "plain", "D": "${file:gone}"}
    assert found == digest(program="/usr/bin/run", command="run", args=["x"], cwd="work", env=kept)


def test_of_an_address_it_is_where_it_leads_with_files_read_and_variables_as_written() -> None:
    written = RemoteTransport("${URL}", {"A": "${file:a.txt}", "B": "Bearer ${B}"}, "sse")
    resolved = RemoteTransport("https://x.example", {"A": "content", "B": "Bearer s"}, "sse")

    assert earlier_identity(server(written), resolved) == digest(
        url="https://x.example", kind="sse", headers={"A": "content", "B": "Bearer ${B}"}
    )
