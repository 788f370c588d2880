"""What opening the engine costs, and what it must notice all the same: specs/caches.md."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from discovery_cli.program import cli
from discovery_engine.errors import ToolDisabledError, UnavailableError
from discovery_engine.store.backends import open_database
from discovery_engine.store.sqlite.sqlite_registry import open_sqlite
from discovery_engine.tools.model import ServerName
from tests.engines import Folder
from tests.factories import make_definition, tool_names
from tests.postgres import PostgresServer
from tests.rows import rows
from tests.told import Told

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CAC-8")]

TOLD = ServerName("told")


def is_of_engine(code: CodeType) -> bool:
    return "discovery_engine" in code.co_filename


@contextmanager
def counted_calls(is_counted: Callable[[CodeType], bool] = is_of_engine) -> Iterator[list[int]]:
    """How many functions of the engine are called meanwhile, in this thread and in new ones."""
    count = [0]

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and is_counted(frame.f_code):
            count[0] += 1

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


async def filled(folder: Folder, count: int) -> Told:
    """A folder in which so many tools of one server were listed, accepted and remembered."""
    told = Told.beside(folder.path, *(make_definition(f"tool_{n}") for n in range(count)))
    folder.write(told.server())
    with anyio.fail_after(60):
        async with folder.open() as engine:
            await engine.refresh()
    return told


async def work_of_opening(folder: Folder) -> int:
    with counted_calls() as count:
        async with folder.open() as engine:
            assert engine.view.server("told").tool_count
    return count[0]


async def test_opening_costs_the_same_however_many_tools_are_remembered(tmp_path: Path) -> None:
    work = {}
    for count in (10, 1000):
        folder = Folder(tmp_path / str(count))
        folder.path.mkdir()
        await filled(folder, count)
        await work_of_opening(folder)  # imports, once
        work[count] = await work_of_opening(folder)

    assert work[1000] < work[10] + 100  # a tenth of a call for each further tool


def test_doctor_looks_for_a_program_once_however_many_servers_run_it(folder: Folder) -> None:
    searches = set[int]()
    for count in (1, 30):
        servers = {f"server{n}": {"command": "true"} for n in range(count)}
        folder.config.write_text(json.dumps({"servers": servers}), "utf-8")
        with counted_calls(lambda code: code is shutil.which.__code__) as calls:
            command = ["--config", str(folder.config), "--data-dir", str(folder.data), "doctor"]
            assert "REGISTRY_EMPTY" in CliRunner().invoke(cli, command).stdout
        searches.add(calls[0])

    assert len(searches) == 1


async def usable(folder: Folder) -> list[str]:
    async with folder.open() as engine:
        return list(tool_names(engine.view.catalog.visible))


async def test_a_rule_that_came_since_the_last_run_is_noticed(folder: Folder) -> None:
    told = await filled(folder, 3)

    folder.write(told.server(), toolRules=[{"pattern": "tool_1", "enabled": False}])

    assert await usable(folder) == ["tool_0", "tool_2"]


async def test_after_a_change_that_concerns_no_tool_all_are_known_to_be_judged(
    folder: Folder,
) -> None:
    told = await filled(folder, 3)
    folder.write(told.server(), log={"calls": "off"})
    await usable(folder)

    with open_sqlite(folder.data / "registry.db") as store:
        stored = store.load(str(folder.config))
        assert stored
        assert stored.decided == store.newest_decision()


async def test_tools_that_are_judged_anew_as_before_are_not_written(
    folder: Folder, postgres_server: PostgresServer
) -> None:
    environ = {"DATABASE_URL": postgres_server.create_database()}
    scope, told = str(folder.config), Told.beside(folder.path, make_definition("ping"))
    folder.write(told.server(), registry={"url": "${DATABASE_URL}"})
    async with folder.open(environ=environ) as engine:
        await engine.refresh()
    with closing(open_database(environ["DATABASE_URL"])) as registry:
        stored = registry.load(scope)
        assert stored
        registry.save_settings(scope, replace(stored.settings, inputs=()))

        async with folder.open(environ=environ):
            assert registry.changed_parts(scope) == ()


async def test_another_trust_policy_is_noticed(folder: Folder) -> None:
    told = await filled(folder, 3)
    folder.write(told.server(), trust="open")
    told.says(make_definition("tool_0", "Another one."))
    async with folder.open() as engine:
        await engine.refresh()

    folder.write(told.server(), trust="on_first_use")

    assert await usable(folder) == []


async def test_another_prefix_is_noticed(folder: Folder) -> None:
    told = await filled(folder, 2)

    folder.write(told.server(prefix="x_"))

    assert await usable(folder) == ["x_tool_0", "x_tool_1"]


async def test_a_decision_that_another_process_made_since_is_noticed(folder: Folder) -> None:
    told = await filled(folder, 2)
    told.says(make_definition("tool_0", "Another one."), make_definition("tool_1"))
    async with folder.open() as engine:
        await engine.refresh()
        assert tool_names(engine.view.catalog.visible) == ["tool_1"]
        [review] = (await engine.review.changes())[TOLD]
        settings = engine.settings

    with open_sqlite(folder.data / "registry.db") as store:
        store.accept(str(settings.path), [review.acceptance], at=1.0)

    assert await usable(folder) == ["tool_0", "tool_1"]


async def test_a_damaged_acceptance_lets_no_changed_tool_in(folder: Folder) -> None:
    told = await filled(folder, 2)
    with sqlite3.connect(folder.data / "registry.db") as database:
        database.execute("DELETE FROM acceptances WHERE tool = 'tool_0'")
    database.close()
    told.says(make_definition("tool_0", "Another one."), make_definition("tool_1"))

    async with folder.open() as engine:
        await engine.refresh()
        assert tool_names(engine.view.catalog.visible) == ["tool_1"]


async def test_listings_that_two_processes_saved_are_judged_anew(folder: Folder) -> None:
    told = await filled(folder, 2)
    async with folder.open() as older:
        folder.write(told.server(), toolRules=[{"pattern": "tool_1", "enabled": False}])
        async with folder.open() as newer:
            await newer.refresh()
            await older.refresh()  # under the rules of before

    assert await usable(folder) == ["tool_0"]


OPEN = """
import sys, anyio
import discovery_server.app
from discovery_engine.engine import open_engine
from discovery_engine.agent.instructions import render_instructions

SCANNER = "discovery_engine.trust.scanner.detection"  # its patterns take long to load

async def main(config, data):
    async with open_engine(config, data_dir=data) as engine:
        answer = await engine.search("tool 1")
        assert render_instructions(engine.view)
        heavy = {"pydantic", "yaml", "ruamel", SCANNER}
        print(len(answer.hits), *sorted(heavy & set(sys.modules)))
        result = await engine.execute("told", "tool_1", {})
        print(len(result), *sorted({"pydantic"} & set(sys.modules)))

anyio.run(main, *sys.argv[1:])
"""


@pytest.mark.requirement("CAC-8")
@rows(("environ", "parsed"), [({"TOKEN": "${HOME}"}, []), ({"TOKEN": "hunter2"}, ["pydantic"])])
async def test_an_unchanged_configuration_is_parsed_if_a_server_needs_what_is_not_remembered(
    folder: Folder, environ: dict[str, str], parsed: list[str]
) -> None:
    told = await filled(folder, 3)
    server = told.server()
    assert server.transport
    folder.write(replace(server, transport=replace(server.transport, env=environ)))
    async with folder.open() as engine:
        await engine.refresh()

    words = [sys.executable, "-c", OPEN, str(folder.config), str(folder.data)]
    done = await anyio.run_process(words)

    at_first, after_call = done.stdout.decode().splitlines()
    assert at_first == "1"
    assert after_call.split()[1:] == parsed
    assert told.called_with == [{}]
    told.file.with_suffix(".called").unlink()


@pytest.mark.requirement("CAC-8")
async def test_a_call_that_comes_while_the_file_is_read_finds_its_server(folder: Folder) -> None:
    await filled(folder, 2)
    async with folder.open() as engine, anyio.create_task_group() as tasks:
        for _ in range(60):
            tasks.start_soon(engine.execute, "told", "tool_0", {})
            await anyio.to_thread.run_sync(bool)  # the next comes a moment later


@pytest.mark.requirement("CAC-8")
async def test_a_call_obeys_what_the_file_says_by_then(folder: Folder) -> None:
    told = await filled(folder, 2)
    async with folder.open() as engine:
        assert await engine.search("tool 1")
        folder.write(told.server(), toolRules=[{"pattern": "tool_1", "enabled": False}])

        with pytest.raises(ToolDisabledError):
            await engine.execute("told", "tool_1", {})

    assert told.calls == 0


@pytest.mark.requirement("CAC-8")
async def test_a_file_that_is_broken_by_then_is_reported_and_starts_nothing(folder: Folder) -> None:
    told = await filled(folder, 2)
    starts = told.starts
    async with folder.open() as engine:
        folder.config.write_text("servers: [", "utf-8")

        with pytest.raises(UnavailableError):
            await engine.execute("told", "tool_1", {})
        [notice] = engine.view.general_notices()

    assert notice.code == "CONFIG_REJECTED"
    assert told.starts == starts


@pytest.mark.requirement("CAC-8")
async def test_a_decision_of_another_process_is_applied_before_any_server_was_needed(
    folder: Folder,
) -> None:
    told = await filled(folder, 2)
    told.says(make_definition("tool_0", "Another one."), make_definition("tool_1"))
    async with folder.open() as engine:
        await engine.refresh()
        [review] = (await engine.review.changes())[TOLD]
    async with folder.open() as engine:
        with open_sqlite(folder.data / "registry.db") as store:
            store.accept(str(engine.settings.path), [review.acceptance], at=1.0)

        await engine.apply_decisions()

        assert tool_names(engine.view.catalog.visible) == ["tool_0", "tool_1"]


@pytest.mark.requirement("CAC-8", "REG-1")
async def test_a_damaged_snapshot_is_as_if_nothing_were_remembered(folder: Folder) -> None:
    await filled(folder, 2)
    with closing(sqlite3.connect(folder.data / "registry.db")) as database, database:
        database.execute("UPDATE listings SET names = '['")

    async with folder.open() as engine:
        await engine.refresh()
        assert tool_names(engine.view.catalog.visible) == ["tool_0", "tool_1"]
