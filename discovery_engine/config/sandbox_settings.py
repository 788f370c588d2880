"""What a program is confined to, wherever that is written."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from discovery_engine.config.settings_section import UNTRUSTED, SettingsSection

SandboxKind: TypeAlias = Literal["none", "auto", "bubblewrap", "docker", "landlock"]


class SandboxSettings(SettingsSection, frozen=True):
    """What a program is confined to; folders are absolute or begin with `~`."""

    kind: Annotated[SandboxKind, UNTRUSTED]
    read: Annotated[tuple[str, ...], UNTRUSTED] = ()
    """Files and folders, in the home folder or elsewhere, that it may read."""
    write: Annotated[tuple[str, ...], UNTRUSTED] = ()
    """The same, to read and to write."""
    network: Annotated[bool, UNTRUSTED] = False
    memory_mib: Annotated[int, UNTRUSTED] = 2048
    processes: Annotated[int, UNTRUSTED] = 512
    """Processes and threads at the same time."""

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
