"""Opens the transport of a session: a program's pipes, or HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.events import EventBus
from discovery_engine.rpc.request_headers import HeaderMap
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import QuestionsOf
from discovery_engine.upstream.concurrency import CallLimiter, StartLimiter
from discovery_engine.upstream.connection import Admit, EraMemory, TransportKind
from discovery_engine.upstream.history import Policy
from discovery_engine.upstream.http.logins import Logins
from discovery_engine.upstream.stdio.pipe_transport import (
    Confine,
    StdioCallbacks,
    open_pipe_transport,
)
from discovery_engine.upstream.stdio.pipes import OnFault
from discovery_engine.upstream.stdio.reaper import Reaper
from discovery_engine.upstream.transport import (
    MessageHandlers,
    OnNotification,
    OnRequest,
    Transport,
)

OnStderr: TypeAlias = Callable[[ServerName, Sequence[str]], None]
"""Called with the stderr lines of a server's program."""
OnServerMessage: TypeAlias = Callable[[ServerName, str, JSONObject | None], None]
"""Called with the method and the params of what a server sends that answers nothing."""


class SessionOptions(Struct, frozen=True, kw_only=True):
    """The options with which sessions are opened."""

    max_connecting: int
    """The number of servers that start at the same time."""
    idle_timeout: float
    """Seconds without a call after which a session is closed."""
    policy: Policy = Policy()
    """The limits of calls and client sessions, and the clock of retries."""
    events: EventBus
    """Gets events of connects, listings and changes of tools."""
    eras: EraMemory
    environ: Mapping[str, str]
    """Programs inherit a safe subset of it."""
    pass_env: Callable[[], Sequence[str]] = tuple
    """The variables of `environ` that programs inherit besides, by names or patterns.

    Read for each start.
    """
    secrets: SecretResolver
    """Resolves the references of entries."""
    admit: Admit
    """Called before each start or connect; raises if it is not approved."""
    logins: Logins | None = None
    """The access tokens of remote servers; None if there are none to be used."""
    questions_of: QuestionsOf
    """The time that a server's questions wait, and those its owner answers; read for each one."""
    data: Path | None
    """Holds the private folders of programs in a sandbox; without, none is started in one."""
    on_stderr: OnStderr
    on_message: OnServerMessage
    instance: str = ""
    """The name of this process among the gateways of a database; empty without one."""


class SessionContext(SessionOptions, frozen=True, kw_only=True):
    """Shared by all sessions."""

    start_limiter: StartLimiter
    everywhere: CallLimiter
    """Limits the requests of calls in flight at all servers."""
    header_maps: dict[str, Mapping[str, HeaderMap]] = {}
    """The arguments that are sent as headers, by connection and tool, once its tools are listed."""
    reaper: Reaper
    scheduler: FairScheduler


class SessionCallbacks(NamedTuple):
    """Callbacks of the transport of a session."""

    on_lost: Callable[[], None]
    """Called when the server has closed the connection."""
    on_fault: OnFault
    on_notification: OnNotification
    on_request: OnRequest


def open_transport(
    server: ServerSettings,
    resolved: StdioTransport | RemoteTransport,
    kind: TransportKind,
    context: SessionContext,
    callbacks: SessionCallbacks,
) -> AbstractAsyncContextManager[Transport]:
    """A transport to a server; `resolved` has its references resolved."""
    if isinstance(resolved, RemoteTransport):
        return _open_remote(server, resolved, kind, context, callbacks)
    return open_pipe_transport(
        server.name,
        resolved,
        context.environ,
        context.reaper,
        context.scheduler,
        limit=server.limits.answer_bytes,
        callbacks=StdioCallbacks(*callbacks, partial(context.on_stderr, server.name)),
        confine=_confine(server, context) if server.sandbox.is_on else None,
        pass_env=context.pass_env(),
    )


def _open_remote(
    server: ServerSettings,
    resolved: RemoteTransport,
    kind: TransportKind,
    context: SessionContext,
    callbacks: SessionCallbacks,
) -> AbstractAsyncContextManager[Transport]:
    name, limit = server.name, server.limits.answer_bytes
    # Importing the HTTP client takes long; local servers do not need it.
    from discovery_engine.upstream.http import http_transport  # noqa: PLC0415

    login = context.logins.login_of(name, resolved) if context.logins else None
    handlers = MessageHandlers(
        callbacks.on_notification,
        callbacks.on_request,
        lambda: context.questions_of(name).timeout,
    )
    if kind == "sse":
        return http_transport.open_sse_transport(
            name,
            resolved,
            server.timeouts,
            context.scheduler,
            limit=limit,
            on_lost=callbacks.on_lost,
            handlers=handlers,
            login=login,
        )
    return http_transport.open_http_transport(
        name,
        resolved,
        server.timeouts,
        context.scheduler,
        limit=limit,
        handlers=handlers,
        login=login,
    )


def _confine(server: ServerSettings, context: SessionContext) -> Confine:
    # Most servers have no sandbox, and need none of it.
    from discovery_engine.upstream.stdio.sandbox.sandboxes import (  # noqa: PLC0415
        PRIVATE_FOLDERS,
        Sandboxes,
    )

    folder = context.data / PRIVATE_FOLDERS if context.data else None
    return partial(Sandboxes(folder, context.environ).launch, server)
