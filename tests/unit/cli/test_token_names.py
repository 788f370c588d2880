from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from discovery_cli.program import cli
from discovery_server.access_tokens import AccessTokens


@pytest.mark.requirement("SRV-82")
def test_tokens_of_the_machine_can_be_revoked_while_the_configuration_has_errors(
    tmp_path: Path,
) -> None:
    config = tmp_path / "discovery.yaml"
    config.write_text("servers: [")
    given = ["--data-dir", str(tmp_path), "--config", str(config), "token"]
    AccessTokens(tmp_path / "tokens.json").create(name="ci")

    revoked = CliRunner().invoke(cli, [*given, "revoke", "ci"])

    assert revoked.exit_code == 0
    assert "this machine alone" in revoked.stderr
    assert AccessTokens(tmp_path / "tokens.json").all() == ()
