"""Calls from threads without an event loop to the one loop behind `discovery_engine.sync`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial, update_wrapper
from queue import SimpleQueue
from threading import Event
from typing import Any, ParamSpec, TypeAlias, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.from_thread import BlockingPortal, BlockingPortalProvider

from discovery_engine.sync.sync_client import AnyClient, SyncClient

P = ParamSpec("P")
T = TypeVar("T")

Progress: TypeAlias = Callable[[float, float | None, str | None], object]
"""Called with progress, total and message of each notification."""
OnStep: TypeAlias = Callable[[str], object]
"""Called with a description of each step."""

LOOP = BlockingPortalProvider()
"""The thread with the loop, which starts with the first engine and ends with the last."""

_CALLBACKS = ("on_done", "on_progress", "on_unchecked", "show")
"""The parameters whose functions run in the waiting thread."""
_ENDING = 10.0  # seconds for an interrupted call to end; its server may be slow


class Mailbox:
    """The callbacks of a call, which the calling thread runs while it waits."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def serve(self) -> None:
        """Run callbacks until `close`."""
        while job := self._jobs.get():
            job()

    def close(self) -> None:
        self._jobs.put(None)

    async def run(self, callback: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `callback` in the waiting thread; return its result, or raise its exception."""
        done = anyio.Event()
        outcome: list[T] = []
        errors: list[Exception] = []
        token = anyio.lowlevel.current_token()

        def job() -> None:
            try:
                outcome.append(callback(*args, **kwargs))
            except Exception as error:  # noqa: BLE001 - raised again where it is awaited
                errors.append(error)
            anyio.from_thread.run_sync(done.set, token=token)

        self._jobs.put(job)
        await done.wait()
        if errors:
            raise errors[0]
        return outcome[0]


def run_blocking(
    portal: BlockingPortal, verb: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any
) -> T:
    """Run a coroutine function on the loop and wait for it; Ctrl-C cancels it.

    After Ctrl-C its end is awaited for at most ten seconds. `caller`, `client` and callbacks by
    name may be synchronous.
    """
    mailbox, ended = Mailbox(), Event()
    options = _with_callbacks(kwargs, mailbox.run)

    async def call() -> T:
        try:
            return await verb(*args, **options)
        finally:
            ended.set()

    future = portal.start_task_soon(call)
    future.add_done_callback(lambda _: mailbox.close())
    try:
        mailbox.serve()
    except BaseException:
        future.cancel()
        ended.wait(_ENDING)
        raise
    return future.result()


async def run_elsewhere(
    portal: BlockingPortal, verb: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any
) -> T:
    """Run a coroutine function on the loop, and await it on another one; callbacks run in threads.

    Cancellation cancels the function, and does not wait for its end.
    """
    options = _with_callbacks(kwargs, anyio.to_thread.run_sync)
    return await asyncio.wrap_future(portal.start_task_soon(partial(verb, *args, **options)))


def _with_callbacks(kwargs: Mapping[str, Any], run: Callable[..., Awaitable[Any]]) -> Any:
    """Return arguments in which `run` calls synchronous clients and callbacks."""
    options = dict(kwargs)
    for name in ("caller", "client"):
        if isinstance(client := options.get(name), SyncClient):
            options[name] = client.asked_by(run)
    for name in _CALLBACKS:
        if callback := options.get(name):
            options[name] = partial(run, callback)
    return options


class OnLoop:
    """A proxy of an object that lives on the loop."""

    def __init__(
        self, wrapped: Any, portal: BlockingPortal, client: AnyClient | None = None
    ) -> None:
        self.wrapped = wrapped
        self.portal = portal
        self.client = client
        """The client of calls that name no other."""

    def shown(self, value: Any) -> Any:
        """Return the mirror of a value, or of its items; the value itself if it has none."""
        if type(value) in (list, tuple):
            return type(value)(map(self.shown, value))
        mirror_class = MIRRORS.get(type(value))
        return mirror_class(value, self.portal, self.client) if mirror_class else value


MIRRORS: dict[type, type[OnLoop]] = {}
"""The mirror classes, by the classes that they mirror."""


def mirror(mirrored: type, but: type = object, *, name: str = "") -> Any:
    """Create a synchronous class with the public names of another one, except those of `but`.

    Coroutine functions are waited for, and plain functions run on the loop. Types are in the stub
    beside the calling module, which `scripts/sync_stub.py` writes.
    """
    names = [each for each in dir(mirrored) if not each.startswith("_") and not hasattr(but, each)]
    members = {each: _member(each, inspect.getattr_static(mirrored, each)) for each in names}
    members["__doc__"] = f"Synchronous `{mirrored.__name__}`."
    mirror_class = MIRRORS[mirrored] = type(name or f"Sync{mirrored.__name__}", (OnLoop,), members)
    return mirror_class


def _member(name: str, member: Any) -> Any:
    if not inspect.isfunction(member):
        return property(lambda self: self.shown(getattr(self.wrapped, name)))
    if inspect.isasyncgenfunction(member):
        call = _iteration(name)
    elif inspect.iscoroutinefunction(member):
        call = _verb(name, inspect.signature(member))
    else:
        call = _call(name)
    return with_face(call, member)


def with_face(call: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a plain function the name, docstring and signature of another one."""
    signature = inspect.signature(function)
    update_wrapper(call, function)
    del call.__dict__["__wrapped__"]  # otherwise it would pass for an async function
    call.__dict__["__signature__"] = signature
    return call


def _call(name: str) -> Callable[..., Any]:
    def call(self: OnLoop, /, *args: Any, **kwargs: Any) -> Any:
        method = partial(getattr(self.wrapped, name), *args, **kwargs)
        return self.shown(self.portal.call(method))

    return call


def _verb(name: str, signature: inspect.Signature) -> Callable[..., Any]:
    def call(self: OnLoop, /, *args: Any, **kwargs: Any) -> Any:
        # Bound by name, so that callbacks are found.
        arguments = signature.bind(self, *args, **kwargs).arguments
        del arguments["self"]
        if self.client and "client" in signature.parameters:
            arguments["client"] = arguments.get("client") or self.client
        return self.shown(run_blocking(self.portal, getattr(self.wrapped, name), **arguments))

    return call


def _iteration(name: str) -> Callable[..., Any]:
    def iterate(self: OnLoop, /, *args: Any, **kwargs: Any) -> Iterator[Any]:
        items = getattr(self.wrapped, name)(*args, **kwargs)
        while True:
            yield run_blocking(self.portal, items.__anext__)

    return iterate
