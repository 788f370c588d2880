"""`discovery tune`: what search finds and what it costs, checked and improved."""

from __future__ import annotations

import click

from discovery_cli.command_group import Group

_COMMANDS = ("lint", "eval", "calibrate", "plan", "tokens", "enrich", "model")


@click.group("tune", cls=Group, modules={name: name for name in _COMMANDS})
def command() -> None:
    """Improve what search finds, and reduce what it costs.

    \b
      discovery tune lint
      discovery tune plan --rule '{pattern: "delete_*", enabled: false}'
      discovery tune eval queries.yaml --fail-under recall@5=0.9
    """
