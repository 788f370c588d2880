"""npm itself is played by a small program, which writes what a test gives it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.errors import (
    PackageManagerError,
    PackageNotFoundError,
    ProgramMissingError,
)
from discovery_engine.marketplace.package_managers.manager_command import PublishedPackage
from discovery_engine.marketplace.package_managers.npm import Npm
from tests.rows import rows
from tests.servers.programs import played

pytestmark = pytest.mark.anyio

DOCUMENT = {
    "name": "@acme/files",
    "version": "1.2.0",
    "description": "Reads files",
    "keywords": ["mcp", 3, None],
    "repository": {"type": "git", "url": "git+https://github.com/acme/files.git"},
    "author": "Acme Inc. <dev@acme.example> (https://acme.example)",
    "bin": {"acme-files": "main.js"},
    "dist": {"integrity": "sha512-abc="},
    "dist-tags": {"latest": "1.2.0"},
    "versions": ["1.0.0", "1.2.0"],
    "time": {"created": "x", "1.0.0": "2026-01-02T03:04:05.000Z", "1.2.0": 7},
    "scripts": {"postinstall": "node setup.js"},
    "mcpName": "io.github.acme/files",
    "engines": {"node": ">=20"},
}


def error(code: str, summary: str) -> str:
    return json.dumps({"error": {"code": code, "summary": summary, "detail": ""}})


def npm(folder: Path, out: Any = None, *, err: str = "", code: int = 0, **extra: Any) -> Npm:
    text = out if isinstance(out, str) else json.dumps(out)
    path = played(folder, "npm", out=text, err=err, code=code)
    return Npm(os.environ | {"PATH": str(path)}, **extra)


@pytest.mark.requirement("MKT-44")
async def test_one_version_is_read_as_npm_shows_it(tmp_path: Path) -> None:
    package = await npm(tmp_path, DOCUMENT).view("@acme/files", "1.2.0")

    assert package == PublishedPackage(
        name="@acme/files",
        version="1.2.0",
        description="Reads files",
        keywords=("mcp",),
        publisher="Acme Inc.",
        repository="https://github.com/acme/files",
        programs={"acme-files": "main.js"},
        integrity="sha512-abc=",
        has_install_scripts=True,
        versions=("1.2.0", "1.0.0"),
        published={"1.0.0": 1767323045.0},
    )
    assert package.program == "acme-files"


async def test_names_stand_behind_the_end_of_the_options(tmp_path: Path) -> None:
    await npm(tmp_path, DOCUMENT).view("@acme/files", "1.2.0")

    argv = json.loads((tmp_path / "npm.argv").read_text("utf-8"))
    assert argv[0] == "view"
    assert argv[argv.index("--") + 1] == "@acme/files@1.2.0"
    assert all(word.startswith("--") for word in argv[1 : argv.index("--")])


@rows(
    ("name", "given", "programs", "program"),
    [
        ("@acme/files", "main.js", {"files": "main.js"}, "files"),
        ("files", {"a": "x.js", "b": "x.js"}, {"a": "x.js", "b": "x.js"}, "a"),
        ("files", {"a": "x.js", "files": "y.js"}, {"a": "x.js", "files": "y.js"}, "files"),
        ("files", {"a": "x.js", "b": "y.js"}, {"a": "x.js", "b": "y.js"}, ""),
        ("files", {"a": 3}, {}, ""),
        ("files", None, {}, ""),
        ("files", ["x"], {}, ""),
    ],
)
async def test_the_program_is_the_one_that_npx_would_choose(
    tmp_path: Path, name: str, given: Any, programs: dict[str, str], program: str
) -> None:
    document = {"name": name, "version": "1.0.0", "bin": given}

    package = await npm(tmp_path, document).view(name)

    assert (package.programs, package.program) == (programs, program)


@rows("wrong", [[], '"x"', 7, {"name": 3}, {"name": "other"}, None])
async def test_a_document_of_another_form_is_refused(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(PackageManagerError, match="no document of 'files'"):
        await npm(tmp_path, wrong).view("files")


async def test_members_of_wrong_types_count_as_missing(tmp_path: Path) -> None:
    wrong = {key: [{"x": 1}] for key in DOCUMENT} | {"name": "files"}

    assert await npm(tmp_path, wrong).view("files") == PublishedPackage("files", "")


async def test_what_is_not_json_is_refused(tmp_path: Path) -> None:
    for text in ("<html>log in</html>", "[" * 100_000, '{"name": "files"'):
        with pytest.raises(PackageManagerError, match="not JSON"):
            await npm(tmp_path, text).view("files")


async def test_a_package_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    absent = error("E404", "Not Found - GET https://npm.acme.example/files")

    for version in ("", "1.0.0"):
        with pytest.raises(PackageNotFoundError, match="npm has no package 'files'"):
            await npm(tmp_path, absent, code=1).view("files", version)


@pytest.mark.requirement("MKT-44")
async def test_a_version_that_is_not_there_is_told_from_its_package(tmp_path: Path) -> None:
    program = tmp_path / "npm"
    program.write_text(
        f"""#!/bin/sh
        case "$*" in
        *files@latest*) echo '{json.dumps(DOCUMENT | {"name": "files"})}' ;;
        *) echo '{error("E404", "so what")}'; exit 1 ;;
        esac"""
    )
    program.chmod(0o755)

    with pytest.raises(PackageNotFoundError) as caught:
        await Npm(os.environ | {"PATH": str(tmp_path)}).view("files", "9.9.9")

    assert caught.value.message == (
        "npm has no version 9.9.9 of 'files'; it may have been withdrawn"
    )
    assert caught.value.hint.startswith("`npm view files versions` lists them")


async def test_another_failure_names_its_reason_without_credentials(tmp_path: Path) -> None:
    refused = error("ECONNREFUSED", "request to http://me:hunter2@127.0.0.1:9/files failed")

    with pytest.raises(PackageManagerError) as caught:
        await npm(tmp_path, refused, code=1).view("files")

    assert "hunter2" not in str(caught.value)
    assert caught.value.message.startswith("npm cannot look up 'files': request to http://•••@")
    assert caught.value.hint == "try `npm view files`"


async def test_without_a_document_stderr_has_the_reason(tmp_path: Path) -> None:
    with pytest.raises(PackageManagerError, match="npm cannot look up 'files': it broke"):
        await npm(tmp_path, "", err="npm error\nit broke\n", code=1).view("files")


@pytest.mark.requirement("MKT-44")
async def test_a_missing_npm_is_named_with_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ProgramMissingError) as caught:
        await Npm({"PATH": str(tmp_path)}).view("files")

    assert caught.value.message == "npm is not on the PATH; it is needed to look up npm packages"
    assert "https://nodejs.org" in caught.value.hint


async def test_a_search_reads_what_is_well_formed(tmp_path: Path) -> None:
    found = [
        {
            "name": "files",
            "version": "1.0.0",
            "description": "Reads",
            "keywords": ["mcp"],
            "publisher": {"username": "acme"},
            "date": "2026-01-02T03:04:05.000Z",
            "links": {"repository": "https://github.com/acme/files"},
        },
        {"version": "1"},
        "x",
        {"name": "bare", "links": 3},
    ]

    first, second = await npm(tmp_path, found).search("read files keywords:mcp", limit=20)

    assert (first.name, first.description, first.keywords) == ("files", "Reads", ("mcp",))
    assert second.name == "bare"
    argv = json.loads((tmp_path / "npm.argv").read_text("utf-8"))
    assert argv[argv.index("--") + 1 :] == ["read", "files", "keywords:mcp"]
    assert "--searchlimit=20" in argv


async def test_words_of_a_query_are_neither_options_nor_patterns(tmp_path: Path) -> None:
    await npm(tmp_path, []).search("--registry=http://x.example /(a+)+$/ -g ; $(id)", limit=5)

    argv = json.loads((tmp_path / "npm.argv").read_text("utf-8"))
    words = argv[argv.index("--") + 1 :]
    assert words
    assert all(word[0].isalnum() for word in words)


async def test_a_query_without_words_asks_nobody(tmp_path: Path) -> None:
    assert await npm(tmp_path, [{"name": "files"}]).search("... --- ??", limit=5) == ()
    assert not (tmp_path / "npm.argv").exists()


async def test_a_registry_without_a_search_is_told_from_a_failure(tmp_path: Path) -> None:
    with pytest.raises(PackageManagerError, match="the registry that npm uses has no search"):
        await npm(tmp_path, error("E404", "Not Found"), code=1).search("files", limit=5)
    with pytest.raises(PackageManagerError, match="npm cannot search: no network"):
        await npm(tmp_path, error("ENOTFOUND", "no network"), code=1).search("files", limit=5)
