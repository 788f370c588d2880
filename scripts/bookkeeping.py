"""Compare what pages and tables name with what the repository has, and list every difference.

It reads text alone, so that it takes a second. What a table of the product names is compared by a
test, where the product is imported anyway.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
THREATS = {"A": 9, "B": 14, "C": 31, "D": 10, "E": 6, "F": 17, "G": 16, "H": 10}
"""How many threats each group of `specs/threats.md` has."""
PROMISE = re.compile(r"^- \*\*([A-Z]{2,4}-\d+)\*\*", re.MULTILINE)
REQUIREMENT = re.compile(r"mark\.requirement\(([^)]*)\)")
ROW_OF_THREATS = re.compile(r"^([A-H]\d\d) .* \| (.*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")
LAYER = re.compile(r"^\| \d+ \| `\w+` \|", re.MULTILINE)
INNER_MODULE = re.compile(r"^ *(?:from|import) (discovery_\w+\.\w+\.\S+)", re.MULTILINE)
RECIPE = re.compile(r"^([a-z-]+):", re.MULTILINE)
RECIPE_NAMED = re.compile(r"`make ([a-z-]+)`")


def text_of(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def promised() -> Counter[str]:
    """The promises of `specs/`, and how often each stands there."""
    return Counter(
        promise
        for page in sorted((ROOT / "specs").glob("*.md"))
        for promise in PROMISE.findall(page.read_text("utf-8"))
    )


def promises(tests: dict[str, str]) -> Iterator[str]:
    """Every promise of `specs/` has a test, and tests name no other."""
    counts = promised()
    proved = {
        name: path
        for path, text in tests.items()
        for names in REQUIREMENT.findall(text)
        for name in re.findall(r'"([^"]*)"', names)
    }
    for name, count in counts.items():
        if count > 1:
            yield f"specs/: {name} is {count} promises, give each an id of its own"
        if name not in proved:
            yield f'specs/: {name} has no test, mark one with @pytest.mark.requirement("{name}")'
    for name in proved.keys() - counts.keys():
        yield f"{proved[name]}: {name} is no promise of specs/"


def threats() -> Iterator[str]:
    """Each row of `specs/threats.md` names promises that exist, and no row is left out."""
    page = "specs/threats.md"
    rows = dict(ROW_OF_THREATS.findall(text_of(page)))
    wanted = [f"{group}{n:02}" for group, count in THREATS.items() for n in range(1, count + 1)]
    if list(rows) != wanted:
        yield f"{page}: its rows are not those of THREATS in scripts/bookkeeping.py, in that order"
    counts = promised()
    for threat, names in rows.items():
        for name in names.split(", "):
            if name not in counts:
                yield f"{page}: {threat} names {name}, which is no promise; name one that holds it"


def links() -> Iterator[str]:
    """A page that another links to exists."""
    pages = [*ROOT.glob("*.md")]
    for folder in ("specs", "examples", "benchmarks", "scripts"):
        pages += (ROOT / folder).rglob("*.md")
    for page in pages:
        for target in LINK.findall(page.read_text("utf-8")):
            if not (page.parent / target).exists():
                yield f"{page.relative_to(ROOT)}: {target} is not there"


def recipes() -> Iterator[str]:
    """The recipes that pages for users name exist; a test types their other commands."""
    names = set(RECIPE.findall(text_of("Makefile")))
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for name in RECIPE_NAMED.findall(page.read_text("utf-8")):
            if name not in names:
                yield f"{page.relative_to(ROOT)}: the Makefile has no {name}"


def mutants() -> Iterator[str]:
    """The modules that `make mutants` changes, and the tests that should notice, exist."""
    parts = tomllib.loads(text_of("pyproject.toml"))["tool"]["mutants"]["parts"]
    for name, part in parts.items():
        for path in (*part["modules"], *part["tests"]):
            if not any(ROOT.glob(path)):
                yield f"pyproject.toml: {path}, of [tool.mutants.parts.{name}], is not there"


def layers() -> Iterator[str]:
    """The architecture page has the layers that `make check` enforces, and modules that exist."""
    page = "specs/architecture.md"
    text = text_of(page)
    contracts = tomllib.loads(text_of("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (enforced,) = (c["layers"] for c in contracts if c.get("containers") == ["discovery_engine"])
    rows = [
        f"| {number} | `{package.strip()}` |"
        for number, layer in enumerate(enforced, start=1)
        for package in layer.split("|")
    ]
    if [match[0] for match in LAYER.finditer(text)] != rows:
        yield f"{page}: its table of layers is not that of [tool.importlinter] in pyproject.toml"
    engine = ROOT / "discovery_engine"
    for name in re.findall(r"`((?:[a-z_]+\.)+[a-z_]+)`", text):
        path = engine.joinpath(*name.split("."))
        is_there = any((p.is_dir() or p.with_suffix(".py").is_file()) for p in (path, path.parent))
        if not name.endswith(".toml") and not is_there:
            yield f"{page}: {name} is not in discovery_engine"


def surfaces() -> Iterator[str]:
    """The tests of `tests/contract` stand on what is public: no module inside a package."""
    for file in sorted((ROOT / "tests" / "contract").glob("*.py")):
        for module in INNER_MODULE.findall(file.read_text("utf-8")):
            path = file.relative_to(ROOT)
            yield f"{path}: {module} is inside a package; test the promise where a user meets it"


def module_names() -> Iterator[str]:
    """The name of a module is unique, so that it is found by it; commands are named as typed."""
    modules: dict[str, list[Path]] = {}
    for package in ("discovery_engine", "discovery_server", "discovery_cli"):
        for file in sorted((ROOT / package).rglob("*.py")):
            if file.stem != "__init__" and file.parent.name != "commands":
                modules.setdefault(file.stem, []).append(file.relative_to(ROOT))
    for name, files in modules.items():
        if len(files) > 1 and name != "signals":  # of the scanner, and of POSIX
            yield f"{name}.py is {' and '.join(map(str, files))}: give each a name of its own"


def main() -> int:
    tests = {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
    }
    problems = [
        *promises(tests),
        *threats(),
        *links(),
        *recipes(),
        *mutants(),
        *surfaces(),
        *layers(),
        *module_names(),
    ]
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
