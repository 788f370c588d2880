"""Chooses the means that confines a program: the one of its entry, or the best available."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from discovery_engine.config.serve_settings import SandboxKind, SandboxSettings
from discovery_engine.config.syntax import CONTAINER_CLIENTS, program_name
from discovery_engine.upstream.stdio.sandbox.launch import SandboxError
from discovery_engine.upstream.stdio.sandbox.means import MeansState


class Choice(Struct, frozen=True):
    kind: SandboxKind
    """Never `auto`."""
    program: str = ""
    """The path of bubblewrap."""
    gaps: tuple[str, ...] = ()
    """The things that are not confined."""

    def __str__(self) -> str:
        """Return the kind for people, and what it leaves open."""
        return f"{self.kind} (not confined: {'; '.join(self.gaps)})" if self.gaps else self.kind


def choose(
    server: str, sandbox: SandboxSettings, command: str, states: Sequence[MeansState]
) -> Choice:
    """The means for a program.

    Raises:
        SandboxError: If it cannot be confined as the entry demands.
    """
    kind, is_container = sandbox.kind, program_name(command) in CONTAINER_CLIENTS
    if kind == "none":
        return Choice("none")
    if is_container and kind in ("auto", "docker"):
        return Choice("docker")
    if is_container:
        raise SandboxError(
            server,
            f"the sandbox {kind!r} cannot confine what {program_name(command)} starts",
            hint="write `sandbox: docker`, or `auto`",
        )
    if kind == "docker":
        raise SandboxError(
            server,
            "the sandbox 'docker' needs a command that is `docker run` with an image",
            hint="write `sandbox: auto`, or run the server from an image",
        )
    named = [state for state in states if kind in ("auto", state.means)]
    usable = next((state for state in named if state.is_usable), None)
    if usable is not None:
        return Choice(usable.means, usable.program, usable.gaps)
    if kind == "auto":
        return Choice("none", gaps=("anything, because this system has no means for it",))
    [missing] = named
    raise SandboxError(
        server,
        f"its sandbox {kind!r} is not available",
        hint=missing.hint or "write `sandbox: auto` for what this system has",
        detail=missing.problem,
    )
