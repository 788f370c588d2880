from __future__ import annotations

import os
from collections.abc import AsyncIterator

import anyio
import pytest

from discovery_engine.errors import OutcomeUnknownError, UnavailableError, UpstreamProtocolError
from discovery_engine.rpc.peer import ConnectionClosedError, RpcError
from discovery_engine.rpc.protocol import CONNECTION_CLOSED
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import QuestionSettings
from discovery_engine.upstream.calls_in_flight import CallsInFlight
from discovery_engine.upstream.request_errors import call_error, listing_error
from discovery_engine.upstream.stdio.pipe_transport import PipeTransport, StdioCallbacks
from discovery_engine.upstream.stdio.process import start_program, supervise

pytestmark = pytest.mark.anyio


@pytest.fixture
async def transport() -> AsyncIterator[PipeTransport]:
    """To a program that exits at once, which was noticed."""
    callbacks = StdioCallbacks(
        lambda: None,
        lambda *_: None,
        lambda _: None,
        CallsInFlight(ServerName("s"), lambda _: QuestionSettings(), FairScheduler()).answer,
        lambda _: None,
    )
    program = await start_program(["/bin/sh", "-c", "exit 3"], env=dict(os.environ), cwd=None)
    async with supervise(program) as child:
        found = PipeTransport(
            ServerName("s"), child, FairScheduler(), limit=1024, callbacks=callbacks
        )
        with anyio.fail_after(60):
            await found.receive()
        assert found.is_lost
        yield found


@pytest.mark.parametrize("message", ["quota exceeded", "Connection closed"])
async def test_an_error_answer_is_one_although_its_code_is_that_of_a_lost_connection(
    transport: PipeTransport, message: str
) -> None:
    answer = RpcError(CONNECTION_CLOSED, message)  # many servers use this code for everything

    failure = await call_error(transport, "t", answer)

    assert isinstance(failure, UpstreamProtocolError)
    assert (failure.rpc_code, message in str(failure)) == (CONNECTION_CLOSED, True)
    assert isinstance(await listing_error(transport, answer), UpstreamProtocolError)


async def test_a_lost_connection_leaves_the_outcome_of_a_call_unknown(
    transport: PipeTransport,
) -> None:
    failure = await call_error(transport, "t", ConnectionClosedError())

    assert isinstance(failure, OutcomeUnknownError)
    assert "exited with status 3" in str(failure)
    assert isinstance(await listing_error(transport, ConnectionClosedError()), UnavailableError)
