"""Teams and users that are given to a command, and that no `visibleTo` names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from discovery_engine._util.suggestions import nearest

if TYPE_CHECKING:
    from discovery_cli.invocation import Invocation


def note_unnamed(invocation: Invocation, principals: Sequence[str]) -> None:
    """Say which teams and users nothing is visible to, because they may be misspelt."""
    from discovery_engine.config.loading.loader import resolve_settings
    from discovery_engine.errors import ConfigurationError

    try:
        settings = resolve_settings(invocation.config, os.environ, frozen=invocation.frozen)
    except ConfigurationError:  # the command goes on all the same, and other commands say it
        return
    for principal in principals:
        if principal not in settings.principals:
            meant = nearest(principal, sorted(settings.principals))[:1]
            guess = f"; did you mean {meant[0]}?" if meant else ""
            invocation.output.say(f"no `visibleTo` of the configuration names {principal}{guess}")
