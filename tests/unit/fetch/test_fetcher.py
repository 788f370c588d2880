from __future__ import annotations

import gzip
import ssl
import threading
from collections.abc import Mapping

import anyio
import httpx2
import pytest

from discovery_engine._util.fetch.fetch_error import FetchError
from discovery_engine._util.fetch.fetcher import Fetched, Resolver, open_fetcher, resolve
from tests.rows import rows
from tests.servers.web_server import WebAnswer, WebRequest, json_answer, web_server, zipped

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024


def resolving(*addresses: str) -> Resolver:
    async def resolver(host: str, port: int) -> list[str]:
        del host, port
        return list(addresses)

    return resolver


async def fetched(
    url: str,
    *,
    base: str = "",
    limit: int = MIB,
    headers: Mapping[str, str] | None = None,
    within: float = 20.0,
    follows: bool = False,
    is_private: bool = False,
    resolver: Resolver = resolve,
) -> Fetched:
    with anyio.fail_after(60):
        async with open_fetcher(base or url, is_private=is_private, resolver=resolver) as fetcher:
            return await fetcher.get(
                url, limit=limit, headers=headers, within=within, follows=follows
            )


async def problem_of(url: str, **options: object) -> FetchError:
    with pytest.raises(FetchError) as caught:
        await fetched(url, **options)  # type: ignore[arg-type]
    return caught.value


@pytest.mark.requirement("MKT-20")
async def test_an_answer_has_its_status_headers_and_body_plain_and_compressed() -> None:
    def respond(request: WebRequest) -> WebAnswer:
        answer = json_answer({"a": "b" * 10_000}, ETag='"1"')
        return zipped(answer) if request.path == "/zipped" else answer

    with web_server(respond) as server:
        plain = await fetched(f"{server.url}/plain")
        packed = await fetched(f"{server.url}/zipped")

    assert plain.body == packed.body
    assert (plain.status, plain.headers["etag"]) == (200, '"1"')
    assert [request.headers["accept-encoding"] for request in server.asked] == ["gzip", "gzip"]


@pytest.mark.requirement("MKT-20")
@rows(
    "answer",
    [
        pytest.param(WebAnswer(b"x", headers={"Content-Length": str(2**31)}), id="announced"),
        pytest.param(WebAnswer(b"x" * 65536, is_endless=True), id="endless"),
        pytest.param(
            WebAnswer(gzip.compress(b"\0" * 50 * MIB, 1), headers={"Content-Encoding": "gzip"}),
            id="bomb",
        ),
        pytest.param(
            WebAnswer(
                gzip.compress(b"") * 1000, headers={"Content-Encoding": "gzip"}, is_endless=True
            ),
            id="endless and empty",
        ),
    ],
)
async def test_an_answer_that_is_too_long_ends_at_the_limit(answer: WebAnswer) -> None:
    with web_server(lambda _: answer) as server:
        problem = await problem_of(server.url)

    assert problem.problem == "too-long"
    assert "longer than 1 MiB" in problem.reason


@pytest.mark.requirement("MKT-20")
@rows(
    "answer",
    [
        pytest.param(WebAnswer(b"x" * 1000, is_cut=True), id="cut"),
        pytest.param(WebAnswer(b"x", headers={"Content-Encoding": "gzip"}), id="no gzip"),
        pytest.param(WebAnswer(b"x", headers={"Content-Encoding": "br"}), id="other encoding"),
        pytest.param(
            WebAnswer(gzip.compress(b"x" * 1000)[:-9], headers={"Content-Encoding": "gzip"}),
            id="cut in gzip",
        ),
    ],
)
async def test_an_answer_that_is_not_whole_is_none(answer: WebAnswer) -> None:
    with web_server(lambda _: answer) as server:
        problem = await problem_of(server.url)

    assert problem.problem == "broken"


@pytest.mark.requirement("MKT-20")
async def test_an_answer_that_does_not_come_ends_in_time() -> None:
    with web_server(lambda _: WebAnswer(is_stuck=True)) as server:
        problem = await problem_of(server.url, within=0.05)

    assert problem.problem == "timeout"
    assert "within 0.05 s" in problem.reason


@pytest.mark.requirement("MKT-20")
async def test_a_redirect_within_the_origin_is_followed_with_the_headers() -> None:
    def respond(request: WebRequest) -> WebAnswer:
        if request.path == "/":
            return WebAnswer(status=301, headers={"Location": "/new?a=1"})
        return WebAnswer(b"found")

    with web_server(respond) as server:
        answer = await fetched(server.url, headers={"X-Key": "s3cret"})

    assert answer.body == b"found"
    assert [request.headers["x-key"] for request in server.asked] == ["s3cret", "s3cret"]


@pytest.mark.requirement("MKT-20")
@rows("follows", [False, True])
@rows(
    "target",
    ["{other}/", "http://localhost:{port}/", "//169.254.169.254/", "file:///etc/passwd", ""],
)
async def test_a_redirect_elsewhere_reaches_nobody(target: str, follows: bool) -> None:
    with web_server(lambda _: WebAnswer(b"reached")) as other:

        def respond(_: WebRequest) -> WebAnswer:
            location = target.format(other=other.url, port=other.port)
            return WebAnswer(status=302, headers={"Location": location})

        with web_server(respond) as server:
            problem = await problem_of(server.url, headers={"X-Key": "s3cret"}, follows=follows)

    assert problem.problem in ("redirect", "address")
    assert other.asked == []


@pytest.mark.requirement("MKT-20")
async def test_redirects_in_a_circle_end() -> None:
    with web_server(lambda _: WebAnswer(status=302, headers={"Location": "/"})) as server:
        problem = await problem_of(server.url)

    assert "redirects more than 5 times" in problem.reason
    assert len(server.asked) == 6


@pytest.mark.requirement("MKT-20")
@rows(
    "addresses",
    [["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["::1"], ["10.0.0.1"], ["169.254.169.254"]],
)
async def test_a_name_that_leads_into_a_private_network_is_not_connected_to(
    addresses: list[str],
) -> None:
    with web_server(lambda _: WebAnswer(b"reached")) as server:
        url = f"http://registry.example.com:{server.port}/"
        problem = await problem_of(url, resolver=resolving(*addresses))

    assert problem.problem == "address"
    assert addresses[-1] in problem.reason
    assert server.asked == []


@pytest.mark.requirement("MKT-20")
@rows(
    ("host", "is_private"),
    [("registry", False), ("registry.acme.internal", False), ("registry.acme.example", True)],
)
async def test_a_registry_of_a_private_network_can_be_configured(
    host: str, is_private: bool
) -> None:
    with web_server(lambda _: WebAnswer(b"found")) as server:
        answer = await fetched(
            f"http://{host}:{server.port}/", is_private=is_private, resolver=resolving("127.0.0.1")
        )

    assert answer.body == b"found"
    assert server.asked[0].headers["host"] == f"{host}:{server.port}"


@pytest.mark.requirement("MKT-20")
async def test_no_owner_can_configure_the_address_where_clouds_keep_credentials() -> None:
    problem = await problem_of("http://169.254.169.254/", is_private=True)

    assert problem.problem == "address"


@pytest.mark.requirement("MKT-20")
async def test_another_origin_than_the_configured_one_is_refused() -> None:
    with web_server(lambda _: WebAnswer()) as server, web_server(lambda _: WebAnswer()) as other:
        problem = await problem_of(other.url, base=server.url)

    assert problem.problem == "address"
    assert other.asked == []


async def test_of_several_addresses_the_next_one_is_tried() -> None:
    with web_server(lambda _: WebAnswer(b"found")) as server:
        answer = await fetched(
            f"http://localhost:{server.port}/", resolver=resolving("::1", "127.0.0.1")
        )

    assert answer.body == b"found"


async def test_a_host_that_cannot_be_resolved_is_named() -> None:
    problem = await problem_of("http://a.example.com/", resolver=resolving())

    assert problem.problem == "unresolved"
    assert "'a.example.com'" in problem.reason


async def test_a_refused_connection_names_host_and_port() -> None:
    with web_server(lambda _: WebAnswer()) as server:
        url = server.url
    problem = await problem_of(f"{url}/path?key=s3cret")

    assert problem.problem == "unreachable"
    assert "s3cret" not in problem.reason


@pytest.mark.requirement("MKT-26")
async def test_a_header_that_cannot_be_sent_is_named_without_its_value() -> None:
    with web_server(lambda _: WebAnswer()) as server:
        problem = await problem_of(server.url, headers={"X-Key": "s3cret\r\nX-Other: 1"})

    assert "'x-key'" in problem.reason
    assert "s3cret" not in problem.reason
    assert server.asked == []


@rows(
    "url",
    ["", "x", "ftp://a.example", "http://", "http://u:p@a.example", "http://a b"],
)
async def test_what_is_no_address_of_the_web_is_refused(url: str) -> None:
    problem = await problem_of(url)

    assert problem.problem == "address"


async def test_a_proxy_of_the_environment_is_used_and_not_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def names() -> list[str]:
        return [request.target for request in server.asked]

    with web_server(lambda _: WebAnswer(b"found")) as server:
        monkeypatch.setenv("http_proxy", server.url)
        monkeypatch.setenv("no_proxy", "")
        proxied = await fetched("http://registry.example.com/a")
        direct = await fetched(f"{server.url}/b")

    assert (proxied.body, direct.body) == (b"found", b"found")
    assert names() == ["http://registry.example.com/a", "/b"]


async def test_a_proxy_is_not_asked_for_a_private_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def respond(request: WebRequest) -> WebAnswer:
        if "registry.example.com" not in request.target:
            return WebAnswer(b"reached")
        location = request.target.rpartition("?to=")[2]
        return WebAnswer(status=302, headers={"Location": f"https://{location}/"})

    with web_server(respond) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("https_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "")
        for host in ("127.0.0.1", "10.0.0.1", "localhost", "nas", "a.internal", "[::1]"):
            url = f"http://registry.example.com/?to={host}"
            problem = await problem_of(url, follows=True)
            assert "no host of the internet" in problem.reason

    assert all("registry.example.com" in request.target for request in proxy.asked)


@rows("proxy", ["socks5://127.0.0.1:9", "ftp://127.0.0.1:9"])
async def test_a_proxy_of_a_kind_that_is_not_supported_is_named(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")

    problem = await problem_of("http://registry.example.com/")

    assert problem.problem == "proxy"
    assert proxy.partition(":")[0] in problem.reason


async def test_a_host_that_speaks_no_tls_is_named_with_what_to_check() -> None:
    with web_server(lambda _: WebAnswer()) as server:
        problem = await problem_of(server.url.replace("http://", "https://"))

    assert problem.problem == "tls"
    assert "http://" in problem.hint


async def test_a_body_is_read_piece_by_piece_and_its_limit_holds() -> None:
    with web_server(lambda _: WebAnswer(b"x" * 3 * MIB)) as server, anyio.fail_after(60):
        async with open_fetcher(server.url) as fetcher:
            async with fetcher.stream(server.url, limit=4 * MIB) as answer:
                sizes = [len(piece) async for piece in answer.pieces]
            with pytest.raises(FetchError):
                async with fetcher.stream(server.url, limit=2 * MIB) as answer:
                    [piece async for piece in answer.pieces]

    assert sum(sizes) == 3 * MIB
    assert len(sizes) > 1


async def test_the_certificates_of_the_machine_are_read_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make, threads = httpx2.create_ssl_context, []

    def noted() -> ssl.SSLContext:
        threads.append(threading.current_thread())
        return make()

    monkeypatch.setattr(httpx2, "create_ssl_context", noted)
    monkeypatch.setenv("SSL_CERT_DIR", "/of/this/test")  # so that they are read again

    async with open_fetcher("https://server.example/"):
        pass

    assert threads
    assert threading.current_thread() not in threads
