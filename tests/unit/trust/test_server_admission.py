"""The one gate, field by field: what an approval is bound to, and what it is not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.errors import Origin, UntrustedServerError
from discovery_engine.secrets.resolver import EnvironmentResolver
from discovery_engine.tools.model import ServerName
from discovery_engine.trust.decisions import Decisions
from discovery_engine.trust.server_admission import admit
from discovery_engine.trust.server_identity import Identity, known_as
from discovery_engine.upstream.identity import identity_as_configured
from tests.rows import rows

PATH = "/repo/discovery.yaml"
ENVIRON = {"PATH": "/usr/bin:/bin", "TOKEN": "t"}
STDIO = StdioTransport("sh", ("server.js", "--port", "1"), {"TOKEN": "${TOKEN}"}, "/")
REMOTE = RemoteTransport("https://example.org/mcp", {"Authorization": "Bearer ${TOKEN}"})


def found(transport: StdioTransport | RemoteTransport = STDIO, **fields: Any) -> ServerSettings:
    server = ServerSettings(
        ServerName("db"), transport, is_untrusted_origin=True, origin=Origin(PATH, 2, 3)
    )
    return replace(server, **fields)


def identity_of(server: ServerSettings, environ: Mapping[str, str] = ENVIRON) -> Identity:
    return identity_as_configured(server, EnvironmentResolver(environ), environ)


def approving(server: ServerSettings, environ: Mapping[str, str] = ENVIRON) -> Decisions:
    approval = identity_of(server, environ).subject.to_text(at=0)
    return Decisions({known_as(server, PATH): frozenset({approval})})


def let_pass(
    server: ServerSettings, decisions: Decisions, environ: Mapping[str, str] = ENVIRON
) -> None:
    admit(server, lambda: identity_of(server, environ), decisions, path=PATH)


@pytest.mark.requirement("TRU-3")
@rows(
    "changed",
    [
        pytest.param(replace(REMOTE, url="https://example.org/mcp2"), id="address"),
        pytest.param(replace(REMOTE, headers={}), id="header gone"),
        pytest.param(replace(REMOTE, headers={"X": "Bearer ${TOKEN}"}), id="header renamed"),
        pytest.param(replace(REMOTE, headers={"Authorization": "${AWS}"}), id="another secret"),
        pytest.param(replace(REMOTE, kind="sse"), id="way to speak"),
    ],
)
def test_an_approval_ends_with_any_change_of_what_is_reached(changed: RemoteTransport) -> None:
    with pytest.raises(UntrustedServerError):
        let_pass(found(changed), approving(found(REMOTE)))


@pytest.mark.requirement("TRU-3")
@rows(
    "changed",
    [
        pytest.param({"tags": ("x",)}, id="tags"),
        pytest.param({"prefix": "db_"}, id="prefix"),
        pytest.param({"origin": Origin(PATH, 9, 1)}, id="line"),
        pytest.param({"trust": "quarantine"}, id="trust"),
    ],
)
def test_an_approval_outlives_what_changes_nothing_that_runs(changed: dict[str, Any]) -> None:
    let_pass(found(**changed), approving(found()))


@pytest.mark.requirement("TRU-3")
def test_a_secret_that_is_the_path_of_a_folder_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "run.py").touch()
    transport = StdioTransport("sh", ("--token", "${TOKEN}"))
    server = found(transport, origin=Origin(f"{tmp_path}/discovery.yaml", 2, 3))

    let_pass(server, approving(server), {**ENVIRON, "TOKEN": str(tmp_path)})
