"""The entry point of `discovery`, which handles Ctrl-C before it imports anything else."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from discovery_cli.interrupts import Interrupts


def main() -> None:
    """Run the command of `sys.argv`, and exit with its code."""
    interrupts = Interrupts()
    interrupts.heed()
    # Imported objects are permanent; collecting garbage among them took 3 ms of a start.
    gc.disable()
    # The system frees all memory at once; Python would traverse all of it first.
    atexit.register(gc.freeze)
    _open_closed_streams()
    from discovery_cli.invocation import Invocation
    from discovery_cli.program import cli

    cli.main(obj=Invocation(interrupts=interrupts))


def _open_closed_streams() -> None:
    """Open standard streams that the shell has closed, before another file gets their descriptors.

    A registry on descriptor 1 would be written to by whatever prints.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - for the whole run
