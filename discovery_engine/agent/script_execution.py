"""`execute_script`: runs Python that an agent wrote, which calls tools, and answers with its value.

    issues = await call("github:list_issues", {"state": "open"})
    [issue["title"] for issue in issues["items"] if issue["comments"] > 5]

The interpreter is Monty, in a process of its own: code has no files, no network, no environment and
few modules of the standard library. `call` is its only way out, and passes every check of
`execute_tool`. The time of calls does not count towards the limit of the code.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from textwrap import dedent
from typing import TYPE_CHECKING, Self
from weakref import WeakValueDictionary

import anyio
from anyio.lowlevel import RunVar
from msgspec import Struct, to_builtins

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.text import one_line
from discovery_engine.agent.answer_rendering import ANSWER, result_text
from discovery_engine.agent.cutting import json_text
from discovery_engine.agent.execution import call_tool, cut, error_text, result_value
from discovery_engine.agent.meta_arguments import Caller, MetaArguments
from discovery_engine.errors import DiscoveryError
from discovery_engine.errors.extras import extra_missing, install_command
from discovery_engine.rpc.client import AskedClient
from discovery_engine.rpc.json_codec import encode
from discovery_engine.tools import limits

if TYPE_CHECKING:
    from pydantic_monty import ResourceLimits

    from discovery_engine.engine import ScopedEngine

logger = logging.getLogger(__name__)

MOST_CALLS = 100
"""The most calls of one script."""
_AT_ONCE = 10  # calls
_MAX_SCRIPTS = 16  # that run at once, whoever wrote them; others wait
_MAX_SCRIPTS_OF_CLIENT = 4
_MAX_SENT = 16 << 20  # bytes of the arguments of all calls, as JSON
_MAX_CODE_LENGTH = 20_000  # characters
_MAX_PRINTED_LENGTH = 20_000  # characters; what is printed beyond is dropped
_LIMITS: ResourceLimits = {
    "max_feed_duration_secs": 5.0,
    "max_memory": 64 << 20,
    "max_total_sleep_secs": 5.0,
}
"""Limits of the code alone: seconds that it runs, bytes, seconds that it sleeps."""


_slots: RunVar[ScriptSlots] = RunVar("slots of scripts")


class InvalidScriptError(DiscoveryError):
    """A script that cannot be run; nothing was sent."""

    code = "INVALID_SCRIPT"


class ExtraMissingError(DiscoveryError):
    """The interpreter is not installed."""

    code = "EXTRA_MISSING"


async def execute_script(
    engine: ScopedEngine, arguments: MetaArguments, caller: Caller
) -> JSONObject:
    """Run the script, and return its value, what it printed, and the calls that it made.

    Raises:
        InvalidScriptError: If it is too long, or no Python.
        ExtraMissingError: If the interpreter is not installed.
    """
    try:
        from pydantic_monty import AsyncMonty, MontyError, MontyRuntimeError, MontySyntaxError
    except ImportError as error:
        library = error.name or "pydantic_monty"
        problem = extra_missing("script", "`execute_script`", library)
        raise ExtraMissingError(problem.message, hint=problem.hint) from None
    code = _code(arguments)
    await engine.wait_first_listed(None)
    printed = _Printed()
    value, failure, note = None, "", ""
    async with (
        _script_slots().slot(caller.client_id),
        ScriptCalls(engine, caller) as calls,
        AsyncExitStack() as interpreters,
    ):
        try:
            pool = await interpreters.enter_async_context(
                AsyncMonty(min_processes=0, max_processes=1)
            )
            session = await interpreters.enter_async_context(pool.checkout(limits=_LIMITS))
        except (OSError, RuntimeError, MontyError) as error:
            logger.warning("The interpreter of scripts does not start: %s", error)
            message = "the interpreter of `execute_script` does not start"
            raise ExtraMissingError(message, hint=install_command("script")) from None
        try:
            value = await session.feed_run(
                code, external_lookup={"call": calls.call}, print_callback=printed
            )
        except MontySyntaxError as error:
            where = f"line {error.traceback()[-1].line}" if error.traceback() else "somewhere"
            message = f"the script is no Python, {where}: {error.display('msg')}"
            raise InvalidScriptError(message) from None
        except MontyRuntimeError as error:
            failure = error.display()
        except MontyError as error:
            failure = str(error)
        else:
            note = calls.note(value)
    outcomes = f"{note} {calls.summary}".lstrip() if failure or note else ""
    texts = [failure or _text(value), printed.text, outcomes]
    if not any(texts):
        texts = [f"No value: end the script with an expression. {calls.summary}"]
    answer: JSONObject = {"calls": len(calls.made), "printed": len(printed.text)}
    result: JSONObject = {
        "content": [{"type": "text", "text": text} for text in texts if text],
        "isError": bool(failure),
        "_meta": {ANSWER: answer},
    }
    return cut(engine, result, engine.settings.server.max_result_tokens, caller)


def _code(arguments: MetaArguments) -> str:
    code = arguments.optional_text("code", is_whole=True) or ""
    if not code.strip():
        raise arguments.missing("code")
    if len(code) > _MAX_CODE_LENGTH:
        message = f"the script has {len(code):,} characters, at most {_MAX_CODE_LENGTH:,}"
        raise InvalidScriptError(message)
    if code.lstrip("\r\n").startswith((" ", "\t")):  # else texts of several lines stay as written
        code = dedent(code)
    return code


class ScriptSlots:
    """The scripts of an event loop that run at once; each takes a process."""

    def __init__(self) -> None:
        self._all = anyio.CapacityLimiter(_MAX_SCRIPTS)
        self._of_clients = WeakValueDictionary[str | None, anyio.CapacityLimiter]()

    @asynccontextmanager
    async def slot(self, client: str | None) -> AsyncIterator[None]:
        """Wait for the other scripts of the client first, which takes nothing from others."""
        own = anyio.CapacityLimiter(_MAX_SCRIPTS_OF_CLIENT)
        async with self._of_clients.setdefault(client, own), self._all:
            yield


def _script_slots() -> ScriptSlots:
    try:
        return _slots.get()
    except LookupError:
        _slots.set(slots := ScriptSlots())
        return slots


def _text(value: object) -> str:
    """Return the value of a script as a text: JSON where it can be, but for a text alone."""
    if value is None or isinstance(value, str):
        return value or ""
    for form in (json_text, repr):
        with suppress(TypeError, ValueError, RecursionError):
            return form(value)
    return "Note: the value cannot be shown: it nests too deeply, or has too many digits."


class _Printed:
    """The output of a script, up to a limit."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, _stream: str, text: str) -> None:
        self.text = (self.text + text)[:_MAX_PRINTED_LENGTH]


_UNDER_WAY = "under way"
_COROUTINE = "<coroutine external_future("  # the text of a call that is not awaited


class ScriptCall(Struct):
    tool: str
    outcome: str = _UNDER_WAY
    """The outcome in a word, or the error."""


class ScriptCalls:
    """The calls of one script, with their outcomes.

    The interpreter lets a call go on when the script ends. As a context manager it waits for those
    that are under way, since it would be unknown what they have done; a cancelled request cancels
    them.
    """

    def __init__(self, engine: ScopedEngine, caller: Caller) -> None:
        self.made: list[ScriptCall] = []
        self._engine = engine
        # A client cannot continue one call of several, so it is asked instead.
        client = AskedClient(caller.client) if caller.client else None
        self._caller = Caller(client, on_call=caller.on_call)
        self._on_progress = caller.on_progress
        self._limiter = anyio.CapacityLimiter(_AT_ONCE)
        self._sent = 0  # bytes
        self._open: dict[anyio.CancelScope, anyio.Event] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None or issubclass(kind, Exception):
                for finished in list(self._open.values()):
                    await finished.wait()
        finally:
            for scope in self._open:
                scope.cancel()

    @property
    def summary(self) -> str:
        """A line on the calls that were made, whose effects stay."""
        if not self.made:
            return "No tool was called."
        outcomes = "; ".join(f"{call.tool}: {call.outcome}" for call in self.made)
        return f"Calls made: {outcomes}"

    def note(self, value: object) -> str:
        """A line for a script that ends before its calls, or whose value is one; else empty."""
        is_call = isinstance(value, str) and value.startswith(_COROUTINE)
        if not (self._open or is_call):
            return ""
        return "Note: a call was not awaited; write `await call(…)`."

    async def call(self, *positional: object, **named: JSONValue) -> JSONValue:
        """Return the structured content of the result of a tool, else its JSON, else its text.

        Raises:
            RuntimeError: With the error of the call, in the script.
            TypeError: If it is called wrongly.
        """
        match positional:
            case [str(tool)] | [str(tool), None]:
                arguments = named
            case [str(tool), dict(members)]:
                arguments = {**members, **named}
            case _:
                raise TypeError('a call is call("server:tool", {"argument": value})')
        if len(self.made) == MOST_CALLS:
            raise RuntimeError(f"a script may make {MOST_CALLS} calls")
        arguments = self._as_json(arguments)
        made = ScriptCall(limits.shortened(one_line(tool), limits.NAME_LENGTH))
        self.made.append(made)
        scope = anyio.CancelScope()
        finished = self._open[scope] = anyio.Event()
        try:
            with scope:
                return await self._value(made, tool, arguments)
            made.outcome = "cancelled"
            raise RuntimeError("the request was cancelled")
        finally:
            del self._open[scope]
            finished.set()

    async def _value(self, made: ScriptCall, tool: str, arguments: JSONObject) -> JSONValue:
        try:
            limits.require_name("tool", tool)
            async with self._limiter:
                result = await call_tool(self._engine, None, tool, arguments, self._caller)
        except DiscoveryError as error:
            made.outcome = error.code
            raise RuntimeError(error_text(error)) from None
        made.outcome = "failed" if result.get("isError") else "ok"
        if self._on_progress is not None:
            done = sum(call.outcome != _UNDER_WAY for call in self.made)
            await self._on_progress(float(done), None, f"{made.tool} {made.outcome}")
        if result.get("isError"):
            raise RuntimeError(result_text(result))
        return result_value(result)

    def _as_json(self, arguments: JSONObject) -> JSONObject:
        """Return the arguments as JSON, and count their bytes.

        Raises:
            TypeError: If they cannot be JSON.
            RuntimeError: If the script has no space left for them.
        """
        try:
            values: JSONObject = to_builtins(arguments, str_keys=True)
            self._sent += len(encode(values))
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"the arguments are no JSON: {error}") from None
        if self._sent > _MAX_SENT:
            raise RuntimeError(f"a script may send {_MAX_SENT >> 20} MiB of arguments")
        return values
