"""The package that a command runs."""

from __future__ import annotations

import pytest

from discovery_engine.config.settings import RemoteTransport, StdioTransport
from discovery_engine.engine.owner.server_listing import run_package
from tests.factories import make_server
from tests.rows import rows

pytestmark = pytest.mark.requirement("OWN-32")


@rows(
    ("command", "package"),
    [
        ("npx -y @acme/mail@1.2.3 --root /x", "@acme/mail@1.2.3"),
        ("npx mail", "mail"),
        ("/usr/local/bin/npx --yes mail@latest", "mail@latest"),
        ("npx -y --package=@acme/mail@1.0.0 -- mail-server", "@acme/mail@1.0.0"),
        ("npx -p mail server", "mail"),
        ("npx --registry https://r.example mail", "mail"),
        ("npm exec -- mail@2.0.0", "mail@2.0.0"),
        ("pnpm dlx mail", "mail"),
        ("bunx mail@1.0.0", "mail@1.0.0"),
        ("bun x --bun mail", "mail"),
        ("cmd /c npx -y mail", "mail"),
        (r"C:\Windows\System32\cmd.exe /d /s /C npx.cmd -y mail", "mail"),
        ("cmd /k npx -y mail", ""),
        (r"C:\node\npx.CMD -y mail", "mail"),
        ("uvx mcp-mail==1.2", "mcp-mail@1.2"),
        ("uvx mcp-mail@1.2 --port 80", "mcp-mail@1.2"),
        ("uvx --from mcp-mail[smtp]==1.2 mail", "mcp-mail@1.2"),
        ("uvx --python 3.12 --with httpx mcp-mail", "mcp-mail"),
        ("uv tool run --from=mcp-mail mail", "mcp-mail"),
        ("pipx run mcp-mail", "mcp-mail"),
        ("npx", ""),
        ("npx -y", ""),
        ("npx --unknown mail", ""),
        ("npx -y ./mail", ""),
        ("npx -y /srv/mail", ""),
        ("npx -y https://mail.example/x.tgz", ""),
        ("npx -y github:acme/mail", ""),
        ("npx -y ${PACKAGE}", ""),
        ("uvx git+https://mail.example/x", ""),
        ("uvx --from . mail", ""),
        ("uv run mail", ""),
        ("node npx mail", ""),
        ("docker run npx mail", ""),
        ("python -m mail", ""),
    ],
)
def test_a_package_is_what_a_runner_is_given(command: str, package: str) -> None:
    program, *args = command.split(" ")
    server = make_server("mail", transport=StdioTransport(program, tuple(args)))

    assert run_package(server) == package


def test_what_has_no_command_runs_no_package() -> None:
    assert run_package(make_server("a", transport=RemoteTransport("https://x.example/npx"))) == ""
    assert run_package(make_server("a", transport=None)) == ""
