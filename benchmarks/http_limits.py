"""What serving over HTTP costs, and what is left for a good client beside those that are not.

    python benchmarks/http_limits.py [--seconds 4]

Told are: calls in a row on one connection, beside an asyncio server that answers the same bytes and
does nothing else; the same while half requests take every connection, once with few descriptors and
once with many; the first answer to a client that comes then; and what sessions cost that nobody
closes. Beside each figure stand its goal and the baseline of the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.e2e.serving import Home, fault_entry, listening_at  # noqa: E402

PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "benchmark", "version": "1"},
        },
    }
).encode()
HALF = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: "
END = b"0\r\n\r\n"  # of a chunked answer


def is_whole(answer: bytes) -> bool:
    head, _, body = answer.partition(b"\r\n\r\n")
    _, has_length, length = head.partition(b"\r\ncontent-length: ")
    return len(body) >= int(length.split()[0]) if has_length else answer.endswith(END)


class KeptConnection:
    """A client that keeps its connection, as small as one can be."""

    def __init__(self, port: int, headers: dict[str, str]) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._headers = headers
        self.session = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def post(self, body: bytes) -> bytes:
        headers = {
            "host": "localhost",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "content-length": str(len(body)),
            **self._headers,
            **({"mcp-session-id": self.session} if self.session else {}),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._socket.sendall(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
        answer = b""
        while not is_whole(answer):
            received = self._socket.recv(65_536)
            if not received:
                raise ConnectionError(answer)
            answer += received
        return answer

    def open(self) -> KeptConnection:
        answer = self.post(INITIALIZE).decode()
        _, _, rest = answer.partition("mcp-session-id: ")
        self.session = rest.partition("\r\n")[0]
        return self

    def latencies(self, seconds: float) -> list[float]:
        """Milliseconds of calls, one after the other."""
        taken, ends = [], time.perf_counter() + seconds
        while time.perf_counter() < ends:
            began = time.perf_counter()
            self.post(PING)
            taken.append((time.perf_counter() - began) * 1000)
        return taken


@contextmanager
def gateway(descriptors: int) -> Iterator[tuple[subprocess.Popen[bytes], int, dict[str, str]]]:
    """A gateway that asks for its token, its port, and the header that opens it."""
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        home.write({"good": fault_entry()})
        few = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh"]
        with home.process("--http", "127.0.0.1:0", around=few) as process:
            port = int(listening_at(process).partition("127.0.0.1:")[2].partition("/")[0])
            yield process, port, home.authorization
            process.send_signal(signal.SIGTERM)
            process.wait(30)


@contextmanager
def bare_server() -> Iterator[int]:
    """The port of an asyncio server in a process of its own that answers the same bytes."""
    command = [sys.executable, __file__, "--bare"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        yield int(process.stdout.readline())
        process.kill()


async def serve_bare() -> None:
    answer = (
        b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n24\r\n{"jsonrpc": "2.0", "id": 1, '
    )
    answer += b'"result": {}}\r\n' + END

    class Bare(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            if data.endswith(b"}"):
                self.transport.write(answer)  # type: ignore[attr-defined]

    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def flood(port: int, count: int) -> Iterator[int]:
    """So many half requests, and how many of them are still held; more do not come."""
    with ExitStack() as held:
        sockets = []
        for _ in range(count):
            one = held.enter_context(socket.create_connection(("127.0.0.1", port)))
            one.sendall(HALF)
            sockets.append(one)
        time.sleep(0.2)
        yield sum(map(is_open, sockets))


def is_open(one: socket.socket) -> bool:
    one.setblocking(False)
    try:
        return one.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def kibibytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def descriptors_of(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def tell(name: str, figure: str, goal: str, baseline: str) -> None:
    print(f"{name:42} {figure:>26}   goal {goal:24} baseline {baseline}", flush=True)


def told(taken: list[float]) -> str:
    return f"p50 {statistics.median(taken):.2f} ms, p99 {sorted(taken)[len(taken) * 99 // 100]:.2f}"


def calls_in_a_row(seconds: float) -> None:
    with bare_server() as port, KeptConnection(port, {}) as client:
        bare = client.latencies(seconds)
    with gateway(1024) as (_, port, token), KeptConnection(port, token) as client:
        ours = client.open().latencies(seconds)
    # An answer that waits for a delayed ACK takes over 40 ms, whatever the machine.
    tell("calls in a row, connection kept", told(ours), "p50 < 20 ms", told(bare))


def beside_a_flood(seconds: float, *, descriptors: int, count: int) -> None:
    with gateway(descriptors) as (process, port, token), KeptConnection(port, token) as old:
        calm = old.open().latencies(seconds)
        with flood(port, count) as held:
            began = time.perf_counter()
            with KeptConnection(port, token) as client:
                client.open()
                first = (time.perf_counter() - began) * 1000
                beside = client.latencies(seconds)
            used = descriptors_of(process.pid)
    name = f"{count} half requests, {descriptors} descriptors"
    tell(f"{name}: first answer", f"{first:.0f} ms", "< 1000 ms", told(calm))
    tell(f"{name}: calls", told(beside), "p50 <= 1.2x", told(calm))
    tell(f"{name}: held", f"{held} held, {used} used", f"< {descriptors} descriptors", "-")


def sessions(count: int) -> None:
    with gateway(1024) as (process, port, token), KeptConnection(port, token) as client:
        client.open().latencies(0.5)
        before, began = kibibytes(process.pid), time.process_time()
        for _ in range(count):
            client.session = ""
            client.open()
        after = kibibytes(process.pid)
        seconds = time.process_time() - began
    figure = f"+{(after - before) / 1024:.1f} MiB"
    tell(
        f"{count} sessions that nobody closes", figure, "< 20 MiB", f"{seconds:.1f} s of the client"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        asyncio.run(serve_bare())
        return
    calls_in_a_row(options.seconds)
    beside_a_flood(options.seconds, descriptors=256, count=300)
    beside_a_flood(options.seconds, descriptors=1024, count=1000)
    sessions(2000)


if __name__ == "__main__":
    main()
