"""`discovery version`: of this program, and of the Python that runs it."""

from __future__ import annotations

import platform

import click

from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_engine.version import __version__


@click.command("version")
@pass_invocation
def command(invocation: Invocation) -> None:
    """Show the version."""
    output = invocation.output
    if output.as_json:
        output.answer({"version": __version__, "python": platform.python_version()})
    else:
        output.line(f"discovery {__version__}")
