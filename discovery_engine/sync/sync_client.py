"""A client that answers the questions of servers by a plain function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.client import CallbackClient, Client, Notify

AnyClient: TypeAlias = "Client | SyncClient"
Answer: TypeAlias = Callable[[str, JSONObject], JSONObject]
"""The type of `Client.ask`, without `async`."""
RunInCaller: TypeAlias = Callable[..., Awaitable[JSONObject]]


class SyncClient:
    """The same as `CallbackClient`; its `ask` is called in the thread that waits for the call."""

    def __init__(
        self,
        ask: Answer | None = None,
        *,
        id: str | None = None,  # noqa: A002 - as `Client.id`
        capabilities: Mapping[str, JSONObject] = MappingProxyType({}),
        notify: Notify | None = None,
        log_level: str | None = None,
    ) -> None:
        """A client that answers by `ask`.

        Args:
            ask: Called with the method and the params of each question; returns its result.
            id: As `Client.id`.
            capabilities: What `ask` can answer, for instance `{"elicitation": {"form": {}}}`.
            notify: Called with the notifications of its calls, on the loop; must not block.
            log_level: As `Client.log_level`.
        """
        self._ask = ask
        self.id = id
        self.capabilities = capabilities
        self._notify = notify
        self._log_level = log_level

    def asked_by(self, run: RunInCaller) -> CallbackClient:
        """The client of one call, whose questions `run` carries to the waiting thread."""
        client = _CallClient(
            partial(run, self._ask) if self._ask else None,
            id=self.id,
            capabilities=self.capabilities,
            notify=self._notify,
            log_level=self._log_level,
        )
        client.caller = self
        return client


class _CallClient(CallbackClient):
    """The client of one call: of the same origin as the others of its `SyncClient`."""

    caller: SyncClient

    @property
    def origin(self) -> object:
        return self.caller if self.id is None else self.id
