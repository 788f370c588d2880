"""Print how large the project is, and compare it with the limits of `[tool.size]`.

    python scripts/size.py [--traces] [--check]

`--traces` also counts the files that a search and a call pass through; `--check` prints
only what is above its limit.

Lines of code are lines without blanks, comments and docstrings. A limit is what was reached: lower
it when a number falls.
"""

from __future__ import annotations

import ast
import gc
import statistics
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from bookkeeping import PROMISE
from ways import ways

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("discovery_engine", "discovery_server", "discovery_cli")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
RELATIVE = ("What ", "Whether ", "As ", "Of ", "Those ")
WHOLE_MODULE = 150  # lines of code from which a module stands for itself
PRONOUNS = frozenset(
    ["one", "found", "known", "shown", "kept", "asked", "given", "wanted", "written", "made"]
)


def sources(*folders: str) -> dict[Path, str]:
    return {
        path: path.read_text("utf-8")
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """The syntax tree of a module, flat; parsed once for all counts."""
    return tuple(ast.walk(ast.parse(source)))


def code_lines(source: str) -> int:
    """Count lines without blanks, comments, docstrings and other strings that are statements."""
    texts = {
        line
        for node in nodes(source)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return sum(
        bool(line) and not line.startswith("#") and number not in texts
        for number, line in enumerate(map(str.strip, source.split("\n")), 1)
    )


def docstrings(source: str) -> Iterator[str]:
    for node in nodes(source):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield text


def variables(source: str) -> Iterator[str]:
    for node in nodes(source):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def single_importers(product: dict[Path, str]) -> int:
    """Modules that one other module imports alone, and that have fewer than 150 lines of code."""
    importers: dict[str, set[Path]] = {}
    for path, source in product.items():
        for node in nodes(source):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for name in (node.module, *(f"{node.module}.{a.name}" for a in node.names)):
                    importers.setdefault(name, set()).add(path)
    return sum(
        len(importers.get(".".join(path.relative_to(ROOT).with_suffix("").parts), ())) == 1
        and code_lines(source) < WHOLE_MODULE
        for path, source in product.items()
        if path.stem != "__init__"
    )


def counted() -> dict[str, float]:
    """Count what `make check` holds."""
    product, tests = sources(*PRODUCT), sources("tests")
    pages = [page.read_text("utf-8") for page in sorted((ROOT / "specs").glob("*.md"))]
    return {
        "product-lines": sum(map(code_lines, product.values())),
        "product-files": len(product),
        "test-lines": sum(map(code_lines, tests.values())),
        "test-files": len(tests),
        "promises": sum(len(PROMISE.findall(page)) for page in pages),
        "spec-words": sum(len(page.split()) for page in pages),
        "relative-docstrings-percent": share(
            text.startswith(RELATIVE) for source in product.values() for text in docstrings(source)
        ),
        "pronoun-variables-percent": share(
            name in PRONOUNS for source in product.values() for name in variables(source)
        ),
    }


def examined() -> dict[str, float]:
    product = sources(*PRODUCT)
    functions = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for source in product.values()
        for node in nodes(source)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    contracts = PROJECT["importlinter"]["contracts"]
    (layers,) = (c["layers"] for c in contracts if c.get("containers") == ["discovery_engine"])
    return {
        "functions": len(functions),
        "function-p90": statistics.quantiles(functions, n=10)[-1],
        "single-importers": single_importers(product),
        "layers": len(layers),
        "import-contracts": len(contracts),
    }


def share(cases: Iterator[bool]) -> float:
    values = list(cases)
    return round(100 * sum(values) / len(values), 2)


def main() -> int:
    gc.disable()  # the trees are kept to the end, and looking through them doubles the time
    reached = counted()
    if "--check" in sys.argv:
        above = {name: limit for name, limit in PROJECT["size"].items() if reached[name] > limit}
        for name, limit in above.items():
            print(f"{name} are {reached[name]:,}; [tool.size] in pyproject.toml allows {limit:,}")
        return 1 if above else 0
    reached |= examined()
    if "--traces" in sys.argv:
        reached |= {way: len(files) for way, files in ways().items()}
    for name, size in reached.items():
        print(f"{name:28} {size:10,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
