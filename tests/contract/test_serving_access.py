"""Which addresses it listens on, which names of it are answered, and where its token is."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from discovery_engine.errors import ConfigurationError
from discovery_server.tokens import find_tokens
from tests.contract.discovery import Discovery
from tests.forked import Preloaded
from tests.rows import rows
from tests.shared_gateways import Gateways
from tests.unit.server.fakes import make_engine
from tests.unit.server.web import Endpoint, service_of

pytestmark = pytest.mark.anyio

LOCAL, NAMED = Endpoint(), Endpoint(allowed_hosts=("Tools.example", "box"))
REMOTE = Endpoint(allowed_hosts=("Tools.example", "box"), allow_remote=True)


async def statuses(endpoint: Endpoint, *requests: dict[str, str]) -> list[int]:
    """How `/health` is answered to requests with these headers and no others."""
    app = service_of(make_engine(), endpoint=endpoint).app
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://x") as client:
        answers = []
        for headers in requests:
            request = client.build_request("GET", "/health")
            request.headers = httpx2.Headers(headers)
            answers.append((await client.send(request)).status_code)
        return answers


@pytest.mark.requirement("SRV-11")
@rows(
    ("endpoint", "answered", "refused"),
    [
        (
            LOCAL,
            ["127.0.0.1:8000", "localhost", "LOCALHOST:8000", "[::1]:8000", "127.9.9.9"],
            [
                *("evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "192.168.1.7"),
                *("localhost:evil", "user@localhost", ":@localhost", "localhost/x", "localhost#x"),
                *("[::1", "", "tools.example"),
            ],
        ),
        (NAMED, ["tools.example:8000", "BOX", "localhost"], ["192.168.1.7", "www.tools.example"]),
        (
            REMOTE,
            ["tools.example", "192.168.1.7:8000", "[2001:db8::7]", socket.gethostname()],
            ["evil.example", "192.168.1.7.nip.io", "192.168.1.7@evil.example"],
        ),
    ],
    ids=["loopback", "with names", "for other machines"],
)
async def test_only_the_names_of_this_machine_are_answered(
    endpoint: Endpoint, answered: list[str], refused: list[str]
) -> None:
    hosts = answered + refused
    seen = await statuses(endpoint, {}, *({"host": host} for host in hosts))

    expected = [421, *[200] * len(answered), *[421] * len(refused)]
    assert dict(zip(["", *hosts], seen, strict=True)) == dict(
        zip(["", *hosts], expected, strict=True)
    )


@pytest.mark.requirement("SRV-11")
@rows(
    ("endpoint", "answered", "refused"),
    [
        (
            LOCAL,
            ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:1"],
            [
                *("null", "https://evil.example", "http://localhost.evil.example"),
                *("http://127.0.0.1.evil.example", "file://localhost", ""),
            ],
        ),
        (
            NAMED,
            ["https://tools.example", "http://localhost:6274"],
            ["https://box", "https://evil.example"],
        ),
    ],
    ids=["loopback", "with names"],
)
async def test_only_pages_of_the_name_that_was_called_are_answered(
    endpoint: Endpoint, answered: list[str], refused: list[str]
) -> None:
    host = "tools.example" if endpoint is NAMED else "localhost"
    origins = answered + refused
    seen = await statuses(endpoint, *({"host": host, "origin": one} for one in origins))

    assert dict(zip(origins, seen, strict=True)) == {
        **dict.fromkeys(answered, 200),
        **dict.fromkeys(refused, 403),
    }


@pytest.mark.requirement("SRV-10", "SRV-70")
@rows(
    ("words", "reason"),
    [
        (["--http", "0.0.0.0:0"], "can be reached from other machines"),
        (["--http", "192.168.1.7:0"], "can be reached from other machines"),
        (["--http", "0.0.0.0:0", "--allow-remote", "--no-token"], "without a token"),
        (["--stdio", "--http", "127.0.0.1:0"], "needs a port that all gateways know"),
        (["--stdio", "--http", "127.0.0.1:34", "--new-token"], "gateways share the token"),
    ],
)
def test_what_would_be_open_to_others_or_cannot_be_shared_is_refused(
    tmp_path: Path, forked: Preloaded, words: list[str], reason: str
) -> None:
    home = Discovery(tmp_path, forked)
    home.configure()

    done = home("serve", *words)

    assert done.code == 2
    assert reason in done.err


# -- the files of tokens ---------------------------------------------------------------------------

GIVEN = "a-token-from-a-password-manager"


def problem_of(find: Callable[[], object]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        find()
    return str(caught.value)


@pytest.mark.requirement("SRV-23")
def test_a_token_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        first = find_tokens({}, data_dir=tmp_path / "data")
    finally:
        os.umask(before)
    second = find_tokens({"DISCOVERY_DATA_DIR": str(tmp_path / "data")})
    given = find_tokens({"DISCOVERY_TOKEN": f" {GIVEN}\n"}, data_dir=tmp_path / "data")
    renewed = find_tokens({}, data_dir=tmp_path / "data", renew=True)
    file = tmp_path / "data" / "http-token"

    assert first.values == second.values
    assert (len(first.values[0]), given.values) == (43, (GIVEN,))
    assert renewed.values == (file.read_text("ascii").strip(),) != first.values
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.requirement("SRV-23")
def test_gateways_that_start_together_agree_on_a_token(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as gateways:
        tokens = set(gateways.map(lambda _: find_tokens({}, data_dir=tmp_path).values, range(8)))

    assert tokens == {((tmp_path / "http-token").read_text("ascii").strip(),)}


def linked(file: Path) -> None:
    file.rename(file.with_name("real"))
    file.symlink_to(file.with_name("real"))


def piped(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.requirement("SRV-23")
@rows(
    ("spoil", "words"),
    [
        (linked, "is a symbolic link"),
        (piped, "is no regular file"),
        (lambda file: file.write_text(""), "is empty"),
        (lambda file: file.write_text("abc"), "is damaged"),
        (lambda file: file.write_bytes(b"\xff\x00" * 30), "is damaged"),
        (lambda file: file.write_bytes(b"a" * 70_000), "is larger"),
        (lambda file: file.chmod(0o620), "by another user"),
        (lambda file: file.chmod(0o602), "by another user"),
    ],
)
def test_a_generated_token_that_is_not_as_we_left_it_is_refused(
    spoil: Callable[[Path], object], words: str, tmp_path: Path
) -> None:
    find_tokens({}, data_dir=tmp_path)
    spoil(tmp_path / "http-token")

    assert words in problem_of(lambda: find_tokens({}, data_dir=tmp_path))


@pytest.mark.requirement("SRV-23")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_file_is_refused(tmp_path: Path) -> None:
    find_tokens({}, data_dir=tmp_path)
    os.chown(tmp_path / "http-token", 4321, 4321)

    assert "by another user" in problem_of(lambda: find_tokens({}, data_dir=tmp_path))


@pytest.mark.requirement("SRV-23")
@rows(
    ("content", "mode", "expected"),
    [
        (f"# first\n{GIVEN}\n\n  {GIVEN}-2  \r\n", 0o600, (GIVEN, f"{GIVEN}-2")),
        (f"{GIVEN}\n", 0o622, "can be written by other users"),
        ("# nothing\n", 0o600, "holds no token"),
        (f"{GIVEN}\nshort\n", 0o600, "which can be guessed"),
        (f"{GIVEN}é\n", 0o600, "is no bearer token"),
    ],
)
def test_a_file_of_the_owner_has_a_token_in_each_line_or_is_refused_without_what_it_holds(
    content: str, mode: int, expected: Any, tmp_path: Path
) -> None:
    mounted = tmp_path / "mounted"
    mounted.write_text(content, "utf-8")
    mounted.chmod(mode)
    (tmp_path / "link").symlink_to(mounted)

    def find() -> Any:
        return find_tokens({"DISCOVERY_TOKEN": "b" * 20}, file=tmp_path / "link")

    if isinstance(expected, tuple):
        assert find().values == expected
        assert GIVEN not in f"{find().shown} {find()!r}"
    else:
        problem = problem_of(find)
        assert expected in problem
        assert GIVEN not in problem


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[Gateways]:
    with Gateways(tmp_path) as gateways:
        yield gateways


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
@pytest.mark.requirement("SRV-70")
def test_one_gateway_serves_http_and_another_one_when_it_is_killed(gateways: Gateways) -> None:
    started = [gateways.start() for _ in range(3)]
    first = gateways.serving()
    served = gateways.ask()
    os.kill(first, signal.SIGKILL)
    gateways.running[first].process.wait()

    second = gateways.serving()
    served_again = gateways.ask()

    assert second != first
    assert "a-token-of" not in gateways.log()
    assert (served.status_code, served_again.status_code) == (200, 200)
    left = [gateway for gateway in started if gateway.process.pid != first]
    assert all("result" in gateway.ask("tools/list", {}) for gateway in left)
