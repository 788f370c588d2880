"""The output of a call besides its result: progress and notifications, up to its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine.rpc.messages import Notification, as_json

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.rpc.messages import RequestId
    from discovery_server.client_stream import ClientStream

_MESSAGES = 1_000  # log messages of one request; a client that reads slowly loses some


class CallOutput:
    """The stream of one request; nothing is written to it after `end`."""

    def __init__(self, stream: ClientStream, params: JSONObject) -> None:
        """`params` are those of the request."""
        self.stream = stream
        self._token: RequestId | None = (params.get("_meta") or {}).get("progressToken")
        self._messages = 0
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """True if the request is answered."""
        return self._is_over

    @property
    def wants_progress(self) -> bool:
        return self._token is not None

    async def report_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        """Write the progress, after waiting until the client reads; see `OnProgress`."""
        if self._token is None:
            return
        if self.stream.is_congested:
            await self.stream.drain()
        params: JSONObject = {"progressToken": self._token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        self._write("notifications/progress", params)

    def notify(self, method: str, params: JSONObject) -> None:
        """Write a notification; see `Client.notify`.

        It is dropped if the client does not read, or has had too many.
        """
        if self.stream.is_congested or self._messages >= _MESSAGES:
            return
        self._messages += 1
        self._write(method, params)

    def end(self) -> None:
        """The request is answered."""
        self._is_over = True

    def _write(self, method: str, params: JSONObject) -> None:
        if not self._is_over:
            self.stream.write(as_json(Notification(method, params)))
