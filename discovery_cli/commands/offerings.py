"""`discovery resources` and `discovery prompts`: what servers offer beside tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation, every_server, get_to_know
from discovery_cli.options import (
    complete_prompt,
    complete_resource,
    engine_in_view,
    in_view,
    pass_invocation,
    view_option,
)
from discovery_cli.questions import answer_option, answering, expect
from discovery_cli.rendering import offering_row, prompt_signature, say_notices
from discovery_cli.targets import exit_code_of_server, noting_unlisted, one_server, server_named
from discovery_engine._util.quantities import counted
from discovery_engine._util.text import clean, one_line
from discovery_engine.agent.content import block_text
from discovery_engine.engine.json_forms.catalog_forms import notice_forms, offering_form
from discovery_engine.tools.offering import OfferingKind

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import OfferingEntry
    from discovery_engine.engine import Engine
    from discovery_engine.engine.scoped_engine import ScopedEngine
    from discovery_engine.rpc.client import Client
    from discovery_engine.view.view import View

    Work = Callable[[ScopedEngine, Client | None], Awaitable[JSONObject]]

_MAX_WAIT = 10.0  # seconds for servers that were never listed, if no server is named
_RESOURCES = {
    "resources": OfferingKind.RESOURCE,
    "templates": OfferingKind.TEMPLATE,
    "skills": OfferingKind.SKILL,
}
_PROMPTS = {"prompts": OfferingKind.PROMPT}

_all_option = click.option(
    "--all", "include_disabled", is_flag=True, help="Also show what is disabled."
)


@click.command("resources")
@click.argument("words", metavar="[SERVER] [URI]", nargs=-1, shell_complete=complete_resource)
@_all_option
@view_option
@answer_option
@pass_invocation
def resources(
    invocation: Invocation,
    words: tuple[str, ...],
    *,
    include_disabled: bool,
    view_name: str | None,
    answer: str | None,
) -> ExitCode:
    """List the resources of servers and their templates, or read one.

    URI is a URI that the list shows, or a template with its variables, such as {path}, filled in.
    Text is printed unchanged. Other content is summarised; --json prints it whole.

    \b
      discovery resources
      discovery resources docs
      discovery resources file:///notes.txt
    """
    server, words = _server_first(invocation, words)
    if not words:
        return _list(invocation, _RESOURCES, server, view_name, include_disabled=include_disabled)
    uri, *rest = words
    if rest:
        raise click.UsageError(f"only one URI can be read at a time; remove {rest[0]!r}")

    async def read(engine: ScopedEngine, client: Client | None) -> JSONObject:
        return await engine.offerings.read_resource(uri, server=server, caller=client)

    result = _run(invocation, read, server, view_name, answer)
    output = invocation.output
    if output.as_json:
        output.answer({"uri": uri, "result": result})
    for content in () if output.as_json else result["contents"]:
        output.text(block_text({"type": "resource", "resource": content}))
    return ExitCode.OK


@click.command("prompts")
@click.argument(
    "words",
    metavar="[SERVER] [NAME [KEY=VALUE]...]",
    nargs=-1,
    shell_complete=complete_prompt,
)
@_all_option
@view_option
@answer_option
@pass_invocation
def prompts(
    invocation: Invocation,
    words: tuple[str, ...],
    *,
    include_disabled: bool,
    view_name: str | None,
    answer: str | None,
) -> ExitCode:
    """List the prompts of servers, or get one.

    NAME is a name that the list shows; its optional arguments are in brackets. Put `--` before a
    value that begins with `-`.

    \b
      discovery prompts
      discovery prompts docs
      discovery prompts docs:review language=python code="$(cat main.py)"
    """
    server, words = _server_first(invocation, words)
    if not words:
        return _list(invocation, _PROMPTS, server, view_name, include_disabled=include_disabled)
    name, *pairs = words
    arguments = _arguments(pairs)

    async def get(engine: ScopedEngine, client: Client | None) -> JSONObject:
        entry = engine.view.offerings.prompt(server, name)
        _check(entry, arguments, engine.view)
        offering = entry.offering
        return await engine.offerings.get_prompt(
            offering.identifier, arguments, server=offering.server, caller=client
        )

    result = _run(invocation, get, server, view_name, answer)
    output = invocation.output
    if output.as_json:
        output.answer({"prompt": name, "result": result})
    for message in () if output.as_json else result["messages"]:
        output.text(f"{message['role']}:")
        output.text(block_text(message["content"]))
    return ExitCode.OK


def _server_first(
    invocation: Invocation, words: tuple[str, ...]
) -> tuple[str | None, tuple[str, ...]]:
    """Split off the first word if it is the name of a server."""
    if words and server_named(invocation.known(), words[0]):
        return words[0], words[1:]
    return None, words


def _list(
    invocation: Invocation,
    kinds: Mapping[str, OfferingKind],
    server: str | None,
    view_name: str | None,
    *,
    include_disabled: bool,
) -> ExitCode:
    """List offerings of several kinds, one below the other; in JSON by the keys of `kinds`."""
    output = invocation.output
    view = in_view(invocation.view(one_server(server) if server else None), view_name)
    lists = {
        key: view.list_offerings(kind, server, include_disabled=include_disabled)
        for key, kind in kinds.items()
    }
    notices = tuple(dict.fromkeys(notice for page in lists.values() for notice in page.notices))
    if output.as_json:
        forms = {key: [offering_form(e, view) for e in page.entries] for key, page in lists.items()}
        output.answer({**forms, "notices": notice_forms(notices)})
    else:
        entries = [entry for page in lists.values() for entry in page.entries]
        output.table([offering_row(output, entry, view) for entry in entries])
        say_notices(output, notices if view.servers() else view.general_notices())
    for part in view.catalog.parts.values():
        for kind, reason in part.unlisted.items():
            if OfferingKind(kind) in kinds.values():
                noun = OfferingKind(kind).label
                text = f"the {noun}s of {part.server} could not be listed: {one_line(reason)}"
                output.say(f"note: {text}; shown are the last known ones")
    shown = {key: page for key, page in lists.items() if page.entries or key != "skills"}
    output.say(", ".join(counted(len(page.entries), key[:-1]) for key, page in shown.items()))
    return exit_code_of_server(view, server)


def _run(
    invocation: Invocation,
    work: Work,
    server: str | None,
    view_name: str | None,
    answer: str | None,
) -> JSONObject:
    """Return the result of `work`, run once the servers that may have the offering are listed."""
    concerned = one_server(server) if server else every_server

    async def run(engine: Engine, client: Client | None) -> JSONObject:
        expect(engine, client)
        scoped = engine_in_view(engine, view_name)
        await get_to_know(
            engine,
            concerned=lambda _: concerned(scoped.view),
            max_wait=None if server else _MAX_WAIT,
        )
        with noting_unlisted(invocation.output, lambda: scoped.view):
            return await work(scoped, client)

    with answering(invocation, answer) as client:
        return invocation.run(lambda engine: run(engine, client))


def _arguments(pairs: Sequence[str]) -> dict[str, str]:
    arguments: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise click.UsageError(f"{pair!r} is not an argument: write KEY=VALUE")
        if name in arguments:
            raise click.UsageError(f"argument {name!r} is given twice")
        arguments[name] = value
    return arguments


def _check(entry: OfferingEntry, arguments: Mapping[str, str], view: View) -> None:
    """Check the arguments of a prompt before its server is started.

    Raises:
        UsageError: If an argument is missing or unknown, with all that it takes.
    """
    parameters = entry.offering.parameters
    missing = [p.name for p in parameters if p.required and p.name not in arguments]
    unknown = [name for name in arguments if name not in {p.name for p in parameters}]
    if missing or unknown:
        problems = [f"argument {clean(name)!r} is missing" for name in missing]
        problems += [f"there is no argument {name!r}" for name in unknown]
        address = view.offerings.address(entry.offering)
        usage = clean(f"discovery prompts {address} {prompt_signature(entry)}").strip()
        raise click.UsageError(f"{'; '.join(problems)}: `{usage}`")
