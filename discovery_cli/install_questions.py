"""Questions to the owner before an installation: approval, values, and secrets without an echo."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from discovery_cli.invocation import Invocation
    from discovery_engine.installer.offered_inputs import AskedInput

NO_TERMINAL = "there is no terminal to ask on; use --yes to approve what is shown"


def may_ask_person(invocation: Invocation, *, yes: bool) -> bool:
    """Return whether a person is asked."""
    from discovery_cli.client_files import may_ask

    return may_ask() and not (yes or invocation.as_json)


def is_agreed(question: str, *, yes: bool, asks: bool) -> bool:
    return yes or (asks and click.confirm(question, err=True))


def given_values(pairs: Iterable[str]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"--with {pair!r} is not KEY=VALUE")
        values.setdefault(key, []).append(value)
    return values


def require_no_secret_value(
    given: Mapping[str, Sequence[str]], asked: Iterable[AskedInput]
) -> None:
    """Other users see the arguments of a program, and the shell keeps them."""
    from discovery_engine.installer.offered_inputs import is_reference

    for field in asked:
        if field.is_secret and not all(map(is_reference, given.get(field.key, ()))):
            raise click.UsageError(
                f"{field.key} is a secret, and others can see the arguments of a program: use"
                f" `--secret {field.key}`, or a reference such as `--with '{field.key}=${{NAME}}'`"
            )


async def secret_values(keys: Iterable[str]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for key in keys:
        if sys.stdin.isatty():
            value = await _typed(f"{key} (hidden): ", is_hidden=True)
        elif not (value := sys.stdin.readline().rstrip("\r\n")):
            raise click.UsageError(f"stdin has no line for --secret {key}")
        values[key] = [value]
    return values


class Answers(NamedTuple):
    """The values that the person at the terminal gave."""

    values: dict[str, list[str]]
    secrets: dict[str, list[str]]


async def answers(asked: Iterable[AskedInput]) -> Answers:
    """Ask the person at the terminal for the required values."""
    from discovery_cli.install_output import input_line

    replies = Answers({}, {})
    for field in asked:
        if not field.is_missing:
            continue
        click.echo(input_line(field), err=True)
        hidden = " (hidden)" if field.is_secret else ""
        text = await _typed(f"{field.key}{hidden}: ", is_hidden=field.is_secret)
        (replies.secrets if field.is_secret else replies.values)[field.key] = [text]
    return replies


async def _typed(prompt: str, *, is_hidden: bool) -> str:
    """A line that a person types, which is not empty."""
    from discovery_cli.terminal_input import TerminalClosedError, TerminalInput

    terminal = TerminalInput()
    try:
        while not (text := await terminal.line(prompt, is_hidden=is_hidden)):
            terminal.write("a value is needed; Ctrl-C ends it")
    except TerminalClosedError as error:
        raise click.Abort from error
    return text
