"""Questions of servers during a request, answered by a person in the terminal or by `--answer`.

No question is answered without the person: forms can be declined or cancelled, and a URL is shown
but never opened. There is no language model here, so sampling is not declared to servers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from discovery_cli.form_fields import FormField, InvalidInputError, fields_of
from discovery_cli.output import silence
from discovery_cli.terminal_input import TerminalClosedError, TerminalInput
from discovery_engine._util.json import JSONObject, parse_json
from discovery_engine._util.text import block, clean, named, one_line
from discovery_engine.errors import InputRequiredError
from discovery_engine.rpc.client import CallbackClient, Client
from discovery_engine.rpc.messages import RpcError
from discovery_engine.rpc.protocol import ASKING_SERVER, FINDINGS, INVALID_PARAMS

if TYPE_CHECKING:
    import anyio

    from discovery_cli.invocation import Invocation
    from discovery_engine.engine import Engine

answer_option = click.option(
    "--answer",
    metavar="JSON|@FILE",
    help="Answer forms of the server with these fields; by default, you are asked.",
)

_MAX_HINT_FIELDS = 10  # fields of a form in a hint
_HINT = "answer it in a terminal, or give the fields of its form with `--answer`"
_DECLINED: JSONObject = {"action": "decline"}
_CANCELLED: JSONObject = {"action": "cancel"}


@contextmanager
def answering(invocation: Invocation, answer: str | None) -> Iterator[Client | None]:
    """Yield a client that answers from `--answer` or at the terminal; None if there is neither.

    Raises:
        UsageError: If `--answer` is no JSON object.
        InputRequiredError: From the block, with a hint on how to answer.
    """
    prepared = None if answer is None else _Prepared(read_object(answer, "--answer"))
    client = prepared.client if prepared else _person(invocation)
    try:
        yield client
    except InputRequiredError as error:
        if prepared and prepared.expected:
            hint = f"correct `--answer`; the form takes {prepared.expected}"
            problem = InputRequiredError(
                str(error.server), error.wanted, prepared.problem, hint=hint
            )
            problem.detail = error.detail
            raise problem from error
        raise error if client else error.with_hint(_HINT) from error
    if prepared and not invocation.as_json:
        prepared.say_unused()


def expect(engine: Engine, client: Client | None) -> None:
    """Declare the client's capabilities to servers from their start, so that none restarts."""
    if client is not None:
        engine.expect_client(client.capabilities)


def _person(invocation: Invocation) -> Client | None:
    if invocation.as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    person = _Person(invocation)
    return CallbackClient(person.ask, capabilities={"elicitation": {"form": {}, "url": {}}})


class _Prepared:
    """The answer of `--answer`; each form takes the fields that it has."""

    def __init__(self, answer: JSONObject) -> None:
        self._answer = answer
        self._unused = set(answer)
        self.problem = ""
        """The reason why the last form was rejected; empty if none was."""
        self.expected = ""
        """The fields of that form, as text."""
        self.client = CallbackClient(self._ask, capabilities={"elicitation": {"form": {}}})

    async def _ask(self, _: str, params: JSONObject) -> JSONObject:
        fields = fields_of(params.get("requestedSchema"))
        self._unused -= {field.name for field in fields}
        content: JSONObject = {}
        problems: list[str] = []
        for field in fields:
            value = self._answer.get(field.name, field.default)
            if problem := self._problem_of(field):
                problems.append(f"{named(field.name)} {problem}")
            elif value is not None:
                content[field.name] = value
        if problems:
            self.problem = f"--answer does not fit its form: {'; '.join(problems)}"
            self.expected = "; ".join(field.label for field in fields[:_MAX_HINT_FIELDS])
            raise RpcError(INVALID_PARAMS, self.problem)
        return {"action": "accept", "content": content}

    def _problem_of(self, field: FormField) -> str:
        if field.name not in self._answer:
            is_missing = field.is_required and field.default is None
            return "is missing, and the form needs it" if is_missing else ""
        try:
            field.check(self._answer[field.name])
        except InvalidInputError as error:
            return str(error)
        return ""

    def say_unused(self) -> None:
        """Print the unused fields and the rejected form after a call that still succeeded."""
        if self.problem:
            click.echo(f"note: {self.problem}", err=True)
        if self._unused:
            names = ", ".join(map(named, sorted(self._unused)))
            click.echo(f"note: no form has asked for {names} of --answer", err=True)


class _Person:
    def __init__(self, invocation: Invocation) -> None:
        self._interrupts = invocation.interrupts
        self._screen = invocation.screen
        self._terminal = TerminalInput()
        self._outputs = [stream for stream in (sys.stdout, sys.stderr) if stream.isatty()]
        self._turn: anyio.Lock | None = None

    async def ask(self, _: str, params: JSONObject) -> JSONObject:
        """Ask the person, one question at a time; see `Client.ask`."""
        import anyio

        self._turn = self._turn or anyio.Lock()
        async with self._turn:
            return await self._ask(params)

    async def _ask(self, params: JSONObject) -> JSONObject:
        """Return the answer; Ctrl-C and Ctrl-D cancel the question, and the call continues."""
        import anyio

        scope = anyio.CancelScope()
        cutting_short = self._interrupts.cutting_short(scope.cancel, hangs_up=True)
        with self._screen.still(), scope, cutting_short:
            try:
                return await self._answer(params)
            except TerminalClosedError as closed:
                if closed.is_gone:
                    self._interrupts.hang_up()
            except anyio.get_cancelled_exc_class():
                if not scope.cancel_called:  # the question was withdrawn, or expired
                    self._terminal.write("\nthis answer is no longer needed")
                raise
        self._terminal.write("")
        if not sys.stdin.isatty():
            for output in self._outputs:  # further writes to a closed terminal would fail
                silence(output)
        return _CANCELLED

    async def _answer(self, params: JSONObject) -> JSONObject:
        for line in _shown(params):
            self._terminal.write(line)
        if params.get("mode") == "url":
            return {"action": "accept"} if await self._agrees("Go on with it?") else _DECLINED
        if not await self._agrees("Answer? (n declines, Ctrl-C cancels)"):
            return _DECLINED
        values = {
            field.name: await self._value(field)
            for field in fields_of(params.get("requestedSchema"))
        }
        content = {name: value for name, value in values.items() if value is not None}
        return {"action": "accept", "content": content}

    async def _value(self, field: FormField) -> object:
        if field.description:
            self._terminal.write(f"  {field.description}")
        for number, (value, title) in enumerate(field.choices.items(), 1):
            label = one_line(title if title == value else f"{title} ({value})")
            self._terminal.write(f"  {number}  {label}")
        while True:
            text = await self._terminal.line(f"{field.label}: ", is_hidden=field.is_secret)
            try:
                return field.parsed(text)
            except InvalidInputError as error:
                self._terminal.write(f"  it {error}")

    async def _agrees(self, question: str) -> bool:
        while True:
            match (await self._terminal.line(f"{question} [y/n]: ")).strip().lower():
                case "y" | "yes":
                    return True
                case "n" | "no":
                    return False


def _shown(params: JSONObject) -> Iterator[str]:
    """Yield the lines of a question for a person."""
    meta = params.get("_meta") or {}
    yield f"{named(str(meta.get(ASKING_SERVER, 'a server')))} asks:"
    yield from block(str(params.get("message") or ""))
    for finding in meta.get(FINDINGS, ()):
        yield f"warning: this text is suspicious: {one_line(str(finding.get('message')))}"
    if params.get("mode") == "url":
        url = clean(str(params.get("url")), newlines=False)
        yield f"It wants you to open this address: {url}"
        yield "Nothing is opened for you: copy it into a browser, if you trust it."


def read_object(text: str, option: str) -> JSONObject:
    """Return the JSON object of an option: the text itself, `@FILE`, or `-` for stdin.

    Raises:
        UsageError: If it cannot be read, or is no JSON object.
    """
    try:
        value = parse_json(_written(text).removeprefix("\ufeff"))
    except OSError as error:
        why = f"{error.filename}: {error.strerror}"
        raise click.UsageError(f"{option} cannot be read: {why}") from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{option} is not UTF-8 text") from error
    except ValueError as error:
        raise click.UsageError(f"{option} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise click.UsageError(f'{option} must be a JSON object, like {{"title": "…"}}')
    return value


def _written(text: str) -> str:
    if text == "-":
        return sys.stdin.read()
    if text.startswith("@"):
        return Path(text[1:]).read_text(encoding="utf-8")
    return text
