"""What all adapters share: what they are installed by, and what they stand on."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import tomllib
from pathlib import Path

import pytest

import discovery_engine
from discovery_engine.integrations.adapter import MissingFrameworkError
from scripts.frameworks import EXTRAS
from tests.rows import rows

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(discovery_engine.__file__).parent / "integrations"
ADAPTERS = {
    file.stem: file
    for file in sorted(FOLDER.glob("*.py"))
    if "missing_framework(" in file.read_text("utf-8") and file.stem != "adapter"
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OWN = {"discovery_engine", *(re.split(r"[^\w-]", one)[0] for one in PROJECT["dependencies"])}
"""What is there without any extra."""


@pytest.mark.requirement("FRM-32")
@rows("name", ADAPTERS)
def test_without_its_framework_an_adapter_says_in_one_sentence_how_to_install_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for framework in _imported(ADAPTERS[name]) - OWN:
        if framework not in sys.stdlib_module_names:
            monkeypatch.setitem(sys.modules, framework, None)
    sys.modules.pop(f"discovery_engine.integrations.{name}", None)

    with pytest.raises(MissingFrameworkError) as missing:
        importlib.import_module(f"discovery_engine.integrations.{name}")

    [extra] = [one for one in EXTRAS if f"[{one}]'" in str(missing.value)]
    assert str(missing.value).endswith(f"pip install 'mcp-discovery-engine[{extra}]'")
    assert "\n" not in str(missing.value)
    assert missing.value.name


@pytest.mark.requirement("FRM-30")
@rows("name", ADAPTERS)
def test_no_adapter_imports_the_mcp_adapter_of_its_framework(name: str) -> None:
    modules = {part for module in _modules(ADAPTERS[name]) for part in module.split(".")}

    assert not {"mcp", "fastmcp"} & modules


def _imported(file: Path) -> set[str]:
    """The packages that a module imports."""
    return {module.partition(".")[0] for module in _modules(file)}


def _modules(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module)):
                found.add(module)
    return found
