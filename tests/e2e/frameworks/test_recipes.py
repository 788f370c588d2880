"""Frameworks without an adapter: the recipes of the page, with models that are scripted."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.frameworks.conftest import EXAMPLES, PROGRAMS, Framework
from tests.engines import good

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PAGE = (EXAMPLES / "README.md").read_text("utf-8")
RECIPES: dict[str, str] = dict(
    re.findall(r"^## (.+?)\n.*?```python\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
)
TESTED = {
    "AutoGen": "recipes-mcp-1",
    "Strands": "recipes-mcp-1",
    "Haystack": "recipes",
    "Agno": "recipes",
}


@pytest.mark.requirement("FRM-30")
@pytest.mark.parametrize("name", TESTED)
def test_a_recipe_reaches_the_tools_through_the_gateway(
    framework: Callable[[str], Framework], name: str
) -> None:
    used = framework(TESTED[name])
    used.folder.write(good())
    recipe = RECIPES[name].replace("/path/to/discovery.yaml", str(used.folder.config))
    environ = used.environ
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"

    done = subprocess.run(
        [used.python, PROGRAMS / "recipe.py", name, recipe],
        capture_output=True, check=False, text=True, env=environ, cwd=used.folder.path, timeout=240,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-3000:]
    assert "good:echo" in done.stdout
