"""Scenarios of frameworks that retrieve tools at each turn, for a `Chat` of each of them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import anyio

from discovery_engine.agent.toolset import Toolset
from discovery_engine.engine import Engine
from discovery_engine.rpc.client import CallbackClient, Client
from tests.e2e.frameworks.programs.scenarios import World

Call: TypeAlias = tuple[str, dict[str, Any]]


@dataclass
class Seen:
    """What a model was given in one request: its tools, and what the last message held."""

    tools: list[str]
    text: str
    media: list[str]


OnProgress: TypeAlias = Callable[[str, float, float | None, str | None], Awaitable[None]]


class Chat(Protocol):
    """A conversation with an agent whose model makes the calls that the test wants."""

    @property
    def seen(self) -> list[Seen]:
        """What its model was given, request by request."""

    async def say(self, text: str, *calls: Call) -> None:
        """A turn in which the model makes these calls, one after another."""


class OpenChat(Protocol):
    def __call__(
        self,
        source: Engine | Toolset,
        *,
        client: Client | None = None,
        on_progress: OnProgress | None = None,
    ) -> Chat:
        """A conversation with a new agent."""


Scenario: TypeAlias = Callable[[World], Awaitable[None]]
SharedScenario: TypeAlias = Callable[[OpenChat, World], Awaitable[None]]

SHARED: dict[str, SharedScenario] = {}


def shared(scenario: SharedScenario) -> SharedScenario:
    """Add a scenario to those that all of these frameworks pass."""
    SHARED[scenario.__name__] = scenario
    return scenario


def scenarios(chat: OpenChat) -> dict[str, Scenario]:
    """The shared scenarios with the chats of a framework, by name."""

    def with_chat(scenario: SharedScenario) -> Scenario:
        async def run(world: World) -> None:
            await scenario(chat, world)

        return run

    return {name: with_chat(scenario) for name, scenario in SHARED.items()}


@shared
async def a_turn_has_the_tools_that_fit(chat: OpenChat, world: World) -> None:
    async with world.open() as engine:
        one = chat(engine)
        await one.say("order a product", ("shop__place_order", {"product": "chair"}))

    assert one.seen[0].tools[0] == "search_tools"
    assert "shop__place_order" in one.seen[0].tools
    assert "shop__draw_chart" not in one.seen[0].tools
    assert "chair" in one.seen[1].text
    assert one.seen[1].tools == one.seen[0].tools


@shared
async def what_the_model_finds_is_there_in_the_same_turn(chat: OpenChat, world: World) -> None:
    find = ("search_tools", {"query": "draw a chart"})
    async with world.open() as engine:
        one = chat(engine)
        await one.say("order a product", find, ("shop__draw_chart", {}))

    before, after, last = one.seen
    assert "shop__draw_chart" in after.text
    assert after.tools[: len(before.tools)] == before.tools
    assert "shop__draw_chart" in after.tools
    assert "The revenue:" in last.text


@shared
async def the_next_turn_has_what_was_used_and_what_fits(chat: OpenChat, world: World) -> None:
    async with world.open() as engine:
        one = chat(engine)
        await one.say("order a product", ("shop__place_order", {"product": "chair"}))
        await one.say("print the invoice of an order", ("shop__print_invoice", {"order": "7"}))

    last = one.seen[-1]
    assert {"shop__place_order", "shop__print_invoice"} <= set(last.tools)
    assert last.media == ["application/pdf"]


@shared
async def a_server_that_dies_in_a_turn_is_an_error_that_the_model_reads(
    chat: OpenChat, world: World
) -> None:
    calls: list[Call] = [("shop__burn_down", {}), ("shop__count_stock", {})]
    async with world.open() as engine:
        one = chat(engine)
        await one.say("burn the warehouse down and count the stock", *calls)

    _, burnt, counted = one.seen
    assert "shop" in burnt.text
    assert burnt.tools == one.seen[0].tools
    assert "300 pieces" in counted.text


@shared
async def whatever_fails_is_a_result_that_the_model_reads(chat: OpenChat, world: World) -> None:
    calls: list[Call] = [
        ("shop__refund_payment", {}),
        ("shop__place_order", {"produkt": "chair"}),
    ]
    async with world.open() as engine:
        one = chat(engine)
        await one.say("refund a payment and order a product", *calls)

    _, refused, wrong = one.seen
    assert "The bank says no." in refused.text
    assert "INVALID_ARGUMENTS" in wrong.text
    assert "did you mean 'product'" in wrong.text


@shared
async def images_files_and_structured_content_are_of_its_own_types(
    chat: OpenChat, world: World
) -> None:
    calls: list[Call] = [
        ("shop__draw_chart", {}),
        ("shop__print_invoice", {"order": "7"}),
        ("shop__place_order", {"product": "chair"}),
    ]
    async with world.open() as engine:
        one = chat(engine)
        await one.say("draw a chart, print an invoice, order a product", *calls)

    _, chart, invoice, order = one.seen
    assert chart.media == ["image/png"]
    assert "The revenue:" in chart.text
    assert invoice.media == ["application/pdf"]
    assert '"order": 7' in order.text


@shared
async def questions_and_progress_reach_the_program(chat: OpenChat, world: World) -> None:
    seen: list[tuple[Any, ...]] = []

    async def note(*progress: Any) -> None:
        seen.append(progress)

    async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"yes": True}}

    client = CallbackClient(ask, capabilities={"elicitation": {"form": {}}})
    calls: list[Call] = [("shop__count_stock", {}), ("shop__sign_contract", {})]
    async with world.open() as engine:
        one = chat(engine, client=client, on_progress=note)
        await one.say("count the stock and sign the contract", *calls)

    assert seen == [("shop__count_stock", step, 3, f"hall {step}") for step in (1, 2, 3)]
    assert '"yes": true' in one.seen[-1].text


@shared
async def a_turn_that_is_cancelled_cancels_its_call(chat: OpenChat, world: World) -> None:
    scope = anyio.CancelScope()

    async def stop(*_: Any) -> None:
        scope.cancel()

    async with world.open() as engine:
        one = chat(engine, on_progress=stop)
        with scope:
            await one.say("wait for a delivery", ("shop__wait_forever", {}))
        again = chat(engine)
        listed = "list the deliveries whose wait was cancelled"
        await again.say(listed, ("shop__list_cancelled", {}))

    assert scope.cancelled_caught
    assert len(json.loads(again.seen[-1].text)) == 1


@shared
async def a_schema_is_shown_whole_and_its_arguments_arrive(chat: OpenChat, world: World) -> None:
    given = {"_filter": "name eq 'Ann'", "fields": ["name"]}
    async with world.open() as engine:
        one = chat(engine)
        await one.say("query the records of customers", ("shop__query_records", given))

    assert "name eq 'Ann'" in one.seen[1].text
    assert "$filter" in one.seen[1].text
