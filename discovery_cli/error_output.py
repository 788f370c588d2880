"""Writes errors to stderr, as text or JSON; a traceback only with `-v`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import click

from discovery_cli.exit_codes import exit_code
from discovery_cli.output import UnwritableFileError, json_text, with_options, with_warnings
from discovery_cli.rendering import short_detail
from discovery_engine._util.json import JSONObject
from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine._util.text import block, clean, one_line
from discovery_engine.engine.json_forms.error_form import error_form, next_step
from discovery_engine.errors import ConfigurationError, Diagnostic, DiscoveryError, UnavailableError

_LONG_WORD = lazy_pattern(r"([^\s'\"]{40})[^\s'\"]{216,}")  # longer than any name may be
_OF_CLICK = click.BadParameter | click.NoSuchOption | click.BadOptionUsage | click.BadArgumentUsage


def show_error(
    error: BaseException,
    *,
    as_json: bool,
    verbose: bool,
    warnings: Iterable[str] = (),
    options: str = "",
) -> None:
    """Write an error to stderr; in JSON with the warnings that preceded it.

    `options` are added to the commands in its hints.
    """
    form = with_warnings({"error": _form(error)}, warnings)
    text = (
        json_text(form)
        if as_json
        else "\n".join(with_options(line, options) for line in _lines(error))
    )
    if _is_unexpected(error):  # its text may contain anything
        from discovery_engine.secrets.known_secrets import KNOWN_SECRETS

        text = KNOWN_SECRETS.redact_log((_traceback(error) if verbose else "") + text)
    if isinstance(error, click.Abort | KeyboardInterrupt) and sys.stderr.isatty():
        text = f"\n{text}"  # after a question, or the ^C that the terminal has echoed
    sys.stderr.write(text + "\n")


def _traceback(error: BaseException) -> str:
    import traceback

    return clean("".join(traceback.format_exception(error)))


def problem_lines(problem: Diagnostic) -> Iterator[str]:
    """Yield the lines of a configuration's problem: severity and message, excerpt, and hint."""
    yield one_line(f"{problem.severity}: {problem.line}")
    yield from block(problem.excerpt) if problem.excerpt else ()
    if problem.hint:
        yield f"  hint: {one_line(problem.hint)}"


def hint_of(error: BaseException) -> str:
    """Return the next step after an error, as a command of this program; empty if unknown."""
    match error:
        case DiscoveryError():
            return next_step(error)
        case UnwritableFileError():
            return error.hint
        case click.UsageError(ctx=click.Context() as context):
            return f"`{context.command_path} --help` shows the options"
        case PermissionError():
            return "run it as its user, change its rights, or name another folder (`--data-dir`)"
    return "-v shows where it happened" if _is_unexpected(error) else ""


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
    if isinstance(error, DiscoveryError):
        return error_form(error) | {"exit_code": int(exit_code(error))}
    return {
        "code": _code(error),
        "message": _message(error),
        "hint": hint_of(error),
        "exit_code": int(exit_code(error)),
    }


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
            return _in_our_style(error)
        case click.Abort() | KeyboardInterrupt():
            return "interrupted"
        case OSError():
            return str(error)
    return f"unexpected {type(error).__name__}: {error}"


def _in_our_style(error: click.ClickException) -> str:
    """Return the message of a click error in the style of our own messages."""
    message = _LONG_WORD.sub(r"\1…", error.format_message())
    # Too many arguments are a plain `UsageError`, as our own are.
    if isinstance(error, _OF_CLICK) or message.startswith("Got unexpected "):
        return message[:1].lower() + message[1:].removesuffix(".")
    return message


def _is_unexpected(error: BaseException) -> bool:
    foreseen = (DiscoveryError, click.ClickException, click.Abort, KeyboardInterrupt)
    return not isinstance(error, foreseen)
