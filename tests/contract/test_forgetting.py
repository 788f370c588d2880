"""What is known of servers as they, their entries and their owner change, across restarts too."""

from __future__ import annotations

import json
import os

import pytest

from discovery_engine import Engine, View, stored_view
from discovery_engine.errors import NeedsConfigError, ToolNotFoundError
from tests.engines import Changing, Folder, good, pid_of, tool_names
from tests.rows import rows
from tests.servers.programs import text_of

pytestmark = pytest.mark.anyio


def found(view: View, query: str) -> list[str]:
    return [str(hit.entry.key) for hit in view.search(query).hits]


def remembered(folder: Folder) -> View:
    view = stored_view(folder.config, data_dir=folder.data)
    assert view is not None
    return view


async def seen(engine: Engine, name: str) -> str:
    """What a server was given in a variable."""
    return json.loads(text_of(await engine.execute("good", "environment", {})))[name]


@pytest.mark.requirement("CAT-10")
async def test_a_tool_that_is_gone_is_gone_everywhere(folder: Folder) -> None:
    changing = Changing.beside(folder.path, "stays", "goes")
    folder.write(changing.server("one"))

    async with folder.open() as engine:
        await engine.refresh()
        assert found(engine.view, "goes") == ["one:goes"]
        changing.has("stays", "comes")
        await engine.refresh()
        views = [engine.view]
    views.append(remembered(folder))

    for view in views:
        assert tool_names(view, "one") == ["comes", "stays"]
        assert found(view, "goes") == []
        assert found(view, "comes") == ["one:comes"]
        with pytest.raises(ToolNotFoundError):
            view.details("one", "goes")


@pytest.mark.requirement("CAT-1")
async def test_a_view_that_is_held_stays_and_every_later_one_has_a_higher_revision(
    folder: Folder,
) -> None:
    changing = Changing.beside(folder.path, "a")
    folder.write(changing.server("one"))
    views: list[View] = []

    for tool in ("b", "c"):
        async with folder.open() as engine:
            await engine.refresh()
            views.append(engine.view)
            changing.has(tool)
            await engine.refresh()
            views.append(engine.view)

    revisions = [view.catalog.revision for view in views]
    assert [tool_names(view, "one") for view in views] == [["a"], ["b"], ["b"], ["c"]]
    assert revisions == sorted(revisions)
    assert revisions[0] < revisions[1] < revisions[3]


@pytest.mark.requirement("CAT-10")
async def test_a_server_that_the_configuration_no_longer_names_is_gone(folder: Folder) -> None:
    folder.write(good("stays"), Changing.beside(folder.path, "lonely").server("goes"))

    async with folder.open() as engine:
        await engine.refresh()
        folder.write(good("stays"))
        await engine.reload()
        views = [engine.view]
    views.append(remembered(folder))

    for view in views:
        assert [server.name for server in view.servers()] == ["stays"]
        assert found(view, "lonely") == []


@pytest.mark.requirement("CAT-12")
async def test_a_server_that_is_reached_in_another_way_starts_with_nothing_known(
    folder: Folder,
) -> None:
    folder.write(good())
    async with folder.open() as engine:
        await engine.refresh()
    folder.write(good(env={"OTHER": "1"}))

    async with folder.open() as engine:
        assert tool_names(engine.view, "good") == []
        await engine.refresh()
        assert tool_names(engine.view, "good") == ["echo", "environment", "pid"]


@pytest.mark.requirement("CAT-13")
async def test_a_server_that_is_forgotten_is_known_by_its_name_alone(folder: Folder) -> None:
    folder.write(good("one"), good("two"))
    async with folder.open() as engine:
        await engine.refresh()
        await engine.forget(["one"])

    view = remembered(folder)

    assert [server.name for server in view.servers()] == ["one", "two"]
    assert (tool_names(view, "one"), tool_names(view, "two")[:1]) == ([], ["echo"])


@pytest.mark.requirement("LIB-70")
async def test_what_is_remembered_answers_as_the_last_run_did_until_a_file_changes(
    folder: Folder,
) -> None:
    folder.write(good(), toolRules=[{"pattern": "pid", "enabled": False, "tags": ["x"]}])
    assert stored_view(folder.config, data_dir=folder.data) is None
    async with folder.open() as engine:
        await engine.refresh()
        last = engine.view

    view = remembered(folder)

    assert view.list_tools("good", include_disabled=True) == last.list_tools(
        "good", include_disabled=True
    )
    for query in ("echo", "pid", "environment of a process", "zebra"):
        assert view.search(query) == last.search(query)
    folder.write(good(), toolRules=[])
    assert stored_view(folder.config, data_dir=folder.data) is None


@pytest.mark.requirement("CFG-20")
async def test_what_a_reference_stands_for_is_never_read_as_one_again(folder: Folder) -> None:
    secret = folder.path / "secret"
    secret.write_text("${INNER}", "utf-8")
    environ = {**os.environ, "OUTER": "${INNER}", "INNER": "inner"}
    folder.write(good(env={"A": "${OUTER}", "B": f"${{file:{secret}}}"}))

    async with folder.open(environ=environ) as engine:
        assert await pid_of(engine, "good")
        given = [await seen(engine, name) for name in ("A", "B")]

    assert given == ["${INNER}", "${INNER}"]


@pytest.mark.requirement("CFG-20")
async def test_a_reference_is_resolved_at_the_start_and_named_while_it_has_no_value(
    folder: Folder,
) -> None:
    folder.write(good(env={"A": "${LATER}"}))
    environ = {name: value for name, value in os.environ.items() if name != "LATER"}

    async with folder.open(environ=environ) as engine:
        with pytest.raises(NeedsConfigError, match="LATER"):
            await engine.execute("good", "environment", {})
        environ["LATER"] = "now"
        assert await seen(engine, "A") == "now"


@pytest.mark.requirement("CFG-20")
@rows("kind", ["too long", "a folder", "no text", "missing"])
async def test_only_a_short_regular_file_of_text_is_read(folder: Folder, kind: str) -> None:
    secret = folder.path / kind
    if kind == "a folder":
        secret.mkdir()
    elif kind != "missing":
        secret.write_bytes(b"\xff\xfe" if kind == "no text" else b"x" * 65_537)
    folder.write(good(env={"A": f"${{file:{secret}}}"}))

    async with folder.open() as engine:
        with pytest.raises(NeedsConfigError, match="its file "):
            await engine.execute("good", "environment", {})

    fits = folder.path / "fits"
    fits.write_bytes(b"x" * 65_536)
    folder.write(good(env={"A": f"${{file:{fits}}}"}))
    async with folder.open() as engine:
        assert await seen(engine, "A") == "x" * 65_536
