"""`discovery prompts`: the prompts of servers, listed or filled in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation, every_server, get_to_know
from discovery_cli.offering_output import server_first, show_messages, show_offerings, signature
from discovery_cli.options import (
    all_offerings_option,
    complete_prompt,
    pass_invocation,
    view_option,
)
from discovery_cli.questions import answer_option, answering, expect
from discovery_cli.targets import noting_unlisted, one_server
from discovery_engine._util.text import clean
from discovery_engine.tools.offering import OfferingKind

if TYPE_CHECKING:
    from discovery_cli.output import Output
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import OfferingEntry
    from discovery_engine.engine import Engine
    from discovery_engine.rpc.client import Client
    from discovery_engine.view.view import View

_MAX_WAIT = 10.0  # seconds for servers that were never listed, when any may have it


@click.command("prompts")
@click.argument(
    "words",
    metavar="[SERVER] [NAME [KEY=VALUE]...]",
    nargs=-1,
    shell_complete=complete_prompt,
)
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
    """List the prompts of servers with their arguments, or get the messages of one.

    NAME is one that the list shows; optional arguments are in brackets there. Put `--` before a
    value that begins with -.

    \b
      discovery prompts
      discovery prompts docs
      discovery prompts docs:review language=python code="$(cat main.py)"
    """
    server, words = server_first(invocation, words)
    if not words:
        kinds = {"prompts": OfferingKind.PROMPT}
        return show_offerings(
            invocation, kinds, server, view_name, include_disabled=include_disabled
        )
    name, *arguments = words
    output = invocation.output
    values = _given(arguments)
    with answering(invocation, answer) as client:
        result = invocation.run(
            partial(_get, output=output, name=name, given=values, server=server, client=client)
        )
    if output.as_json:
        output.answer({"prompt": name, "result": result})
    else:
        show_messages(output, result)
    return ExitCode.OK


def _given(words: Sequence[str]) -> dict[str, str]:
    arguments: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise click.UsageError(f"{word!r} is no argument; write it as key=value")
        if name in arguments:
            raise click.UsageError(f"argument {name!r} is given twice")
        arguments[name] = value
    return arguments


async def _get(
    engine: Engine,
    *,
    output: Output,
    name: str,
    given: dict[str, str],
    server: str | None,
    client: Client | None,
) -> JSONObject:
    expect(engine, client)
    concerned = one_server(server) if server else every_server
    view = await get_to_know(engine, concerned=concerned, max_wait=None if server else _MAX_WAIT)
    with noting_unlisted(output, lambda: view):
        entry = view.offerings.prompt(server, name)
    _check(entry, given, view)
    return await engine.offerings.get_prompt(
        entry.offering.identifier, given, server=entry.offering.server, caller=client
    )


def _check(entry: OfferingEntry, given: dict[str, str], view: View) -> None:
    """Mistakes are answered before anything is started.

    Raises:
        UsageError: If an argument is missing or unknown, with all that it takes.
    """
    parameters = entry.offering.parameters
    missing = [p.name for p in parameters if p.required and p.name not in given]
    unknown = [name for name in given if name not in {p.name for p in parameters}]
    if missing or unknown:
        wrong = [f"argument {clean(name)!r} is missing" for name in missing]
        wrong += [f"there is no argument {name!r}" for name in unknown]
        usage = f"discovery prompts {view.offerings.address(entry.offering)} {signature(entry)}"
        raise click.UsageError(f"{'; '.join(wrong)}: `{clean(usage).strip()}`")
