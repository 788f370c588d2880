"""The types in the comments of the page's modules hold, as TypeScript checks them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from discovery_server.page import page_app
from scripts import node_tools as node_tools_module
from scripts.node_tools import NodeTools, NodeToolsMissingError, bring

SETTINGS = Path(page_app.__file__).with_name("tsconfig.json")
SCRIPTS = Path(node_tools_module.__file__).parent


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


@pytest.mark.node
@pytest.mark.parametrize("has_types", [True, False])
def test_a_module_that_cannot_be_read_fails_the_check_without_a_browser(
    node_tools: NodeTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_types: bool
) -> None:
    scripts, page = tmp_path / "scripts", tmp_path / "discovery_server" / "page"
    shutil.copytree(SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (page / "static").mkdir(parents=True)
    (page / "tsconfig.json").write_text(SETTINGS.read_text())
    if has_types:
        (tmp_path / ".tools").mkdir()
        (tmp_path / ".tools" / "node").symlink_to(node_tools.folder)
    monkeypatch.setenv("PATH", str(node_tools.node.parent), prepend=os.pathsep)
    command = [sys.executable, scripts / "page_check.py"]
    module = page / "static" / "app.js"
    module.write_text("export const one = 1;\n")
    assert subprocess.run(command, check=False).returncode == 0
    module.write_text("export const one = 1;\nexport const one = 2;\n")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "app.js" in done.stdout + done.stderr
