"""`discovery read`: the contents of a resource."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from discovery_cli.invocation import Invocation, every_server, get_to_know
from discovery_cli.offering_output import show_contents
from discovery_cli.options import complete_resource, complete_server, pass_invocation
from discovery_cli.questions import answer_option, answering, expect
from discovery_cli.targets import noting_unlisted, one_server

if TYPE_CHECKING:
    from discovery_cli.output import Output
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine import Engine
    from discovery_engine.rpc.client import Client

_MAX_WAIT = 10.0  # seconds for servers that were never listed, when any may have it


@click.command("read")
@click.argument("uri", shell_complete=complete_resource)
@click.option(
    "--server", metavar="SERVER", shell_complete=complete_server, help="Whose resource it is."
)
@answer_option
@pass_invocation
def command(invocation: Invocation, uri: str, *, server: str | None, answer: str | None) -> None:
    """Read a resource.

    URI is one that `discovery resources` shows, or one of a template with its variables filled in.
    Text is printed as it is; of other contents the size is shown, and `--json` has them whole.
    """
    output = invocation.output
    with answering(invocation, answer) as client:
        result = invocation.run(
            partial(_read, output=output, uri=uri, server=server, client=client)
        )
    if output.as_json:
        output.answer({"uri": uri, "result": result})
    else:
        show_contents(output, result)


async def _read(
    engine: Engine, *, output: Output, uri: str, server: str | None, client: Client | None
) -> JSONObject:
    expect(engine, client)
    concerned = one_server(server) if server else every_server
    await get_to_know(engine, concerned=concerned, max_wait=None if server else _MAX_WAIT)
    with noting_unlisted(output, lambda: engine.view):
        return await engine.offerings.read_resource(uri, server=server, caller=client)
