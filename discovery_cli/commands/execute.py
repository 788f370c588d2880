"""`discovery execute`: a call of a tool."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation, get_to_know
from discovery_cli.options import (
    complete_server,
    complete_target,
    engine_in_view,
    in_view,
    one_server_options,
    pass_invocation,
    view_option,
)
from discovery_cli.output import Output, json_text
from discovery_cli.questions import answer_option, answering, expect, read_object
from discovery_cli.targets import servers_of, tool_named
from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import block, clean, one_line
from discovery_engine.agent.content import texts_of
from discovery_engine.errors import ToolNotFoundError
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry
    from discovery_engine.engine import Engine
    from discovery_engine.engine.executor import CallPreview
    from discovery_engine.rpc.client import Client
    from discovery_engine.rpc.messages import OnProgress
    from discovery_engine.view.view import View


@click.command("execute")
@click.argument(
    "words", metavar="TOOL [ARGS]...", nargs=-1, required=True, shell_complete=complete_target
)
@click.option(
    "--server", metavar="SERVER", shell_complete=complete_server, help="The server of the tool."
)
@click.option(
    "--args", "document", metavar="JSON|@FILE|-", help="Arguments as a JSON object; - is stdin."
)
@answer_option
@click.option("--dry-run", is_flag=True, help="Show what would be sent, and send nothing.")
@click.option("--stream", is_flag=True, help="Show progress messages of the tool on stderr.")
@view_option
@one_server_options
@pass_invocation
def command(
    invocation: Invocation,
    words: tuple[str, ...],
    *,
    server: str | None,
    document: str | None,
    answer: str | None,
    dry_run: bool,
    stream: bool,
    view_name: str | None,
) -> ExitCode:
    """Call a tool.

    TOOL is `server:tool`, `server tool`, or the name of a tool that only one server has. ARGS are
    `key=value`, values in the order of the signature, or one JSON object. Arguments are checked
    before the server is started. Put `--` before a value that begins with `-`.

    \b
      discovery execute time:convert_time source_timezone=UTC time=12:00 target_timezone=Asia/Tokyo
      discovery execute github create_issue --args @issue.json
      discovery execute --command "uvx mcp-server-time" get_current_time timezone=UTC
    """
    arguments = read_object(document, "--args") if document is not None else {}
    request = _Request(words, server, arguments, view_name)
    view = invocation.remembered(request.concerned)
    if view is not None:  # a mistake is answered before anything is started
        request.prepared_unless_unknown(view)
    output = invocation.output
    if dry_run:
        return show_preview(output, invocation.run(partial(_preview, request=request)))
    on_progress = (_report_progress if output.as_json else _say_progress) if stream else None
    with answering(invocation, answer) as client:
        entry, result = invocation.run(
            partial(_execute, request=request, client=client, on_progress=on_progress)
        )
    show = show_failure if result.get("isError") else show_result
    return show(output, entry, result)


class _Request(Struct, frozen=True):
    """A call in the words of the command line."""

    words: tuple[str, ...]
    server: str | None
    document: JSONObject
    view_name: str | None

    def concerned(self, view: View) -> Iterable[ServerName]:
        """The servers that must be listed before the tool is known."""
        return servers_of(self.words, self.server)(in_view(view, self.view_name))

    def prepared(self, view: View) -> tuple[Entry, JSONObject]:
        """The tool, if it may be called, and its arguments, checked.

        Raises:
            DiscoveryError: If there is no such tool, or it may not be called, or not so.
        """
        view = in_view(view, self.view_name)
        entry, rest = tool_named(view, self.words, self.server, takes_arguments=True)
        entry = view.details(entry.tool.server, entry.tool.name)
        return entry, _arguments(entry, rest, self.document)

    def prepared_unless_unknown(self, view: View) -> tuple[Entry, JSONObject] | ToolNotFoundError:
        """Return `prepared`; or the error, if the server was never listed and may have the tool."""
        try:
            return self.prepared(view)
        except ToolNotFoundError as error:
            if error.server is None or view.is_known(ServerName(error.server)):
                raise
            return error


async def _preview(engine: Engine, *, request: _Request) -> CallPreview:
    entry, arguments = await _prepared(engine, request)
    scoped = engine_in_view(engine, request.view_name)
    return await scoped.preview(entry.tool.server, entry.tool.name, arguments)


async def _execute(
    engine: Engine, *, request: _Request, client: Client | None, on_progress: OnProgress | None
) -> tuple[Entry, JSONObject]:
    """Call the tool."""
    expect(engine, client)
    entry, arguments = await _prepared(engine, request)
    call = engine_in_view(engine, request.view_name).execute(
        entry.tool.server,
        entry.tool.name,
        arguments,
        caller=client,
        on_progress=on_progress,
        on_unchecked=_say_unchecked,
    )
    return entry, await call


async def _prepared(engine: Engine, request: _Request) -> tuple[Entry, JSONObject]:
    """The tool and its arguments; its servers are listed first if they never were."""
    view = await get_to_know(engine, concerned=request.concerned)
    prepared = request.prepared_unless_unknown(view)
    if isinstance(prepared, ToolNotFoundError):  # its server failed before, and is tried again
        await engine.details(prepared.server, prepared.tool)
        prepared = request.prepared(engine.view)
    return prepared


def _arguments(entry: Entry, words: tuple[str, ...], document: JSONObject) -> JSONObject:
    from discovery_engine.tools.arguments import Checker, from_words

    arguments = document | from_words(entry.tool, words)
    if not entry.tool.overridden.pinned:  # else the engine does it, which has the values
        Checker(entry.tool).check(arguments)
    return arguments


def _say_unchecked(reason: str) -> None:
    _write(f"note: the arguments were not checked: {one_line(reason)}")


async def _say_progress(progress: float, total: float | None, message: str | None) -> None:
    share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
    _write(f"progress {share} {one_line(message or '')}".rstrip())


async def _report_progress(progress: float, total: float | None, message: str | None) -> None:
    _write(json_text({"progress": {"done": progress, "total": total, "message": message}}))


def _write(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def show_result(output: Output, entry: Entry, result: JSONObject) -> ExitCode:
    if output.as_json:
        output.answer(_form(entry, result))
    else:
        for text in texts_of(result):
            output.text(text)
    return ExitCode.OK


def show_failure(output: Output, entry: Entry, result: JSONObject) -> ExitCode:
    """A tool that ran and failed: its text goes to stderr; in JSON it is an ordinary result."""
    if output.as_json:
        output.answer(_form(entry, result))
        return ExitCode.TOOL_FAILED
    output.say(f"error: {entry.key.label} failed")
    for line in block(clean("\n".join(texts_of(result))).strip()):
        output.say(line)
    return ExitCode.TOOL_FAILED


def show_preview(output: Output, preview: CallPreview) -> ExitCode:
    """Print what a call would send, and where."""
    entry = preview.entry
    sent = {**preview.arguments, **preview.pinned}
    form: JSONObject = {
        "server": entry.tool.server,
        "tool": entry.tool.name,
        "sent": False,
        "to": preview.target,
        "as": entry.tool.upstream_name,
        "arguments": sent,
        "pinned": list(preview.pinned),
        "unchecked": preview.unchecked,
        "annotations": entry.tool.annotations,
        "enabled": entry.verdict.enabled,
        "tags": list(entry.verdict.tags),
    }
    if output.as_json:
        output.answer(form)
        return ExitCode.OK
    fits = f"not checked: {preview.unchecked}" if preview.unchecked else "fit its schema"
    lines = [
        f"{entry.key.label}: nothing was sent",
        f"  to           {preview.target}",
        f"  as           {entry.tool.upstream_name}",
        f"  arguments    {json.dumps(sent, ensure_ascii=False)} ({fits})",
        f"  pinned       {', '.join(preview.pinned) or 'none'}",
        f"  annotations  {json.dumps(entry.tool.annotations, ensure_ascii=False)}",
        f"  tags         {', '.join(entry.verdict.tags) or 'none'}",
    ]
    for line in lines:
        output.text(clean(line, newlines=False))
    return ExitCode.OK


def _form(entry: Entry, result: JSONObject) -> JSONObject:
    return {
        "server": entry.tool.server,
        "tool": entry.tool.name,
        "success": not result.get("isError"),
        "result": result,
    }
