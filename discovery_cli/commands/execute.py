"""`discovery execute`: calls a tool."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct
from msgspec.structs import replace

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation, get_to_know
from discovery_cli.options import (
    complete_call,
    complete_server,
    engine_in_view,
    in_view,
    one_server_options,
    pass_invocation,
    view_option,
)
from discovery_cli.output import Output, json_text, writing
from discovery_cli.questions import answer_option, answering, expect, read_object
from discovery_cli.targets import servers_of, tool_named
from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import block, clean, named, one_line
from discovery_engine.agent.content import texts_of
from discovery_engine.errors import DiscoveryError, ToolNotFoundError, UpstreamTimeoutError
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry
    from discovery_engine.engine import Engine
    from discovery_engine.engine.executor import CallPreview
    from discovery_engine.rpc.client import Client
    from discovery_engine.rpc.messages import OnProgress
    from discovery_engine.tools.model import Parameter
    from discovery_engine.view.view import View


@click.command("execute")
@click.argument(
    "words", metavar="TOOL [ARGS]...", nargs=-1, required=True, shell_complete=complete_call
)
@click.option(
    "--server", metavar="SERVER", shell_complete=complete_server, help="The server of the tool."
)
@click.option(
    "--args", "document", metavar="JSON|@FILE|-", help="Arguments as a JSON object; - is stdin."
)
@answer_option
@click.option("--dry-run", is_flag=True, help="Show what would be sent, and send nothing.")
@click.option(
    "-o",
    "--output-file",
    "target",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the result to FILE; one image or file alone is written as its bytes.",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Wait no longer for the call; `timeouts` of the server count, too.",
)
@click.option("--stream", is_flag=True, help="Show progress messages of the tool on stderr.")
@view_option
@one_server_options
@pass_invocation
def command(  # noqa: PLR0913 - one for each option
    invocation: Invocation,
    words: tuple[str, ...],
    *,
    server: str | None,
    document: str | None,
    answer: str | None,
    dry_run: bool,
    target: Path | None,
    timeout: float | None,
    stream: bool,
    view_name: str | None,
) -> ExitCode:
    """Call a tool.

    TOOL is `server:tool`, `server tool`, or the name of a tool that only one server has. ARGS are
    `key=value`, values in the order of the signature, or one JSON object. Arguments are checked
    before the server is started; a terminal asks for those that are missing. Put `--` before a
    value that begins with `-`.

    \b
      discovery execute time:convert_time source_timezone=UTC time=12:00 target_timezone=Asia/Tokyo
      discovery execute github create_issue --args @issue.json
      discovery execute --command "uvx mcp-server-time" get_current_time timezone=UTC
    """
    arguments = read_object(document, "--args") if document is not None else {}
    if words[0] != invocation.only_server:
        server = server or invocation.only_server
    request = _Request(words, server, arguments, view_name)
    view = invocation.remembered(request.concerned)
    output = invocation.output
    if view is not None:  # report a mistake before anything is started
        if sys.stdin.isatty() and not (output.as_json or os.environ.get("DISCOVERY_NO_PROMPT")):
            request = request.completed(view)
        request.prepared_unless_unknown(view)
    if dry_run:
        return show_preview(output, invocation.run(partial(_preview, request=request)))
    on_progress = (_report_progress if output.as_json else _say_progress) if stream else None
    with answering(invocation, answer) as client:
        entry, result = invocation.run(
            partial(
                _execute, request=request, client=client, on_progress=on_progress, timeout=timeout
            )
        )
    if target and not result.get("isError"):
        _write_result(target, result)
        output.report({**_form(entry, result), "path": str(target)}, f"wrote {target}")
        return ExitCode.OK
    show = show_failure if result.get("isError") else show_result
    return show(output, entry, result)


class _Request(Struct, frozen=True):
    """A call as given on the command line."""

    words: tuple[str, ...]
    server: str | None
    document: JSONObject
    view_name: str | None

    def concerned(self, view: View) -> Iterable[ServerName]:
        """Return the servers that must be listed before the tool can be found."""
        return servers_of(self.words, self.server)(in_view(view, self.view_name))

    def completed(self, view: View) -> _Request:
        """Return the call with missing arguments that the person at the terminal typed."""
        view = in_view(view, self.view_name)
        try:
            entry, rest = tool_named(view, self.words, self.server, takes_arguments=True)
            from discovery_engine.tools.arguments import from_words

            given = from_words(entry.tool, rest) | self.document
        except DiscoveryError:  # it is reported later, with its reason
            return self
        missing = [p for p in entry.tool.parameters if p.required and p.name not in given]
        texts = [f"{p.name}={_asked(p)}" for p in missing if entry.verdict.enabled]
        return replace(self, words=(*self.words, *texts))

    def prepared(self, view: View) -> tuple[Entry, JSONObject]:
        """Return the tool and its checked arguments.

        Raises:
            DiscoveryError: If the tool is unknown or may not be called, or arguments are invalid.
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
    engine: Engine,
    *,
    request: _Request,
    client: Client | None,
    on_progress: OnProgress | None,
    timeout: float | None,  # noqa: ASYNC109 - an option of the command
) -> tuple[Entry, JSONObject]:
    """Call the tool.

    Raises:
        UpstreamTimeoutError: If it takes longer than `timeout` seconds.
    """
    import anyio

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
    with anyio.move_on_after(timeout):
        return entry, await call
    raise UpstreamTimeoutError(entry.tool.server, f"{entry.tool.name!r}", timeout or 0)


async def _prepared(engine: Engine, request: _Request) -> tuple[Entry, JSONObject]:
    """Return the tool and its arguments; list its servers first if they never were listed."""
    view = await get_to_know(engine, concerned=request.concerned)
    prepared = request.prepared_unless_unknown(view)
    if isinstance(prepared, ToolNotFoundError):  # its server failed before, and is tried again
        await engine.details(prepared.server, prepared.tool)
        prepared = request.prepared(engine.view)
    return prepared


def _asked(parameter: Parameter) -> str:
    about = one_line(parameter.description)
    question = f"{named(parameter.name)} ({parameter.type}{f': {about}' if about else ''})"
    value: str = click.prompt(question, err=True)
    return value


def _write_result(path: Path, result: JSONObject) -> None:
    """Write a result to a file: the content of its only file, or else its texts.

    Raises:
        UnwritableFileError: If the file cannot be written.
    """
    from discovery_engine._util import files
    from discovery_engine.agent.content import MediaPart, ResultContent

    parts = ResultContent.of(result).parts
    [*media] = (part for part in parts if isinstance(part, MediaPart))
    text = "".join(f"{text}\n" for text in texts_of(result))
    with writing(path):
        files.replace_file(path, media[0].content if len(parts) == len(media) == 1 else text)


def _arguments(entry: Entry, words: tuple[str, ...], document: JSONObject) -> JSONObject:
    from discovery_engine.tools.arguments import Checker, from_words

    arguments = document | from_words(entry.tool, words)
    if not entry.tool.overridden.pinned:  # otherwise the engine checks it, as it has the values
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
    """Print a failed call: to stderr as text, with --json to stdout as an ordinary result."""
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
