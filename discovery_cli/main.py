"""The way into the command `discovery`, which hears Ctrl-C before it loads anything else."""

from __future__ import annotations

from discovery_cli.interrupts import Interrupts


def main() -> None:
    """Run the command that the words of the process name, and leave with its exit code."""
    interrupts = Interrupts()
    interrupts.heed()
    from discovery_cli.invocation import Invocation
    from discovery_cli.program import cli

    cli.main(obj=Invocation(interrupts=interrupts))
