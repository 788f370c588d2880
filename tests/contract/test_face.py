"""The face of the library: what `import discovery_engine` offers, and what it costs."""

from __future__ import annotations

import ast
import inspect
import pydoc
from pathlib import Path

import pytest

import discovery_engine
from discovery_engine.errors import FailureKind, UnavailableError
from tests.contract.discovery import Discovery
from tests.engines import python
from tests.forked import Preloaded
from tests.rows import rows

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


@pytest.mark.requirement("LIB-5")
def test_everything_public_has_help_and_words_of_its_own() -> None:
    for name in discovery_engine.__all__:
        if not name.startswith("__"):
            shown = getattr(discovery_engine, name)
            assert name in pydoc.render_doc(shown)
            assert vars(shown).get("__doc__") if inspect.isclass(shown) else shown.__doc__, name


@pytest.mark.requirement("ERR-2")
def test_a_diagnostic_has_its_code_in_json_and_behind_its_message(
    tmp_path: Path, forked: Preloaded
) -> None:
    discovery = Discovery(tmp_path, forked)
    rules = "toolRules: [{pattern: a, enabled: false}, {pattern: a, enabled: true}]\n"
    discovery.configure(rules=rules + "sources: [{type: zed}]\n", broken={"command": ["x"]})

    form = discovery("config", "check", "--json").json
    text = discovery("config", "check").out

    for kind in ("problems", "warnings", "findings"):
        assert form[kind], kind
        for found in form[kind]:
            assert {"code", "message", "severity", "subject", "hint"} <= found.keys()
            assert f"{found['message']} [{found['code']}]" in text


@pytest.mark.requirement("HEA-10")
@rows("kind", FailureKind)
def test_every_kind_of_failure_has_a_next_step_that_does_not_try_the_same_again(
    kind: FailureKind,
) -> None:
    error = UnavailableError("git", kind, "it failed")

    assert error.hint
    assert "discovery refresh" not in error.hint
    assert "{" not in error.hint
