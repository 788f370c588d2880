"""Questions of servers during a call: a person answers in the terminal, or `--answer` does.

Nothing is answered for a person: a form is declined or cancelled by a key, an address is shown and
never opened. There is no language model here, so a server is not told that there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeAlias

from discovery_cli.form_fields import FormField, InvalidInputError, fields_of
from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import block, clean, named, one_line
from discovery_engine.rpc.client import CallbackClient, Client
from discovery_engine.rpc.peer import RpcError
from discovery_engine.rpc.protocol import ASKING_SERVER, FINDINGS, INVALID_PARAMS

HINT = "answer it in a terminal, or give the fields of its form with `--answer`"

CuttingShort: TypeAlias = Callable[[Callable[[], object]], AbstractContextManager[None]]
"""As `Interrupts.cutting_short`."""

_DECLINED: JSONObject = {"action": "decline"}
_CANCELLED: JSONObject = {"action": "cancel"}


def client_of(
    answer: JSONObject | None, *, as_json: bool, cutting_short: CuttingShort
) -> Client | None:
    """`--answer`, or the person at the terminal; None if nobody can answer."""
    if answer is not None:
        return _answering(answer)
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    person = _Person(cutting_short)
    return CallbackClient(person.ask, capabilities={"elicitation": {"form": {}, "url": {}}})


def _answering(answer: JSONObject) -> Client:
    async def ask(_: str, params: JSONObject) -> JSONObject:
        content: JSONObject = {}
        for field in fields_of(params.get("requestedSchema")):
            value = answer.get(field.name, field.default)
            if value is not None:
                content[field.name] = value
            elif field.is_required:
                text = f"--answer has no {named(field.name)}, which its form needs"
                raise RpcError(INVALID_PARAMS, text)
        return {"action": "accept", "content": content}

    return CallbackClient(ask, capabilities={"elicitation": {"form": {}}})


class _Person:
    """Is asked on stderr, and answers on stdin."""

    def __init__(self, cutting_short: CuttingShort) -> None:
        self._cutting_short = cutting_short

    async def ask(self, _: str, params: JSONObject) -> JSONObject:
        """As `Client.ask`; Ctrl-C cancels the question, and the call goes on."""
        import anyio

        with anyio.CancelScope() as scope, self._cutting_short(scope.cancel):
            _show(params)
            if params.get("mode") == "url":
                return await _consent(params)
            return await _filled(fields_of(params.get("requestedSchema")))
        _write("")
        return _CANCELLED


def _show(params: JSONObject) -> None:
    meta = params.get("_meta") or {}
    _write(f"{named(str(meta.get(ASKING_SERVER, 'a server')))} asks:")
    for line in block(str(params.get("message") or "")):
        _write(line)
    for finding in meta.get(FINDINGS, ()):
        _write(f"warning: this text is suspicious: {one_line(str(finding.get('message')))}")


async def _consent(params: JSONObject) -> JSONObject:
    _write(f"It wants you to open this address: {clean(str(params.get('url')), newlines=False)}")
    _write("Nothing is opened for you: copy it into a browser, if you trust it.")
    if await _is_agreed("Go on with it?"):
        return {"action": "accept"}
    return _DECLINED


async def _filled(fields: list[FormField]) -> JSONObject:
    if not await _is_agreed("Answer? (n declines, Ctrl-C cancels)"):
        return _DECLINED
    content: JSONObject = {}
    for field in fields:
        value = await _value(field)
        if value is not None:
            content[field.name] = value
    return {"action": "accept", "content": content}


async def _value(field: FormField) -> object:
    if field.description:
        _write(f"  {field.description}")
    for number, (value, title) in enumerate(field.choices.items(), 1):
        _write(f"  {number}  {one_line(title if title == value else f'{title} ({value})')}")
    while True:
        text = await _line(f"{field.label}: ", is_hidden=field.is_secret)
        try:
            return field.parsed(text)
        except InvalidInputError as error:
            _write(f"  {error}")


async def _is_agreed(question: str) -> bool:
    while True:
        match (await _line(f"{question} [y/n]: ")).strip().lower():
            case "y" | "yes":
                return True
            case "n" | "no":
                return False


async def _line(prompt: str, *, is_hidden: bool = False) -> str:
    """A line of the terminal; the event loop runs meanwhile.

    Raises:
        RpcError: If the terminal is closed.
    """
    sys.stderr.write(prompt)
    sys.stderr.flush()
    with _hidden() if is_hidden else nullcontext():
        text = await _read_line()
    if not text:
        raise RpcError(INVALID_PARAMS, "the terminal was closed")
    return text


async def _read_line() -> str:
    import anyio
    import anyio.to_thread

    if sys.platform == "win32":
        return await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    # A terminal is readable once a whole line is there. A thread could not be interrupted.
    await anyio.wait_readable(sys.stdin)
    return sys.stdin.readline()


@contextmanager
def _hidden() -> Iterator[None]:
    """A block in which the terminal does not show what is typed."""
    try:
        import termios
    except ImportError:
        yield
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    quiet = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    try:
        termios.tcsetattr(terminal, termios.TCSADRAIN, quiet)
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        _write("")


def _write(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
