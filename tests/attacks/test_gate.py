"""No module of the product has a way from text to code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[2] / "discovery_engine"
PACKAGES = ("discovery_engine", "discovery_server", "discovery_cli")
COMPILERS = ("re", "regex")

FORBIDDEN_MODULES = {"pickle", "shelve", "dill", "xmlrpc", "code"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "system", "popen"}
ONLY_IN = {
    "marshal": {
        "search/index/lazy_map.py",
        "search/index/storage.py",
    }
}


def trees(words: Iterable[str], *packages: str) -> Iterator[tuple[str, ast.Module]]:
    """The files of packages in which one of these words stands; to parse all takes seconds."""
    pattern = re.compile(rf"\b(?:{'|'.join(words)})\b")
    for package in packages:
        for file in (ENGINE.parent / package).rglob("*.py"):
            if pattern.search(text := file.read_text("utf-8")):
                yield file.relative_to(ENGINE.parent / package).as_posix(), ast.parse(text)


def imported(node: ast.AST) -> set[str]:
    match node:
        case ast.Import(names=names):
            return {alias.name.partition(".")[0] for alias in names}
        case ast.ImportFrom(module=str() as module):
            return {module.partition(".")[0]}
    return set()


@pytest.mark.requirement("THR-9")
def test_no_text_becomes_code_and_no_shell_reads_any() -> None:
    for file, tree in trees({*FORBIDDEN_MODULES, *FORBIDDEN_CALLS, *ONLY_IN, "shell"}, *PACKAGES):
        for node in ast.walk(tree):
            assert not imported(node) & FORBIDDEN_MODULES, file
            for module in imported(node) & ONLY_IN.keys():
                assert file in ONLY_IN[module]
            if isinstance(node, ast.Call):
                called = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
                is_pattern = getattr(getattr(node.func, "value", None), "id", "") in COMPILERS
                assert called not in FORBIDDEN_CALLS or is_pattern, (file, node.lineno)
                assert not any(keyword.arg == "shell" for keyword in node.keywords), file
