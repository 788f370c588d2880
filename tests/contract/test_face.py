"""The face of the library: what `import discovery_engine` offers, and what it costs."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import discovery_engine
from tests.engines import python

pytestmark = pytest.mark.anyio

HEAVY = {"anyio", "asyncio", "mcp", "pydantic", "regex", "wcmatch", "yaml"}


@pytest.mark.requirement("LIB-5")
def test_all_is_sorted_and_each_name_resolves() -> None:
    names = discovery_engine.__all__

    assert names == sorted(names)
    assert [name for name in names if getattr(discovery_engine, name, None) is None] == []


@pytest.mark.requirement("LIB-5")
def test_type_checkers_see_the_same_names_as_programs() -> None:
    source = Path(inspect.getfile(discovery_engine)).read_text("utf-8")
    imported = {
        alias.asname or alias.name
        for statement in ast.walk(ast.parse(source))
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    } - {"annotations", "import_module", "TYPE_CHECKING"}

    assert sorted(imported) == discovery_engine.__all__
    assert dir(discovery_engine) == discovery_engine.__all__


@pytest.mark.requirement("LIB-5")
async def test_importing_it_loads_nothing_heavy() -> None:
    printed = await python(f"import sys, discovery_engine; print(*{HEAVY} & set(sys.modules))")

    assert printed.split() == []
