from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from watchfiles._rust_notify import RustNotify

import discovery_cli
import discovery_engine
import discovery_server
from scripts.architecture import PAGE, updated
from tests.rows import rows

ENGINE = Path(discovery_engine.__file__).parent


def test_the_page_shows_the_layers_that_are_enforced() -> None:
    page = PAGE.read_text("utf-8")

    assert page == updated(page), "run `make format`"
    assert "| `agent` |" in page


def test_the_glossary_is_short_and_names_packages_that_exist() -> None:
    glossary = PAGE.read_text("utf-8").partition("## Glossary")[2].partition("\n## ")[0]

    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| `(\w+)` \|$", glossary, re.MULTILINE)

    assert 20 <= len(rows) <= 50
    assert len({term for term, _ in rows}) == len(rows)
    assert all((ENGINE / name).is_dir() or (ENGINE / f"{name}.py").is_file() for _, name in rows)


def test_the_modules_that_the_page_names_are_there() -> None:
    prose = PAGE.read_text("utf-8").partition("<!-- layers: begin -->")
    named = re.findall(r"`((?:[a-z_]+\.)+[a-z_]+)`", prose[0] + prose[2].partition("end -->")[2])

    def is_there(name: str) -> bool:
        path = ENGINE.joinpath(*name.split("."))
        of_module = path.parent.with_suffix(".py")
        if path.is_dir() or path.with_suffix(".py").is_file():
            return True
        return of_module.is_file() and f"def {path.name}(" in of_module.read_text("utf-8")

    assert "upstream.http.sdk" in named
    assert [name for name in named if not (name.endswith(".toml") or is_there(name))] == []


def test_the_root_of_the_engine_has_at_most_eight_modules() -> None:
    assert len(list(ENGINE.glob("*.py"))) <= 8


PRIVATE_IMPORTS = {
    "watchfiles._rust_notify": "`awatch` neither says when it begins to watch nor stops at once",
}


def test_no_module_of_the_server_imports_the_sdk_and_only_the_api_its_framework() -> None:
    folder = Path(discovery_server.__file__).parent
    users = {
        file.name
        for file in folder.rglob("*.py")
        if re.search(r"^\s*(import|from) (mcp|starlette)", file.read_text("utf-8"), re.MULTILINE)
    }

    # Clients of MCP are served without it, in a fraction of the time.
    assert users == {"application.py", "event_socket.py"}


@pytest.mark.thorough
def test_private_modules_of_libraries_are_only_imported_for_a_known_reason() -> None:
    assert set(private_imports()) == set(PRIVATE_IMPORTS)


def test_what_is_used_of_private_modules_is_as_it_was() -> None:
    assert {"watch", "close"} <= set(dir(RustNotify))


def private_imports() -> Iterator[str]:
    """Modules of other distributions that the product imports, and whose path has a `_name`."""
    for package in (discovery_engine, discovery_server, discovery_cli):
        for file in Path(package.__path__[0]).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
                is_ours = module.startswith(("discovery_", "_"))
                if not is_ours and any(part.startswith("_") for part in module.split(".")):
                    yield module


ALLOWED_TWICE = {
    "signals": "signals of the scanner, and POSIX signals",
}


def test_the_name_of_a_module_is_unique_among_the_packages() -> None:
    names = Counter(
        file.stem
        for package in (discovery_engine, discovery_server, discovery_cli)
        for file in Path(package.__path__[0]).rglob("*.py")
        if file.stem != "__init__" and file.parent.name != "commands"  # named for what users type
    )

    assert {name for name, count in names.items() if count > 1} == set(ALLOWED_TWICE)


@pytest.mark.thorough
@rows("package", [discovery_engine, discovery_server, discovery_cli])
def test_the_name_of_a_class_is_unique_within_its_package(package: ModuleType) -> None:
    names = Counter(
        node.name
        for file in Path(package.__path__[0]).rglob("*.py")
        for node in ast.parse(file.read_text("utf-8")).body
        # A user has one framework, and adapters name the same thing alike.
        if isinstance(node, ast.ClassDef) and file.parent.name != "integrations"
    )

    assert [name for name, count in names.items() if count > 1] == []
