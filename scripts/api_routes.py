"""Write the table of all routes of the API into its page.

python scripts/api_routes.py
python scripts/api_routes.py --check    # exits with 1 if it would write something else
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from discovery_server.api.application import ROUTES

PAGE = Path(__file__).resolve().parent.parent / "specs" / "api-routes.md"
BEGIN, END = "<!-- routes: begin -->\n", "<!-- routes: end -->\n"
_WHOLE_PATH = re.compile(r":path\}")


def updated(page: str) -> str:
    """The page with the routes of today between its two markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "".join([before, BEGIN, *(f"{line}\n" for line in _lines()), END, after])


def _lines() -> Iterator[str]:
    yield from ("| route | scope | what it does |", "|---|---|---|")
    for route in sorted(ROUTES, key=lambda one: (one.path, one.method)):
        path = _WHOLE_PATH.sub("}", route.path)
        yield f"| `{route.method} {path}` | {route.scope} | {route.summary} |"


def main() -> None:
    page = PAGE.read_text("utf-8")
    if "--check" not in sys.argv:
        PAGE.write_text(updated(page), "utf-8")
    elif page != updated(page):
        sys.exit(f"{PAGE.name} lacks a route: run `make format`")


if __name__ == "__main__":
    main()
