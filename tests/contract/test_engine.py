"""The engine: what the page specs/library.md promises, on real child processes."""

from __future__ import annotations

import contextlib
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from discovery_engine import Engine, ServerReport, ServerState, View, stored_view
from discovery_engine.errors import (
    ConfigurationError,
    DiscoveryError,
    InvalidArgumentsError,
    ServerDisabledError,
    ServerNotFoundError,
    ToolNotFoundError,
    UnavailableError,
)
from discovery_engine.events import (
    CatalogChanged,
    ConfigurationReloaded,
    Event,
    ServerConnected,
    ServerConnecting,
    ServerDiscovering,
    ServerFailed,
    ToolCalled,
)
from tests.agents import ask
from tests.engines import Changing, Folder, Gate, good, heard, pid_of, program, summary, tool_names
from tests.factories import Clock, make_definition
from tests.servers.programs import descendants, eventually, fault_server, is_running, text_of
from tests.told import Told

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("LIB-1")
async def test_opening_touches_no_server(folder: Folder) -> None:
    changing = Changing.beside(folder.path, "a")
    folder.write(changing.server("clock"), good())
    before = descendants()

    async with folder.open() as engine:
        servers = engine.view.servers()
        answer = await engine.search("anything")
        started = descendants() - before

    assert [server.state for server in servers] == [ServerState.PENDING] * 2
    assert {notice.code for notice in answer.notices} >= {"SERVER_STARTING"}
    assert started == set()
    assert changing.asked == 0


@pytest.mark.requirement("LIB-1")
async def test_a_restart_answers_from_what_was_remembered(folder: Folder) -> None:
    changing = Changing.beside(folder.path, "tell_time", "set_time")
    folder.write(changing.server("clock"))
    async with folder.open() as engine:
        await engine.refresh()

    async with folder.open() as engine:
        answer = await engine.search("tell time")
        [server] = engine.view.servers()

    assert answer.hits[0].entry.tool.name == "tell_time"
    assert server.state is ServerState.IDLE
    assert server.listed_at is not None
    assert changing.asked == 1


@pytest.mark.requirement("LIB-3")
async def test_a_registry_that_cannot_be_used_costs_a_warning(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write(good())
    folder.data.write_text("a file where the folder should be", "utf-8")

    with caplog.at_level(logging.WARNING, "discovery_engine"):
        async with folder.open() as engine:
            await engine.refresh()
            listed = await engine.list_tools("good")

    assert len(listed.entries) == 3
    assert "Nothing will be remembered" in caplog.text


@pytest.mark.requirement("LIB-3", "CAC-6")
async def test_without_a_cache_nothing_is_remembered(folder: Folder) -> None:
    folder.write(good(), cache={"enabled": False})
    async with folder.open() as engine:
        await engine.refresh()
        assert tool_names(engine.view, "good")

    async with folder.open() as engine:
        assert tool_names(engine.view, "good") == []
    assert not folder.data.exists()


@pytest.mark.requirement("LIB-1")
async def test_leaving_ends_every_program_even_one_that_hangs(folder: Folder) -> None:
    folder.write(fault_server("hang_start", name="hanging"), good())
    before = descendants()

    async with folder.open() as engine, anyio.create_task_group() as tasks:
        with engine.subscribe() as events:
            tasks.start_soon(engine.refresh)
            await heard(events, ServerConnecting, "hanging")
            await heard(events, ServerConnected, "good")
        started = descendants() - before
        tasks.cancel_scope.cancel()

    assert len(started) >= 2
    await eventually(lambda: not any(map(is_running, started)))


@pytest.mark.requirement("LIB-10")
async def test_a_server_that_was_never_asked_is_asked_when_its_tools_are_wanted(
    folder: Folder,
) -> None:
    folder.write(good("a"), good("b"), good("c"))

    async with folder.open() as engine:
        listed = await engine.list_tools("a")
        entry = await engine.details("b", "echo")
        result = await engine.execute(None, "c:echo", {"text": "hi"})

    assert [e.tool.name for e in listed.entries] == ["echo", "environment", "pid"]
    assert entry.tool.description == "The tool echo"
    assert json.loads(text_of(result)) == {"text": "hi"}


@pytest.mark.requirement("LIB-11")
async def test_an_outage_is_reported_and_never_looks_like_an_empty_list(folder: Folder) -> None:
    folder.write(program("dead", "no-such-program-anywhere"))

    async with folder.open() as engine:
        with pytest.raises(UnavailableError, match="no-such-program-anywhere") as details:
            await engine.details("dead", "echo")
        with pytest.raises(UnavailableError, match="no-such-program-anywhere"):
            await engine.execute("dead", "echo", {})
        listed = await engine.list_tools("dead")

    assert details.value.server == "dead"
    assert [notice.code for notice in listed.notices] == ["SERVER_CONNECTION_ERROR"]
    assert "no-such-program-anywhere" in listed.notices[0].message


@pytest.mark.requirement("LIB-12")
async def test_a_disabled_server_is_not_taken_for_one_without_the_tool(folder: Folder) -> None:
    rules = [{"pattern": "ruled_out", "enabled": False}]
    folder.write(good("off", enabled=False), good("ruled_out"), serverRules=rules)

    async with folder.open() as engine:
        for server in ("off", "ruled_out"):
            with pytest.raises(ServerDisabledError):
                await engine.details(server, "echo")
            with pytest.raises(ServerDisabledError):
                await engine.list_tools(server)
            with pytest.raises(ServerDisabledError):
                await engine.refresh([server])


@pytest.mark.requirement("LIB-12")
async def test_unknown_names_are_refused_with_the_nearest(folder: Folder) -> None:
    folder.write(good())

    async with folder.open() as engine:
        with pytest.raises(ServerNotFoundError) as server:
            await engine.list_tools("god")
        with pytest.raises(ToolNotFoundError) as tool:
            await engine.details("good", "eco")

    assert server.value.nearest == ("good",)
    assert tool.value.nearest == ("echo",)


@pytest.mark.requirement("LIB-20")
async def test_bad_arguments_are_refused_before_the_server_is_started(folder: Folder) -> None:
    folder.write(good())
    async with folder.open() as engine:
        await engine.refresh()
    before = descendants()

    async with folder.open() as engine:
        with pytest.raises(InvalidArgumentsError) as caught:
            await engine.execute("good", "echo", {"text": 5})
        started = descendants() - before

    assert caught.value.signature == "echo(text?: string)"
    assert started == set()


@pytest.mark.requirement("LIB-23")
@pytest.mark.parametrize(
    ("mode", "outcome"),
    [
        pytest.param("ok", "ok", id="works"),
        pytest.param("tool_error", "tool_error", id="the tool fails"),
        pytest.param("refuses_call", "TOOL_EXECUTION_ERROR", id="the server refuses"),
        pytest.param("crash_call", "TOOL_OUTCOME_UNKNOWN", id="the server goes away"),
        pytest.param("ok", "INVALID_ARGUMENTS", id="it is refused before anything is sent"),
    ],
)
async def test_every_call_is_reported_with_its_outcome(
    folder: Folder, mode: str, outcome: str
) -> None:
    folder.write(fault_server(mode, name="odd"))

    async with folder.open() as engine:
        await engine.refresh()
        with engine.subscribe() as events:
            with contextlib.suppress(DiscoveryError):
                given = {"text": 1} if outcome == "INVALID_ARGUMENTS" else {}
                await engine.execute("odd", "echo", given)
            called = await heard(events, ToolCalled)

    assert (called.server, called.tool, called.outcome) == ("odd", "echo", outcome)
    assert called.seconds >= 0


@pytest.mark.requirement("LIB-60")
async def test_two_engines_share_what_is_remembered(folder: Folder) -> None:
    folder.write(good("a"), good("b"))

    async with folder.open() as one, folder.open() as two:
        await one.refresh(["a"])
        await two.refresh(["b"])
        seen = [tool_names(one.view, "a"), tool_names(two.view, "b")]
    async with folder.open() as third:
        remembered = [tool_names(third.view, name) for name in ("a", "b")]

    assert seen == remembered
    assert all(remembered)


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


NO_ECHO = [{"pattern": "echo", "enabled": False}]


@pytest.mark.requirement("LIB-30")
async def test_a_server_that_hangs_holds_up_no_other(folder: Folder) -> None:
    gate = Gate(folder.path / "gate")
    folder.write(gate.before(program("hanging", "/bin/false")), good("a"), good("b"))

    async with folder.open() as engine, anyio.create_task_group() as tasks:
        with engine.subscribe() as events:
            tasks.start_soon(engine.refresh)
            await heard_of_all(events, ServerConnected, "a", "b")
            found = (await engine.search("echo")).hits
            result = await engine.execute("a", "echo", {"text": "x"})
            hanging = summary(engine.view, "hanging").state
            gate.open()
            failure = await heard(events, ServerFailed, "hanging")

    assert {hit.entry.tool.server for hit in found} == {"a", "b"}
    assert json.loads(text_of(result)) == {"text": "x"}
    assert hanging is ServerState.STARTING
    assert failure.code == "SERVER_CONNECTION_ERROR"


@pytest.mark.requirement("LIB-11")
async def test_a_server_that_fails_keeps_its_last_known_tools(folder: Folder) -> None:
    changing = Changing.beside(folder.path, "tell_time")
    folder.write(changing.server("clock"))
    async with folder.open() as engine:
        await engine.refresh()
    changing.file.unlink()

    async with folder.open() as engine:
        report = await engine.refresh()
        answer = await engine.search("tell time")
        [server] = engine.view.servers()

    assert report.servers[0][1] is not None
    assert answer.hits[0].entry.tool.name == "tell_time"
    assert server.is_stale
    assert server.state is ServerState.FAILING
    assert "last known tools" in answer.notices[0].message


@pytest.mark.requirement("LIB-32")
async def test_a_report_says_what_failed_and_what_became_different(folder: Folder) -> None:
    changing = Changing.beside(folder.path, "old", "kept")
    folder.write(changing.server("clock"), fault_server("crash_start", name="dead"))

    async with folder.open() as engine:
        first = await engine.refresh()
        changing.has("kept", "new")
        second = await engine.refresh(["clock"])

    [(clock, fine), (dead, failure)] = first.servers
    assert (clock, fine, dead) == ("clock", None, "dead")
    assert failure is not None
    assert failure.code == "SERVER_CONNECTION_ERROR"
    assert [str(key) for key in first.diff.added] == ["clock:kept", "clock:old"]
    assert [str(key) for key in second.diff.added] == ["clock:new"]
    assert [str(key) for key in second.diff.removed] == ["clock:old"]
    assert second.servers == (("clock", None),)


async def heard_of_all(events: Any, kind: type[Event], *servers: str) -> None:
    missing = set(servers)
    while missing:
        event = await heard(events, kind)
        missing.discard(getattr(event, "server", ""))


@pytest.mark.requirement("LIB-40")
async def test_a_listing_is_reported_step_by_step(folder: Folder) -> None:
    folder.write(good())
    told: list[Event] = []

    async with folder.open() as engine:
        with engine.subscribe() as events:
            await engine.refresh()
            while not isinstance((told or [None])[-1], ServerConnected):
                told.append(await anext(events))

    steps = [ServerConnecting, ServerDiscovering, CatalogChanged, ServerConnected]
    assert [type(event) for event in told if type(event) in steps] == steps
    assert str(getattr(told[-1], "server", "")) == "good"


@pytest.mark.requirement("LIB-50")
async def test_a_configuration_that_cannot_be_used_leaves_the_last_good_one(folder: Folder) -> None:
    folder.write(good())

    async with folder.open() as engine:
        pid = await pid_of(engine, "good")
        folder.config.write_text("servers: [", "utf-8")
        with pytest.raises(ConfigurationError):
            await engine.reload()

        assert await pid_of(engine, "good") == pid
        assert [server.name for server in engine.settings.servers] == ["good"]


@pytest.mark.requirement("LIB-50")
async def test_new_rules_change_verdicts_without_asking_a_server(folder: Folder) -> None:
    changing = Changing.beside(folder.path, "echo", "other")
    folder.write(changing.server("clock"))

    async with folder.open() as engine:
        await engine.refresh()
        folder.write(
            changing.server("clock"), toolRules=[*NO_ECHO, {"pattern": "other", "tags": ["tagged"]}]
        )
        with engine.subscribe() as events:
            await engine.reload()
            changed = await heard(events, CatalogChanged)
            await heard(events, ConfigurationReloaded)
        listed = await engine.list_tools("clock")
        disabled = await engine.search("echo", include_disabled=True)

    assert [entry.tool.name for entry in listed.entries] == ["other"]
    assert listed.entries[0].verdict.tags == ("tagged",)
    assert not disabled.hits[0].entry.verdict.enabled
    assert changed.changed == 2
    assert changing.asked == 1


@pytest.mark.requirement("REG-25")
async def test_a_running_gateway_serves_what_another_process_refreshed(folder: Folder) -> None:
    ping, pong = (
        make_definition("ping", "Answer at once."),
        make_definition("pong", "Answer later."),
    )
    told = Told.beside(folder.path, ping)
    folder.write(told.server())

    def shown(engine: Engine) -> list[str]:
        return [str(entry.key) for entry in engine.view.catalog.visible]

    async with folder.open() as gateway, anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run_maintenance)
        await eventually(lambda: shown(gateway) == ["told:ping"])
        told.says(ping, pong)
        async with folder.open() as command:
            await command.refresh(["told"])

        await eventually(lambda: shown(gateway) == ["told:ping", "told:pong"])
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("CAC-1")
async def test_the_list_of_servers_holds_for_the_configured_time(folder: Folder) -> None:
    clock, changing = Clock(1_000_000.0), Changing.beside(folder.path, "a")
    folder.write(changing.server("clock"), cache={"ttl": 60})

    async with folder.open(clock=clock) as engine:
        await engine.refresh()
        changing.has("a", "b")
        clock.now += 59.9
        await engine.refresh(only_due=True)
        [fresh] = engine.view.servers()
        clock.now += 0.1
        await engine.refresh(only_due=True)
        [listed_again] = engine.view.servers()

    assert (fresh.tool_count, listed_again.tool_count) == (1, 2)
    assert changing.asked == 2


@pytest.mark.requirement("CAC-1")
async def test_a_server_may_ask_for_less_time_but_not_for_none(folder: Folder) -> None:
    clock = Clock(1_000_000.0)
    folder.write(fault_server("ttl", name="short"), cache={"ttl": 3600})

    async with folder.open(clock=clock) as engine:
        await engine.refresh()
        listed = []
        for _ in range(2):
            clock.now += 59.9
            await engine.refresh(only_due=True)
            listed.append(engine.view.server("short").listed_at)
            clock.now += 0.1
            await engine.refresh(only_due=True)
            listed.append(engine.view.server("short").listed_at)

    begin = 1_000_000.0
    assert listed == [begin, begin + 60, begin + 60, begin + 120]


WORDS = "Resolving packages\nDownloading 40 %"
SCRIPT = (
    'echo started >> "$0.starts"; printf "%s\\n" "$1" >&2; shift;'
    ' until [ -e "$0" ]; do sleep 0.01; done; exec "$@"'
)


@dataclass(frozen=True)
class Download:
    """What a server waits for before it answers; it writes how often it was started."""

    path: Path

    def before(self, server: Any) -> Any:
        transport = server.transport
        args = ("-c", SCRIPT, str(self.path), WORDS, transport.command, *transport.args)
        return replace(server, transport=replace(transport, command="/bin/sh", args=args))

    def end(self) -> None:
        self.path.touch()

    @property
    def starts(self) -> int:
        file = Path(f"{self.path}.starts")
        return len(file.read_text("utf-8").split()) if file.exists() else 0


@pytest.fixture
def download(tmp_path: Path) -> Download:
    return Download(tmp_path / "downloaded")


async def under_way(engine: Engine, server: str) -> ServerReport:
    """A server that is starting, once its program has written something."""
    await eventually(lambda: bool(summary(engine.view, server).progress))
    return summary(engine.view, server)


@pytest.mark.requirement("LIB-37")
async def test_an_answer_goes_out_and_the_start_that_was_begun_is_used(
    folder: Folder, download: Download
) -> None:
    folder.write(download.before(good("slow")), good("quick"))

    async with folder.open() as engine:
        with engine.subscribe() as events:
            await engine.list_tools("quick")
            report = await engine.refresh(max_wait=1.5)
            seen = await under_way(engine, "slow")
            answer = await engine.search("echo")
            download.end()
            await engine.list_tools("slow")
            await engine.execute("slow", "echo", {})
        told = events.drain()

    assert report.starting == ("slow",)
    assert seen.state is ServerState.STARTING
    assert seen.progress == "Downloading 40 %"
    assert seen.starting_for is not None
    assert [str(hit.entry.key) for hit in answer.hits] == ["quick:echo"]
    [notice] = [n for n in answer.notices if n.server == "slow"]
    assert notice.code == "SERVER_STARTING"
    assert notice.message.startswith("slow: starting, ")
    assert not any(isinstance(event, ServerFailed) for event in told)
    assert download.starts == 1


@pytest.mark.requirement("MET-12")
async def test_agents_read_that_it_is_starting_and_nothing_that_its_program_wrote(
    folder: Folder, download: Download
) -> None:
    folder.write(download.before(good("slow")))

    async with folder.open() as engine:
        await engine.refresh(max_wait=0.1)
        await under_way(engine, "slow")
        answers = [
            await ask(engine, "search_tools", query="echo"),
            await ask(engine, "list_tools", server="slow"),
            await ask(engine, "get_tool_details", tool="slow:echo"),
            await ask(engine, "list_mcp_servers"),
        ]
        download.end()
        result = await ask(engine, "execute_tool", tool="slow:echo", arguments={"text": "hi"})

    searched, listed, described, servers = map(text_of, answers)
    assert searched.startswith("No tool is known yet.\nNote: slow: starting, ")
    assert "Note: slow: starting, " in listed
    assert described.startswith("SERVER_STARTING: server 'slow' is starting, ")
    assert servers == "slow (0 tools) starting"
    for word in ("Downloading", "Resolving", "no enabled tool", "fail"):
        assert not any(word in str(answer) for answer in answers)
    assert not result.get("isError")
    assert download.starts == 1


@pytest.mark.requirement("CFG-20")
async def test_only_a_short_regular_file_of_text_is_read_as_a_secret(folder: Folder) -> None:
    contents = {"long": b"x" * 65_537, "no text": b"\xff\xfe", "fits": b"x" * 65_536}
    for name, content in contents.items():
        (folder.path / name).write_bytes(content)
    (folder.path / "folder").mkdir()
    answers = {}
    for name in (*contents, "folder", "missing"):
        folder.write(good(env={"A": f"${{file:{folder.path / name}}}"}))
        async with folder.open() as engine:
            try:
                answers[name] = await seen(engine, "A")
            except DiscoveryError as error:
                answers[name] = str(error)

    assert answers.pop("fits") == "x" * 65_536
    assert ["its file " in one for one in answers.values()] == [True] * 4
