"""What confines an installed server on this system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from discovery_engine.config.sandbox_settings import SandboxSettings
from discovery_engine.installer.sandbox_grants import Grants
from discovery_engine.upstream.stdio.sandbox.choice import Choice, choose
from discovery_engine.upstream.stdio.sandbox.means import find_means


def confinement(server: str, grants: Grants, program: str, environ: Mapping[str, str]) -> Choice:
    """What `auto` is on this system for a program. It tries the means once; it blocks."""
    settings = SandboxSettings("auto", network=grants.network)
    return choose(server, settings, program, find_means(environ))


def unconfined(choice: Choice) -> Iterator[str]:
    """A warning if a program is confined by nothing."""
    if choice.kind == "none":
        yield (
            "nothing confines it here: it can read and change everything that you can;"
            " `discovery doctor` shows how to get a sandbox"
        )
