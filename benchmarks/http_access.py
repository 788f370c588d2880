"""Requests over HTTP that must not be let in, and the same requests as they should be."""

from __future__ import annotations

import json
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.faulty_servers import Row  # noqa: E402
from tests.e2e.serving import Home, fault_entry, listening_at  # noqa: E402
from tests.unit.server.wire import INITIALIZE, MODERN, request  # noqa: E402

TOKEN = "Zk3-token_of.the~owner+and/no-other="
OTHER = "another-token-of-somebody"
WRONG = "a-token-that-nobody-was-given"
HOST = b"localhost"
Headers = list[tuple[bytes, bytes]]


class Credentials(Struct, frozen=True):
    """What a request says of itself, besides what it asks for."""

    headers: Headers
    query: str = ""


def bearer(token: str) -> bytes:
    return f"Bearer {token}".encode()


def from_page(origin: bytes) -> Credentials:
    return Credentials([*RIGHT.headers, (b"origin", origin)])


def to_host(*hosts: bytes) -> Credentials:
    named = [(b"host", host) for host in hosts]
    return Credentials([*named, (b"authorization", bearer(TOKEN))])


def with_header(value: bytes, name: bytes = b"authorization") -> Credentials:
    return Credentials([(b"host", HOST), (name, value)])


RIGHT = with_header(bearer(TOKEN))
OF_ANOTHER = with_header(bearer(OTHER))
VALUES = (
    *(b"", b"Bearer", b"Bearer ", TOKEN.encode(), f"Bearer{TOKEN}".encode()),
    *(f"Bearer\t{TOKEN}".encode(), f"Basic {TOKEN}".encode(), bearer(WRONG), bearer(TOKEN[:-2])),
    *(bearer(TOKEN.swapcase()), bearer(f"{TOKEN}="), bearer(f"{TOKEN}, Bearer {TOKEN}")),
    *(bearer(f"{WRONG} {TOKEN}"), bearer(f'"{TOKEN}"'), f"Bearer {TOKEN}\xa0".encode("latin-1")),
    *(bearer(f"{TOKEN}é"), b"Bearer \xff\xfe", bearer("a" * 60_000)),
)
ELSEWHERE = (b"cookie", b"x-api-key", b"x-auth-token", b"proxy-authorization", b"token")
IN_ADDRESS = ("access_token", "token", "api_key", "Access%5FToken")
HOSTS = (
    *(b"evil.example", b"localhost.evil.example", b"127.0.0.1.nip.io", b"localhost:evil"),
    *(b"user@localhost", b":@localhost", b"localhost/x", b"localhost#x", b"[::1", b""),
)
ORIGINS = (
    *(b"null", b"https://evil.example", b"http://localhost.evil.example"),
    *(b"http://127.0.0.1.evil.example", b"file://localhost", b""),
)


def foreign() -> Iterator[Credentials]:
    """Requests without the token, with something like it, and from or to somewhere else."""
    yield Credentials([(b"host", HOST)])
    yield from map(with_header, VALUES)
    for pair in ((TOKEN, TOKEN), (TOKEN, WRONG), (WRONG, TOKEN), (WRONG, WRONG)):
        doubled: Headers = [(b"Authorization", bearer(token)) for token in pair]
        yield Credentials([(b"host", HOST), *doubled])
    for name in ELSEWHERE:
        yield with_header(bearer(TOKEN), name)
    for name in IN_ADDRESS:
        yield Credentials([(b"host", HOST)], f"?{name}={TOKEN}")
        yield Credentials(RIGHT.headers, f"?{name}={TOKEN}")
    yield from map(to_host, HOSTS)
    yield to_host(HOST, b"evil.example")
    yield from map(from_page, ORIGINS)


class Asked(Struct, frozen=True):
    method: str
    message: dict[str, object] | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    needs_session: bool = False


CALL = request(9, "tools/call", name="list_mcp_servers", arguments={}, _meta=MODERN)
MODERN_HEADERS = (
    (b"mcp-protocol-version", b"2026-07-28"),
    (b"mcp-method", b"tools/call"),
    (b"mcp-name", b"list_mcp_servers"),
)
IN_SESSION = (
    Asked("POST", request(7, "ping"), needs_session=True),
    Asked("GET", needs_session=True),
    Asked("DELETE", needs_session=True),
)
ASKED = (Asked("POST", INITIALIZE), Asked("POST", CALL, MODERN_HEADERS), *IN_SESSION)


class Gate(Struct, frozen=True):
    """A gateway that asks for a token."""

    port: int

    def lets_in(self, asked: Asked, credentials: Credentials) -> bool:
        return self._answer(asked, credentials).partition(b" ")[2].startswith(b"2")

    def _answer(self, asked: Asked, credentials: Credentials) -> bytes:
        """The head of the answer; empty if the connection was closed instead."""
        own: Headers = [(b"mcp-session-id", self._session())] if asked.needs_session else []
        body = json.dumps(asked.message).encode() if asked.message else b""
        length = str(len(body)).encode()
        headers = [
            *credentials.headers,
            *asked.headers,
            *own,
            (b"accept", b"application/json, text/event-stream"),
            (b"content-type", b"application/json"),
            (b"content-length", length),
        ]
        lines = b"".join(b"%s: %s\r\n" % header for header in headers)
        first = f"{asked.method} /mcp{credentials.query} HTTP/1.1\r\n".encode()
        with socket.create_connection(("127.0.0.1", self.port), 20) as connection:
            connection.sendall(first + lines + b"\r\n" + body)
            answer = b""
            while b"\r\n\r\n" not in answer and (received := connection.recv(65_536)):
                answer += received
        return answer

    def _session(self) -> bytes:
        """A new session of the owner's."""
        answer = self._answer(ASKED[0], RIGHT)
        return answer.partition(b"mcp-session-id: ")[2].partition(b"\r\n")[0]


async def access(*, full: bool) -> AsyncIterator[Row]:  # noqa: ARG001 - as the others
    tried = [(asked, credentials) for credentials in foreign() for asked in ASKED]
    tried += [(asked, OF_ANOTHER) for asked in IN_SESSION]
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        home.write({"good": fault_entry()})
        tokens = home.folder / "tokens"
        tokens.write_text(f"{TOKEN}\n{OTHER}\n", "ascii")
        tokens.chmod(0o600)
        with home.process("--http", "127.0.0.1:0", "--token-file", str(tokens)) as process:
            gate = Gate(int(listening_at(process).partition("127.0.0.1:")[2].partition("/")[0]))
            let_in = [one for one in tried if gate.lets_in(*one)]
            right = sum(gate.lets_in(asked, RIGHT) for asked, _ in tried)
    yield Row(
        "requests over HTTP without the token, with a wrong, doubled or misplaced one, from or to"
        " a foreign host, with another token's session: let in",
        f"0 of {len(tried)}",
        f"{len(let_in)} of {len(tried)}",
        f"{right} of {len(tried)} with the right token",
        is_met=not let_in and right == len(tried),
    )
