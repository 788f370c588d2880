"""Decisions of other processes, followed through the folder of the database."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import aclosing, closing
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from discovery_engine.errors import RegistryError
from discovery_engine.store.backends import open_registry, sqlite_url
from discovery_engine.store.sqlite.changes import decision_changes
from tests.rows import rows
from tests.servers.programs import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("REG-25")]

NEVER = 3600.0  # seconds between two looks: what is noticed was reported
SOON = 20.0  # seconds; less than those between two looks of a registry
DECIDES = """
import sys
from discovery_engine.store.sqlite.sqlite_registry import open_sqlite
from discovery_engine.trust.decisions import Approval
with open_sqlite(sys.argv[1]) as registry:
    registry.approve("scope", [Approval("a", "identity")], at=1.0)
    if sys.argv[2] == "revoke":
        registry.revoke("scope", ["a"])
"""


def decide_elsewhere(path: Path, what: str) -> None:
    subprocess.run([sys.executable, "-c", DECIDES, str(path), what], check=True, timeout=60)


@rows("url", [lambda _: "memory:", sqlite_url])
async def test_what_was_decided_before_is_a_change_at_once(
    tmp_path: Path, url: Callable[[Path], str]
) -> None:
    with closing(open_registry(url(tmp_path / "registry.db"))) as registry:
        async with aclosing(registry.changes()) as changes:
            with anyio.fail_after(SOON):
                await anext(changes)


async def test_decisions_of_another_process_are_changes(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    with closing(open_registry(sqlite_url(path))) as registry:
        async with aclosing(registry.changes()) as changes:
            await anext(changes)
            for what, expected in [("approve", {"a": {"identity"}}), ("revoke", {})]:
                await anyio.to_thread.run_sync(partial(decide_elsewhere, path, what))
                with anyio.fail_after(SOON):
                    while registry.decisions("scope").approvals != expected:
                        await anext(changes)
                with anyio.fail_after(SOON):
                    await anext(changes)


async def test_a_database_that_another_takes_the_place_of_is_followed(tmp_path: Path) -> None:
    path, other = tmp_path / "registry.db", tmp_path / "other"
    other.mkdir()
    decide_elsewhere(other / "registry.db", "approve")
    with closing(open_registry(sqlite_url(path))) as registry:
        async with aclosing(registry.changes()) as changes:
            await anext(changes)

            for file in other.iterdir():
                file.replace(tmp_path / file.name)

            with anyio.fail_after(SOON):
                while not registry.decisions("scope").approvals:
                    await anext(changes)


async def test_what_is_written_beside_decisions_is_a_look_and_no_change(tmp_path: Path) -> None:
    looks: list[int] = []
    changed = 0

    def newest() -> int:
        looks.append(1)
        return 1

    async def follow() -> None:
        nonlocal changed
        async with aclosing(decision_changes(path, newest, look_every=NEVER)) as changes:
            async for _ in changes:
                changed += 1

    path = tmp_path / "registry.db"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        await eventually(lambda: len(looks) >= 2)
        for number in range(2):
            before = len(looks)
            path.write_text(str(number), "utf-8")
            await eventually(lambda before=before: len(looks) > before)
        tasks.cancel_scope.cancel()

    assert changed == 1


async def test_a_registry_that_cannot_be_read_is_one_change_until_it_can(tmp_path: Path) -> None:
    answers: list[int | str] = [
        1,
        "locked",
        "locked",
        "locked",
        1,
    ]
    kinds: list[int | str] = []

    def newest() -> int:
        answer = answers.pop(0) if answers[1:] else answers[0]
        kinds.append(answer)
        if isinstance(answer, str):
            raise RegistryError(answer)
        return answer

    counts: list[int] = []
    with anyio.fail_after(SOON):
        async with aclosing(
            decision_changes(tmp_path / "registry.db", newest, look_every=0.01)
        ) as changes:
            for _ in range(3):
                await anext(changes)
                counts.append(len(kinds))

    assert kinds == [1, "locked", "locked", "locked", 1]
    assert counts == [1, 2, 5]
