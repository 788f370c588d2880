"""Calls: results, progress, refusals, questions of the server, headers."""

from __future__ import annotations

import json

import anyio
import pytest

from discovery_engine.errors import (
    UpstreamProtocolError,
)
from discovery_engine.rpc.client import CallbackClient
from tests.servers.programs import (
    call,
    fault_server,
    http_server,
    remote_server,
    text_of,
    upstreams,
)

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["legacy", pytest.param("modern", marks=pytest.mark.matrix)])


@ERAS
@pytest.mark.requirement("UPS-50")
async def test_a_result_arrives_whole_even_if_the_tool_failed(era: str) -> None:
    async with upstreams() as opened:
        result = await opened.call(fault_server("tool_error", era=era), "echo", {})

    assert result == {
        "content": [{"type": "text", "text": "it did not work"}],
        "isError": True,
        "_meta": {"vendor": 1},
    }


@pytest.mark.requirement("UPS-50")
async def test_a_wish_for_more_input_arrives_as_it_is() -> None:
    class Continuing(CallbackClient):
        takes_input_required = True

    async with upstreams() as opened:
        server = fault_server("input_required")
        result = await opened.call(server, "echo", {}, caller=Continuing())

    assert result["resultType"] == "input_required"
    assert result["inputRequests"]["q"]["method"] == "elicitation/create"


@pytest.mark.parametrize(
    ("mode", "code", "said"),
    [("refuses_call", -32602, "Invalid arguments"), ("odd_error", 0, "it gave no message")],
)
@pytest.mark.requirement("UPS-51")
async def test_a_refused_call_tells_why(mode: str, code: int, said: str) -> None:
    async with upstreams() as opened:
        with anyio.fail_after(60), pytest.raises(UpstreamProtocolError) as caught:
            await call(opened, fault_server(mode))

    assert (caught.value.rpc_code, said in caught.value.message) == (code, True)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.requirement("UPS-51")
async def test_arguments_that_json_cannot_express_are_not_sent(value: float) -> None:
    with http_server("modern") as url:
        async with upstreams() as opened:
            for server in (fault_server(), remote_server(url)):
                with anyio.fail_after(60), pytest.raises(UpstreamProtocolError):
                    await call(opened, server, text=value)
                assert json.loads(await call(opened, server, text="ok")) == {"text": "ok"}


@ERAS
@pytest.mark.requirement("UPS-52")
async def test_progress_is_passed_on(era: str) -> None:
    told: list[tuple] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, total, message))

    async with upstreams() as opened:
        server = fault_server("progress", era=era)
        await opened.call(server, "echo", {}, on_progress=on_progress)

    assert told == [(1.0, 3.0, "step 1"), (2.0, 3.0, "step 2"), (3.0, 3.0, "step 3")]


@pytest.mark.requirement("UPS-52")
async def test_progress_is_passed_on_over_http() -> None:
    told: list[tuple] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, total, message))

    with http_server("events") as url:
        async with upstreams() as opened:
            await opened.call(remote_server(url), "echo", {}, on_progress=on_progress)

    assert told == [(1.0, None, "half way")]


async def ignore(done: float, total: float | None, message: str | None) -> None:
    pass


@pytest.mark.requirement("UPS-32", "UPS-52")
async def test_progress_that_is_no_number_costs_nobody_an_answer() -> None:
    server = fault_server("strange_progress", program="wire_server.py")

    async with upstreams() as opened:
        with anyio.fail_after(60):
            answer = await opened.call(server, "echo", {"text": "hi"}, on_progress=ignore)

    assert text_of(answer) == '{"text": "hi"}'


@pytest.mark.requirement("UPS-32", "UPS-52")
async def test_progress_over_http_that_is_no_number_costs_nobody_an_answer() -> None:
    with http_server("strange_progress", program="wire_http_server.py") as url:
        async with upstreams() as opened:
            with anyio.fail_after(60):
                answer = await opened.call(remote_server(url), "echo", {}, on_progress=ignore)

    assert text_of(answer) == "hi"


@pytest.mark.requirement("UPS-53")
async def test_what_a_server_asks_of_us_is_answered_or_refused_never_left_hanging() -> None:
    async with upstreams() as opened:
        answers = json.loads(await call(opened, fault_server("asks_back", era="legacy")))

    assert answers[0]["result"] == {}
    assert [answer["error"]["code"] for answer in answers[1:]] == [-32601] * 3
    assert len(answers) == 4


@pytest.mark.requirement("UPS-53")
async def test_a_flood_of_requests_does_not_hold_up_the_answer() -> None:
    server = fault_server("floods_requests", era="legacy")

    async with upstreams() as opened:
        first = await call(opened, server)
        second = await call(opened, server)

    assert (first, second) == ("flooded", "flooded")


@pytest.mark.parametrize("lists_first", [True, False])
@pytest.mark.requirement("UPS-54")
async def test_arguments_are_copied_to_headers_where_a_tool_wants_it(lists_first: bool) -> None:
    with http_server("mirrors") as url:
        server = remote_server(url)

        async with upstreams() as opened:
            if lists_first:
                await opened.list_tools(server)
            answer = await call(opened, server, text="ünïcode")

    assert json.loads(answer) == {"text": "ünïcode"}


@pytest.mark.requirement("UPS-54")
async def test_a_tool_that_wants_an_impossible_header_is_dropped_alone() -> None:
    with http_server("bad_mirror") as url:
        async with upstreams() as opened:
            listing = await opened.list_tools(remote_server(url))

    assert [tool["name"] for tool in listing.tools] == ["echo"]
    assert [tool.name for tool in listing.dropped] == ["odd"]
