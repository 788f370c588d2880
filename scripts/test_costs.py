"""Compare what the last `make test` cost with the numbers in `pyproject.toml`."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / ".pytest_cache" / "v" / "discovery" / "costs"


def main() -> int:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    limits: dict[str, int] = settings["tool"]["test-costs"]
    if not RECORD.exists():
        return 0  # nothing ran here yet
    costs = json.loads(RECORD.read_text("utf-8"))
    above = [name for name, limit in limits.items() if costs[name] > limit]
    for name in above:
        print(
            f"the last `make test` has {costs[name]:,} {name}; pyproject.toml allows "
            f"{limits[name]:,} in [tool.test-costs]: share a fixture, or mark a test with its kind"
        )
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
