"""A machine with a home and a working folder, and one call to read a client's files there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from discovery_engine.config.settings import Source
from discovery_engine.config.sources import read_source
from discovery_engine.config.sources.source_result import SourceResult


@dataclass
class Machine:
    home: Path
    cwd: Path
    platform: str = "linux"
    environ: dict[str, str] = field(default_factory=dict)

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Write files by their paths: `~/…` in the home folder, others in the working folder."""
        for name, content in files.items():
            path = self.path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def path(self, name: str) -> Path:
        return self.home / name[2:] if name.startswith("~/") else self.cwd / name

    def read(self, client: str, path: str | None = None) -> SourceResult:
        return read_source(
            Source(client, path),
            environ=self.environ,
            home=self.home,
            cwd=self.cwd,
            platform=self.platform,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    home, cwd = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    cwd.mkdir()
    return Machine(home, cwd)
