"""What a program is confined to, wherever that is written."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from discovery_engine.config.settings_section import (
    UNTRUSTED,
    SettingsSection,
    Values,
)

SandboxKind: TypeAlias = Literal["none", "auto", "bubblewrap", "docker", "landlock"]


class SandboxSettings(SettingsSection, frozen=True):
    """What the program of a server is confined to: folders, network, memory, processes."""

    kind: Annotated[SandboxKind, UNTRUSTED, Values(examples=["bubblewrap"])]
    """The means: `bubblewrap`, `landlock` (both on Linux), `docker` for a command that is `docker
    run`, `auto` for the first of them that the system has, or `none`."""
    read: Annotated[tuple[str, ...], UNTRUSTED, Values(examples=[["~/notes"]])] = ()
    """Files and folders that it may read, besides those of the system; `~` is the home folder, of
    which it sees nothing else. A relative path starts at the folder of this file."""
    write: Annotated[tuple[str, ...], UNTRUSTED, Values(examples=[["~/project"]])] = ()
    """Files and folders that it may read and write."""
    network: Annotated[bool, UNTRUSTED, Values(examples=[True])] = False
    """Whether it may use the network."""
    memory_mib: Annotated[int, UNTRUSTED, Values(ge=16, le=16 * 1024 * 1024, examples=[512])] = 2048
    """The most memory of one of its processes, in MiB."""
    processes: Annotated[int, UNTRUSTED, Values(ge=1, le=1_000_000, examples=[64])] = 512
    """The most processes and threads that it has at the same time."""

    @property
    def is_on(self) -> bool:
        return self.kind != "none"

    def __str__(self) -> str:
        """For people: the kind, and what is granted."""
        if not self.is_on:
            return self.kind
        granted = [f"reads {path}" for path in self.read]
        granted += [f"writes {path}" for path in self.write]
        granted.append("network" if self.network else "no network")
        limits = f"{self.memory_mib} MiB, {self.processes} processes"
        return "; ".join((self.kind, *granted, limits))


NO_SANDBOX = SandboxSettings("none")
