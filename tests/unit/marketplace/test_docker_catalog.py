from __future__ import annotations

from pathlib import Path

import pytest

from discovery_engine.config.marketplace_settings import MarketplaceSource
from discovery_engine.marketplace.entry import Input, OfferedTool
from discovery_engine.marketplace.marketplace import Marketplace
from tests.marketplaces import Clock, marketplace
from tests.rows import rows
from tests.servers.web_server import WebAnswer, WebRequest, web_server

pytestmark = pytest.mark.anyio

CATALOG = Path(__file__).parents[2] / "fixtures" / "marketplace" / "docker-catalog.yaml"


def local(path: Path = CATALOG) -> MarketplaceSource:
    return MarketplaceSource("docker-catalog", path=str(path))


async def problem_of(market: Marketplace) -> str:
    [report] = await market.sync()
    [problem] = report.problems
    assert problem.code == "MARKETPLACE_SOURCE_INVALID"
    return problem.message


@pytest.mark.requirement("MKT-24")
async def test_a_server_of_the_catalog_has_its_image_tools_and_settings(tmp_path: Path) -> None:
    with marketplace(tmp_path, local()) as market:
        await market.sync()
        entry = await market.lookup("filesystem")

    [package] = entry.packages
    assert (package.registry_type, package.identifier, package.version) == (
        *("oci", "mcp/filesystem", ""),
    )
    assert package.integrity.startswith("sha256:35fcf0217c")
    paths = Input(
        "paths",
        "variable",
        description="Folders that may be read and written.",
        is_required=True,
    )
    assert package.runtime_arguments == (
        Input("-v", "named", "{paths}:{paths}", variables=(paths,), is_repeated=True),
        Input("--network", "named", "none"),
    )
    assert package.package_arguments == (
        Input("", "positional", "{paths}", variables=(paths,), is_repeated=True),
    )
    assert entry.tools == (OfferedTool("read_file"), OfferedTool("write_file", "Writes a file."))
    assert entry.trust == "curated"
    assert entry.publisher == "modelcontextprotocol"
    assert entry.id == "github.com/modelcontextprotocol/servers#oci:mcp/filesystem"


@pytest.mark.requirement("MKT-24")
async def test_secrets_and_settings_of_the_catalog_are_asked_for(tmp_path: Path) -> None:
    with marketplace(tmp_path, local()) as market:
        await market.sync()
        [tickets] = (await market.lookup("tickets")).packages
        [docs] = (await market.lookup("docs")).remotes

    assert tickets.version == "1.10"
    assert tickets.environment == (
        Input(
            "TICKETS_TOKEN",
            "environment",
            placeholder="<TICKETS_TOKEN>",
            is_required=True,
            is_secret=True,
        ),
        Input(
            "TICKETS_REGION",
            "environment",
            "{region}",
            variables=(Input("region", "variable", default="eu", choices=("eu", "us")),),
        ),
        Input("TICKETS_MODE", "environment", "quiet"),
    )
    [header] = docs.headers
    assert header.value == "Bearer {DOCS_TOKEN}"
    [token] = header.variables
    assert (token.name, token.is_secret, token.is_required) == ("DOCS_TOKEN", True, True)


@pytest.mark.requirement("MKT-24")
async def test_an_entry_of_the_catalog_that_cannot_be_used_costs_only_itself(
    tmp_path: Path,
) -> None:
    with marketplace(tmp_path, local()) as market:
        [report] = await market.sync()
        odd = await market.lookup("odd")

    assert report.added == 4
    assert "'broken': it is no object" in report.problems[0].message
    [refused] = odd.refused
    assert "'poci'" in refused.reason


@pytest.mark.requirement("MKT-16")
async def test_a_server_is_found_by_a_tool_that_only_the_catalog_knows(tmp_path: Path) -> None:
    with marketplace(tmp_path, local()) as market:
        page = await market.search("create ticket")

    assert page.entries[0].entry.name == "tickets"


@pytest.mark.requirement("MKT-24")
async def test_a_catalog_at_an_address_is_read_again_only_if_it_changed(tmp_path: Path) -> None:
    def respond(request: WebRequest) -> WebAnswer:
        if request.headers.get("if-none-match") == '"1"':
            return WebAnswer(status=304)
        return WebAnswer(CATALOG.read_bytes(), headers={"ETag": '"1"'})

    clock = Clock()
    with web_server(respond) as server:
        source = MarketplaceSource("docker-catalog", url=f"{server.url}/catalog.yaml")
        with marketplace(tmp_path, source, clock=clock) as market:
            [first] = await market.sync()
            clock.now += 7200
            [second] = await market.sync()
            [state] = await market.sources()

    assert (first.added, second.added, second.is_complete) == (4, 0, True)
    assert [request.headers.get("if-none-match") for request in server.asked] == [None, '"1"']
    assert state.entries == 4


@pytest.mark.requirement("MKT-12")
@rows(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"<!doctype html><p>Sign in", id="HTML"),
        pytest.param(b"servers: {}", id="another file"),
        pytest.param(b"registry: []", id="a list"),
        pytest.param(b"registry: {a: {b: [", id="cut"),
        pytest.param(b"a: &a [x, x]\nregistry: {b: [*a, *a]}", id="aliases"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b"\xff\xfe\x00", id="UTF-16"),
    ],
)
async def test_what_is_no_catalog_is_said(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "catalog.yaml"
    file.write_bytes(content)

    with marketplace(tmp_path, local(file)) as market:
        message = await problem_of(market)

    assert message.startswith("it is no catalog")
