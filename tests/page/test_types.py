"""The types in the comments of the page's modules hold, as TypeScript checks them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from discovery_server.page import page_app
from scripts.node_tools import NodeTools, NodeToolsMissingError, bring

SETTINGS = Path(page_app.__file__).with_name("tsconfig.json")


@pytest.fixture(scope="module")
def node_tools() -> NodeTools:
    try:
        return bring(install=False)
    except NodeToolsMissingError as error:
        pytest.skip(str(error))


def checked(tools: NodeTools, settings: Path) -> subprocess.CompletedProcess[str]:
    command = [tools.node, tools.typescript, "-p", settings, "--pretty", "false"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.landing
@pytest.mark.node
def test_the_types_of_the_modules_hold(node_tools: NodeTools) -> None:
    done = checked(node_tools, SETTINGS)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.node
def test_a_wrong_type_is_found(node_tools: NodeTools, tmp_path: Path) -> None:
    (tmp_path / "wrong.js").write_text('/** @type {number} */\nexport const count = "one";\n')
    (tmp_path / "tsconfig.json").write_text(SETTINGS.read_text().replace("static/**/", ""))
    done = checked(node_tools, tmp_path / "tsconfig.json")
    assert done.returncode != 0
    assert "wrong.js(2,14)" in done.stdout
