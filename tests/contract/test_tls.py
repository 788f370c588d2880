"""HTTPS by certificate files: what is served, and which files are refused."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from pathlib import Path

import anyio
import httpx2
import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from websockets.asyncio.client import connect

from discovery_cli.program import cli
from discovery_engine.errors import ConfigurationError
from discovery_server.http.browser_sessions import BrowserSessions
from discovery_server.http.connections import ConnectionLimits
from discovery_server.http.guard import Endpoint, require_allowed
from discovery_server.http.tls_files import Tls, TlsFiles
from discovery_server.http.users import OWNER
from discovery_server.tokens import parse_tokens
from tests.attacks.test_http_connections import rest_of
from tests.certificates import DAY, NOW, make_certificate
from tests.e2e.serving import Home, listening_at
from tests.engines import Folder, good
from tests.factories import make_offering_entry, make_part
from tests.rows import rows
from tests.unit.server.fakes import make_engine
from tests.unit.server.web import SessionClient, result_of, running, service_of
from tests.unit.server.wire import request

pytestmark = pytest.mark.anyio

OWN = "owner-token-of-forty-three-characters-12345"
FEW = ConnectionLimits(connections=4, per_address=4, head=10.0)


def trusting(files: TlsFiles) -> ssl.SSLContext:
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
            opened = await http.get(f"{origin}/?code={service.new_code()}")
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


@pytest.mark.requirement("API-34")
@rows(("origin", "is_secure"), [("https", True), ("http", False)])
async def test_the_cookie_is_secure_where_the_browser_uses_https(
    origin: str, *, is_secure: bool
) -> None:
    headers = [(b"origin", f"{origin}://tools.example".encode())]
    cookie = BrowserSessions().open_cookie(OWNER, {"scheme": "http", "headers": headers})

    assert cookie.endswith(b"; Secure") is is_secure


def _other_key(files: TlsFiles, folder: Path) -> TlsFiles:
    return replace(files, key=make_certificate(folder, "other").key)


def _writable(files: TlsFiles, _: Path) -> TlsFiles:
    files.key.chmod(0o666)
    return files


def _without(files: TlsFiles, _: Path) -> TlsFiles:
    files.certificate.write_text("no certificate")
    return files


@pytest.mark.requirement("API-35")
@rows(
    ("spoil", "about", "message"),
    [
        (lambda f, d: replace(f, certificate=d / "none.pem"), "none.pem", "there is no such file"),
        (lambda f, d: replace(f, key=d / "none.key"), "none.key", "there is no such file"),
        (lambda f, d: replace(f, key=d), "", "cannot be read|no regular file"),
        (lambda f, d: replace(f, certificate=d), "", "cannot be read|no regular file"),
        (_other_key, "other.key", "is not the key of the certificate"),
        (lambda f, _: replace(f, certificate=f.key), "own.key", "no certificate in PEM form"),
        (lambda f, _: replace(f, key=f.certificate), "own.pem", "no private key in PEM form"),
        (_without, "own.pem", "no certificate in PEM form"),
        (_writable, "own.key", "can be written by other users"),
        (lambda _, d: make_certificate(d, ends=NOW - DAY / 2), "own.pem", "expired on 20"),
        (lambda _, d: make_certificate(d, begins=NOW + DAY), "own.pem", "is valid from 20"),
        (
            lambda _, d: make_certificate(d, password=b"word"),
            "own.key",
            "encrypted with a password",
        ),
    ],
)
def test_files_that_cannot_be_used_are_refused_with_the_file_and_the_reason(
    tmp_path: Path, spoil: Callable[[TlsFiles, Path], TlsFiles], about: str, message: str
) -> None:
    files = spoil(make_certificate(tmp_path), tmp_path)

    with pytest.raises(ConfigurationError, match=message) as refused:
        Tls(files, NOW)

    [problem] = refused.value.problems
    assert problem.code == "SERVE_TLS_INVALID"
    assert about in str(refused.value)
    assert "PRIVATE KEY" not in problem.message


@pytest.mark.requirement("API-35")
@rows(("field", "option"), [("certificate", "--tls-cert"), ("key", "--tls-key")])
@rows("name", ["none.pem", ""])
def test_a_file_that_cannot_be_read_names_its_option_and_a_next_step(
    tmp_path: Path, field: str, option: str, name: str
) -> None:
    files = replace(make_certificate(tmp_path), **{field: tmp_path / name})

    with pytest.raises(ConfigurationError) as refused:
        Tls(files, NOW)

    [problem] = refused.value.problems
    assert option in problem.message
    assert option in problem.hint


@pytest.mark.requirement("API-35")
def test_a_certificate_that_ends_soon_or_a_key_that_others_read_is_noted(tmp_path: Path) -> None:
    files = make_certificate(tmp_path, ends=NOW + 5 * DAY)
    files.key.chmod(0o644)

    notices = Tls(files, NOW).certificate.notices

    assert "chmod 600" in notices[0]
    assert "expires on" in notices[1]


@pytest.mark.requirement("API-34")
def test_names_of_the_certificate_are_valid_hosts_and_no_others(tmp_path: Path) -> None:
    endpoint = Endpoint("0.0.0.0", tls=Tls(make_certificate(tmp_path), NOW))

    assert endpoint.names() == {"localhost", "tools.example", "127.0.0.1"}
    with pytest.raises(ConfigurationError) as refused:
        require_allowed(endpoint, has_token=True)
    assert "without TLS" not in str(refused.value)
    require_allowed(replace(endpoint, allow_remote=True), has_token=True)
    with pytest.raises(ConfigurationError):
        require_allowed(replace(endpoint, allow_remote=True), has_token=False)


@pytest.mark.requirement("API-35")
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


@pytest.mark.requirement("API-36")
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


@pytest.mark.thorough
@pytest.mark.requirement("API-36")
async def test_a_long_answer_arrives_whole(tmp_path: Path) -> None:
    # 8 MiB, more than any buffer on the way
    text = "".join(map(str, range(1 << 21)))[: 8 << 20]
    files = make_certificate(tmp_path)
    tls = Tls(files, NOW)
    part = make_part("docs", offerings=(make_offering_entry("file:///large"),))
    engine = make_engine(part, resource=text)
    service = service_of(engine, limits=FEW, endpoint=Endpoint(tls=tls))
    async with (
        running(service, tls) as address,
        SessionClient(address, verify=trusting(files)) as client,
    ):
        session = await client.open()
        read = request(1, "resources/read", uri="file:///large")
        answer = await client.request("POST", session, read)

    assert result_of(answer)["contents"][0]["text"] == text


@pytest.mark.requirement("API-36")
async def test_a_handshake_has_the_time_of_the_head_of_a_request_and_nothing_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    tls = Tls(make_certificate(tmp_path), NOW)
    limits = replace(FEW, head=0.1)
    service = service_of(make_engine(), limits=limits, endpoint=Endpoint(tls=tls))
    async with running(service, tls) as address:
        port = httpx2.URL(address).port
        assert port is not None
        answers = []
        for sent in (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                if sent:
                    await stream.send(sent)
                answers.append(await rest_of(stream))

    assert not caplog.records
    assert b"HTTP/1.1" not in b"".join(answers)


@pytest.mark.requirement("API-34", "API-35")
@pytest.mark.e2e
async def test_serve_prints_an_address_of_https_that_clients_verify(tmp_path: Path) -> None:
    home, files = Home(tmp_path), make_certificate(tmp_path)
    home.write({})
    options = ("--tls-cert", str(files.certificate), "--tls-key", str(files.key))
    with home.process("--http", "127.0.0.1:0", *options) as process:
        address = listening_at(process)
        async with SessionClient(
            address, home.authorization["Authorization"][7:], verify=trusting(files)
        ) as client:
            ping = await client.request("POST", await client.open())

    assert address.startswith("https://127.0.0.1:")
    assert ping.status_code == 200


@pytest.mark.requirement("API-35")
@rows(
    "options",
    [
        ["--http", "127.0.0.1:0", "--tls-cert", "own.pem"],
        ["--http", "127.0.0.1:0", "--tls-key", "own.key"],
        ["--tls-cert", "own.pem", "--tls-key", "own.key"],
        ["--http", "127.0.0.1:0", "--tls-cert", "none.pem", "--tls-key", "none.key"],
    ],
)
def test_serve_needs_both_files_and_http(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "discovery.yaml").write_text("{}")
    shared = ["--config", str(tmp_path / "discovery.yaml"), "--data-dir", str(tmp_path / "data")]

    refused = CliRunner().invoke(cli, [*shared, "serve", *options])

    assert refused.exit_code == 2, refused.output
    assert "tls" in refused.output or "none.pem" in refused.output
