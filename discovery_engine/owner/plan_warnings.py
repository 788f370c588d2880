"""Warnings about a planned change that can be made as it is all the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from discovery_engine.config.settings import ServerSettings, StdioTransport
from discovery_engine.errors import UnavailableError
from discovery_engine.secrets.references import MalformedReferenceError, references_in
from discovery_engine.upstream.stdio.executable import child_environment, on_this_machine

if TYPE_CHECKING:
    from discovery_engine.owner.server_plans import ServerPlan


def with_warnings(plan: ServerPlan, environ: Mapping[str, str]) -> ServerPlan:
    """The plan of an addition or an update with its warnings; it looks for the program."""
    return replace(plan, warnings=tuple(_warnings(plan, environ)))


def _warnings(plan: ServerPlan, environ: Mapping[str, str]) -> Iterator[str]:
    if plan.server:
        # It may be installed later, so this is no reason to refuse.
        yield from _missing_program(plan.server, environ)
    if plan.verb == "update" and plan.edit:
        for comment in plan.edit.lost_comments():
            yield f"this comment of the file goes, since it stands in what changes: `{comment}`"


def _missing_program(server: ServerSettings, environ: Mapping[str, str]) -> Iterator[str]:
    transport = server.transport
    if not isinstance(transport, StdioTransport):
        return
    path = {name: value for name, value in transport.env.items() if name == "PATH"}
    try:
        if any(map(references_in, (transport.command, transport.cwd or "", *path.values()))):
            return  # it is known when it is started
        on_this_machine(server.name, transport, child_environment(environ, path))
    except MalformedReferenceError:
        return
    except UnavailableError as error:
        hint = f": {error.hint}" if error.hint else ""
        yield f"{error.reason}{hint}"
