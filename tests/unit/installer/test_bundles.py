"""Bundles: downloaded, compared, read, and unpacked without leaving their folder."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import struct
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.errors import InstallFailedError, InstallRefusedError, PackageChangedError
from discovery_engine.marketplace.installer.bundles import (
    BundleDownloads,
    BundleServer,
    open_archive,
    read_bundle,
    read_member,
    unpack,
)
from discovery_engine.marketplace.installer.offered_inputs import (
    InputValues,
    environment,
    server_arguments,
)
from tests.rows import rows
from tests.servers.web_server import WebAnswer, web_server

pytestmark = pytest.mark.anyio
CONTENT = b"a bundle" * 1000
HASH = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def downloads(folder: Path, limit: int = 1_000_000) -> BundleDownloads:
    return BundleDownloads(folder, allowed=frozenset({"loopback"}), limit=limit)


@pytest.mark.requirement("INS-30")
async def test_a_bundle_is_downloaded_once_and_kept_by_its_hash(tmp_path: Path) -> None:
    with web_server(lambda _: WebAnswer(CONTENT)) as server:
        first = await downloads(tmp_path).fetch(f"{server.url}/a.mcpb", HASH)
        again = await downloads(tmp_path).fetch(f"{server.url}/a.mcpb", HASH)

    assert first == again
    assert first.read_bytes() == CONTENT
    assert len(server.asked) == 1
    assert names(tmp_path) == [f"{HASH.removeprefix('sha256:')}.mcpb"]


@pytest.mark.requirement("INS-30")
@rows("content", [b"evil", CONTENT + b"\0", b""])
async def test_other_content_is_refused_and_deleted(tmp_path: Path, content: bytes) -> None:
    with (
        web_server(lambda _: WebAnswer(content)) as server,
        pytest.raises(PackageChangedError) as caught,
    ):
        await downloads(tmp_path).fetch(f"{server.url}/a.mcpb", HASH)

    assert caught.value.pinned == HASH
    assert names(tmp_path) == []


@pytest.mark.requirement("INS-30")
@rows(
    "answer",
    [
        pytest.param(WebAnswer(CONTENT, is_endless=True), id="endless"),
        pytest.param(WebAnswer(CONTENT, is_cut=True), id="cut off"),
        pytest.param(WebAnswer(b"not here", status=404), id="404"),
        pytest.param(WebAnswer(status=302, headers={"Location": "http://10.0.0.1/x"}), id="moved"),
        pytest.param(WebAnswer(status=302, headers={"Location": "/a.mcpb"}), id="in a circle"),
    ],
)
async def test_a_failed_download_leaves_nothing(tmp_path: Path, answer: WebAnswer) -> None:
    with (
        web_server(lambda _: answer) as server,
        pytest.raises(InstallFailedError, match="cannot be downloaded"),
    ):
        await downloads(tmp_path).fetch(f"{server.url}/a.mcpb", HASH)

    assert names(tmp_path) == []


@pytest.mark.requirement("INS-30")
@rows("integrity", ["", "sha512-AAAA", "sha256:12", "latest"])
async def test_without_a_hash_nothing_is_downloaded(tmp_path: Path, integrity: str) -> None:
    with (
        web_server(lambda _: WebAnswer(CONTENT)) as server,
        pytest.raises(InstallRefusedError, match="no SHA-256"),
    ):
        await downloads(tmp_path).fetch(f"{server.url}/a.mcpb", integrity)

    assert server.asked == []


@pytest.mark.requirement("INS-30")
@rows("host", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "localhost", "[::1]", "router.lan"])
async def test_an_address_beyond_the_internet_is_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises(InstallRefusedError, match="no address of the internet"):
        await BundleDownloads(tmp_path).fetch(f"https://{host}/a.mcpb", HASH)


async def test_what_was_planned_and_not_installed_is_deleted_later(tmp_path: Path) -> None:
    old = tmp_path / f"{'0' * 64}.mcpb"
    old.write_bytes(b"x")
    os.utime(old, (1, 1))
    with web_server(lambda _: WebAnswer(CONTENT)) as server:
        await downloads(tmp_path).fetch(f"{server.url}/a.mcpb", HASH)

    assert not old.exists()


def archive_of(path: Path, *members: tuple[zipfile.ZipInfo | str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members:
            archive.writestr(member, content)
    return path


def with_mode(name: str, mode: int) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name)
    member.external_attr = mode << 16
    return member


def unpacked(archive: Path, folder: Path) -> dict[str, bytes]:
    with open_archive(archive) as opened:
        unpack(opened, folder)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.requirement("INS-32")
def test_files_are_unpacked_with_no_more_rights_than_they_need(tmp_path: Path) -> None:
    archive = archive_of(
        tmp_path / "a.mcpb",
        (with_mode("server/run", stat.S_IFREG | 0o4777), b"#!"),
        ("server/lib/a.js", b"a"),
        ("server/empty/", b""),
    )

    assert unpacked(archive, tmp_path / "out") == {"server/run": b"#!", "server/lib/a.js": b"a"}
    modes = {name: (tmp_path / "out" / name).stat().st_mode & 0o7777 for name in ("server/run",)}
    assert modes == {"server/run": 0o700}
    assert (tmp_path / "out/server/lib/a.js").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "out/server/empty").is_dir()


@pytest.mark.thorough
@pytest.mark.requirement("INS-32")
@rows(
    "name",
    [
        *("../evil", "a/../../evil", "/etc/evil", "..", "a/..", "C:evil", "C:\\evil", "..\\evil"),
        *("a\\..\\..\\evil", "a\nb", "a\x1bb", "CON", "lib/nul.txt", "a" * 300, "/".join("a" * 60)),
    ],
)
def test_a_path_that_leads_out_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    archive = archive_of(tmp_path / "a.mcpb", ("good.txt", b"x"), (name, b"x"))
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(InstallRefusedError):
        unpacked(archive, tmp_path / "out")

    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.requirement("INS-32")
@rows("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK])
def test_links_and_devices_are_refused(tmp_path: Path, kind: int) -> None:
    archive = archive_of(
        tmp_path / "a.mcpb", (with_mode("link", kind | 0o777), b"/etc/passwd"), ("link/x", b"x")
    )

    with pytest.raises(InstallRefusedError, match="a link or a device"):
        unpacked(archive, tmp_path / "out")

    assert not (tmp_path / "out").exists()


@pytest.mark.requirement("INS-32")
def test_a_name_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "a.mcpb", ("Main.js", b"good"), ("main.JS", b"evil"))

    with pytest.raises(InstallRefusedError, match="twice"):
        unpacked(archive, tmp_path / "out")


@pytest.mark.thorough
@pytest.mark.requirement("INS-32")
def test_an_archive_that_grows_beyond_measure_is_refused_before_it_is_unpacked(
    tmp_path: Path,
) -> None:
    archive = archive_of(tmp_path / "a.mcpb", ("zeros", bytes(64 * 1024 * 1024)))

    with pytest.raises(InstallRefusedError, match="would grow from"):
        unpacked(archive, tmp_path / "out")

    assert not (tmp_path / "out").exists()


@pytest.mark.requirement("INS-32")
def test_a_member_that_is_longer_than_it_claims_is_refused(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "a.mcpb", ("zeros", bytes(1_000_000)))
    content = bytearray(archive.read_bytes())
    size = struct.pack("<I", 1_000_000)
    for at in (content.find(size), content.rfind(size)):  # both headers claim ten bytes
        content[at : at + 4] = struct.pack("<I", 10)
    archive.write_bytes(content)

    with pytest.raises(InstallRefusedError):
        unpacked(archive, tmp_path / "out")

    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in written) <= 10


@pytest.mark.requirement("INS-32")
def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "a.mcpb", ("a.txt", b"x"))
    content = bytearray(archive.read_bytes())
    for signature, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        content[content.find(signature) + flags] |= 1
    archive.write_bytes(content)

    with pytest.raises(InstallRefusedError, match="encrypted"):
        unpacked(archive, tmp_path / "out")


@pytest.mark.requirement("INS-32")
def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.mcpb"
    path.write_bytes(b"<html>not found</html>")

    with pytest.raises(InstallRefusedError, match="no usable archive"):
        unpacked(path, tmp_path / "out")


def test_a_large_manifest_is_refused(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "a.mcpb", ("manifest.json", b" " * 2000))

    with (
        open_archive(archive) as opened,
        pytest.raises(InstallRefusedError, match="longer than 1,000 bytes"),
    ):
        read_member(opened, "manifest.json", limit=1000)


@pytest.mark.thorough
@pytest.mark.requirement("INS-32")
@given(st.binary(max_size=400), st.integers(0, 400), st.integers(0, 255))
def test_no_bytes_write_outside_the_folder(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int, byte: int
) -> None:
    folder = tmp_path_factory.mktemp("noise")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a/b.txt", noise)
        archive.writestr("../x", b"") if byte == 0 else archive.writestr("c", b"c")
    content = bytearray(packed.getvalue())
    content[at % len(content)] = byte
    path = folder / "in" / "a.mcpb"
    path.parent.mkdir()
    path.write_bytes(content)

    with suppress(InstallRefusedError, InstallFailedError):
        unpacked(path, folder / "in" / "out")

    assert [one.name for one in folder.iterdir()] == ["in"]
    assert {one.name for one in (folder / "in").iterdir()} <= {"a.mcpb", "out"}


FOLDER = Path("/data/files-1")
NODE = {"type": "node", "entry_point": "server/index.js"}


def bundle(path: Path, manifest: Any, *files: str) -> Path:
    archive = path / "a.mcpb"
    with zipfile.ZipFile(archive, "w") as opened:
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        opened.writestr("manifest.json", text)
        for name in files or ("server/index.js", "server/main.py", "bin/run"):
            opened.writestr(name, "")
    return archive


def read(path: Path, server: Any, **members: Any) -> BundleServer:
    return read_bundle(bundle(path, {"version": "1.2.0", "server": server, **members}), FOLDER)


def config(*args: str, command: str = "node", **env: str) -> dict[str, Any]:
    return {**NODE, "mcp_config": {"command": command, "args": list(args), "env": env}}


@pytest.mark.requirement("INS-1")
@rows(
    ("server", "program", "script"),
    [
        pytest.param(NODE, "node", "/data/files-1/server/index.js", id="node"),
        pytest.param(
            config("${__dirname}/server/index.js"),
            "node",
            "/data/files-1/server/index.js",
            id="args",
        ),
        pytest.param(
            {"type": "python", "entry_point": "server/main.py"},
            "python3",
            "/data/files-1/server/main.py",
            id="python",
        ),
        pytest.param(
            {"type": "binary", "entry_point": "bin/run"}, "/data/files-1/bin/run", "", id="binary"
        ),
    ],
)
def test_a_bundle_starts_its_own_files(
    tmp_path: Path, server: Any, program: str, script: str
) -> None:
    found = read(tmp_path, server)

    assert (found.program, found.script, found.version) == (program, script, "1.2.0")


@pytest.mark.requirement("INS-1")
@rows(
    "server",
    [
        pytest.param(config("-c", "touch M", command="bash"), id="shell"),
        pytest.param(config("-e", "process.exit()"), id="node -e"),
        pytest.param(config("--require", "/tmp/x.js"), id="node --require"),
        pytest.param(config("/etc/evil.js"), id="absolute path"),
        pytest.param(config("${__dirname}/../evil.js"), id="path that leads out"),
        pytest.param(config("${__dirname}/${HOME}/evil.js"), id="path with a place"),
        pytest.param(config("${__dirname}/no/such.js"), id="no such file"),
        pytest.param({**NODE, "entry_point": "../evil.js"}, id="entry point that leads out"),
        pytest.param({"type": "binary", "entry_point": "/bin/sh"}, id="binary elsewhere"),
        pytest.param(
            {"type": "binary", "entry_point": "bin/run", "mcp_config": {"command": "/bin/sh"}},
            id="command elsewhere",
        ),
        pytest.param({"type": "uv", "entry_point": "server/main.py"}, id="unknown type"),
        pytest.param({}, id="nothing"),
        pytest.param("node", id="no object"),
    ],
)
def test_a_bundle_that_starts_anything_else_is_refused(tmp_path: Path, server: Any) -> None:
    with pytest.raises(InstallRefusedError):
        read(tmp_path, server)


@rows("manifest", ["", "[]", "{", "[" * 100_000, '{"server": {"type": 7}}'])
def test_a_malformed_manifest_is_refused(tmp_path: Path, manifest: str) -> None:
    with pytest.raises(InstallRefusedError):
        read_bundle(bundle(tmp_path, manifest), FOLDER)


@pytest.mark.requirement("INS-10", "INS-11")
def test_values_of_the_owner_fill_a_manifest(tmp_path: Path) -> None:
    server = config(
        *("${__dirname}/server/index.js", "--home=${HOME}", "${user_config.folders}"),
        *("--key", "${user_config.api_key}", "${user_config.unknown}", "${file:/etc/passwd}"),
        API_KEY="${user_config.api_key}",
        PLACE="${__dirname}/data",
    )
    asked = {
        "folders": {"type": "directory", "multiple": True, "required": True, "title": "Folders"},
        "api_key": {"type": "string", "sensitive": True, "required": True},
        "deep": {"type": "boolean", "default": True},
    }
    found = read(tmp_path, server, user_config=asked)
    values = InputValues("files", {"folders": ["/a", "/b"], "api_key": "hunter-2"})

    assert server_arguments(found.arguments, values) == (
        *("--home=~", "/a", "/b", "--key", "${secret:files/api_key}"),
        *("$${user_config.unknown}", "$${file:/etc/passwd}"),
    )
    assert environment(found.environment, values).variables == {
        "API_KEY": "${secret:files/api_key}",
        "PLACE": "/data/files-1/data",
    }
    assert values.to_store == {"files/api_key": "hunter-2"}


@pytest.mark.requirement("INS-2")
def test_python_modules_are_loaded_from_the_bundle_alone(tmp_path: Path) -> None:
    python = {"type": "python", "entry_point": "server/main.py"}
    inside = {**python, "mcp_config": {"env": {"PYTHONPATH": "${__dirname}/server/lib"}}}
    outside = {**python, "mcp_config": {"env": {"PYTHONPATH": "/tmp/evil"}}}

    assert read(tmp_path, inside).python_path == "/data/files-1/server/lib"
    with pytest.raises(InstallRefusedError):
        read(tmp_path, outside)
