"""Settings in SQLite: what saving them costs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from discovery_engine.registry.sqlite import snapshot_tables
from discovery_engine.registry.sqlite.registry import open_sqlite
from discovery_engine.tools.model import ServerName


class CountedNames(list[ServerName]):
    """Names that count how often all of them are read."""

    reads = 0

    def __iter__(self) -> Iterator[ServerName]:
        self.reads += 1
        return super().__iter__()


def test_how_often_the_names_are_read_does_not_grow_with_the_servers_that_are_saved(
    tmp_path: Path,
) -> None:
    few, many = (CountedNames(map(ServerName, map(str, range(size)))) for size in (2, 50))
    with open_sqlite(tmp_path / "registry.db") as store:
        for names in (few, many):
            for _ in range(2):
                store._database.write(
                    lambda db, names=names: snapshot_tables.save_settings(
                        db, "scope", "{}", names, keep_others=False
                    )
                )

    assert few.reads == many.reads
