from __future__ import annotations

import json
from typing import Any

import pytest

from discovery_engine.rpc.peer import RpcError
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.upstream.http.large_results import LargeResults


def answer(number: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": {"content": [number]}}


def passed_on(bypass: LargeResults, number: int) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(bypass.placeholder(answer(number)))["result"]
    return result


def test_a_ticket_stands_for_a_result() -> None:
    bypass = LargeResults(FairScheduler())

    tickets = [passed_on(bypass, number) for number in (1, 2)]

    assert [bypass.restore(ticket) for ticket in reversed(tickets)] == [
        {"content": [2]},
        {"content": [1]},
    ]


def test_the_message_around_a_ticket_stays() -> None:
    message = json.loads(LargeResults(FairScheduler()).placeholder(answer(7)))

    assert (message["jsonrpc"], message["id"]) == ("2.0", 7)


def test_any_other_result_is_itself_and_so_is_the_ticket_of_somebody_else() -> None:
    bypass = LargeResults(FairScheduler())
    foreign = passed_on(LargeResults(FairScheduler()), 1)

    assert bypass.restore(foreign) is foreign
    assert bypass.restore({}) == {}


def test_who_does_not_come_for_results_makes_room_for_those_who_do() -> None:
    bypass = LargeResults(FairScheduler())
    tickets = [passed_on(bypass, number) for number in range(9)]

    with pytest.raises(RpcError, match="too many large answers"):
        bypass.restore(tickets[0])
    assert bypass.restore(tickets[8]) == {"content": [8]}
