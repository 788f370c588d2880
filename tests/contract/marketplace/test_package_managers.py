"""The real npm and pip against a registry and an index on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from discovery_engine.errors import PackageManagerError, PackageNotFoundError
from discovery_engine.marketplace.package_managers.npm import Npm
from tests.servers.package_index import PackageIndex, package_index

pytestmark = pytest.mark.anyio
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")


@pytest.fixture
def index() -> Iterator[PackageIndex]:
    with package_index() as opened:
        yield opened


@pytest.fixture
def npm(index: PackageIndex, tmp_path: Path) -> Npm:
    return Npm(index.environ(tmp_path), timeout=120)


@pytest.mark.node
@needs_npm
async def test_the_registry_of_the_users_npm_is_searched(index: PackageIndex, npm: Npm) -> None:
    index.add_npm("acme-files", description="reads files", keywords=["mcp"])
    index.add_npm("acme-paint", description="paints", keywords=["mcp"])
    index.add_npm("other-files", description="reads files", keywords=[])

    found = await npm.search("keywords:mcp files", limit=20)

    assert [hit.name for hit in found] == ["acme-files"]
    assert found[0].published_at == 1767323045.0


@pytest.mark.requirement("MKT-42", "MKT-44")
@pytest.mark.node
@needs_npm
async def test_a_package_is_described_without_its_archive(index: PackageIndex, npm: Npm) -> None:
    integrity = index.add_npm(
        "@acme/files", "1.2.0", scripts={"postinstall": "touch it"}, deprecated="use other"
    )
    index.add_npm("@acme/files", "1.3.0", bin={"a": "x.js", "b": "y.js"})

    old, new = await npm.view("@acme/files", "1.2.0"), await npm.view("@acme/files")

    assert (old.integrity, old.deprecated, old.program) == (integrity, "use other", "files")
    assert (old.has_install_scripts, new.has_install_scripts) == (True, False)
    assert (new.version, new.latest, new.program) == ("1.3.0", "1.3.0", "")
    assert new.versions == ("1.2.0", "1.3.0")
    assert new.published["1.2.0"] == 1767323045.0
    assert index.downloads == []


@pytest.mark.node
@needs_npm
async def test_npm_says_what_is_not_there(index: PackageIndex, npm: Npm) -> None:
    index.add_npm("files", "1.0.0")

    with pytest.raises(PackageNotFoundError, match="npm has no package 'filez'"):
        await npm.view("filez")
    with pytest.raises(PackageNotFoundError, match=r"npm has no version 2\.0\.0 of 'files'"):
        await npm.view("files", "2.0.0")


@pytest.mark.requirement("MKT-44")
@pytest.mark.node
@needs_npm
@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (404, b"{}", "the registry that npm uses has no search"),
        (401, b"{}", "npm cannot search: "),
        (200, b"<html>log in</html>", "npm cannot search: "),
    ],
)
async def test_a_faulty_search_is_an_error_with_its_reason(
    index: PackageIndex, npm: Npm, status: int, body: bytes, words: str
) -> None:
    index.refuse = lambda path: (status, body) if "/-/v1/search" in path else None

    with pytest.raises(PackageManagerError, match=words) as caught:
        await npm.search("files", limit=5)

    assert len(caught.value.message) < 400
