"""An authorization server and its MCP server for tests, and the browser step."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2

from tests.servers.programs import HERE

TIMEOUT = 30.0


@dataclass
class OAuthWorld:
    issuer: str
    resource: str
    http: httpx2.Client = field(default_factory=lambda: httpx2.Client(timeout=TIMEOUT))

    def control(self, **orders: Any) -> dict[str, Any]:
        """Change the conduct of the servers; returns what has happened so far."""
        answer: dict[str, Any] = self.http.post(f"{self.issuer}control", json=orders).json()
        return answer

    def count(self, what: str) -> int:
        return int(self.control()["counts"][what])

    @property
    def issued(self) -> list[str]:
        """Every code, token and secret that was given out."""
        return list(self.control()["issued"])

    def requests(self, path: str) -> list[dict[str, Any]]:
        return [one for one in self.control()["requests"] if one["path"] == path]

    def visit(self, address: str) -> None:
        """What a person's browser does: follow the redirects, agreeing to everything."""
        self.http.get(address, follow_redirects=True)

    def browser(self, step: Callable[[str], None] | None = None) -> Callable[[str], None]:
        """A browser for `log_in`, which acts in a thread while the login waits."""

        def show(address: str) -> None:
            threading.Thread(target=step or self.visit, args=[address], daemon=True).start()

        return show

    def config(self, folder: Path, **oauth: Any) -> Path:
        """A configuration with the server `files`."""
        entry: dict[str, Any] = {"url": self.resource} | ({"oauth": oauth} if oauth else {})
        path = folder / "discovery.yaml"
        path.write_text(json.dumps({"trust": "open", "servers": {"files": entry}}), "utf-8")
        return path


def query_of(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


async def wait_for(holds: Callable[[], bool]) -> None:
    """Wait for something that another task or process does."""
    with anyio.fail_after(TIMEOUT):
        while not holds():  # noqa: ASYNC110
            await anyio.sleep(0.01)


@contextmanager
def oauth_world() -> Iterator[OAuthWorld]:
    command = [sys.executable, str(HERE / "oauth_server.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            issuer, resource = process.stdout.readline().split()
            world = OAuthWorld(issuer, resource)
            with world.http:
                yield world
        finally:
            process.kill()
