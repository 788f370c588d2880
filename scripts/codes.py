"""Write the table of all codes, `discovery_engine.errors.codes`, into the page of errors.

    python scripts/codes.py

A test fails when the page differs from what this writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from discovery_engine.errors.codes import FAMILIES

PAGE = Path(__file__).resolve().parent.parent / "specs" / "errors.md"
BEGIN, END = "<!-- codes: begin -->\n", "<!-- codes: end -->\n"


def updated(page: str) -> str:
    """The page with the codes of today between its two markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "".join([before, BEGIN, *(f"{line}\n" for line in _lines()), "\n", END, after])


def _lines() -> Iterator[str]:
    for family, codes in FAMILIES.items():
        yield from ("", f"### {family}", "")
        for code, (severity, meaning) in codes.items():
            noted = f" ({severity})" if severity and severity != "error" else ""
            yield f"- `{code}`{noted}: {meaning}"


def main() -> None:
    PAGE.write_text(updated(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
