"""What the page costs: the gateway while it is open, and a person who waits for it.

    python benchmarks/dashboard.py [--seconds 20] [--inspector COMMAND]

A gateway has 100 servers with 20 tools each, and gets 200 calls a second over HTTP. Its CPU is
counted without a page, and with one that shows each area: the difference is what the page costs
(the goal is 3 % of a core). In the same browser: the bytes that the page takes, its first paint,
and the time from a key in the filter of 2,000 tools to the next frame (the goal is 100 ms).
`--inspector` starts another page to compare with, a command that prints its address, such as
`npx @modelcontextprotocol/inspector`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from http_calls import HttpClient, cpu
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts import browser  # noqa: E402

SERVERS, TOOLS = 100, 20
CALLS = 200  # a second
CLIENTS = 4
AREAS = ("", "servers", "tools", "logs", "metrics")
TYPED = "tool 17 of the"
ECHO = {"name": "execute_tool", "arguments": {"tool": "good:echo", "arguments": {"text": "hello"}}}
NO_NETWORK = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
NEXT_FRAME = """() => new Promise((done) => {
  const began = performance.now();
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - began), 0));
})"""
PAINT = """() => performance.getEntriesByType("paint").find((one) =>
  one.name === "first-contentful-paint")?.startTime"""


def write(folder: Path) -> None:
    """A configuration of many servers; one of them answers calls."""
    tests = ROOT / "tests" / "servers"
    servers: dict[str, Any] = {
        "good": {
            "command": sys.executable,
            "args": ["-I", "-S", str(tests / "fault_server.py"), "ok"],
        }
    }
    for number in range(SERVERS):
        listed = folder / f"{number}.json"
        listed.write_text(json.dumps(tools(number)), "utf-8")
        arguments = ["-I", "-S", str(tests / "listing_server.py"), str(listed)]
        servers[f"server{number}"] = {"command": sys.executable, "args": arguments}
    (folder / "discovery.yaml").write_text(json.dumps({"servers": servers}), "utf-8")


def tools(server: int) -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return [
        {
            "name": f"tool_{number}",
            "description": f"Does thing {number} of the service {server}, for those who want it.",
            "inputSchema": schema,
        }
        for number in range(TOOLS)
    ]


@contextmanager
def gateway(folder: Path) -> Iterator[tuple[int, str, str, str]]:
    """A running one: its process, its address, the code of its page and its token."""
    own = {"DISCOVERY_CONFIG": str(folder / "discovery.yaml")}
    environ = {**os.environ, **own, "DISCOVERY_DATA_DIR": str(folder / "data")}
    command = [sys.executable, "-m", "discovery_cli"]
    subprocess.run([*command, "list"], env=environ, check=True, stdout=subprocess.DEVNULL)
    serve = [*command, "serve", "--http", "127.0.0.1:0"]
    with subprocess.Popen(serve, env=environ, stderr=subprocess.PIPE, text=True) as process:
        pattern = re.compile(r"page at (http://\S+)/\?code=(\S+)")
        found = next(found for line in process.stderr if (found := pattern.search(line)))
        threading.Thread(target=process.stderr.read, daemon=True).start()
        token = (folder / "data" / "http-token").read_text("ascii").strip()
        try:
            yield process.pid, found[1], found[2], token
        finally:
            process.terminate()


async def load(port: int, token: str, stopped: threading.Event) -> None:
    """Calls at an even rate until it is stopped."""

    async def work() -> None:
        client = HttpClient(token)
        await client.open(port)
        due, number = time.perf_counter(), 0
        while not stopped.is_set():
            number += 1
            await client.call(number, ECHO)
            due += CLIENTS / CALLS
            await asyncio.sleep(max(0.0, due - time.perf_counter()))

    await asyncio.gather(*(work() for _ in range(CLIENTS)))


def share(pid: int, seconds: float, page: Page | None = None) -> float:
    """The CPU of a process, in percent of a core; the page stays alive meanwhile."""
    before, began = cpu(pid), time.perf_counter()
    if page:
        page.wait_for_timeout(seconds * 1000)
    else:
        time.sleep(seconds)
    return (cpu(pid) - before) / 1e4 / (time.perf_counter() - began)


def received(page: Page) -> list[int]:
    """Grows by the bytes of each answer, as they are transferred."""
    sizes: list[int] = []
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.on("Network.loadingFinished", lambda one: sizes.append(int(one["encodedDataLength"])))
    return sizes


def keys(page: Page, field: str) -> list[float]:
    """Milliseconds from each key to the frame after it."""
    page.locator(field).first.focus()
    took = []
    for key in TYPED:
        began = time.perf_counter()
        page.keyboard.press(key)
        page.evaluate(NEXT_FRAME)
        took.append((time.perf_counter() - began) * 1000)
    return took


def measure(chromium: Browser, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        with gateway(folder) as (pid, origin, code, token):
            stopped = threading.Event()
            port = int(origin.rpartition(":")[2])
            calls = threading.Thread(target=lambda: asyncio.run(load(port, token, stopped)))
            calls.start()
            try:
                time.sleep(3.0)
                alone = [share(pid, seconds)]
                page = chromium.new_page()
                sizes = received(page)
                page.goto(f"{origin}/?code={code}")
                page.get_by_text("Connected").wait_for()
                paint = page.evaluate(PAINT)
                print(f"first paint {paint:.0f} ms, {sum(sizes) / 1024:.0f} KiB transferred\n")
                rows = [(area, watched(page, origin, area, pid, seconds)) for area in AREAS]
                page.goto(f"{origin}/#/tools")
                page.wait_for_timeout(1000)
                took = keys(page, "[data-search]")
                page.close()
                time.sleep(1.0)
                alone.append(share(pid, seconds))
            finally:
                stopped.set()
                calls.join()
    base = statistics.mean(alone)
    print(f"gateway without a page: {alone[0]:.1f} and {alone[1]:.1f} % of a core\n")
    print("| area | with it | costs |\n|---|--:|--:|")
    for area, found in rows:
        print(f"| {area or 'overview'} | {found:.1f} % | {found - base:+.1f} % |")
    print(
        f"\na key among 2,000 tools: median {statistics.median(took):.0f} ms, most {max(took):.0f}"
    )


def watched(page: Page, origin: str, area: str, pid: int, seconds: float) -> float:
    page.goto(f"{origin}/#/{area}")
    page.wait_for_timeout(1500)
    return share(pid, seconds, page)


def compare(chromium: Browser, command: str) -> None:
    """The first paint and the size of another page, which prints its address when it is there."""
    environ = {**os.environ, "BROWSER": "none", "MCP_AUTO_OPEN_ENABLED": "false"}
    with subprocess.Popen(
        shlex.split(command), stdout=-1, stderr=subprocess.STDOUT, text=True, env=environ
    ) as process:
        pattern = re.compile(r"http://(?:localhost|127\.0\.0\.1):\d+/?\?\S+")
        address = next(found[0] for line in process.stdout if (found := pattern.search(line)))
        time.sleep(5.0)  # it prints the address before it listens
        page = chromium.new_page()
        sizes = received(page)
        page.goto(address)
        page.wait_for_timeout(3000)
        paint = page.evaluate(PAINT)
        print(f"\n{command}: first paint {paint:.0f} ms, {sum(sizes) / 1024:.0f} KiB transferred")
        process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--inspector", metavar="COMMAND")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser.find(), args=NO_NETWORK)
        measure(chromium, options.seconds)
        if options.inspector:
            compare(chromium, options.inspector)


if __name__ == "__main__":
    main()
