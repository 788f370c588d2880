"""How a program is started, with or without a sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct


class Launch(Struct, frozen=True):
    """How a program is started."""

    command: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None
    confinement: tuple[str, ...] = ()
    """The words of its sandbox, for `confinement`."""
    sandbox: str = ""
    """The sandbox that confines it, described for people; empty without one."""
    temporary: str = ""
    """A folder to delete when it has ended."""
