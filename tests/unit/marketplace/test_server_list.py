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


def source(path: Path) -> MarketplaceSource:
    return MarketplaceSource("file", path=str(path))


async def read(tmp_path: Path, text: str) -> tuple[list[str], list[Diagnostic]]:
    """The names of the entries of a list, and what is wrong with it."""
    file = tmp_path / "team.yaml"
    file.write_text(text)
    with marketplace(tmp_path, source(file)) as market:
        page = await market.search()
        return [found.entry.name for found in page.entries], list(page.problems)


@pytest.mark.requirement("MKT-25")
async def test_a_list_of_a_team_has_packages_addresses_and_what_they_need(tmp_path: Path) -> None:
    with marketplace(tmp_path, source(LIST)) as market:
        [report] = await market.sync()
        files = await market.lookup("acme-files")
        docs = await market.lookup("acme-docs")
        images = await market.lookup("acme-images")
        weather = await market.lookup("acme-weather")

    assert report.problems == ()
    [package] = files.packages
    root = Input("root", "variable", description="The folder", format="filepath", is_required=True)
    region = Input("region", "variable", default="eu", choices=("eu", "us"))
    assert (package.identifier, package.version) == ("@acme/files", "1.2.0")
    assert package.package_arguments == (
        Input("", "positional", "serve"),
        Input("", "positional", "--root"),
        Input("", "positional", "{root}", variables=(root,)),
    )
    assert package.environment == (
        Input("FILES_KEY", "environment", description="Your key", is_required=True, is_secret=True),
        Input("FILES_REGION", "environment", "{region}", variables=(region,)),
        Input("FILES_MODE", "environment", "quiet"),
    )
    assert files.tools == (OfferedTool("read_file"), OfferedTool("write_file", "Writes a file."))
    assert (files.publisher, files.version, files.trust) == ("Acme", "1.2.0", "curated")
    [remote] = docs.remotes
    assert remote.variables == (Input("team", "variable", is_required=True),)
    assert remote.headers == (Input("X-Key", "header", is_required=True, is_secret=True),)
    assert (images.packages[0].identifier, images.packages[0].version) == (
        *("ghcr.io/acme/images", "1.10"),
    )
    assert (images.status, images.status_message) == ("deprecated", "use acme-files")
    assert (weather.packages[0].identifier, weather.packages[0].version) == (
        *("acme-weather", "2.0.1"),
    )


@pytest.mark.requirement("MKT-25")
@rows(
    ("lines", "place", "message", "hint"),
    [
        ("packge: npm:a@1", "3:5", "servers.bad.packge: unknown key 'packge'", "package"),
        ("package: a@1", "3:14", "servers.bad.package: 'a@1' is no package", "npm:@acme/files"),
        ("package: npm:../a@1", "3:14", "servers.bad.package: not a name of a package", "TYPE"),
        ("package: npm:a@^1", "3:14", "servers.bad.package: not an exact version", "TYPE"),
        ("title: x", "2:3", "servers.bad: needs either `package` or `url`", "one of the two"),
        ("url: ftp://x", "3:10", "servers.bad.url: it has no http:// or https:// address", ""),
        (
            "package: npm:a@1\n    arguments: ['{root}']",
            *("4:17", "servers.bad.arguments.0: {root} is none of `inputs`", "`root` below"),
        ),
        (
            "package: npm:a@1\n    env: {KEY: {secrt: true}}",
            *("4:17", "servers.bad.env.KEY.secrt: unknown key", "'secret'"),
        ),
        (
            "package: npm:a@1\n    inputs: {a: {required: maybe}}",
            *("4:28", "servers.bad.inputs.a.required: must be true or false", ""),
        ),
        ("package: npm:a@1\n    package: npm:b@1", "4:5", "duplicate key 'package'", "keep one"),
    ],
)
async def test_a_mistake_in_a_list_has_its_place_and_costs_only_its_entry(
    tmp_path: Path, lines: str, place: str, message: str, hint: str
) -> None:
    text = f"servers:\n  bad:\n    {lines}\n  good:\n    package: npm:good@1.0.0\n"

    names, problems = await read(tmp_path, text)

    assert names == ["good"]
    [problem] = problems
    assert problem.code == "MARKETPLACE_LIST_INVALID"
    assert f"{problem.origin.line}:{problem.origin.column}" == place
    assert problem.origin.file.endswith("team.yaml")
    assert message in problem.message
    assert hint in problem.hint


@pytest.mark.requirement("MKT-25")
@rows(("text", "line"), [("", 0), ("servers: []", 0), ("servers:\n  a: [", 3), ("a: &x 1", 1)])
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
    file.write_text("servers: {one: {package: 'npm:one@1.0.0'}, bad: {}}")
    with marketplace(tmp_path, source(file)) as market:
        first = await market.search()
        again = await market.search()
        file.write_text("servers: {two: {package: 'npm:two@1.0.0'}}")
        edited = await market.search()
        file.unlink()
        gone = await market.search()

    assert [one.message for one in first.problems] == [one.message for one in again.problems]
    assert len(first.problems) == 1
    assert [found.entry.name for found in edited.entries] == ["two"]
    assert edited.problems == ()
    assert [found.entry.name for found in gone.entries] == ["two"]
    assert gone.problems[0].code == "MARKETPLACE_SOURCE_UNAVAILABLE"


async def test_a_relative_path_starts_at_the_folder_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text("servers: {one: {package: 'npm:one@1.0.0'}}")
    with marketplace(tmp_path, MarketplaceSource("file", path="team.yaml")) as market:
        page = await market.search("one")

    assert [found.entry.name for found in page.entries] == ["one"]
