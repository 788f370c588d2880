from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from discovery_cli.program import cli


@pytest.mark.parametrize(("name", "option"), [("ci", "--name ci"), ("my ci", "--name 'my ci'")])
def test_a_token_with_a_bare_name_is_refused_with_the_option_and_none_is_made(
    tmp_path: Path, name: str, option: str
) -> None:
    data = ["--data-dir", str(tmp_path)]
    refused = CliRunner().invoke(cli, [*data, "token", "create", name])

    assert refused.exit_code == 2
    assert option in refused.stderr
    assert not (tmp_path / "tokens.json").exists()
