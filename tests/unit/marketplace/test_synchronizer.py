"""Sources of the marketplace: copied page by page, and each costs only itself."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine.config.marketplace_settings import MarketplaceSource
from discovery_engine.marketplace.entry_store import MarketplaceStore, SourceRecord
from discovery_engine.marketplace.marketplace import Marketplace, MarketplacePage
from discovery_engine.marketplace.mcp_registry import McpRegistry
from discovery_engine.marketplace.synchronizer import SourceReport, Synchronizer, SyncProgress
from discovery_engine.secrets.resolver import EnvironmentResolver
from tests.marketplaces import Clock, marketplace, registry
from tests.rows import rows
from tests.servers.mcp_registry_server import OFFICIAL, listed, moment, registry_server
from tests.servers.programs import eventually
from tests.servers.web_server import WebAnswer, WebRequest, json_answer, web_server, zipped

pytestmark = pytest.mark.anyio

HOUR = 3600.0
HTML = WebAnswer(b"<!doctype html><title>Sign in</title>", headers={"Content-Type": "text/html"})


def numbered(count: int) -> list[dict[str, Any]]:
    return [listed(f"io.github.acme/server-{n:03}", day=n) for n in range(count)]


def names(page: MarketplacePage) -> list[str]:
    return [found.entry.name for found in page.entries]


def codes(page: MarketplacePage) -> list[str]:
    return [problem.code for problem in page.problems]


async def everything(market: Marketplace, query: str = "", **options: Any) -> list[str]:
    """The names of all results, page by page."""
    found: list[str] = []
    cursor = None
    with anyio.fail_after(60):
        while True:
            page = await market.search(query, cursor=cursor, limit=7, **options)
            found += names(page)
            cursor = page.next_cursor
            if cursor is None:
                return found


@pytest.mark.requirement("MKT-10")
async def test_all_pages_are_copied_and_then_only_what_has_changed(tmp_path: Path) -> None:
    clock = Clock()
    with (
        registry_server(*numbered(25), page_size=10) as server,
        marketplace(tmp_path, registry(server.url), clock=clock) as market,
    ):
        first = await everything(market)
        server.entries.append(listed("io.github.acme/new", day=30))
        clock.now += 2 * HOUR
        second = await everything(market)

    assert len(first) == 25
    assert second == ["io.github.acme/new", *first]
    assert [query.get("cursor") for query in server.queries] == [None, "10", "20", None]
    changes = server.queries[-1]
    assert moment(23) < changes["updated_since"] < moment(24)
    assert changes["include_deleted"] == "true"


@pytest.mark.requirement("MKT-10")
async def test_a_source_is_asked_once_in_the_time_that_is_set_and_at_once_if_that_is_forced(
    tmp_path: Path,
) -> None:
    clock = Clock()
    with (
        registry_server(*numbered(3)) as server,
        marketplace(tmp_path, registry(server.url), clock=clock) as market,
    ):
        for _ in range(3):
            await market.search("server")
        clock.now += HOUR - 1
        [report] = await market.sync()
        assert not report.was_due
        assert len(server.asked) == 1

        [forced] = await market.sync(force=True)
        assert forced.was_due
        clock.now += HOUR
        await market.search("server")

    assert len(server.asked) == 3


@pytest.mark.requirement("MKT-10")
async def test_what_has_not_changed_is_not_sent_again(tmp_path: Path) -> None:
    clock = Clock()
    with (
        registry_server(*numbered(3), has_etags=True) as server,
        marketplace(tmp_path, registry(server.url), clock=clock) as market,
    ):
        for _ in range(4):
            [report] = await market.sync()
            assert report.is_complete
            assert report.problems == ()
            clock.now += 2 * HOUR

    tags = [request.headers.get("if-none-match") for request in server.asked]
    assert tags[:2] == [None, None]  # everything, and what changed since: two addresses
    assert tags[2] is not None
    assert tags[3] == tags[2]


@pytest.mark.requirement("MKT-10")
async def test_everything_is_read_again_once_a_week_and_what_came_no_more_is_removed(
    tmp_path: Path,
) -> None:
    clock = Clock()
    with (
        registry_server(*numbered(5)) as server,
        marketplace(tmp_path, registry(server.url), clock=clock) as market,
    ):
        await market.sync()
        del server.entries[2]
        clock.now += 2 * HOUR
        [changes] = await market.sync()
        clock.now += 7 * 24 * HOUR
        [whole] = await market.sync()
        left = await everything(market)

    assert (changes.removed, whole.removed) == (0, 1)
    assert "io.github.acme/server-002" not in left
    assert len(left) == 4


@pytest.mark.requirement("MKT-10")
async def test_progress_is_reported_for_each_page(tmp_path: Path) -> None:
    seen: list[SyncProgress] = []
    with (
        registry_server(*numbered(25), page_size=10) as server,
        marketplace(tmp_path, registry(server.url)) as market,
    ):
        [report] = await market.sync(on_progress=seen.append)

    assert [(one.source, one.pages, one.entries) for one in seen] == [
        *(("acme", 1, 10), ("acme", 2, 20), ("acme", 3, 25))
    ]
    assert (report.pages, report.added, report.updated, report.is_complete) == (3, 25, 0, True)


@pytest.mark.requirement("MKT-10")
async def test_a_run_that_was_cut_goes_on_where_it_was(tmp_path: Path) -> None:
    with (
        registry_server(*numbered(45), page_size=10) as server,
        marketplace(tmp_path, registry(server.url)) as market,
    ):
        with anyio.move_on_after(60) as scope:
            await market.sync(on_progress=lambda one: scope.cancel() if one.pages == 2 else None)
        assert scope.cancelled_caught
        partial = await everything(market, offline=True)
        await market.sync()
        whole = await everything(market)

    assert len(partial) == 20
    assert len(whole) == 45
    cursors = [query.get("cursor") for query in server.queries]
    assert cursors == [None, "10", "20", "30", "40"]


@pytest.mark.requirement("MKT-10")
async def test_a_place_that_the_source_knows_no_more_is_not_gone_on_from(tmp_path: Path) -> None:
    expired = False

    def fault(request: WebRequest) -> WebAnswer | None:
        is_old = expired and request.query.get("cursor") == "20"
        return json_answer({"title": "Bad Request"}, 400) if is_old else None

    with (
        registry_server(*numbered(25), page_size=10, fault=fault) as server,
        marketplace(tmp_path, registry(server.url)) as market,
    ):
        with anyio.move_on_after(60) as scope:
            await market.sync(on_progress=lambda one: scope.cancel() if one.pages == 2 else None)
        expired = True
        server.page_size = 15
        [report] = await market.sync()

    assert report.is_complete
    assert [query.get("cursor") for query in server.queries] == [None, "10", "20", None, "15"]


@pytest.mark.requirement("MKT-12")
@rows(
    ("answer", "code"),
    [
        pytest.param(HTML, "MARKETPLACE_SOURCE_INVALID", id="a page for people"),
        pytest.param(
            WebAnswer(b"<html>", headers={"Content-Type": "application/json"}),
            "MARKETPLACE_SOURCE_INVALID",
            id="HTML that is said to be JSON",
        ),
        pytest.param(WebAnswer(b'{"servers": ['), "MARKETPLACE_SOURCE_INVALID", id="half of JSON"),
        pytest.param(WebAnswer(b""), "MARKETPLACE_SOURCE_INVALID", id="nothing"),
        pytest.param(json_answer([1]), "MARKETPLACE_SOURCE_INVALID", id="a list"),
        pytest.param(json_answer({"a": 1}), "MARKETPLACE_SOURCE_INVALID", id="no servers"),
        pytest.param(
            json_answer({"servers": [], "metadata": {"nextCursor": {"a": 1}}}),
            "MARKETPLACE_SOURCE_INVALID",
            id="an object for a cursor",
        ),
        pytest.param(
            WebAnswer(b"[" * 200_000 + b"]" * 200_000), "MARKETPLACE_SOURCE_INVALID", id="deep JSON"
        ),
        pytest.param(
            WebAnswer(b'{"servers": []}', is_cut=True), "MARKETPLACE_SOURCE_UNAVAILABLE", id="cut"
        ),
        pytest.param(
            WebAnswer(b"x", headers={"Content-Length": str(2**31)}),
            "MARKETPLACE_SOURCE_UNAVAILABLE",
            id="2 GB",
        ),
        pytest.param(
            zipped(WebAnswer(b"\0" * 64 * 1024 * 1024)), "MARKETPLACE_SOURCE_UNAVAILABLE", id="bomb"
        ),
        pytest.param(WebAnswer(status=401), "MARKETPLACE_SOURCE_UNAVAILABLE", id="no access"),
        pytest.param(WebAnswer(status=500), "MARKETPLACE_SOURCE_UNAVAILABLE", id="failing"),
        pytest.param(
            WebAnswer(status=302, headers={"Location": "/v0.1/servers"}),
            "MARKETPLACE_SOURCE_UNAVAILABLE",
            id="redirects in a circle",
        ),
        pytest.param(
            WebAnswer(status=302, headers={"Location": "http://169.254.169.254/"}),
            "MARKETPLACE_SOURCE_UNAVAILABLE",
            id="redirect elsewhere",
        ),
    ],
)
async def test_a_source_that_fails_costs_only_itself_and_its_copy_serves(
    tmp_path: Path, answer: WebAnswer, code: str
) -> None:
    is_bad = False
    clock = Clock()
    with (
        registry_server(*numbered(3), fault=lambda _: answer if is_bad else None) as bad,
        registry_server(listed("com.other/server", day=99)) as good,
        marketplace(
            tmp_path, registry(bad.url, "bad"), registry(good.url, "good"), clock=clock
        ) as market,
    ):
        await market.search("server")
        is_bad = True
        good.entries.append(listed("com.other/fresh", day=100))
        clock.now += 2 * HOUR
        with anyio.fail_after(60):
            page = await market.search()

    assert names(page) == [
        *("com.other/fresh", "com.other/server", "io.github.acme/server-002"),
        *("io.github.acme/server-001", "io.github.acme/server-000"),
    ]
    assert codes(page) == [code]
    [problem] = page.problems
    assert problem.subject == "bad"
    assert problem.hint
    assert page.synced_at == clock.now - 2 * HOUR - sum(clock.slept)


@pytest.mark.requirement("MKT-12")
async def test_a_source_that_never_answered_is_said_and_not_asked_with_each_search(
    tmp_path: Path,
) -> None:
    clock = Clock()
    with (
        web_server(lambda _: WebAnswer(status=404)) as server,
        marketplace(tmp_path, registry(server.url), clock=clock) as market,
    ):
        first = await market.search("x")
        asked = len(server.asked)
        second = await market.search("x")
        assert len(server.asked) == asked
        clock.now += 301
        await market.search("x")

    assert len(server.asked) > asked
    assert codes(first) == codes(second) == ["MARKETPLACE_SOURCE_INVALID"]
    assert first.entries == ()


@pytest.mark.requirement("MKT-12")
async def test_a_slow_source_with_a_copy_holds_nobody_up(tmp_path: Path) -> None:
    is_stuck = False
    clock = Clock()
    with (
        registry_server(
            *numbered(3), fault=lambda _: WebAnswer(is_stuck=True) if is_stuck else None
        ) as server,
        marketplace(tmp_path, registry(server.url), clock=clock) as market,
    ):
        await market.search("server")
        is_stuck = True
        clock.now += 2 * HOUR
        with anyio.fail_after(20):  # a request has thirty
            page = await market.search("server")

    assert len(page.entries) == 3


@pytest.mark.requirement("MKT-12")
async def test_pages_in_a_circle_end(tmp_path: Path) -> None:
    def around(request: WebRequest) -> WebAnswer:
        following = {"": "a", "a": "b", "b": "a"}[request.query.get("cursor", "")]
        return json_answer(
            {"servers": [listed(f"com.acme/{following}")], "metadata": {"nextCursor": following}}
        )

    with web_server(around) as server, marketplace(tmp_path, registry(server.url)) as market:
        [report] = await market.sync()
        found = await everything(market, offline=True)

    assert "circle" in report.problems[0].message
    assert sorted(found) == ["com.acme/a", "com.acme/b"]
    assert len(server.asked) == 3


@pytest.mark.requirement("MKT-12")
async def test_a_source_that_is_limited_is_asked_again_when_it_wants(tmp_path: Path) -> None:
    answers = [WebAnswer(status=429, headers={"Retry-After": "7"}), WebAnswer(status=500), None]
    clock = Clock()
    with (
        registry_server(*numbered(2), fault=lambda _: answers.pop(0)) as server,
        marketplace(tmp_path, registry(server.url), clock=clock) as market,
    ):
        [report] = await market.sync()

    assert report.is_complete
    assert clock.slept == [7.0, 1.0]


@pytest.mark.requirement("MKT-12")
async def test_a_source_that_wants_a_long_pause_is_not_asked_before(tmp_path: Path) -> None:
    limited = WebAnswer(status=429, headers={"Retry-After": "7200"})
    is_limited = True
    clock = Clock()
    with (
        registry_server(*numbered(2), fault=lambda _: limited if is_limited else None) as server,
        marketplace(tmp_path, registry(server.url), clock=clock) as market,
    ):
        [report] = await market.sync()
        is_limited = False
        clock.now += 7100
        await market.search("server")
        assert len(server.asked) == 1
        clock.now += 200
        page = await market.search("server")

    assert clock.slept == []
    assert "asks to wait 7200 s" in report.problems[0].message
    assert len(page.entries) == 2
    assert page.problems == ()


@pytest.mark.requirement("MKT-6")
async def test_versions_collapse_to_the_highest_and_the_next_counts_if_it_is_deleted(
    tmp_path: Path,
) -> None:
    clock = Clock()
    versions = ["1.9.0", "1.10.0", "1.2.0"]
    with (
        registry_server(
            *(listed("com.acme/files", version=one, day=n) for n, one in enumerate(versions))
        ) as server,
        marketplace(tmp_path, registry(server.url), clock=clock) as market,
    ):
        await market.sync()
        highest = await market.lookup("com.acme/files")
        server.entries.append(listed("com.acme/files", version="1.10.0", day=9, status="deleted"))
        clock.now += 2 * HOUR
        await market.sync()
        next_one = await market.lookup("com.acme/files")
        found = await everything(market, "files")

    assert highest.version == "1.10.0"
    assert [note.version for note in highest.versions] == ["1.10.0", "1.9.0", "1.2.0"]
    assert next_one.version == "1.9.0"
    assert found == ["com.acme/files"]


@pytest.mark.requirement("MKT-6")
async def test_what_is_deleted_is_hidden_and_what_is_deprecated_shown_with_its_message(
    tmp_path: Path,
) -> None:
    clock = Clock()
    with (
        registry_server(listed("com.acme/old"), listed("com.acme/gone")) as server,
        marketplace(tmp_path, registry(server.url), clock=clock) as market,
    ):
        await market.sync()
        server.entries[:] = [
            listed("com.acme/old", day=5, status="deprecated", message="use com.acme/new"),
            listed("com.acme/gone", day=5, status="deleted"),
        ]
        clock.now += 2 * HOUR
        page = await market.search("old gone")

    [found] = page.entries
    assert (found.entry.status, found.entry.status_message) == ("deprecated", "use com.acme/new")


@pytest.mark.requirement("MKT-1")
async def test_a_malformed_entry_costs_only_itself(tmp_path: Path) -> None:
    broken: list[Any] = [None, 7, [], {}, {"server": None}, {"server": {"name": "a b"}}]
    good = listed("com.acme/good")
    with (
        registry_server(good, *broken, listed("com.acme/better")) as server,
        marketplace(tmp_path, registry(server.url)) as market,
    ):
        [report] = await market.sync()
        found = await everything(market)

    assert sorted(found) == ["com.acme/better", "com.acme/good"]
    assert report.is_complete
    [problem] = report.problems
    assert problem.code == "MARKETPLACE_ENTRIES_LEFT_OUT"
    assert problem.message.startswith("6 entries were left out: number 2 of its page: ")
    assert "'a b': " in problem.message
    assert problem.message.count("left out") == 1
    assert not report.is_failed


@pytest.mark.requirement("MKT-1")
async def test_an_entry_of_too_many_bytes_is_left_out(tmp_path: Path) -> None:
    arguments = [{"type": "positional", "value": "x" * 8_000} for _ in range(100)]
    package = {"registryType": "npm", "identifier": "a", "packageArguments": arguments}
    with (
        registry_server(
            listed("com.acme/good"), listed("com.acme/huge", packages=[package])
        ) as server,
        marketplace(tmp_path, registry(server.url)) as market,
    ):
        [report] = await market.sync()
        found = await everything(market)

    assert found == ["com.acme/good"]
    assert "com.acme/huge" in report.problems[0].message


@pytest.mark.requirement("MKT-26")
async def test_headers_are_sent_with_their_references_and_only_to_the_source(
    tmp_path: Path,
) -> None:
    with registry_server(*numbered(15), page_size=10) as server:
        source = registry(server.url, headers={"Authorization": "Bearer ${ACME}"})
        with marketplace(tmp_path, source, environ={"ACME": "s3cret-t0ken"}) as market:
            await market.sync()

    sent = [request.headers["authorization"] for request in server.asked]
    assert sent == ["Bearer s3cret-t0ken"] * 2


@pytest.mark.requirement("MKT-26")
async def test_a_header_without_a_value_is_named_and_nothing_is_asked(tmp_path: Path) -> None:
    with registry_server(*numbered(1)) as server:
        source = registry(server.url, headers={"Authorization": "Bearer ${ACME}"})
        with marketplace(tmp_path, source) as market:
            [report] = await market.sync()

    assert server.asked == []
    [problem] = report.problems
    assert "'Authorization': ${ACME} is not set" in problem.message


@pytest.mark.requirement("MKT-10")
async def test_a_registry_of_the_older_api_and_a_strict_one_are_read(tmp_path: Path) -> None:
    def older(request: WebRequest) -> WebAnswer:
        if request.path != "/v0/servers":
            return WebAnswer(status=404)
        if request.query.keys() - {"limit", "cursor"}:
            return json_answer({"title": "Unprocessable Entity"}, 422)
        document = {
            "name": "io.github.acme/files",
            "version_detail": {"version": "1.0.0"},
            "packages": [{"registry_name": "npm", "name": "files", "version": "1.0.0"}],
            "_meta": {OFFICIAL: {"published_at": moment(1), "updated_at": moment(2)}},
        }
        return json_answer({"servers": [document], "metadata": {"next_cursor": ""}})

    with web_server(older) as server, marketplace(tmp_path, registry(server.url)) as market:
        [report] = await market.sync()
        entry = await market.lookup("io.github.acme/files")

    assert report.problems == ()
    assert entry.version == "1.0.0"
    assert entry.updated_at == moment(2)


@pytest.mark.requirement("MKT-18")
async def test_two_processes_do_not_copy_a_source_at_the_same_time(tmp_path: Path) -> None:
    reports: list[SourceReport] = []
    with (
        registry_server(*numbered(25), page_size=10) as server,
        marketplace(tmp_path, registry(server.url)) as first,
        marketplace(tmp_path, registry(server.url)) as second,
    ):
        async with anyio.create_task_group() as tasks:

            def on_page(one: SyncProgress) -> None:
                if one.pages == 1:
                    tasks.start_soon(other)

            async def other() -> None:
                reports.extend(await second.sync(force=True))

            with anyio.fail_after(60):
                [report] = await first.sync(on_progress=on_page)

    assert report.is_complete
    assert len(server.asked) <= 4
    assert len(reports) == 1


@pytest.mark.requirement("MKT-18")
@rows("damage", ["garbage", "truncated", "other format", "removed"])
async def test_a_damaged_copy_is_made_anew(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "marketplace.db"
    with registry_server(*numbered(30)) as server:
        source = registry(server.url)
        with marketplace(tmp_path, source) as market:
            await market.sync()
        content = file.read_bytes()
        if damage == "garbage":
            file.write_bytes(b"no database at all" * 500)
        elif damage == "truncated":
            file.write_bytes(content[: len(content) // 2])
        elif damage == "removed":
            file.unlink()
        else:
            with sqlite3.connect(file) as connection:
                connection.execute("PRAGMA user_version = 99")
            connection.close()
        with marketplace(tmp_path, source) as market:
            await market.sync(force=True)
            found = await everything(market)

    assert len(found) == 30
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.requirement("MKT-18")
async def test_a_copy_that_is_removed_under_an_open_marketplace_is_made_anew(
    tmp_path: Path,
) -> None:
    with (
        registry_server(*numbered(5)) as server,
        marketplace(tmp_path, registry(server.url)) as market,
    ):
        await market.sync()
        (tmp_path / "marketplace.db").unlink()
        found = await everything(market)

    assert len(found) == 5


@pytest.mark.requirement("MKT-18")
async def test_a_source_with_another_address_is_copied_anew(tmp_path: Path) -> None:
    with registry_server(*numbered(5)) as one, registry_server(listed("com.acme/x")) as other:
        with marketplace(tmp_path, registry(one.url)) as market:
            await market.sync()
        with marketplace(tmp_path, registry(other.url)) as market:
            found = await everything(market)

    assert found == ["com.acme/x"]


@pytest.mark.requirement("MKT-18")
async def test_the_copy_of_a_source_that_is_no_longer_configured_is_not_searched(
    tmp_path: Path,
) -> None:
    with registry_server(*numbered(5)) as one, registry_server(listed("com.acme/x")) as other:
        both = registry(one.url, "one"), registry(other.url, "other")
        with marketplace(tmp_path, *both) as market:
            await market.sync()
        with marketplace(tmp_path, both[1]) as market:
            found = await everything(market, "server x", offline=True)
            await market.sync()
            [state] = await market.sources()

    assert found == ["com.acme/x"]
    assert state.entries == 1


@pytest.mark.requirement("MKT-18")
@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of files")
async def test_a_disk_that_is_full_in_the_middle_leaves_what_was_copied(tmp_path: Path) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with (
        registry_server(*numbered(300), page_size=50) as server,
        marketplace(tmp_path, registry(server.url)) as market,
    ):
        resource.setrlimit(resource.RLIMIT_FSIZE, (200 * 1024, before[1]))
        try:
            [full] = await market.sync()
            page = await market.search("007")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        [whole] = await market.sync(force=True)
        found = await everything(market)

    [problem] = full.problems
    assert problem.code == "MARKETPLACE_STORE_FAILED"
    assert "free space" in problem.hint
    assert page.entries
    assert whole.is_complete
    assert len(found) == 300


PROGRAM = """
import sys
from pathlib import Path
import anyio
from tests.marketplaces import marketplace, registry

async def main():
    with marketplace(Path(sys.argv[1]), registry(sys.argv[2])) as market:
        [report] = await market.sync(force=True)
        print(report.is_complete, report.added, flush=True)

anyio.run(main)
"""


def program(folder: Path, url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), url], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.requirement("MKT-10", "MKT-18")
@pytest.mark.skipif(sys.platform == "win32", reason="kills with a signal")
async def test_a_process_that_is_killed_in_the_middle_is_gone_on_from_at_once(
    tmp_path: Path,
) -> None:
    is_stuck = True

    def fault(request: WebRequest) -> WebAnswer | None:
        is_second = request.query.get("cursor") == "10"
        return WebAnswer(is_stuck=True) if is_stuck and is_second else None

    with registry_server(*numbered(25), page_size=10, fault=fault) as server:
        killed = program(tmp_path, server.url)
        await eventually(lambda: len(server.asked) == 2)
        killed.kill()
        await anyio.to_thread.run_sync(killed.communicate)
        is_stuck = False
        with marketplace(tmp_path, registry(server.url)) as market:
            [report] = await market.sync()
            found = await everything(market)

    assert report.is_complete
    assert len(found) == 25
    assert [query.get("cursor") for query in server.queries] == [None, "10", "10", "20"]


@pytest.mark.thorough
@pytest.mark.requirement("MKT-18")
async def test_several_processes_that_copy_and_search_at_once_agree(tmp_path: Path) -> None:
    with registry_server(*numbered(120), page_size=10) as server:
        programs = [program(tmp_path, server.url) for _ in range(4)]
        with anyio.fail_after(120):
            outputs = [
                (await anyio.to_thread.run_sync(one.communicate))[0].split() for one in programs
            ]
        with marketplace(tmp_path, registry(server.url)) as market:
            found = await everything(market, offline=True)

    assert all(one.returncode == 0 for one in programs)
    assert any(complete == "True" for complete, _ in outputs)
    assert sum(int(added) for _, added in outputs) == 120
    assert len(found) == len(set(found)) == 120


@pytest.mark.requirement("MKT-17")
async def test_a_copy_that_is_not_whole_is_said_by_each_search(tmp_path: Path) -> None:
    with (
        registry_server(*numbered(25), page_size=10) as server,
        marketplace(tmp_path, registry(server.url)) as market,
    ):
        none = await market.search("server 7", offline=True)
        with anyio.move_on_after(60) as scope:
            await market.sync(on_progress=lambda one: scope.cancel() if one.pages == 2 else None)
        part = await market.search("server 7", offline=True)
        await market.sync()
        whole = await market.search("server 7", offline=True)

    assert [problem.message for problem in none.problems] == [
        "it was not copied yet, so that nothing of it is found"
    ]
    assert [problem.message for problem in part.problems] == [
        "only 20 of its entries were copied so far"
    ]
    assert codes(part) == ["MARKETPLACE_COPY_INCOMPLETE"]
    assert whole.problems == ()


@pytest.mark.requirement("MKT-20")
async def test_a_source_on_the_internet_is_read_by_https_alone(tmp_path: Path) -> None:
    source = registry("http://registry.example.com", headers={"X-Key": "k3y"})
    with marketplace(tmp_path, source) as market:
        [report] = await market.sync()

    [problem] = report.problems
    assert "not encrypted" in problem.message
    assert "https://" in problem.hint


@pytest.mark.requirement("MKT-10")
async def test_the_official_registry_is_asked_once_an_hour_whatever_is_set(tmp_path: Path) -> None:
    clock = Clock()
    secrets = EnvironmentResolver({})
    official = McpRegistry(MarketplaceSource("mcp-registry"), secrets)
    other = McpRegistry(registry("https://registry.acme.example"), secrets)
    synchronizer = Synchronizer(
        MarketplaceStore(tmp_path / "marketplace.db", clock=clock), sync_every=60, clock=clock
    )

    def due_after(seconds: float) -> list[bool]:
        record = SourceRecord("x", is_complete=True, completed_at=clock.now - seconds)
        return [synchronizer.is_due(source, record) for source in (official, other)]

    assert due_after(59) == [False, False]
    assert due_after(3599) == [False, True]
    assert due_after(3600) == [True, True]


@pytest.mark.requirement("MKT-10")
async def test_an_entry_of_a_date_to_come_hides_no_change(tmp_path: Path) -> None:
    clock = Clock()
    with (
        registry_server(listed("com.acme/early", day=10_000)) as server,
        marketplace(tmp_path, registry(server.url), clock=clock) as market,
    ):
        await market.sync()
        server.entries.append(listed("com.acme/fresh", day=270))
        clock.now += 2 * HOUR
        found = await everything(market)

    assert "com.acme/fresh" in found
