"""How well servers of the shipped pack of typical requests are recognised.

    python benchmarks/recognition.py [--seed N]
    python benchmarks/recognition.py FOLDER [--show N]

Without a folder, each of the 118 servers is listed under another name and with changes, as later
versions have them: tools removed, renamed and added (of other servers), descriptions shortened and
extended, parameters added. *Recall* is the share of the tools that kept their names and are given
the requests of their own; *wrong* counts tools that are given those of another.

With a folder of catalogs (`SET/catalog.jsonl`, a tool a line: server, name, description,
input_schema), it prints which servers there are recognised, and what of them is not.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from everyday import FOLDER, packed_lines

from discovery_engine.search.examples.pack import Pack, Recognized, recognize, shipped_pack
from discovery_engine.tools.model import ServerName, Tool

Definition = dict[str, Any]
Change = Callable[[list[Definition], random.Random], list[Definition]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=3, help="tools of a server that are shown")
    options = parser.parse_args()
    pack = shipped_pack()
    if pack is None:
        raise SystemExit("there is no pack")
    if options.folder:
        show_catalogs(pack, options.folder, options.show)
    else:
        measure_changes(pack, options.seed)


def measure_changes(pack: Pack, seed: int) -> None:
    servers: defaultdict[str, list[Definition]] = defaultdict(list)
    for definition in packed_lines(FOLDER / "catalog.jsonl.gz"):
        servers[definition.pop("server")].append(definition)
    print(f"{'changes':34s}  servers   recall  wrong  added that have some      ms")
    for name, change in changes(servers).items():
        chance = random.Random(seed)
        found = kept = right = wrong = added = gained = 0
        start = time.process_time()
        for server, definitions in servers.items():
            own = {one["name"] for one in definitions}
            now = change(definitions, chance)
            known = recognize(tools_of("unknown", now), pack)
            named = {one["name"] for one in now}
            found += any(one.server == server for one in known.values())
            kept += len(named & own)
            right += sum(known[one].server == server for one in named & own if one in known)
            wrong += sum(known[one].server != server for one in named & own if one in known)
            added += len(named - own)
            gained += sum(one in known for one in named - own)
        spent = (time.process_time() - start) * 1000 / len(servers)
        print(
            f"{name:34s}  {found:3d}/{len(servers)}  {right / kept:7.3f}  {wrong:5d}"
            f"  {gained:8d} of {added:5d}         {spent:7.2f}"
        )


def changes(servers: Mapping[str, list[Definition]]) -> dict[str, Change]:
    every = [one for definitions in servers.values() for one in definitions]

    def removed(definitions: list[Definition], chance: random.Random) -> list[Definition]:
        return [one for one in definitions if chance.random() > 0.3] or definitions[:1]

    def renamed(definitions: list[Definition], chance: random.Random) -> list[Definition]:
        return [
            {**one, "name": f"{one['name']}_v2"} if chance.random() < 0.3 else one
            for one in definitions
        ]

    def extended(definitions: list[Definition], chance: random.Random) -> list[Definition]:
        own = {one["name"] for one in definitions}
        others = (one for one in chance.sample(every, len(definitions)) if one["name"] not in own)
        return [*definitions, *{one["name"]: one for one in others}.values()]

    def edited(definitions: list[Definition], chance: random.Random) -> list[Definition]:
        return [edit(one, chance, every) if chance.random() < 0.5 else one for one in definitions]

    def rewritten(definitions: list[Definition], chance: random.Random) -> list[Definition]:
        return [edit(one, chance, every) for one in definitions]

    def all_of_it(definitions: list[Definition], chance: random.Random) -> list[Definition]:
        for change in (removed, renamed, extended, edited):
            definitions = change(definitions, chance)
        return definitions

    return {
        "none": lambda definitions, _: definitions,
        "30 % removed": removed,
        "30 % renamed": renamed,
        "as many added": extended,
        "50 % edited": edited,
        "all edited": rewritten,
        "all of these": all_of_it,
    }


def edit(definition: Definition, chance: random.Random, every: list[Definition]) -> Definition:
    """A third of its words left out, a sentence of another tool added, and a parameter."""
    words = str(definition.get("description", "")).split()
    left = [word for word in words if chance.random() > 0.33]
    other = str(chance.choice(every).get("description", "")).split(".")[0]
    schema = definition.get("inputSchema") or {}
    properties = {**(schema.get("properties") or {}), "response_format": {"type": "string"}}
    return {
        **definition,
        "description": " ".join([*left, other]),
        "inputSchema": {**schema, "properties": properties},
    }


def show_catalogs(pack: Pack, folder: Path, most: int) -> None:
    for file in sorted(folder.glob("*/catalog.jsonl")):
        servers: defaultdict[str, list[Definition]] = defaultdict(list)
        for line in file.open(encoding="utf-8"):
            row = json.loads(line)
            row["inputSchema"] = row.pop("input_schema", None) or {}
            servers[row.pop("server")].append(row)
        found = {name: recognize(tools_of(name, some), pack) for name, some in servers.items()}
        given = sum(map(len, found.values()))
        total = sum(map(len, servers.values()))
        count = sum(map(bool, found.values()))
        print(f"\n{file.parent.name}: {given} of {total} tools, {count} of {len(servers)} servers")
        for name, known in found.items():
            if known:
                print(f"  {name[:40]:40s} {row_of(known, servers[name], most)}")


def row_of(known: Mapping[str, Recognized], listed: Iterable[Definition], most: int) -> str:
    names = [one["name"] for one in listed]
    left = [name for name in names if name not in known]
    of = sorted({one.server for one in known.values()})
    rest = f"; not {', '.join(left[:most])}" if left else ""
    return f"{len(known):3d} of {len(names):3d} of {', '.join(of)}{rest}"


def tools_of(server: str, definitions: Iterable[Definition]) -> list[Tool]:
    return [Tool.from_mcp(ServerName(server), one) for one in definitions]


if __name__ == "__main__":
    main()
