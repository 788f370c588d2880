"""The registry in every state in which a power cut may leave its folder."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from discovery_engine.store.refresh_job import RefreshTarget
from discovery_engine.store.sqlite.sqlite_registry import SqliteRegistry, open_sqlite
from discovery_engine.tools.model import ServerName
from discovery_engine.trust.decisions import Acceptance, Approval
from tests.factories import make_part, make_settings
from tests.power_cuts import Image, recorded_disk

SCOPE = "scope"
ROUNDS = 12
IMAGES = 150


def write_all(store: SqliteRegistry) -> Iterator[tuple[str, str]]:
    """Write something of each kind, again and again; yields what was acknowledged."""
    names = [f"server{number}" for number in range(ROUNDS)]
    for number, name in enumerate(names):
        store.save_settings(SCOPE, make_settings(*names[: number + 1]))
        yield "settings", name
        tools = [f"tool_{number}_{tool}" for tool in range(40)]
        part = make_part(name, *tools)
        store.save_parts(SCOPE, [part], revision=number + 1)
        yield "tool", tools[-1]
        store.approve(SCOPE, [Approval(name, f"identity{number}")], at=float(number))
        yield "approval", name
        found = [Acceptance(name, tool, "m", "f", "{}" * 50) for tool in tools]
        store.accept(SCOPE, found, at=float(number), if_new=True)
        yield "acceptance", tools[-1]
        store.plan_refreshes(SCOPE, [RefreshTarget(ServerName(name))])
        yield "job", name
        [job] = store.claim_refreshes(SCOPE, "worker", limit=1, lease=60.0)
        assert store.save_claimed(job.claim, part, due_in=86_400.0, revision=1) != "lost"
        yield "listing", name


def found_in(store: SqliteRegistry) -> set[tuple[str, str]]:
    """All of the same kinds that a registry has."""
    settings, snapshot = store.load_settings(SCOPE), store.load(SCOPE)
    decisions = store.decisions(SCOPE)
    jobs = store.refresh_jobs(SCOPE)
    return {
        *(("settings", server.name) for server in (settings.servers if settings else ())),
        *(("tool", entry.tool.name) for entry in (snapshot.catalog if snapshot else ())),
        *(("approval", server) for server in decisions.approvals),
        *(("acceptance", tool) for tools in decisions.accepted.values() for tool in tools),
        *(("job", job.server) for job in jobs),
        *(("listing", job.server) for job in jobs if job.listed_at is not None),
    }


def recorded_images(folder: Path, version: tuple[int, ...], *, seed: int) -> Iterator[Image]:
    path = folder / "registry.db"
    with recorded_disk(folder) as disk, open_sqlite(path, sqlite_version=version) as store:
        for acknowledged in write_all(store):
            disk.note(acknowledged)
    return disk.images(seed=seed, count=IMAGES)


@pytest.mark.requirement("REG-9")
@pytest.mark.parametrize(
    "version", [pytest.param((3, 40, 1), id="rollback"), pytest.param((3, 51, 3), id="wal")]
)
def test_what_was_acknowledged_is_there_after_a_power_cut(
    tmp_path: Path, version: tuple[int, ...]
) -> None:
    for image in recorded_images(tmp_path / "data", version, seed=41):
        folder = tmp_path / f"cut-{image.cut}"
        image.write_to(folder)

        with open_sqlite(folder / "registry.db", sqlite_version=version) as store:
            missing = set(image.noted) - found_in(store)
            state = missing, store.recovered, store.lost_at(SCOPE)
        with closing(sqlite3.connect(folder / "registry.db")) as connection:
            check = connection.execute("PRAGMA integrity_check").fetchone()

        assert (*state, check) == (set(), None, None, ("ok",)), f"cut after {image.cut} events"


@pytest.mark.requirement("REG-21")
def test_a_mark_that_is_torn_between_two_decisions_names_no_loss(tmp_path: Path) -> None:
    path, marks = tmp_path / "registry.db", []
    with open_sqlite(path) as store:
        for first, last in ((0, 119), (119, 160)):
            found = [Acceptance("a", f"t{number}", "m", "f", "{}") for number in range(first, last)]
            store.accept(SCOPE, found, at=1.0)
            marks.append(path.with_suffix(".mark").read_bytes())

    older, newer = marks
    for at in range(len(newer)):
        path.with_suffix(".mark").write_bytes(newer[:at] + older[at:])
        with open_sqlite(path) as store:
            assert store.lost_at(SCOPE) is None
