"""A server that says whatever the test tells it to, and what it did."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import ServerSettings
from tests.engines import program
from tests.servers.programs import HERE


@dataclass(frozen=True)
class Told:
    """`tools/list` answers in two pages: the first tool alone, then the others."""

    file: Path

    @classmethod
    def beside(
        cls,
        folder: Path,
        *tools: JSONObject,
        instructions: str = "",
        results: dict[str, JSONObject] | None = None,
    ) -> Told:
        told = cls(folder / "told.json")
        told.says(*tools, instructions=instructions, results=results)
        return told

    def says(
        self,
        *tools: JSONObject,
        instructions: str = "",
        results: dict[str, JSONObject] | None = None,
    ) -> None:
        pages = [tools[:1], tools[1:]] if tools[1:] else [tools]
        # Replaced in one step, so that the server never reads half of it.
        other = self.file.with_suffix(".new")
        content = {"instructions": instructions, "pages": pages, "results": results or {}}
        other.write_text(json.dumps(content), "utf-8")
        other.replace(self.file)

    def server(self, name: str = "told", **settings: Any) -> ServerSettings:
        return program(name, *self.command, **settings)

    @property
    def command(self) -> tuple[str, ...]:
        return sys.executable, "-I", "-S", str(HERE / "told_server.py"), str(self.file)

    @property
    def starts(self) -> int:
        """How often the program was started: what an attack must not change."""
        return self._count("started")

    @property
    def calls(self) -> int:
        return self._count("called")

    @property
    def called_with(self) -> list[JSONObject]:
        """The arguments of the calls."""
        log = self.file.with_suffix(".called")
        return [json.loads(line) for line in log.read_text("utf-8").splitlines()]

    def _count(self, what: str) -> int:
        log = self.file.with_suffix(f".{what}")
        return len(log.read_text("utf-8").splitlines()) if log.exists() else 0
