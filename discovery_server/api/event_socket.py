"""The feed of events on a WebSocket."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from starlette.websockets import WebSocketDisconnect

from discovery_engine._util.tasks import open_task_group
from discovery_engine.rpc.json_codec import encode_finite
from discovery_server.api.event_feed import TooManyClientsError

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from discovery_server.api.event_feed import EventFeed, FeedClient

_POLICY, _TRY_AGAIN = 1008, 1013  # codes with which a WebSocket is closed


class FeedMessage(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="refresh"):
    """All that a client may send: it asks for the state anew."""


async def follow_events(feed: EventFeed, socket: WebSocket) -> None:
    """Send a client what happens until it leaves, or does not read."""
    if "admin" not in socket.scope.get("scopes", ()):  # events name what a view hides
        await socket.close(_POLICY)
        return
    stream, after = socket.query_params.get("stream", ""), _number(socket.query_params.get("after"))
    await socket.accept()
    try:
        async with feed.client(stream, after) as client, open_task_group() as tasks:
            tasks.start_soon(_read, socket, client)
            while (frame := await client.next()) is not None:
                await socket.send_text(frame.decode())
            tasks.cancel_scope.cancel()
        await socket.close(_TRY_AGAIN, "too slow: connect again")
    except TooManyClientsError as error:
        await socket.close(_TRY_AGAIN, error.message)
    except WebSocketDisconnect:
        pass


async def _read(socket: WebSocket, client: FeedClient) -> None:
    """Answer what the client sends; a `WebSocketDisconnect` says that it has left."""
    while True:
        text = await socket.receive_text()
        try:
            msgspec.json.decode(text, type=FeedMessage)
        except (ValueError, RecursionError):
            message = 'send {"type": "refresh"}, or nothing'
            client.deliver(encode_finite({"type": "error", "message": message}))
        else:
            client.refresh()


def _number(text: str | None) -> int:
    with suppress(ValueError, TypeError):
        return max(0, int(text or 0))
    return 0
