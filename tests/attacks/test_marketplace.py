"""Registries, catalogs and lists that attack whoever searches them, judged by what they reach."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine._util.fetch.fetch_error import FetchError
from discovery_engine._util.fetch.fetcher import open_fetcher
from discovery_engine.config.marketplace_settings import MarketplaceSource
from tests.marketplaces import marketplace, registry
from tests.servers.mcp_registry_server import listed, registry_server
from tests.servers.web_server import WebAnswer, WebRequest, WebServer, json_answer, web_server

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
SECRET = "s3cret-t0ken-0f-acme"


@pytest.fixture
def canary() -> Iterator[WebServer]:
    """Something on this machine that no foreign text may reach."""
    with web_server(lambda _: WebAnswer(b"reached")) as server:
        yield server


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


HOSTS = [
    *("127.1", "127.0.1", "0x7f000001", "0x7f.0.0.1", "2130706433", "0177.0.0.1", "017700000001"),
    *("0", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]"),
    *("localhost.", "LOCALHOST", "[::127.0.0.1]", "[2002:7f00:1::]", "127.0.0.1."),
]


@pytest.mark.requirement("MKT-20")
@pytest.mark.parametrize("host", HOSTS)
async def test_no_spelling_of_this_machine_is_reached_by_a_redirect(
    canary: WebServer, host: str
) -> None:
    target = f"http://{host}:{canary.port}/"

    def respond(_: WebRequest) -> WebAnswer:
        return WebAnswer(status=302, headers={"Location": target})

    with web_server(respond) as server, anyio.fail_after(60):
        for follows in (False, True):
            async with open_fetcher(server.url) as fetcher:
                with pytest.raises(FetchError):
                    await fetcher.get(server.url, limit=MIB, follows=follows)

    assert canary.asked == []


@pytest.mark.requirement("MKT-20")
@pytest.mark.parametrize(
    "answers",
    [
        [["127.0.0.1"]],
        [["::1"]],
        [["93.184.215.14", "127.0.0.1"]],
        [["127.0.0.1", "93.184.215.14"]],
        [["::ffff:127.0.0.1"]],
        [["64:ff9b::7f00:1"]],
        [["127.0.0.1"], ["93.184.215.14"]],
    ],
)
async def test_no_name_server_leads_a_request_to_this_machine(
    canary: WebServer, answers: list[list[str]]
) -> None:
    following = itertools.cycle(answers)

    async def resolver(host: str, port: int) -> list[str]:
        del host, port
        return next(following)

    url = f"http://registry.example.com:{canary.port}/"
    with anyio.fail_after(60):
        async with open_fetcher(url, resolver=resolver) as fetcher:
            with pytest.raises(FetchError):
                await fetcher.get(url, limit=MIB)

    assert canary.asked == []


@pytest.mark.requirement("MKT-20", "MKT-26")
async def test_a_redirect_gets_no_key_and_no_request_to_another_host(
    tmp_path: Path, canary: WebServer
) -> None:
    def respond(_: WebRequest) -> WebAnswer:
        return WebAnswer(status=307, headers={"Location": f"{canary.url}/v0.1/servers"})

    with web_server(respond) as server:
        source = registry(server.url, headers={"Authorization": "Bearer ${ACME}"})
        with marketplace(tmp_path, source, environ={"ACME": SECRET}) as market:
            [report] = await market.sync()

    assert canary.asked == []
    assert SECRET not in str(report)
    assert SECRET.encode() not in (tmp_path / "marketplace.db").read_bytes()


@pytest.mark.requirement("MKT-26")
async def test_no_address_in_an_entry_is_fetched(tmp_path: Path, canary: WebServer) -> None:
    url = f"{canary.url}/x"
    remote = {"type": "streamable-http", "url": url}
    references: dict[str, Any] = {"$schema": url, "$ref": url}
    hostile = listed(
        "com.evil/a",
        repository={"url": url},
        websiteUrl=url,
        icons=[{"src": url}],
        remotes=[remote],
        **references,
    )
    catalog = tmp_path / "catalog.yaml"
    described = {"image": "evil/a", "readme": url, "toolsUrl": url, "icon": url, "source": url}
    catalog.write_text(json.dumps({"registry": {"a": described}}))
    with (
        registry_server(hostile) as server,
        marketplace(
            tmp_path,
            registry(server.url),
            MarketplaceSource("docker-catalog", path=str(catalog)),
        ) as market,
    ):
        await market.sync()
        await market.search("a")
        await market.lookup("com.evil/a")

    assert canary.asked == []
    assert {request.path for request in server.asked} == {"/v0.1/servers"}


@pytest.mark.requirement("MKT-26")
@pytest.mark.parametrize(
    "cursor",
    ["x&limit=1#", "../../admin", "a\r\nX-Evil: 1", "\u0000", "http://evil.example/", "%2e%2e/"],
)
async def test_a_cursor_is_a_value_of_one_parameter(tmp_path: Path, cursor: str) -> None:
    def respond(request: WebRequest) -> WebAnswer:
        following = cursor if "cursor" not in request.query else ""
        return json_answer({"servers": [], "metadata": {"nextCursor": following}})

    with web_server(respond) as server, marketplace(tmp_path, registry(server.url)) as market:
        await market.sync()

    assert {request.path for request in server.asked} == {"/v0.1/servers"}
    assert all(request.query.keys() <= {"limit", "version", "cursor"} for request in server.asked)
    assert all(request.query["limit"] == "100" for request in server.asked)
    assert not any("x-evil" in request.headers for request in server.asked)


@pytest.mark.thorough
@pytest.mark.requirement("MKT-20", "MKT-12")
@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of the process from /proc")
@pytest.mark.parametrize(
    "make_answer",
    [
        pytest.param(
            lambda: WebAnswer(b'{"servers": [' + b" " * 65536, is_endless=True), id="endless"
        ),
        pytest.param(
            lambda: WebAnswer(
                gzip.compress(b"[" * 400 * MIB, 9), headers={"Content-Encoding": "gzip"}
            ),
            id="bomb",
        ),
        pytest.param(lambda: WebAnswer(b"[" * 4 * MIB), id="depth"),
        pytest.param(
            lambda: WebAnswer(b'{"servers":[' + b"{}," * MIB + b"{}]}"), id="many entries"
        ),
        pytest.param(
            lambda: json_answer(
                {"servers": [{"server": {"name": "a/b", "tools": [{}] * 300_000}}]}
            ),
            id="many tools",
        ),
    ],
)
async def test_no_answer_takes_more_than_little_memory(
    tmp_path: Path, make_answer: Callable[[], WebAnswer]
) -> None:
    answer = make_answer()
    with (
        registry_server(listed("com.acme/good")) as good,
        web_server(lambda _: answer) as bad,
        marketplace(tmp_path, registry(good.url, "good"), registry(bad.url, "bad")) as market,
        anyio.fail_after(60),
    ):
        await market.sync(["good"])
        before = resident()
        await market.sync(["bad"])
        grown = resident() - before
        page = await market.search("good", offline=True)

    assert grown < 200 * MIB
    assert [found.entry.name for found in page.entries] == ["com.acme/good"]


@pytest.mark.requirement("MKT-1")
async def test_no_entry_brings_another_program_an_option_or_a_path(tmp_path: Path) -> None:
    hostile = [
        *("-c", "--call", "--privileged", "--from", "../../evil", "./local", "/etc/cron.d"),
        *("attacker/pwn", "evil.example/img", "a" * 5000, "foo\n", "$(touch M)", "`touch M`"),
        *("a;touch M", "a b", "a@latest", "file:x", "git+https://x/y", "http://x", "a\0b"),
        *("re\u0430d", "\uff41bc", "a\u200bb", "@scope", "@/x", "@a/b/c", "%2e%2e", "..", "a&&b"),
    ]
    packages = [
        {"registryType": kind, "identifier": name, "version": "1.0.0"}
        for kind in ("npm", "pypi", "nuget")
        for name in hostile
    ]
    entries = [
        listed(f"com.evil/x{number}", packages=[package]) for number, package in enumerate(packages)
    ]
    with (
        registry_server(*entries) as server,
        marketplace(tmp_path, registry(server.url)) as market,
    ):
        await market.sync()
        page = await market.search(limit=100)

    offered = [package for found in page.entries for package in found.entry.packages]
    assert offered == []
    assert len(page.entries) == len(entries)
    assert all(found.entry.refused for found in page.entries)


@pytest.mark.requirement("MKT-4", "MKT-5")
async def test_no_source_makes_itself_more_trusted_or_changes_what_another_offers(
    tmp_path: Path,
) -> None:
    package = {"registryType": "npm", "identifier": "files", "version": "1.0.0"}
    evil = {**package, "packageArguments": [{"type": "positional", "value": "--evil"}]}
    place = {"url": "https://github.com/acme/files"}
    with (
        registry_server(listed("com.acme/files", packages=[package], repository=place)) as good,
        registry_server(
            listed(
                "com.acme/files",
                version="99.0.0",
                packages=[evil],
                repository=place,
                _meta={"trust": "curated"},
                origins=[{"source": "good", "trust": "curated"}],
            )
        ) as bad,
        marketplace(
            tmp_path,
            registry(good.url, "good", trust="curated"),
            registry(bad.url, "bad", trust="unreviewed"),
        ) as market,
    ):
        await market.sync()
        [alone] = (await market.search("files", sources=["bad"])).entries
        [both] = (await market.search("files")).entries

    assert alone.entry.trust == "unreviewed"
    assert both.entry.trust == "unreviewed"
    assert both.entry.packages[0].package_arguments == ()


@pytest.mark.requirement("MKT-18")
@pytest.mark.skipif(os.name != "posix", reason="modes of files")
async def test_a_copy_that_others_could_write_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "marketplace.db"
    with registry_server(listed("com.acme/files")) as server:
        source = registry(server.url)
        with marketplace(tmp_path, source) as market:
            await market.sync()
        file.chmod(0o666)
        with marketplace(tmp_path, source) as market:
            planted = await market.search("files", offline=True)
            assert file.stat().st_mode & 0o777 == 0o600
            read_again = await market.search("files")

    assert planted.entries == ()
    assert len(read_again.entries) == 1


@pytest.mark.requirement("MKT-16")
async def test_texts_of_entries_and_queries_are_data(tmp_path: Path) -> None:
    nasty: list[Any] = [
        *("'); DROP TABLE entries; --", "\x00", "\ud83d", "\x1b[2J", "NEAR(a b)", "a" * 2000),
        *("\u202egnp.exe", "</script>", "{{x}}", "${HOME}", "../" * 50, "%s%n", "[/x]"),
    ]
    entries = [
        listed(f"com.evil/x{number}", title=text, description=text, version=text[:50])
        for number, text in enumerate(nasty)
    ]
    with (
        registry_server(*entries, listed("com.acme/weather", description="Forecasts")) as server,
        marketplace(tmp_path, registry(server.url)) as market,
    ):
        [report] = await market.sync()
        for text in nasty:
            await market.search(text[:500])
        page = await market.search("forecasts")

    assert report.is_complete
    assert page.entries[0].entry.name == "com.acme/weather"
