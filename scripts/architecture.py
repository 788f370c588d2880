"""Write the layers of `pyproject.toml`, with what each module is for, into the architecture page.

    python scripts/architecture.py

A test fails when the page differs from what this writes.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "specs" / "architecture.md"
BEGIN, END = "<!-- layers: begin -->\n", "<!-- layers: end -->\n"


def updated(page: str) -> str:
    """The page with the layers of today between its two markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "".join([before, BEGIN, *(f"{line}\n" for line in _lines()), "\n", END, after])


def _lines() -> Iterator[str]:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    for contract in linter["contracts"]:
        for container in contract.get("containers", []):
            yield from _layers(container, contract)


def _layers(container: str, contract: dict[str, Any]) -> Iterator[str]:
    yield from ("", f"### `{container}`", "", "| layer | module | purpose |", "|---|---|---|")
    for number, layer in enumerate(contract["layers"], start=1):
        for name in (part.strip() for part in layer.split("|")):
            yield f"| {number} | `{name}` | {_purpose(container, name)} |"


def _purpose(container: str, name: str) -> str:
    """The first line of the module's docstring."""
    path = ROOT.joinpath(*container.split("."), name)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return docstring.partition("\n")[0].replace("|", "\\|")


def main() -> None:
    PAGE.write_text(updated(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
