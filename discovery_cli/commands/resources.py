"""`discovery resources`: the resources of servers, listed or read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation, every_server, get_to_know
from discovery_cli.offering_output import server_first, show_contents, show_offerings
from discovery_cli.options import (
    all_offerings_option,
    complete_resource,
    pass_invocation,
    view_option,
)
from discovery_cli.questions import answer_option, answering, expect
from discovery_cli.targets import noting_unlisted, one_server
from discovery_engine.tools.offering import OfferingKind

if TYPE_CHECKING:
    from discovery_cli.output import Output
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine import Engine
    from discovery_engine.rpc.client import Client

_MAX_WAIT = 10.0  # seconds for servers that were never listed, when any may have it


@click.command("resources")
@click.argument("words", metavar="[SERVER] [URI]", nargs=-1, shell_complete=complete_resource)
@all_offerings_option
@view_option
@answer_option
@pass_invocation
def command(
    invocation: Invocation,
    words: tuple[str, ...],
    *,
    include_disabled: bool,
    view_name: str | None,
    answer: str | None,
) -> ExitCode:
    """List the resources of servers and their templates, or read one.

    URI is one that the list shows, or one of a template with its variables, such as {path}, filled
    in. Text is printed unchanged; other content is shown by its size, and `--json` has all of it.

    \b
      discovery resources
      discovery resources docs
      discovery resources file:///notes.txt
    """
    server, words = server_first(invocation, words)
    if not words:
        kinds = {"resources": OfferingKind.RESOURCE, "templates": OfferingKind.TEMPLATE}
        return show_offerings(
            invocation, kinds, server, view_name, include_disabled=include_disabled
        )
    uri, *rest = words
    if rest:
        raise click.UsageError(f"one URI at a time; {rest[0]!r} is one too many")
    output = invocation.output
    with answering(invocation, answer) as client:
        result = invocation.run(
            partial(_read, output=output, uri=uri, server=server, client=client)
        )
    if output.as_json:
        output.answer({"uri": uri, "result": result})
    else:
        show_contents(output, result)
    return ExitCode.OK


async def _read(
    engine: Engine, *, output: Output, uri: str, server: str | None, client: Client | None
) -> JSONObject:
    expect(engine, client)
    concerned = one_server(server) if server else every_server
    await get_to_know(engine, concerned=concerned, max_wait=None if server else _MAX_WAIT)
    with noting_unlisted(output, lambda: engine.view):
        return await engine.offerings.read_resource(uri, server=server, caller=client)
