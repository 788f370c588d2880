"""The way into the command `discovery`, which hears Ctrl-C before it loads anything else."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from discovery_cli.interrupts import Interrupts


def main() -> None:
    """Run the command that the words of the process name, and leave with its exit code."""
    interrupts = Interrupts()
    interrupts.heed()
    # Loading makes objects that stay; looking for garbage among them took 3 ms of a start.
    gc.disable()
    # The system takes everything back at once; Python would look through all of it before.
    atexit.register(gc.freeze)
    _open_closed_streams()
    from discovery_cli.invocation import Invocation
    from discovery_cli.program import cli

    cli.main(obj=Invocation(interrupts=interrupts))


def _open_closed_streams() -> None:
    """Lead a standard stream that the shell has closed nowhere, before another file gets its place.

    A registry on descriptor 1 would be written to by whatever prints.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - for the whole run
