"""A process that saves one part after another and tells of each when it is kept.

It is run by the tests, which kill it: `python writer.py PATH SQLITE_VERSION`.
"""

from __future__ import annotations

import sys
from itertools import count

from discovery_engine.catalog import Entry, ServerPart
from discovery_engine.config.settings import ServerSettings, Settings
from discovery_engine.rules.rule import Verdict
from discovery_engine.store.sqlite.sqlite_registry import open_sqlite
from discovery_engine.tools.model import ServerName, Tool

A = ServerName("a")


def main(path: str, version: str) -> None:
    store = open_sqlite(path, sqlite_version=tuple(map(int, version.split("."))))
    store.save_settings("scope", Settings(servers=(ServerSettings(A, None),)))
    world = store.load("scope")
    start = world.catalog.revision if world else 0
    for revision in count(start + 1):
        tools = [Tool.from_mcp(A, {"name": f"t{i}", "revision": revision}) for i in range(20)]
        entries = tuple(Entry(tool, Verdict()) for tool in tools)
        store.save_parts("scope", [ServerPart(A, entries)], revision=revision)
        sys.stdout.write(f"{revision}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
