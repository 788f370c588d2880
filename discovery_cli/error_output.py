"""Errors for people and scripts: text or JSON on stderr; a traceback only with `-v`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator

import click

from discovery_cli.exit_codes import exit_code
from discovery_cli.output import json_text, with_warnings
from discovery_cli.rendering import short_detail
from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import block, clean, one_line
from discovery_engine.diagnostics import Diagnostic
from discovery_engine.errors import (
    ConfigurationError,
    DisabledError,
    DiscoveryError,
    InvalidArgumentsError,
    NotFoundError,
    OfferingDisabledError,
    PromptAmbiguousError,
    PromptDisabledError,
    PromptNotFoundError,
    ResourceAmbiguousError,
    ResourceDisabledError,
    ResourceNotFoundError,
    ServerNotFoundError,
    ToolAmbiguousError,
    ToolDisabledError,
    ToolNotFoundError,
    ToolWithheldError,
    UnavailableError,
    ViewNotFoundError,
)


def show_error(
    error: BaseException, *, as_json: bool, verbose: bool, warnings: Iterable[str] = ()
) -> None:
    """Write an error to stderr; in JSON with the warnings of the library before it."""
    form = with_warnings({"error": _form(error)}, warnings)
    text = json_text(form) if as_json else "\n".join(_lines(error))
    if _is_unexpected(error):  # its text may contain anything
        from discovery_engine.redaction.known_secrets import KNOWN_SECRETS

        text = KNOWN_SECRETS.redact_log((_traceback(error) if verbose else "") + text)
    if isinstance(error, click.Abort | KeyboardInterrupt) and sys.stderr.isatty():
        text = f"\n{text}"  # after a question, or the ^C that the terminal has echoed
    sys.stderr.write(text + "\n")


def _traceback(error: BaseException) -> str:
    import traceback

    return clean("".join(traceback.format_exception(error)))


def problem_lines(problem: Diagnostic) -> Iterator[str]:
    """A problem of a configuration, its excerpt, and its hint."""
    yield one_line(f"{problem.severity}: {problem.line}")
    yield from block(problem.excerpt) if problem.excerpt else ()
    if problem.hint:
        yield f"  hint: {one_line(problem.hint)}"


def problem_form(problem: Diagnostic) -> JSONObject:
    return problem.to_json() | {"path": problem.subject, "file": problem.origin.file}


def hint_of(error: BaseException) -> str:
    """The next step for an error, as commands of this program."""
    match error:
        case NotFoundError():
            return _way_to_names(error)
        case DisabledError():
            return _way_to_reason(error)
        case DiscoveryError():
            return error.hint
        case click.UsageError(ctx=click.Context() as context):
            return f"`{context.command_path} --help` shows the options"
    return "-v shows where it happened" if _is_unexpected(error) else ""


def _way_to_reason(error: DisabledError) -> str:
    match error:
        case ToolWithheldError(command=command):
            return f"`{command}` shows its definition now"
        case OfferingDisabledError(command=str() as command) if command:
            return f"`{command}` shows its definition now"
        case ToolDisabledError():
            return f"`discovery why {error.server}:{error.tool}` shows what each rule did"
        case ResourceDisabledError():
            return f"`discovery why --resource {shlex.quote(str(error.tool))}` shows what decides"
        case PromptDisabledError():
            name = shlex.quote(f"{error.server}:{error.tool}")
            return f"`discovery why --prompt {name}` shows what each rule did"
    return error.hint


def _way_to_names(error: NotFoundError) -> str:
    match error:
        case ToolAmbiguousError() | ResourceAmbiguousError() | PromptAmbiguousError():
            return f"name one of them: {', '.join(error.nearest)}"
        case ResourceNotFoundError():
            advice = "`discovery resources` shows what can be read"
        case PromptNotFoundError():
            advice = "`discovery prompts` shows them"
        case ServerNotFoundError():
            advice = "`discovery list` names them all"
        case ViewNotFoundError():
            advice = "`views:` has their names"
        case ToolNotFoundError(server=str() as server):
            advice = f"`discovery tools {server}` names its tools"
        case NotFoundError(code="TOKEN_NOT_FOUND"):
            advice = error.hint
        case _:
            advice = "`discovery search` finds tools by words"
    if not error.nearest:
        return advice
    return f"did you mean {' or '.join(map(repr, error.nearest))}? {advice}"


def _lines(error: BaseException) -> Iterator[str]:
    if isinstance(error, ConfigurationError):
        for problem in error.problems:
            yield from problem_lines(problem)
        return
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        yield error.format_message()
        return
    first, *rest = clean(_message(error)).splitlines() or [""]
    yield f"error: {first}"
    yield from (f"  | {line}" for line in rest)
    if isinstance(error, DiscoveryError) and (detail := short_detail(error.detail)):
        yield f"  {one_line(detail)}"
    if isinstance(error, UnavailableError) and error.stderr.strip():
        yield "  stderr (last lines):"
        yield from block(error.stderr, before="    | ")
    if hint := hint_of(error):
        yield f"  hint: {one_line(hint)}"


def _form(error: BaseException) -> JSONObject:
    form: JSONObject = {
        "code": _code(error),
        "message": _message(error),
        "hint": hint_of(error),
        "exit_code": int(exit_code(error)),
    }
    match error:
        case ConfigurationError():
            form["problems"] = [problem_form(problem) for problem in error.problems]
        case NotFoundError():
            form["nearest"] = list(error.nearest)
        case InvalidArgumentsError():
            form |= {"mistakes": list(error.mistakes), "signature": error.signature}
        case UnavailableError():
            form |= {"kind": str(error.kind), "stderr": error.stderr}
    if isinstance(error, DiscoveryError):
        form["detail"] = error.detail
    names = {key: getattr(error, key, None) for key in ("server", "tool")}
    return form | {key: name for key, name in names.items() if isinstance(name, str)}


def _code(error: BaseException) -> str:
    match error:
        case DiscoveryError():
            return error.code
        case click.UsageError():
            return "USAGE_ERROR"
        case click.Abort() | KeyboardInterrupt():
            return "INTERRUPTED"
    return "UNEXPECTED_ERROR"


def _message(error: BaseException) -> str:
    match error:
        case DiscoveryError():
            return error.message
        case click.ClickException():
            return _in_our_style(error.format_message())
        case click.Abort() | KeyboardInterrupt():
            return "interrupted"
        case OSError():
            return str(error)
    return f"unexpected {type(error).__name__}: {error}"


def _in_our_style(message: str) -> str:
    """A message of click in the form of our own messages."""
    if not message.startswith(
        ("Missing ", "Invalid value", "No such ", "Got unexpected ", "Option ")
    ):
        return message
    return message[0].lower() + message[1:].removesuffix(".")


def _is_unexpected(error: BaseException) -> bool:
    foreseen = (DiscoveryError, click.ClickException, click.Abort, KeyboardInterrupt)
    return not isinstance(error, foreseen)
