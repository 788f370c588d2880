"""Names from a marketplace, a person or an agent reach no program but as the name of a package."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from discovery_engine import open_engine
from discovery_engine.engine import Engine
from discovery_engine.errors import DiscoveryError
from tests.servers.mcp_registry_server import listed, registry_server
from tests.servers.package_index import PackageIndex, package_index
from tests.servers.programs import played

pytestmark = pytest.mark.anyio

PROGRAMS = (
    "npm",
    "npx",
    "node",
    "uv",
    "uvx",
    "pip",
    "pip3",
    "docker",
    "dnx",
    "sh",
    "bash",
    "touch",
)
HOSTILE = (
    *(
        "-c",
        "--call",
        "--eval=process.exit()",
        "--privileged",
        "--from",
        "-g",
        "--registry=http://x",
    ),
    *(
        "./evil",
        "../../evil",
        "/etc/cron.d",
        "~/evil",
        "file:evil",
        "evil.tgz",
        "evil.whl",
        "C:\\x",
    ),
    *("attacker/pwn", "github:attacker/pwn", "git+https://x.example/y", "https://x.example/y.tgz"),
    *("npm:other@1.0.0", "mcp-x@latest", "mcp-x@npm:evil", "mcp-x@file:..", "mcp-x @ file:///x"),
    *("mcp-x; touch M", "mcp-x && touch M", "$(touch M)", "`touch M`", "a|touch M", "a\ntouch M"),
    *("mcp-x\x00", "mcp-\u0455erver", "mcp\u200b-x", "\uff4dcp-x", "mcp-x\u202e", "@a/../../evil"),
    *("a" * 300, "@" + "a" * 250 + "/x", "@acme//mcp", "@/mcp", "mcp-x/", "mcp-x[all]", "mcp-x>=1"),
)


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


@pytest.mark.requirement("MKT-40")
async def test_a_hostile_name_starts_nothing_and_asks_nobody(watched: Watched) -> None:
    for name in HOSTILE:
        await watched.try_name(name)

    assert watched.started == []
    assert watched.asked == []


@pytest.mark.requirement("MKT-40")
async def test_a_hostile_query_is_words_for_npm_and_nothing_else(watched: Watched) -> None:
    for query in (*HOSTILE, "-g mcp; touch M", "/(a+)+$/ mcp", "--json=false mcp"):
        try:
            await watched.engine.marketplace.search(query)
        except DiscoveryError:
            continue
        for argv in watched.started:
            assert argv[0] == "search"
            assert not any(word.startswith("-") for word in argv[argv.index("--") + 1 :])

    assert watched.started != []
    assert watched.asked == []
