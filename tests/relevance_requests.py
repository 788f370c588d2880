"""The labelled requests of `languages.yaml`, asked of a searcher over their catalog."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from discovery_engine.catalog import Catalog
from discovery_engine.config.settings import SearchSettings
from discovery_engine.search.searcher import Searcher, build_searcher
from tests.factories import make_catalog, make_entry, make_part

_FILE = Path(__file__).parent / "contract" / "languages.yaml"
_DEPTH = 10  # hits in which the right tool is looked for


@dataclass(frozen=True)
class Request:
    query: str
    tool: str
    """`server/name` of the tool that is right."""


@dataclass(frozen=True)
class Group:
    name: str
    requests: tuple[Request, ...]
    searcher: Searcher

    def ranks(self) -> list[int | None]:
        """Where each request found its tool, from 1; None if it did not."""
        return [self._rank(request) for request in self.requests]

    def _rank(self, request: Request) -> int | None:
        query = self.searcher.analyze(request.query)
        hits = self.searcher.search(query, limit=_DEPTH, accepts=lambda _: True)
        found = [f"{hit.entry.tool.server}/{hit.entry.tool.name}" for hit in hits]
        return found.index(request.tool) + 1 if request.tool in found else None


@cache
def groups() -> tuple[Group, ...]:
    read = _read()
    described = build_searcher(described_catalog(), SearchSettings())
    named = build_searcher(
        _catalog(
            {server: dict.fromkeys(names, "") for server, names in read["names"]["servers"].items()}
        ),
        SearchSettings(),
    )
    return (
        *(Group(name, _requests(rows), described) for name, rows in read["queries"].items()),
        Group("names", _requests(read["names"]["queries"]), named),
    )


def described_catalog() -> Catalog:
    """The tools that the requests are asked of."""
    return _catalog(_read()["servers"])


def _catalog(servers: dict[str, dict[str, str]]) -> Catalog:
    parts = [
        make_part(
            server,
            *(make_entry(name, server, description=said) for name, said in tools.items()),
        )
        for server, tools in servers.items()
    ]
    return make_catalog(*parts)


@cache
def _read() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return read


def _requests(rows: list[dict[str, Any]]) -> tuple[Request, ...]:
    return tuple(Request(**row) for row in rows)
