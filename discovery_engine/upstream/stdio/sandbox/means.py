"""The means of this system to confine programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

Means: TypeAlias = Literal["bubblewrap", "landlock"]
"""The means that confine any program; docker confines what is in an image."""

_TRIAL = ("--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc")
_TRIAL_WITHIN = 5.0  # seconds; it takes ten milliseconds
_OLD_SIGNALS = 6  # the version of Landlock since which it confines signals

_INSTALL = (
    "install it: `apt install bubblewrap`, `dnf install bubblewrap` or `pacman -S bubblewrap`"
)


class MeansState(Struct, frozen=True):
    """The state of one means, and whether it can be used."""

    means: Means
    program: str = ""
    """The path of bubblewrap."""
    problem: str = ""
    """The reason why it cannot be used; empty if it can."""
    hint: str = ""
    gaps: tuple[str, ...] = ()
    """The things that it cannot confine on this system."""

    @property
    def is_usable(self) -> bool:
        return not self.problem


def find_means(environ: Mapping[str, str]) -> tuple[MeansState, ...]:
    """Return all means, the best first; what was found once is found again without a trial."""
    if sys.platform != "linux":
        problem, hint = "needs Linux", "servers in `docker run` are confined everywhere"
        return tuple(MeansState(means, "", problem, hint) for means in get_args(Means))
    return _bubblewrap(shutil.which("bwrap", path=environ.get("PATH", os.defpath))), _landlock()


@cache
def _bubblewrap(path: str | None) -> MeansState:
    if path is None:
        return MeansState("bubblewrap", "", "bwrap is not on the PATH", _INSTALL)
    command = [path, *_TRIAL, "--dev", "/dev", "true"]
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, timeout=_TRIAL_WITHIN, env={}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return MeansState("bubblewrap", path, f"cannot be started: {error}")
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip() or f"exits with {done.returncode}"
        hint = "the system must allow user namespaces, as for Flatpak"
        return MeansState("bubblewrap", path, f"does not work here: {words}", hint)
    return MeansState("bubblewrap", path, gaps=_gaps_of_limits())


@cache
def _landlock() -> MeansState:
    from discovery_engine.upstream.stdio.sandbox import confinement  # noqa: PLC0415 - Linux only

    machine, version = os.uname().machine, confinement.landlock_version()
    if machine not in confinement.MACHINES:
        return MeansState("landlock", "", f"no filter of system calls for {machine}")
    if version == 0:
        hint = "it needs Linux 5.13 or newer, with `landlock` in the boot parameter `lsm`"
        return MeansState("landlock", "", "this kernel has none, or it is switched off", hint)
    gaps = () if version >= _OLD_SIGNALS else ("signals to other processes of the user",)
    return MeansState("landlock", gaps=(*gaps, *_gaps_of_limits()))


@cache
def _gaps_of_limits() -> tuple[str, ...]:
    """Return the gaps in the limits: only control groups limit the processes of root."""
    from discovery_engine.upstream.stdio.sandbox import confinement  # noqa: PLC0415 - as above

    if os.geteuid() != 0 or confinement.has_cgroups():
        return ()
    return ("the number of processes, because root has no such limit",)
