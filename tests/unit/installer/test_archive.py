from __future__ import annotations

import io
import stat
import struct
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.errors import InstallFailedError, InstallRefusedError
from discovery_engine.marketplace.installer.bundles import open_archive, read_member, unpack
from tests.rows import rows


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
