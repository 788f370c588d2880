"""Changes of meaning caught, and false alarms on lists that only come in another order.

    python benchmarks/rug_pulls.py [--lists 10000] [--seed 7]

The tool and its mutations are those of the tests. Each list is the tool with its keys and its
unordered lists shuffled; each mutation is shuffled as well, so that it cannot be told by order.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from discovery_engine.tools.model import ServerName, Tool
from discovery_engine.trust.tool_acceptance import accept, withheld
from tests.unit.trust.mutations import MUTATIONS, TOOL, moved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lists", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    one = accept("s", tool_of(TOOL))
    known = {one.tool: frozenset({one.meaning, one.fingerprint})}

    reordered = [tool_of(moved(chance)) for _ in range(asked.lists)]
    started = time.process_time()
    alarms = sum(withheld(tool, "on_first_use", known) is not None for tool in reordered)
    per_tool = (time.process_time() - started) / asked.lists
    forms = len({tool.fingerprint for tool in reordered})
    missed = [
        name
        for name, definition in MUTATIONS.items()
        for _ in range(max(1, asked.lists // 100))
        if withheld(tool_of(moved(chance, definition)), "on_first_use", known) != "changed"
    ]

    tried = len(MUTATIONS) * max(1, asked.lists // 100)
    print(f"seed {asked.seed}")
    print(f"reordered lists   {asked.lists:>7,}  ({forms:,} of them with other bytes)")
    print(f"false alarms      {alarms:>7,}")
    print(f"mutations         {tried:>7,}  ({len(MUTATIONS)} kinds)")
    print(f"not caught        {len(missed):>7,}  {', '.join(sorted(set(missed)))}")
    print(f"CPU per tool      {per_tool * 1e6:>7.0f} µs, where the bytes differ")
    sys.exit(1 if alarms or missed else 0)


def tool_of(definition: dict[str, object]) -> Tool:
    return Tool.from_mcp(ServerName("s"), definition)


if __name__ == "__main__":
    main()
