from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from discovery_engine.errors import InstallFailedError, InstallRefusedError, PackageChangedError
from discovery_engine.marketplace.installer.bundles import BundleDownloads
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
