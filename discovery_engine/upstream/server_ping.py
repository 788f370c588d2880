"""One request to a server that costs it nothing, to see whether it answers, and how fast."""

from __future__ import annotations

import time

from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import UpstreamTimeoutError
from discovery_engine.rpc.peer import RequestTimeoutError, RpcError
from discovery_engine.rpc.protocol import METHOD_NOT_FOUND
from discovery_engine.upstream.request_errors import (
    RequestNotProcessed,
    call_error,
    is_unsent,
    record_failure,
)
from discovery_engine.upstream.session import Session

_SUBJECT = "ping"


async def ping(session: Session, server: ServerSettings) -> float:
    """The seconds until a server has answered; it is connected first if needed, which is not in it.

    Raises:
        RequestNotProcessed: If the server provably did not process it.
        UpstreamError: If it cannot be reached, or does not answer in time.
    """
    async with session.lease() as rpc:
        try:
            if not rpc.is_proven:  # it may be starting still, which is not what is measured
                await rpc.ping(seconds=server.timeouts.call)
            began = time.monotonic()
            await rpc.ping(seconds=server.timeouts.call)
        except RequestTimeoutError as timeout:
            session.history.record_timeout(_SUBJECT, timeout.seconds)
            raise UpstreamTimeoutError(server.name, _SUBJECT, timeout.seconds) from None
        except RpcError as error:
            if error.code != METHOD_NOT_FOUND:  # which is an answer, too
                failure = await call_error(rpc.transport, _SUBJECT, error)
                if rpc.transport.wants_new_session(error) or is_unsent(error):
                    session.retire()
                    raise RequestNotProcessed(failure) from error
                await record_failure(session.history, rpc, failure, error)
                raise failure from error
        seconds = time.monotonic() - began
        session.history.record_success()
        return seconds
