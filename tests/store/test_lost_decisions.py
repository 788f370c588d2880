"""What becomes of decisions when their files are damaged, removed, or swapped for older ones."""

from __future__ import annotations

import cProfile
import itertools
import json
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from discovery_engine.store.sqlite.sqlite_registry import open_sqlite
from discovery_engine.tools.model import canonical_json
from discovery_engine.trust.decisions import Acceptance, Approval, Decisions
from tests.contract import damages
from tests.contract.damages import (
    DATABASE,
    EVIL,
    MARK,
    NEWER,
    OTHER,
    AcceptedHome,
    cut_off,
    flip_bytes,
    random_bytes,
)
from tests.contract.discovery import Discovery
from tests.forked import Preloaded
from tests.kinds import thinned
from tests.rows import rows
from tests.unit.store import decider
from tests.unit.trust.mutations import TOOL

SCOPE = "/home/someone/discovery.yaml"
DAMAGES = [pytest.param(damage, id=name) for name, damage in damages.DAMAGES.items()]


def acceptance(number: int) -> Acceptance:
    definition = canonical_json({"name": f"tool_{number}", "description": "x" * 50})
    return Acceptance("a", f"tool_{number}", f"m{number}", f"f{number}", definition)


def decide(folder: Path, *numbers: int) -> Decisions:
    """What is decided once these acceptances and approvals are."""
    with open_sqlite(folder / DATABASE) as store:
        for number in numbers:
            store.approve(SCOPE, [Approval(f"s{number}", "identity")], at=float(number))
            store.accept(SCOPE, [acceptance(number)], at=float(number), if_new=True)
        return store.decisions(SCOPE)


def found(folder: Path) -> Decisions:
    with open_sqlite(folder / DATABASE) as store:
        return store.decisions(SCOPE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.mark.requirement("REG-21")
@pytest.mark.parametrize("damage", thinned(DAMAGES))
def test_a_database_that_is_lost_is_a_loss_of_its_decisions(
    folder: Path, damage: Callable[[Path], None]
) -> None:
    decide(folder, *range(5))

    damage(folder / DATABASE)
    after = found(folder)

    assert after.lost_at is not None
    assert (after.accepted, after.approvals) == ({}, {})
    assert found(folder) == after


@pytest.mark.requirement("REG-21")
@pytest.mark.parametrize("damage", thinned(DAMAGES))
def test_a_mark_that_is_lost_is_made_anew(folder: Path, damage: Callable[[Path], None]) -> None:
    before = decide(folder, *range(5))

    damage(folder / MARK)

    assert found(folder) == before
    (folder / DATABASE).unlink()
    assert found(folder).lost_at is not None


@pytest.mark.requirement("REG-21")
def test_where_no_mark_can_be_written_the_database_will_do(folder: Path) -> None:
    before = decide(folder, *range(5))

    (folder / MARK).unlink()
    (folder / MARK).mkdir()

    assert found(folder) == before


@pytest.mark.requirement("REG-21")
@pytest.mark.parametrize("name", [DATABASE, MARK])
def test_wherever_a_file_is_cut_off_nothing_is_forgotten_in_silence(
    folder: Path, tmp_path: Path, name: str
) -> None:
    before = decide(folder, *range(5))
    size = (folder / name).stat().st_size

    for place in range(0, size, max(size // 60, 1)):
        cut = tmp_path / "cut"
        shutil.copytree(folder, cut)
        cut_off(cut / name, place)
        after = found(cut)
        assert after == before or after.lost_at is not None, place
        shutil.rmtree(cut)


@pytest.mark.requirement("REG-21")
@pytest.mark.parametrize("seed", thinned(range(20)))
@pytest.mark.parametrize("names", [(DATABASE,), (MARK,), (DATABASE, MARK)])
def test_wherever_bytes_are_flipped_nothing_is_forgotten_in_silence(
    folder: Path, names: tuple[str, ...], seed: int
) -> None:
    chance = random.Random(seed)
    before = decide(folder, *range(5))
    for name in names:
        flip_bytes(folder / name, chance)

    after = found(folder)

    assert after == before or after.lost_at is not None


@pytest.mark.requirement("REG-10", "REG-21")
def test_wherever_in_its_schema_a_database_holds_no_text_it_is_set_aside(
    folder: Path, tmp_path: Path
) -> None:
    decide(folder, *range(5))
    content = (folder / DATABASE).read_bytes()
    begins = [found.start() for found in re.finditer(rb"CREATE|table|index", content[:8192])]

    for place in (at for begin in begins for at in range(begin - 8, begin + 24, 4)):
        damaged = tmp_path / "damaged"
        shutil.copytree(folder, damaged)
        spoilt = content[:place] + b"\xda" * 8 + content[place + 8 :]
        (damaged / DATABASE).write_bytes(spoilt)
        assert found(damaged).lost_at is not None, place
        shutil.rmtree(damaged)


@pytest.mark.requirement("REG-21")
def test_an_older_copy_of_the_database_is_a_loss_and_one_of_the_folder_is_a_backup(
    folder: Path, tmp_path: Path
) -> None:
    older = decide(folder, 1, 2)
    shutil.copytree(folder, tmp_path / "older")
    with open_sqlite(folder / DATABASE) as store:
        store.revoke(SCOPE, ["s1"])
    decide(folder, 3)

    shutil.copy(tmp_path / "older" / DATABASE, folder / DATABASE)
    after = found(folder)

    assert after.lost_at is not None
    assert set(after.accepted["a"]) == {"tool_1", "tool_2"}
    assert found(tmp_path / "older") == older


@pytest.mark.requirement("REG-21")
def test_a_process_that_is_open_notices_that_its_file_was_taken_away(folder: Path) -> None:
    decide(folder, 1, 2)

    with open_sqlite(folder / DATABASE) as store:
        (folder / DATABASE).unlink()
        store.accept(SCOPE, [acceptance(3)], at=3.0)
        after = store.decisions(SCOPE)

    assert set(after.accepted["a"]) == {"tool_3"}
    assert after.lost_at is not None


def work_of_opening(folder: Path) -> int:
    """How many functions are called to open it."""
    with cProfile.Profile() as profile:
        open_sqlite(folder / DATABASE).close()
    return sum(entry.callcount for entry in profile.getstats())  # type: ignore[attr-defined] # unknown to the stubs


@pytest.mark.requirement("REG-21")
def test_a_registry_is_opened_without_a_look_at_each_decision(tmp_path: Path) -> None:
    work = {}
    for count in (5, 500):
        folder = tmp_path / str(count)
        with open_sqlite(folder / DATABASE) as store:
            store.accept(SCOPE, map(acceptance, range(count)), at=1.0)
        work[count] = work_of_opening(folder)

    assert work[500] == work[5]


@pytest.mark.requirement("REG-21")
@rows(
    "change",
    [
        "UPDATE acceptances SET meaning = 'm9' WHERE tool = 'tool_2'",
        "DELETE FROM acceptances WHERE tool = 'tool_3'",
        "UPDATE approvals SET checksum = NULL WHERE server = 's1'",
    ],
)
def test_a_row_that_was_changed_is_noticed_when_decisions_are_read(
    tmp_path: Path, change: str
) -> None:
    decide(tmp_path, *range(5))
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database, database:
        database.execute(change)

    after = found(tmp_path)

    assert after.lost_at is not None
    assert len(after.accepted["a"]) + len(after.approvals) == 9


@pytest.mark.requirement("REG-21")
def test_a_loss_is_over_for_a_scope_once_its_owner_knows(folder: Path) -> None:
    decide(folder, 1)
    with open_sqlite(folder / DATABASE) as store:
        store.approve("other", [Approval("s", "identity")], at=1.0)
    (folder / DATABASE).unlink()

    with open_sqlite(folder / DATABASE) as store:
        assert store.lost_at("never used") is None
        assert store.lost_at("other") is not None
        store.acknowledge_loss(SCOPE, at=2.0)
        store.acknowledge_loss(SCOPE, at=3.0)

    with open_sqlite(folder / DATABASE) as store:
        assert store.lost_at(SCOPE) is None
        assert store.lost_at("other") is not None


@pytest.mark.requirement("REG-21")
def test_a_loss_that_was_not_acknowledged_outlives_a_further_loss(folder: Path) -> None:
    decide(folder, 1)
    (folder / DATABASE).unlink()
    found(folder)
    (folder / MARK).unlink()
    with open_sqlite(folder / DATABASE) as store:
        store.approve("other", [Approval("s", "identity")], at=1.0)
    (folder / DATABASE).unlink()

    assert found(folder).lost_at is not None


@pytest.mark.requirement("REG-21")
def test_where_nothing_shows_what_was_lost_it_may_be_anything(folder: Path) -> None:
    decide(folder, 1)
    random_bytes(folder / DATABASE)
    (folder / MARK).unlink()

    with open_sqlite(folder / DATABASE) as store:
        assert store.lost_at("anything") is not None
        store.acknowledge_loss("anything", at=2.0)
        assert store.lost_at("anything") is None
        assert store.lost_at(SCOPE) is not None


@pytest.mark.requirement("REG-21")
def test_where_nothing_ever_was_nothing_is_lost(folder: Path) -> None:
    with open_sqlite(folder / DATABASE) as store:
        assert store.decisions(SCOPE) == Decisions()
        assert store.revoke(SCOPE, ["a"]) == 0

    assert found(folder) == Decisions()


# Several processes


DECIDER = Path(decider.__file__)


def start_decider(folder: Path, server: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(DECIDER), str(folder / DATABASE), server]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> Iterator[int]:
    assert process.stdout
    return map(int, process.stdout)


def tools(numbers: Iterable[int]) -> set[str]:
    return {f"t{number}" for number in numbers}


@pytest.mark.requirement("REG-9")
def test_no_kill_loses_a_decision_that_was_acknowledged(folder: Path) -> None:
    chance = random.Random(7)
    kept: set[str] = set()
    for _ in range(5):
        with start_decider(folder, "a") as one, start_decider(folder, "b") as other:
            told = {"a": list(itertools.islice(said(one), chance.randrange(1, 15)))}
            one.kill()
            told["b"] = list(itertools.islice(said(other), 3))
            other.kill()
            told["a"] += said(one)
            told["b"] += said(other)
        kept |= {f"{name}{number}" for name, numbers in told.items() for number in numbers}

        with open_sqlite(folder / DATABASE) as store:
            after = store.decisions("scope")
        assert after.lost_at is None
        assert kept <= {f"{n}{tool[1:]}" for n in ("a", "b") for tool in after.accepted.get(n, ())}


@pytest.mark.thorough
@pytest.mark.requirement("REG-10")
def test_processes_that_meet_a_damaged_registry_at_once_set_aside_nothing_good(
    folder: Path,
) -> None:
    decide(folder, *range(5))
    for round_ in range(1, 5):
        random_bytes(folder / DATABASE)
        processes = [start_decider(folder, f"p{round_}.{number}") for number in range(4)]
        told = [list(itertools.islice(said(process), 2)) for process in processes]
        for process in processes:
            process.kill()
            process.communicate()

        assert [len(numbers) for numbers in told] == [2, 2, 2, 2]
        assert len(list(folder.glob(f"{DATABASE}.corrupt-?"))) == round_
        assert found(folder).lost_at is not None
        with open_sqlite(folder / DATABASE) as store:
            accepted = store.decisions("scope").accepted
        for number in range(4):
            assert accepted[f"p{round_}.{number}"].keys() >= tools([0, 1])


# On every surface


@pytest.fixture
def home(tmp_path: Path, forked: Preloaded) -> AcceptedHome:
    return AcceptedHome.of(Discovery(tmp_path, forked))


@pytest.mark.requirement("REG-21", "TRU-19")
@pytest.mark.parametrize("damage", thinned(DAMAGES))
def test_a_loss_is_reported_everywhere_until_the_owner_has_reviewed(
    home: AcceptedHome, damage: Callable[[Path], None]
) -> None:
    damage(home.data / DATABASE)
    home.told.says(EVIL, OTHER)

    done = [home(*words) for words in (["list"], ["refresh"], ["search", "mail"], ["health"])]
    refused = home("execute", "told:other", "--json")
    as_json = home("list", "--json").json
    doctor = home("doctor", "--json")
    reviewed = home("review", "tools", "--yes")
    home.told.says(EVIL, OTHER, NEWER)
    home("refresh")

    for one in done:
        assert one.err.count("earlier decisions of the owner were lost") == 1
        assert "`discovery review`" in one.err
    assert refused.code == 4
    assert "were lost" in json.loads(refused.err)["warnings"][-1]
    assert as_json["decisions_lost_at"] > 0
    assert "approvals of servers, accepted tools" in as_json["warnings"][-1]
    assert as_json["servers"][0]["enabled_count"] == 0
    assert doctor.code == 7
    assert [c["level"] for c in doctor.json["checks"] if c["subject"] == "data"] == ["problem"]
    assert reviewed.code == 0
    assert "at first sight again" in reviewed.err
    assert home("list").err.count("lost") == 0
    assert home("doctor").code == 0
    assert home.usable() == ["newer", "other", "send_mail"]


@pytest.mark.requirement("TRU-19")
def test_what_cannot_be_asked_keeps_new_tools_withheld_unless_the_owner_ends_it(
    home: AcceptedHome,
) -> None:
    (home.data / DATABASE).unlink()
    script = Path(home.told.command[-2])
    content = json.loads((home.discovery.home / "discovery.yaml").read_text())
    content["servers"]["gone"] = {"command": str(script.with_name("no-such-program"))}
    (home.discovery.home / "discovery.yaml").write_text(json.dumps(content))

    reviewed = home("review", "tools", "--yes")
    home.told.says(TOOL, OTHER, NEWER)
    home("refresh")
    held = home.usable()
    ended = home("review", "tools", "--all", "--yes")

    assert reviewed.code == 4
    assert "gone could not be listed" in reviewed.err
    assert held == ["other", "send_mail"]
    assert ended.code == 0
    assert home.usable() == ["newer", "other", "send_mail"]


@pytest.mark.requirement("TRU-19")
def test_an_older_copy_does_not_let_a_tool_in_that_came_after_it(
    home: AcceptedHome, tmp_path: Path
) -> None:
    shutil.copytree(home.data, tmp_path / "older")
    home.told.says(TOOL, OTHER, NEWER)
    home("refresh")
    shutil.copy(tmp_path / "older" / DATABASE, home.data / DATABASE)
    home.told.says(TOOL, OTHER, {**NEWER, "description": "Says something else."})

    home("refresh")
    usable = home.usable()
    reviewed = home("review", "tools", "--yes")

    assert usable == ["other", "send_mail"]
    assert "newer" in reviewed.out
    assert reviewed.code == 0


@pytest.mark.requirement("REG-12")
def test_where_the_registry_cannot_be_used_nothing_is_accepted_at_first_sight(
    home: AcceptedHome,
) -> None:
    (home.data / DATABASE).unlink()
    (home.data / DATABASE).mkdir()
    home.told.says(EVIL, OTHER)

    done = home("list", "--json", "--tools")

    assert done.json["servers"][0]["enabled_count"] == 0
    assert "decisions of the owner cannot be read" in done.json["warnings"][-1]
