"""Registries, catalogs and lists that attack whoever searches them, judged by what they reach."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine import open_engine
from discovery_engine._util.fetch.fetch_error import FetchError
from discovery_engine._util.fetch.fetcher import open_fetcher
from discovery_engine.config.marketplace_settings import MarketplaceSource
from discovery_engine.engine import Engine
from discovery_engine.errors import DiscoveryError
from tests.hostile import HOSTILE_PACKAGES
from tests.marketplaces import marketplace, registry
from tests.rows import rows
from tests.servers.mcp_registry_server import listed, registry_server
from tests.servers.package_index import PackageIndex, package_index
from tests.servers.programs import played
from tests.servers.web_server import WebAnswer, WebRequest, WebServer, json_answer, web_server

pytestmark = pytest.mark.anyio

SECRET = "s3cret-t0ken-0f-acme"


@pytest.fixture
def canary() -> Iterator[WebServer]:
    """Something on this machine that no foreign text may reach."""
    with web_server(lambda _: WebAnswer(b"reached")) as server:
        yield server


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
            tmp_path, registry(server.url), MarketplaceSource("docker-catalog", path=str(catalog))
        ) as market,
    ):
        await market.sync()
        await market.search("a")
        await market.lookup("com.evil/a")

    assert canary.asked == []
    assert {request.path for request in server.asked} == {"/v0.1/servers"}


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


HOSTS = [
    *("127.1", "127.0.1", "0x7f000001", "0x7f.0.0.1", "2130706433", "0177.0.0.1", "017700000001"),
    *("0", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]"),
    *("localhost.", "LOCALHOST", "[::127.0.0.1]", "[2002:7f00:1::]", "127.0.0.1."),
]


@pytest.mark.requirement("MKT-20")
async def test_no_spelling_of_this_machine_is_reached_by_a_redirect(canary: WebServer) -> None:
    hosts = iter(HOSTS)

    def respond(_: WebRequest) -> WebAnswer:
        return WebAnswer(status=302, headers={"Location": f"http://{next(hosts)}:{canary.port}/"})

    with web_server(respond) as server, anyio.fail_after(60):
        for _ in HOSTS:
            async with open_fetcher(server.url) as fetcher:
                with pytest.raises(FetchError):
                    await fetcher.get(server.url, limit=1 << 20, follows=True)

    assert next(hosts, None) is None
    assert canary.asked == []


@pytest.mark.requirement("MKT-26")
@rows("cursor", ["x&limit=1#", "../../admin", "a\r\nX-Evil: 1", "\0", "http://evil.example/"])
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


@pytest.mark.requirement("MKT-1")
async def test_no_entry_brings_another_program_an_option_or_a_path(tmp_path: Path) -> None:
    packages = [
        {"registryType": kind, "identifier": name, "version": "1.0.0"}
        for kind in ("npm", "pypi")
        for name in HOSTILE_PACKAGES
    ]
    entries = [
        listed(f"com.evil/x{number}", packages=[package]) for number, package in enumerate(packages)
    ]
    with registry_server(*entries) as server, marketplace(tmp_path, registry(server.url)) as market:
        await market.sync()
        page = await market.search(limit=200)

    assert [package for found in page.entries for package in found.entry.packages] == []
    assert len(page.entries) == len(entries)
    assert all(found.entry.refused for found in page.entries)


PROGRAMS = ("npm", "npx", "node", "uv", "uvx", "pip", "docker", "dnx", "sh", "bash", "touch")


class Watched:
    """An engine whose programs and indexes note what reaches them."""

    def __init__(self, engine: Engine, index: PackageIndex, folder: Path) -> None:
        self.engine = engine
        self._index = index
        self._folder = folder

    async def try_name(self, name: str) -> None:
        """Every verb that takes the name of a server."""
        for verb in (self.engine.marketplace.show, self.engine.marketplace.lookup):
            for asked in (name, f"npm:{name}", f"pypi:{name}"):
                try:
                    await verb(asked)
                except DiscoveryError:
                    continue

    @property
    def started(self) -> list[list[str]]:
        """The arguments of what was started, but for those that ask for a version."""
        files = self._folder.glob("*.argv")
        argvs = [json.loads(file.read_text("utf-8")) for file in files]
        return [argv for argv in argvs if argv != ["--version"]]

    @property
    def asked(self) -> list[str]:
        return self._index.asked


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        played(programs, name, out="null")
    return tmp_path


@pytest.fixture
def index() -> Iterator[PackageIndex]:
    with package_index() as opened:
        yield opened


@pytest.fixture
async def watched(folder: Path, index: PackageIndex) -> Iterator[Watched]:
    with registry_server(listed("com.acme/files")) as registry:
        sources = [{"type": "mcp-registry", "id": "team", "url": registry.url}]
        sources += [{"type": "npm"}, {"type": "pypi"}]  # type: ignore[list-item]
        config = folder / "discovery.yaml"
        config.write_text(json.dumps({"marketplace": {"sources": sources}}), "utf-8")
        environ = index.environ(folder) | {"PATH": str(folder / "bin")}
        async with open_engine(config, environ=environ, data_dir=folder / "data") as engine:
            yield Watched(engine, index, folder / "bin")


@pytest.mark.packages
@pytest.mark.requirement("MKT-40")
async def test_a_hostile_name_starts_nothing_and_asks_nobody(watched: Watched) -> None:
    for name in HOSTILE_PACKAGES:
        await watched.try_name(name)

    assert watched.started == []
    assert watched.asked == []


@pytest.mark.packages
@pytest.mark.requirement("MKT-40")
async def test_a_hostile_query_is_words_for_npm_and_nothing_else(watched: Watched) -> None:
    for query in (*HOSTILE_PACKAGES, "-g mcp; touch M", "/(a+)+$/ mcp", "--json=false mcp"):
        try:
            await watched.engine.marketplace.search(query)
        except DiscoveryError:
            continue
        for argv in watched.started:
            assert argv[0] == "search"
            assert not any(word.startswith("-") for word in argv[argv.index("--") + 1 :])

    assert watched.started != []
    assert watched.asked == []
