from __future__ import annotations

from pathlib import Path

import pytest

from discovery_engine.config.marketplace_settings import MarketplaceSource
from discovery_engine.errors import Diagnostic
from discovery_engine.marketplace.entry import Input, OfferedTool
from tests.marketplaces import marketplace
from tests.rows import rows

pytestmark = pytest.mark.anyio

LIST = Path(__file__).parents[2] / "fixtures" / "marketplace" / "team-servers.yaml"
GOOD = "  - name: good\n    packages: [{registryType: npm, identifier: good, version: 1.10}]\n"


async def read(tmp_path: Path, text: str) -> tuple[list[str], list[Diagnostic]]:
    """The names of the entries of a list, and what is wrong with it."""
    (tmp_path / "team.yaml").write_text(text)
    with marketplace(tmp_path, MarketplaceSource("file", path="team.yaml")) as market:
        page = await market.search()
        return [found.entry.name for found in page.entries], list(page.problems)


@pytest.mark.requirement("MKT-25")
async def test_a_list_of_a_team_has_packages_addresses_and_what_they_need(tmp_path: Path) -> None:
    with marketplace(tmp_path, MarketplaceSource("file", path=str(LIST))) as market:
        [report] = await market.sync()
        files = await market.lookup("com.acme/files")
        docs = await market.lookup("com.acme/docs")
        images = await market.lookup("com.acme/images")

    assert report.problems == ()
    [package] = files.packages
    root = Input("root", "variable", description="The folder", format="filepath", is_required=True)
    assert (package.identifier, package.version) == ("@acme/files", "1.2.0")
    assert package.package_arguments == (
        Input("", "positional", "serve"),
        Input("--root", "named", "{root}", variables=(root,)),
    )
    assert package.environment == (
        Input("FILES_KEY", "environment", description="Your key", is_required=True, is_secret=True),
    )
    assert files.tools == (OfferedTool("read_file"), OfferedTool("write_file", "Writes a file."))
    assert (files.version, files.trust) == ("1.2.0", "curated")
    [remote] = docs.remotes
    assert remote.variables == (Input("team", "variable", is_required=True),)
    assert remote.headers == (Input("X-Key", "header", is_required=True, is_secret=True),)
    assert (images.packages[0].identifier, images.packages[0].version) == (
        *("ghcr.io/acme/images", "1.10"),
    )


@pytest.mark.requirement("MKT-25")
@rows(
    ("entry", "place", "message"),
    [
        ("text", "2:5", "it is no object"),
        ("{packages: []}", "2:5", "it has no usable name"),
        ("{name: bad, name: worse}", "2:17", "duplicate key 'name'"),
    ],
)
async def test_a_mistake_in_a_list_has_its_place_and_costs_only_its_entry(
    tmp_path: Path, entry: str, place: str, message: str
) -> None:
    names, [problem, *_] = await read(tmp_path, f"servers:\n  - {entry}\n{GOOD}")

    assert "good" in names
    assert problem.code == "MARKETPLACE_LIST_INVALID"
    assert f"{problem.origin.line}:{problem.origin.column}" == place
    assert problem.origin.file.endswith("team.yaml")
    assert message in problem.message


@pytest.mark.requirement("MKT-25")
async def test_an_offer_that_cannot_be_used_is_named_with_the_line_of_its_entry(
    tmp_path: Path,
) -> None:
    offer = "{registryType: npm, identifier: a, version: ^1}"

    names, [problem] = await read(
        tmp_path, f"servers:\n{GOOD}  - name: bad\n    packages: [{offer}]\n"
    )

    assert sorted(names) == ["bad", "good"]
    assert problem.origin.line == 4
    assert "bad: npm a: not an exact version" in problem.message


@pytest.mark.requirement("MKT-25")
@rows(("text", "line"), [("", 0), ("servers: {}", 0), ("servers:\n  a: [", 3), ("a: &x 1", 1)])
async def test_what_is_no_list_is_said_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    names, problems = await read(tmp_path, text)

    assert names == []
    [problem] = problems
    assert problem.code == "MARKETPLACE_LIST_INVALID"
    assert problem.origin.line == line
    assert problem.hint


@pytest.mark.requirement("MKT-25")
async def test_a_list_that_was_edited_is_read_by_the_next_search_and_its_mistakes_stay_said(
    tmp_path: Path,
) -> None:
    file = tmp_path / "team.yaml"
    file.write_text("servers: [{name: one}, {}]")
    with marketplace(tmp_path, MarketplaceSource("file", path="team.yaml")) as market:
        first = await market.search()
        again = await market.search()
        file.write_text("servers: [{name: two}]")
        edited = await market.search()
        file.unlink()
        gone = await market.search()

    assert [one.message for one in first.problems] == [one.message for one in again.problems]
    assert len(first.problems) == 1
    assert [found.entry.name for found in edited.entries] == ["two"]
    assert edited.problems == ()
    assert [found.entry.name for found in gone.entries] == ["two"]
    assert gone.problems[0].code == "MARKETPLACE_SOURCE_UNAVAILABLE"
