"""Print how large the project is, and compare it with the limits of `[tool.size]`.

    python scripts/size.py [--traces] [--check]

`--traces` also counts the files that a search and a call pass through; `--check` prints
only what is above its limit.

Lines of code are lines without blanks, comments and docstrings. A limit is what was reached: lower
it when a number falls.
"""

from __future__ import annotations

import ast
import statistics
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bookkeeping import PROMISE
from ways import ways

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("discovery_engine", "discovery_server", "discovery_cli")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
RELATIVE = ("What ", "Whether ", "As ", "Of ", "Those ")
WHOLE_MODULE = 150  # lines of code from which a module stands for itself
PRONOUNS = frozenset(
    ["one", "found", "known", "shown", "kept", "asked", "given", "wanted", "written", "made"]
)


class Module(NamedTuple):
    path: Path
    source: str
    tree: ast.Module

    @property
    def code_lines(self) -> int:
        written = (line.strip() for line in self.source.splitlines())
        lines = {n for n, line in enumerate(written, 1) if line and not line.startswith("#")}
        for node, _ in docstrings(self.tree):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return len(lines)


def modules(*folders: str) -> Iterator[Module]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            source = path.read_text("utf-8")
            yield Module(path, source, ast.parse(source))


def docstrings(tree: ast.Module) -> Iterator[tuple[ast.Expr, str]]:
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            expression = node.body[0]
            assert isinstance(expression, ast.Expr)
            yield expression, text


def variables(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def single_importers(product: list[Module]) -> int:
    """Modules that one other module imports alone, and that have fewer than 150 lines of code."""
    importers: dict[str, set[Path]] = {}
    for module in product:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for name in (node.module, *(f"{node.module}.{a.name}" for a in node.names)):
                    importers.setdefault(name, set()).add(module.path)
    return sum(
        len(importers.get(".".join(module.path.relative_to(ROOT).with_suffix("").parts), ())) == 1
        and module.code_lines < WHOLE_MODULE
        for module in product
        if module.path.stem != "__init__"
    )


def sizes() -> dict[str, float]:
    product, tests = list(modules(*PRODUCT)), list(modules("tests"))
    functions = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for module in product
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    texts = [text for module in product for _, text in docstrings(module.tree)]
    names = [name for module in product for name in variables(module.tree)]
    pages = [page.read_text("utf-8") for page in sorted((ROOT / "specs").glob("*.md"))]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (c["layers"] for c in contracts if c.get("containers") == ["discovery_engine"])
    return {
        "product-lines": sum(module.code_lines for module in product),
        "product-files": len(product),
        "functions": len(functions),
        "function-p90": statistics.quantiles(functions, n=10)[-1],
        "single-importers": single_importers(product),
        "layers": len(layers),
        "import-contracts": len(contracts),
        "test-lines": sum(module.code_lines for module in tests),
        "test-files": len(tests),
        "promises": sum(len(PROMISE.findall(page)) for page in pages),
        "spec-words": sum(len(page.split()) for page in pages),
        "relative-docstrings-percent": share(text.startswith(RELATIVE) for text in texts),
        "pronoun-variables-percent": share(name in PRONOUNS for name in names),
    }


def share(cases: Iterator[bool]) -> float:
    values = list(cases)
    return round(100 * sum(values) / len(values), 2)


def main() -> int:
    limits = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["size"]
    reached = sizes()
    if "--traces" in sys.argv:
        reached |= ways()
    above = 0
    for name, size in reached.items():
        limit = limits.get(name)
        is_above = limit is not None and size > limit
        above += is_above
        if is_above or "--check" not in sys.argv:
            note = f"  above its limit of {limit:,}" if is_above else ""
            print(f"{name:28} {size:10,}{note}")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
