"""All figures of a fleet that one machine can show, in one run: each script's table below its name.

    .venv/bin/python benchmarks/fleet.py [--full] [NAME...]

Without `--full` the sizes are those that end within a quarter of an hour; with it those of
`specs/scaling.md`, which take hours. The load of the machine stands above each table, since all
figures are ratios between rows of one table.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
# Script, its arguments, and those of the full size.
SCRIPTS = {
    "claims": ("fleet_claims.py", ["--claims", "400", "--rounds", "1"], []),
    "operations": ("fleet_operations.py", [], []),
    "unchanged": ("fleet_unchanged.py", ["--servers", "500"], []),
    "search": ("fleet_search.py", ["--sizes", "20000"], ["--sizes", "100000,1000000"]),
    "vectors": ("fleet_vectors.py", ["--sizes", "5000"], ["--sizes", "100000,200000"]),
    "fill": ("fleet_fill.py", ["300", "--workers", "2"], ["10000", "--limit", "7200"]),
    "large": ("fleet_large.py", ["--servers", "2000"], ["--servers", "20000"]),
    "opening": ("fleet_opening.py", ["--tools", "20000", "--servers", "400"], []),
    "gateways": ("fleet_gateways.py", ["--changes", "10"], []),
    "chaos": ("fleet_chaos.py", ["--minutes", "2", "--servers", "100"], []),
    "simulation": ("fleet_simulation.py", ["--servers", "1000"], []),
}


def main() -> int:
    asked = _arguments()
    if unknown := set(asked.names) - SCRIPTS.keys():
        sys.exit(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(SCRIPTS)}")
    failed = [name for name in asked.names or SCRIPTS if not _run(name, is_full=asked.full)]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return len(failed)


def _run(name: str, *, is_full: bool) -> bool:
    script, short, full = SCRIPTS[name]
    command = [sys.executable, FOLDER / script, *(full if is_full else short)]
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"\n## {script} {' '.join(map(str, command[2:]))} (load {load})\n", flush=True)
    return subprocess.run(command, check=False).returncode == 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(SCRIPTS))
    parser.add_argument("--full", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
