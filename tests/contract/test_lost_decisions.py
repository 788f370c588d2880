"""What becomes of decisions when their copies are damaged, removed, or swapped for older ones."""

from __future__ import annotations

import cProfile
import itertools
import json
import os
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

from discovery_engine.registry.sqlite.journal import Journal
from discovery_engine.registry.sqlite.registry import open_sqlite
from discovery_engine.tools.model import canonical_json
from discovery_engine.trust.decisions import Acceptance, Approval, Decisions
from tests.contract import damages
from tests.contract.damages import (
    DATABASE,
    EVIL,
    JOURNAL,
    MARK,
    NEWER,
    OTHER,
    AcceptedHome,
    cut_off,
    flip_bytes,
    move_lines,
    random_bytes,
)
from tests.contract.discovery import Discovery
from tests.forked import Preloaded
from tests.kinds import thinned
from tests.unit.registry import decider
from tests.unit.trust.mutations import TOOL

SCOPE = "/home/someone/discovery.yaml"
COPIES = [pytest.param(names, id=copies) for copies, names in damages.COPIES.items()]
DAMAGES = [pytest.param(damage, id=name) for name, damage in damages.DAMAGES.items()]
MOVES = [pytest.param(move, id=name) for name, move in damages.MOVES.items()]


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


@pytest.mark.requirement("REG-20", "REG-21")
@pytest.mark.parametrize("damage", thinned(DAMAGES))
@pytest.mark.parametrize("copies", COPIES)
def test_one_copy_gives_back_what_the_other_lost_and_the_loss_of_both_shows(
    folder: Path, copies: tuple[str, ...], damage: Callable[[Path], None]
) -> None:
    before = decide(folder, *range(5))

    for copy in copies:
        damage(folder / copy)
    after = found(folder)

    if len(copies) == 1:
        assert after == before
        assert Journal(folder / JOURNAL).verified()
    else:
        assert after.lost_at is not None
        assert not after.accepted
    assert found(folder) == after


@pytest.mark.thorough
@pytest.mark.requirement("REG-20", "REG-21")
@pytest.mark.parametrize("copies", COPIES)
def test_wherever_a_copy_is_cut_off_nothing_is_forgotten_in_silence(
    folder: Path, tmp_path: Path, copies: tuple[str, ...]
) -> None:
    before = decide(folder, *range(5))
    longest = max((folder / copy).stat().st_size for copy in copies)

    for place in range(0, longest, max(longest // 60, 1)):
        cut = tmp_path / "cut"
        shutil.copytree(folder, cut)
        for copy in copies:
            cut_off(cut / copy, place)
        after = found(cut)
        assert after == before or after.lost_at is not None, place
        assert len(copies) == 2 or after == before, place
        shutil.rmtree(cut)


@pytest.mark.requirement("REG-20", "REG-21")
@pytest.mark.parametrize("copies", COPIES)
@pytest.mark.parametrize("seed", thinned(range(20)))
def test_wherever_bytes_are_flipped_nothing_is_forgotten_in_silence(
    folder: Path, copies: tuple[str, ...], seed: int
) -> None:
    chance = random.Random(seed)
    before = decide(folder, *range(5))
    for copy in copies:
        flip_bytes(folder / copy, chance)

    after = found(folder)

    assert after == before or after.lost_at is not None
    assert len(copies) == 2 or after == before


@pytest.mark.requirement("REG-10", "REG-20")
def test_wherever_in_its_schema_a_database_holds_no_text_it_is_set_aside(
    folder: Path, tmp_path: Path
) -> None:
    before = decide(folder, *range(5))
    content = (folder / DATABASE).read_bytes()
    begins = [found.start() for found in re.finditer(rb"CREATE|table|index", content[:8192])]

    for place in (at for begin in begins for at in range(begin - 8, begin + 24, 4)):
        damaged = tmp_path / "damaged"
        shutil.copytree(folder, damaged)
        spoilt = content[:place] + b"\xda" * 8 + content[place + 8 :]
        (damaged / DATABASE).write_bytes(spoilt)
        assert found(damaged) == before, place
        shutil.rmtree(damaged)


@pytest.mark.requirement("REG-20", "REG-21")
@pytest.mark.parametrize("copies", COPIES)
def test_an_older_copy_is_brought_up_to_date_and_two_of_them_are_a_loss(
    folder: Path, tmp_path: Path, copies: tuple[str, ...]
) -> None:
    decide(folder, 1, 2)
    shutil.copytree(folder, tmp_path / "older")
    with open_sqlite(folder / DATABASE) as store:
        store.revoke(SCOPE, ["s1"])
    before = decide(folder, 3)

    for copy in copies:
        shutil.copy(tmp_path / "older" / copy, folder / copy)
    after = found(folder)

    if len(copies) == 1:
        assert after == before
    else:
        assert after.lost_at is not None
        assert set(after.accepted["a"]) == {"tool_1", "tool_2"}


@pytest.mark.requirement("REG-20")
def test_what_was_restored_is_reported(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    decide(folder, 1, 2)
    (folder / DATABASE).unlink()

    found(folder)

    assert "4 (approvals, accepted tools, servers) were restored" in caplog.text


@pytest.mark.requirement("REG-20")
@pytest.mark.parametrize("move", MOVES)
def test_lines_of_the_journal_that_were_moved_do_not_count(
    folder: Path, move: Callable[[list[str]], list[str]]
) -> None:
    before = decide(folder, *range(3))
    move_lines(folder / JOURNAL, move)
    written = Journal(folder / JOURNAL).read()

    assert written
    assert not written.is_whole
    assert found(folder) == before
    whole = Journal(folder / JOURNAL).read()
    assert whole
    assert whole.is_whole


@pytest.mark.requirement("REG-20")
def test_a_process_that_is_open_notices_that_its_files_were_taken_away(folder: Path) -> None:
    before = decide(folder, 1, 2)

    with open_sqlite(folder / DATABASE) as store:
        (folder / DATABASE).unlink()
        assert store.decisions(SCOPE) == before
        (folder / JOURNAL).unlink()
        store.accept(SCOPE, [acceptance(3)], at=3.0)
        (folder / DATABASE).unlink()
        after = store.decisions(SCOPE)

    assert set(after.accepted["a"]) == {"tool_1", "tool_2", "tool_3"}
    assert after.lost_at is None


@pytest.mark.requirement("REG-20")
def test_the_journal_is_written_anew_before_most_of_it_is_void(folder: Path) -> None:
    with open_sqlite(folder / DATABASE) as store:
        store.accept(SCOPE, [acceptance(n % 3) for n in range(1500)], at=1.0)
        size = (folder / JOURNAL).stat().st_size
        before = store.decisions(SCOPE)

    assert found(folder) == before

    verified = Journal(folder / JOURNAL).verified()
    assert verified
    assert verified.records == 3
    assert verified.head.number == 1500
    assert (folder / JOURNAL).stat().st_size < size / 100
    assert decide(folder, 7).accepted["a"].keys() > before.accepted["a"].keys()
    (folder / DATABASE).unlink()
    assert found(folder).accepted["a"].keys() > before.accepted["a"].keys()


def settle(folder: Path) -> None:
    """Have the journal be old, and compared once."""
    status = (folder / JOURNAL).stat()
    os.utime(folder / JOURNAL, (status.st_atime - 60, status.st_mtime - 60))
    open_sqlite(folder / DATABASE).close()


def work_of_opening(folder: Path) -> int:
    """How many functions are called to open it."""
    with cProfile.Profile() as profile:
        open_sqlite(folder / DATABASE).close()
    return sum(entry.callcount for entry in profile.getstats())  # type: ignore[attr-defined] # unknown to the stubs


@pytest.mark.requirement("REG-27")
def test_a_registry_is_opened_without_a_look_at_each_decision(tmp_path: Path) -> None:
    work = {}
    for count in (5, 500):
        folder = tmp_path / str(count)
        with open_sqlite(folder / DATABASE) as store:
            store.accept(SCOPE, map(acceptance, range(count)), at=1.0)
        settle(folder)
        work[count] = work_of_opening(folder)

    assert work[500] == work[5]


@pytest.mark.requirement("REG-27")
def test_a_journal_that_was_changed_after_it_was_compared_is_compared_again(folder: Path) -> None:
    before = decide(folder, *range(5))
    settle(folder)
    content = (folder / JOURNAL).read_bytes()
    half = len(content) // 2

    (folder / JOURNAL).write_bytes(content[:half] + b"?" * 8 + content[half + 8 :])
    open_sqlite(folder / DATABASE).close()

    assert Journal(folder / JOURNAL).verified()
    (folder / DATABASE).unlink()
    assert found(folder) == before


@pytest.mark.requirement("REG-27")
def test_a_row_that_was_changed_is_noticed_when_decisions_are_read(folder: Path) -> None:
    before = decide(folder, *range(5))
    settle(folder)
    with closing(sqlite3.connect(folder / DATABASE)) as database, database:
        database.execute("UPDATE acceptances SET meaning = 'm9' WHERE tool = 'tool_2'")
        database.execute("DELETE FROM acceptances WHERE tool = 'tool_3'")

    assert found(folder) == before


@pytest.mark.requirement("REG-21")
def test_a_loss_is_over_for_a_scope_once_its_owner_knows(folder: Path) -> None:
    decide(folder, 1)
    with open_sqlite(folder / DATABASE) as store:
        store.approve("other", [Approval("s", "identity")], at=1.0)
    for copy in (DATABASE, JOURNAL):
        (folder / copy).unlink()

    with open_sqlite(folder / DATABASE) as store:
        assert store.lost_at("never used") is None
        assert store.lost_at("other") is not None
        store.acknowledge_loss(SCOPE, at=2.0)
        store.acknowledge_loss(SCOPE, at=3.0)
        assert store.lost_at(SCOPE) is None
        assert store.lost_at("other") is not None
    (folder / DATABASE).unlink()

    with open_sqlite(folder / DATABASE) as store:
        assert store.lost_at(SCOPE) is None
        assert store.lost_at("other") is not None


@pytest.mark.requirement("REG-21")
def test_where_nothing_shows_what_was_lost_it_may_be_anything(folder: Path) -> None:
    decide(folder, 1)
    random_bytes(folder / DATABASE)
    (folder / JOURNAL).unlink()
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
    assert not (folder / JOURNAL).exists()


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


@pytest.mark.requirement("REG-13", "REG-20")
@pytest.mark.parametrize("lost", thinned([None, DATABASE, JOURNAL]))
def test_no_kill_loses_a_decision_that_was_acknowledged(folder: Path, lost: str | None) -> None:
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
        if lost:
            (folder / lost).unlink()

        with open_sqlite(folder / DATABASE) as store:
            after = store.decisions("scope")
        assert after.lost_at is None
        assert kept <= {f"{n}{tool[1:]}" for n in ("a", "b") for tool in after.accepted.get(n, ())}


@pytest.mark.thorough
@pytest.mark.requirement("REG-10", "REG-20")
def test_processes_that_meet_a_damaged_registry_at_once_set_aside_nothing_good(
    folder: Path,
) -> None:
    before = decide(folder, *range(5))
    for round_ in range(1, 5):
        random_bytes(folder / DATABASE)
        processes = [start_decider(folder, f"p{round_}.{number}") for number in range(4)]
        told = [list(itertools.islice(said(process), 2)) for process in processes]
        for process in processes:
            process.kill()
            process.communicate()

        after = found(folder)
        assert [len(numbers) for numbers in told] == [2, 2, 2, 2]
        assert len(list(folder.glob(f"{DATABASE}.corrupt-?"))) == round_
        assert after.accepted["a"] == before.accepted["a"]
        with open_sqlite(folder / DATABASE) as store:
            accepted = store.decisions("scope").accepted
        for number in range(4):
            assert accepted[f"p{round_}.{number}"].keys() >= tools([0, 1])


# On every surface


@pytest.fixture
def home(tmp_path: Path, forked: Preloaded) -> AcceptedHome:
    return AcceptedHome.of(Discovery(tmp_path, forked))


@pytest.mark.requirement("REG-20", "TRU-17")
@pytest.mark.parametrize("damage", thinned(DAMAGES))
def test_a_tool_that_changed_is_withheld_though_the_registry_was_damaged(
    home: AcceptedHome, damage: Callable[[Path], None]
) -> None:
    damage(home.data / DATABASE)
    home.told.says(EVIL, OTHER)

    listed = home("list")
    usable = home.usable()
    reviewed = home("review")

    assert "restored" in listed.err
    assert usable == ["other"]
    assert "send_mail: text" in reviewed.out
    assert "- Send a mail to somebody." in reviewed.out
    assert home("doctor").code == 0


@pytest.mark.requirement("REG-21", "REG-22", "TRU-19")
@pytest.mark.parametrize("damage", thinned(DAMAGES))
def test_a_loss_of_both_copies_is_reported_everywhere_until_the_owner_has_reviewed(
    home: AcceptedHome, damage: Callable[[Path], None]
) -> None:
    for copy in (DATABASE, JOURNAL):
        damage(home.data / copy)
    home.told.says(EVIL, OTHER)

    done = [home(*words) for words in (["list"], ["refresh"], ["search", "mail"], ["health"])]
    refused = home("execute", "told:other", "--json")
    as_json = home("list", "--json").json
    doctor = home("doctor", "--json")
    reviewed = home("review", "--accept")
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
    for copy in (DATABASE, JOURNAL):
        (home.data / copy).unlink()
    script = Path(home.told.command[-2])
    content = json.loads((home.discovery.home / "discovery.yaml").read_text())
    content["servers"]["gone"] = {"command": str(script.with_name("no-such-program"))}
    (home.discovery.home / "discovery.yaml").write_text(json.dumps(content))

    reviewed = home("review", "--accept")
    home.told.says(TOOL, OTHER, NEWER)
    home("refresh")
    held = home.usable()
    ended = home("review", "--all", "--accept")

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
    for copy in (DATABASE, JOURNAL):
        shutil.copy(tmp_path / "older" / copy, home.data / copy)
    home.told.says(TOOL, OTHER, {**NEWER, "description": "Says something else."})

    home("refresh")
    usable = home.usable()
    reviewed = home("review", "--accept")

    assert usable == ["other", "send_mail"]
    assert "newer" in reviewed.out
    assert reviewed.code == 0


@pytest.mark.requirement("REG-20")
def test_a_registry_that_cannot_be_used_is_stood_in_for_by_the_second_copy(
    home: AcceptedHome,
) -> None:
    (home.data / DATABASE).unlink()
    (home.data / DATABASE).mkdir()
    home.told.says(EVIL, OTHER)

    done = home("list", "--json", "--tools")

    assert done.json["servers"][0]["tools"] == ["other"]
