"""HTTPS by certificate files: what is served, and which files are refused."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from websockets.asyncio.client import connect

from discovery_cli.program import cli
from discovery_engine.errors import ConfigurationError
from discovery_server.tokens import parse_tokens
from tests.certificates import DAY, NOW, Tls, make_certificate
from tests.engines import Folder, good
from tests.rows import rows
from tests.unit.server.fakes import make_engine
from tests.unit.server.web import ConnectionLimits, Endpoint, SessionClient, running, service_of

pytestmark = pytest.mark.anyio

OWN = "owner-token-of-forty-three-characters-12345"
FEW = ConnectionLimits(connections=4, per_address=4, head=10.0)


def trusting(files: Any) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(files.certificate))


@pytest.mark.requirement("API-34")
async def test_mcp_the_api_events_and_the_page_are_served_over_tls(
    folder: Folder, tmp_path: Path
) -> None:
    folder.write(good())
    files = make_certificate(tmp_path)
    endpoint, verified = Endpoint(tls=Tls(files, NOW)), trusting(files)
    tokens = parse_tokens(OWN)
    authorization = {"authorization": f"Bearer {OWN}"}
    async with folder.open() as engine:
        service = service_of(engine, tokens, endpoint=endpoint, data=folder.data)
        async with (
            running(service, endpoint.tls) as address,
            httpx2.AsyncClient(verify=verified, timeout=60) as http,
            SessionClient(address, OWN, verify=verified) as client,
        ):
            origin = address.removesuffix("/mcp")
            session = await client.open()
            ping = await client.request("POST", session)
            status = await http.get(f"{origin}/api/status", headers=authorization)
            opened = await http.get(service.new_link(origin))
            closed = await http.request("DELETE", f"{origin}/session", headers={"origin": origin})
            async with connect(
                origin.replace("https", "wss") + "/events",
                additional_headers=authorization,
                ssl=verified,
                proxy=None,
            ) as socket:
                state = await socket.recv()

    assert address.startswith("https://127.0.0.1:")
    assert [ping.status_code, status.status_code, opened.status_code] == [200, 200, 303]
    assert '"type":"state"' in str(state)
    for answer in (opened, closed):
        assert "; Secure" in answer.headers["set-cookie"]
        assert "HttpOnly; SameSite=Strict" in answer.headers["set-cookie"]
    assert "strict-transport-security" not in status.headers | opened.headers | ping.headers


def other_key(files: Any, folder: Path) -> Any:
    return replace(files, key=make_certificate(folder, "other").key)


def writable(files: Any, _: Path) -> Any:
    files.key.chmod(0o666)
    return files


@pytest.mark.requirement("API-34")
@rows(
    ("spoil", "about", "message"),
    [
        (lambda f, d: replace(f, certificate=d / "none.pem"), "none.pem", "there is no such file"),
        (lambda f, d: replace(f, key=d / "none.key"), "none.key", "there is no such file"),
        (other_key, "other.key", "is not the key of the certificate"),
        (lambda f, _: replace(f, certificate=f.key), "own.key", "no certificate in PEM form"),
        (lambda f, _: replace(f, key=f.certificate), "own.pem", "no private key in PEM form"),
        (writable, "own.key", "can be written by other users"),
        (lambda _, d: make_certificate(d, ends=NOW - DAY / 2), "own.pem", "expired on 20"),
        (lambda _, d: make_certificate(d, begins=NOW + DAY), "own.pem", "is valid from 20"),
        (lambda _, d: make_certificate(d, password=b"word"), "own.key", "with a password"),
    ],
)
def test_files_that_cannot_be_used_are_refused_with_the_file_and_the_reason(
    tmp_path: Path, spoil: Any, about: str, message: str
) -> None:
    files = make_certificate(tmp_path)
    secret = files.key.read_text().splitlines()[1]
    files = spoil(files, tmp_path)
    (tmp_path / "discovery.yaml").write_text("{}")
    words = ["--config", str(tmp_path / "discovery.yaml"), "--data-dir", str(tmp_path / "data")]
    words += ["serve", "--http", "127.0.0.1:0"]
    words += ["--tls-cert", str(files.certificate), "--tls-key", str(files.key)]

    refused = CliRunner().invoke(cli, words)

    assert refused.exit_code == 2
    said = " ".join(refused.output.split())
    assert message in said
    assert about in said
    assert secret not in said


@pytest.mark.requirement("API-34")
async def test_new_files_are_used_for_new_connections_and_broken_ones_are_not(
    tmp_path: Path,
) -> None:
    files = make_certificate(tmp_path)
    before, tls = trusting(files), Tls(files, NOW)

    async def is_served(verified: ssl.SSLContext) -> bool:
        async with httpx2.AsyncClient(verify=verified, timeout=60) as http:
            try:
                return (await http.get(f"{origin}/health")).status_code == 200
            except httpx2.ConnectError:
                return False

    service = service_of(make_engine(), endpoint=Endpoint(tls=tls))
    async with running(service, tls) as address:
        origin = address.removesuffix("/mcp")
        assert await is_served(before)
        after = trusting(make_certificate(tmp_path))
        tls.reload(NOW)
        assert await is_served(after)
        assert not await is_served(before)
        files.key.write_text("broken")
        with pytest.raises(ConfigurationError):
            tls.reload(NOW)
        assert await is_served(after)


@pytest.mark.requirement("SRV-30")
async def test_connections_that_are_never_encrypted_count_and_give_way(tmp_path: Path) -> None:
    files = make_certificate(tmp_path)
    tls = Tls(files, NOW)
    service = service_of(make_engine(), limits=FEW, endpoint=Endpoint(tls=tls))
    async with running(service, tls) as address:
        port = httpx2.URL(address).port
        assert port is not None
        idle = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(20)]
        async with httpx2.AsyncClient(verify=trusting(files), timeout=60) as http:
            served = await http.get(address.replace("/mcp", "/health"))
        ended = 0
        for stream in idle[:16]:
            with anyio.fail_after(60), pytest.raises((anyio.EndOfStream, OSError)):
                await stream.receive()
            ended += 1
        for stream in idle:
            await stream.aclose()

    assert served.status_code == 200
    assert ended == 16
