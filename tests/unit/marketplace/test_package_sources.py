"""The sources npm and PyPI, with package managers that a test plays."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine.config.marketplace_settings import MarketplaceSource
from discovery_engine.marketplace import package_sources
from discovery_engine.marketplace.entry import EntryOrigin, MarketplaceEntry
from discovery_engine.marketplace.entry_details import known_packages
from discovery_engine.marketplace.package_managers.npm import Npm
from discovery_engine.marketplace.package_managers.python_packages import PythonPackages
from discovery_engine.marketplace.package_names import identifier_problem
from discovery_engine.marketplace.package_sources import (
    KnownPackagesSource,
    NpmSource,
    PyPISource,
    exact_name,
)
from discovery_engine.marketplace.source import SourceFailure, SyncPoint
from tests.rows import rows
from tests.servers.package_index import package_index
from tests.servers.programs import none_left_running

pytestmark = pytest.mark.anyio

NPM = MarketplaceSource("npm")
PYPI = MarketplaceSource("pypi")
_PLAYED = """#!{python} -S
import json, pathlib, sys, time
folder = pathlib.Path({folder!r})
answers = json.loads((folder / "answers.json").read_text())
words = sys.argv[sys.argv.index("--") + 1:]
with (folder / "asked").open("a") as asked:
    asked.write(json.dumps([sys.argv[1], *words[:6]]) + "\\n")
key = "search" if sys.argv[1] == "search" else words[0].rpartition("@")[0]
answer = answers.get(key)
if answer == "hang":
    time.sleep(600)
if answer is None:
    print(json.dumps({{"error": {{"code": "E404", "summary": "Not Found"}}}}))
    sys.exit(1)
print(json.dumps(answer))
"""


class PlayedNpm:
    """An npm that knows some packages, and how it was asked."""

    def __init__(self, folder: Path, **answers: Any) -> None:
        self._folder = folder
        (folder / "answers.json").write_text(json.dumps(answers), "utf-8")
        program = folder / "npm"
        program.write_text(_PLAYED.format(python=sys.executable, folder=str(folder)), "utf-8")
        program.chmod(0o755)

    def source(self, limit: float = 120.0) -> NpmSource:
        environ = os.environ | {"PATH": str(self._folder)}
        return NpmSource(NPM, Npm(environ), time_limit=limit)

    @property
    def asked(self) -> list[list[str]]:
        path = self._folder / "asked"
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]


def hit(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "version": "1.0.0", "keywords": ["mcp"]} | members


def package(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "version": "1.0.0", "bin": {"x": "x.js"}} | members


@pytest.mark.requirement("MKT-46")
async def test_what_a_search_finds_is_offered_if_it_has_a_program(tmp_path: Path) -> None:
    npm = PlayedNpm(
        tmp_path,
        search=[hit("files"), hit("library"), hit("gone")],
        files=package("files", dist={"integrity": "sha512-abc="}, versions=["1.0.0"]),
        library=package("library", bin=None),
    )

    found = await npm.source().search("read files", limit=20)

    [entry] = found
    assert entry.name == "files"
    assert (entry.origins, entry.trust) == ((EntryOrigin("npm", "unreviewed"),), "unreviewed")
    [offer] = entry.packages
    assert (offer.registry_type, offer.version, offer.integrity) == ("npm", "1.0.0", "sha512-abc=")
    assert offer.runtime_hint == "npx"


async def test_npm_is_asked_for_the_keyword_and_the_word(tmp_path: Path) -> None:
    npm = PlayedNpm(tmp_path, search=[])

    await npm.source().search("I need a server to read PDF files for me", limit=20)

    assert sorted(npm.asked) == [
        ["search", "read", "PDF", "files", "keywords:mcp"],
        ["search", "read", "PDF", "files", "mcp"],
    ]


@rows("query", ["...", "???", "-"])
async def test_a_query_without_words_asks_nobody(tmp_path: Path, query: str) -> None:
    npm = PlayedNpm(tmp_path, search=[hit("files")], files=package("files"))

    assert await npm.source().search(query, limit=20) == ()
    assert npm.asked == []


async def test_packages_that_are_not_about_mcp_are_left_out_unasked(tmp_path: Path) -> None:
    other = hit("files", keywords=["fs"], description="mcpherson's files")
    npm = PlayedNpm(tmp_path, search=[other], files=package("files"))

    assert await npm.source().search("files", limit=20) == ()
    assert [words[0] for words in npm.asked] == ["search", "search"]


@rows(
    "about",
    [
        {"keywords": ["model-context-protocol"]},
        {"keywords": [], "description": "A server of the Model Context Protocol"},
        {"keywords": [], "name": "files-mcp"},
    ],
)
async def test_a_package_is_about_mcp_by_its_name_words_or_description(
    tmp_path: Path, about: dict[str, Any]
) -> None:
    name = about.get("name", "files")
    npm = PlayedNpm(tmp_path, search=[hit("files") | about], **{name: package(name)})

    assert [entry.name for entry in await npm.source().search("files", limit=20)] == [name]


async def test_a_search_looks_at_few_packages(tmp_path: Path) -> None:
    names = [f"files-{number}" for number in range(40)]
    npm = PlayedNpm(
        tmp_path, search=[hit(name) for name in names], **{n: package(n) for n in names}
    )

    found = await npm.source().search("files", limit=20)

    assert len(found) == 6
    assert len(npm.asked) <= 10


@pytest.mark.requirement("MKT-46")
async def test_where_the_registry_has_no_search_an_exact_name_is_found(tmp_path: Path) -> None:
    npm = PlayedNpm(tmp_path, **{"@acme/files": package("@acme/files")})

    found = await npm.source().search("@acme/files", limit=20)

    assert [entry.name for entry in found] == ["@acme/files"]
    with pytest.raises(SourceFailure, match="the registry that npm uses has no search"):
        await npm.source().search("files", limit=20)


@pytest.mark.requirement("MKT-46")
async def test_a_search_that_takes_too_long_is_ended_with_its_program(tmp_path: Path) -> None:
    npm = PlayedNpm(tmp_path, search="hang")

    with none_left_running(), pytest.raises(SourceFailure, match=r"did not answer within 0\.5 s"):
        await npm.source(limit=0.5).search("files", limit=20)


@pytest.mark.requirement("MKT-46")
async def test_what_was_found_before_the_time_was_up_counts() -> None:
    entry = MarketplaceEntry("a", "a")

    class Slow(PyPISource):
        async def _search(self, _: str, __: int, found: dict[str, MarketplaceEntry]) -> None:
            found["a"] = entry
            await anyio.sleep_forever()

    assert await Slow(PYPI, PythonPackages({}), time_limit=0.01).search("a", limit=1) == (entry,)


@pytest.mark.requirement("MKT-46")
async def test_a_missing_npm_is_a_failure_of_the_source_alone(tmp_path: Path) -> None:
    with pytest.raises(SourceFailure, match="npm is not on the PATH") as caught:
        await NpmSource(NPM, Npm({"PATH": str(tmp_path)})).search("files", limit=20)

    assert caught.value.code == "MARKETPLACE_SOURCE_UNAVAILABLE"
    assert "nodejs.org" in caught.value.hint


async def test_a_package_is_described_by_its_name(tmp_path: Path) -> None:
    npm = PlayedNpm(
        tmp_path,
        files=package(
            "files",
            deprecated="use other",
            repository="github:acme/files",
            versions=["0.9.0", "1.0.0"],
            time={"0.9.0": "2025-01-02T00:00:00Z", "1.0.0": "2026-01-02T00:00:00Z"},
        ),
    )

    entry = await npm.source().lookup("files")

    assert entry is not None
    assert (entry.status, entry.status_message) == ("deprecated", "use other")
    assert entry.id == "github.com/acme/files#npm:files"
    assert entry.repository == "https://github.com/acme/files"
    assert (entry.first_published_at, entry.published_at) == (
        "2025-01-02T00:00:00Z",
        "2026-01-02T00:00:00Z",
    )
    assert [note.version for note in entry.versions] == ["1.0.0", "0.9.0"]
    assert await npm.source().lookup("filez") is None
    assert await npm.source().lookup("--eval") is None


async def test_a_package_without_a_program_has_no_offer_and_says_why(tmp_path: Path) -> None:
    npm = PlayedNpm(tmp_path, files=package("files", bin={}))

    entry = await npm.source().lookup("files")

    assert entry is not None
    assert entry.packages == ()
    assert [refused.reason for refused in entry.refused] == [
        "it has no program that could be started (no `bin`)"
    ]


@pytest.mark.requirement("MKT-46")
async def test_well_known_packages_need_no_network() -> None:
    npm, pypi = KnownPackagesSource(NPM), KnownPackagesSource(PYPI)

    async with npm.open() as npm_pages, pypi.open() as pypi_pages:
        first, second = await npm_pages(SyncPoint()), await pypi_pages(SyncPoint())

    assert "@modelcontextprotocol/server-filesystem" in {entry.name for entry in first.entries}
    time = next(entry for entry in second.entries if entry.name == "mcp-server-time")
    assert (time.id, time.packages[0].runtime_hint) == ("pypi:mcp-server-time", "uvx")
    assert (time.trust, first.cursor) == ("unreviewed", "")
    assert first.etag
    assert (await npm_pages(SyncPoint(etag=first.etag))).is_unchanged


def test_the_list_of_well_known_packages_has_names_that_can_be_and_a_date() -> None:
    known = known_packages()

    assert re.fullmatch(r"20\d\d-\d\d-\d\d", known.date)
    for kind in ("npm", "pypi"):
        for name, purpose in known.of(kind).items():
            assert (identifier_problem(kind, name), bool(purpose)) == ("", True)
    assert len(known.pypi) >= 33


@pytest.mark.requirement("MKT-46")
async def test_the_very_name_of_a_python_package_is_found_with_its_newest_version(
    tmp_path: Path,
) -> None:
    with package_index() as index:
        index.add_wheel("acme-mcp", "1.2.0")
        source = PyPISource(PYPI, PythonPackages(index.environ(tmp_path)), time_limit=120)

        [entry] = await source.search(" acme-mcp ", limit=20)
        none = await source.search("tells the time", limit=20)
        full = await source.lookup("acme-mcp")

        assert (entry.name, entry.version, entry.packages[0].version) == (
            *("acme-mcp", "1.2.0", "1.2.0"),
        )
        assert none == ()
        assert full is not None
        assert full.packages[0].integrity.startswith("sha256:")
        assert await source.search("no-such-mcp", limit=20) == ()
        assert await source.lookup("no-such-mcp") is None


@rows(
    ("query", "npm", "pypi"),
    [
        ("mcp-server-time", "mcp-server-time", "mcp-server-time"),
        (" @acme/files ", "@acme/files", ""),
        ("awslabs.core-mcp-server", "awslabs.core-mcp-server", "awslabs.core-mcp-server"),
        ("fastmcp", "fastmcp", "fastmcp"),
        ("weather", "", ""),
        ("read pdf", "", ""),
        ("--registry=x", "", ""),
        ("../mcp", "", ""),
        ("Zotero-MCP", "", "Zotero-MCP"),
        ("", "", ""),
    ],
)
def test_only_what_looks_like_a_name_is_looked_up_as_one(query: str, npm: str, pypi: str) -> None:
    assert (exact_name("npm", query), exact_name("pypi", query)) == (npm, pypi)


@pytest.mark.requirement("MKT-46")
def test_the_time_limit_is_that_of_an_interactive_answer() -> None:
    assert package_sources.TIME_LIMIT <= 3
