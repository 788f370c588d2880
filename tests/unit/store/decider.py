"""A process that accepts one tool after another and tells of each when it is kept.

It is run by the tests, which kill it: `python decider.py PATH SERVER`.
"""

from __future__ import annotations

import sys
from itertools import count

from discovery_engine.store.sqlite.sqlite_registry import open_sqlite
from discovery_engine.trust.decisions import Acceptance


def main(path: str, server: str) -> None:
    store = open_sqlite(path)
    start = len(store.decisions("scope").accepted.get(server, {}))
    for number in count(start):
        one = Acceptance(server, f"t{number}", f"m{number}", f"f{number}", "{}")
        store.accept("scope", [one], at=float(number))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
