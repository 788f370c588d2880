"""Agents of smolagents with a model that answers from a script."""

from __future__ import annotations

import contextlib
import json
import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from smolagents import LogLevel, Model, ToolCallingAgent  # type: ignore[import-untyped]
from smolagents.models import (  # type: ignore[import-untyped]
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
    get_tool_json_schema,
)

from discovery_engine.integrations.adapter import CallProgress
from discovery_engine.integrations.smolagents import (
    DiscoveryCodeAgent,
    DiscoveryTool,
    DiscoveryToolCallingAgent,
    discovery_tools,
)
from discovery_engine.sync import SyncClient, SyncEngine, open_engine
from tests.e2e.frameworks.programs.scenarios import ROOT, SERVER, World, run

Turn = str | list[tuple[str, dict[str, Any]]] | Callable[[str], Any]


class Script(Model):  # type: ignore[misc]
    """A model whose turns are code, or calls of tools; it notes what it is given."""

    def __init__(self, *turns: Turn) -> None:
        super().__init__(model_id="script")
        self.turns = list(turns)
        self.seen: list[str] = []
        """The last message of each turn."""
        self.tools: list[list[str]] = []
        self.schemas: list[dict[str, Any]] = []

    def generate(
        self,
        messages: list[Any],
        stop_sequences: list[str] | None = None,
        response_format: dict[str, str] | None = None,
        tools_to_call_from: list[Any] | None = None,
        **kwargs: Any,
    ) -> ChatMessage:
        content = messages[-1].content
        self.seen.append("".join(part.get("text", "") for part in content))
        self.tools.append([tool.name for tool in tools_to_call_from or ()])
        self.schemas = [get_tool_json_schema(tool) for tool in tools_to_call_from or ()]
        turn = self.turns.pop(0)
        turn = turn(self.seen[-1]) if callable(turn) else turn
        if isinstance(turn, str):
            code = f"Thought: so\n<code>\n{turn}\n</code>"
            return ChatMessage(role=MessageRole.ASSISTANT, content=code)
        calls = [
            ChatMessageToolCall(
                ChatMessageToolCallFunction(given, name), f"call_{number}", "function"
            )
            for number, (name, given) in enumerate(turn, 1)
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=calls)


QUIET = {"verbosity_level": LogLevel.OFF}


def final(answer: str = "done") -> list[tuple[str, dict[str, Any]]]:
    return [("final_answer", {"answer": answer})]


@contextmanager
def opened(world: World, *tools: str, **sections: Any) -> Iterator[SyncEngine]:
    config = world.write(*tools, **sections)
    with open_engine(config, data_dir=world.folder / "data") as engine:
        engine.refresh()
        yield engine


def tool(engine: SyncEngine, name: str, **options: Any) -> DiscoveryTool:
    """A tool of the shop by its name."""
    toolset = engine.toolset(mode="select", name_style="gemini", limit=20)
    toolset.use(name)
    return next(one for one in discovery_tools(toolset, **options) if one.name == name)


def the_example_runs_as_it_is(world: World) -> None:
    model = Script([("shop_place_order", {"product": "chair"})], final("A chair is ordered."))
    example = runpy.run_path(str(ROOT / "examples/frameworks/with_smolagents.py"))
    world.write()

    assert example["main"]("order a product", model) == "A chair is ordered."
    assert "Ordered." in model.seen[1]


def an_agent_has_the_tools_that_fit_and_those_that_it_finds(world: World) -> None:
    with opened(world) as engine:
        find = [("search_tools", {"query": "draw a chart"})]
        model = Script(find, [("shop_draw_chart", {})], final(), final())
        agent = DiscoveryToolCallingAgent(model, discovery=engine, **QUIET)

        agent.run("order a product")
        agent.run("print the invoice of an order")

    assert "shop_place_order" in model.tools[0]
    assert "shop_draw_chart" not in model.tools[0]
    assert "shop_draw_chart" in model.tools[1]
    assert model.tools[1][: len(model.tools[0])] == model.tools[0]
    assert "shop_print_invoice" in model.tools[3]
    assert "shop_draw_chart" not in model.tools[3]


def a_code_agent_calls_tools_and_reads_structured_content(world: World) -> None:
    with opened(world) as engine:
        model = Script(
            'order = shop_place_order("chair")\nprint(order["order"] + 1, order)',
            'print(search_tools(query="query the records of customers with a filter"))',
            'print(shop_query_records(filter="x gt 1", fields=("a", "b")))',
            'final_answer("done")',
        )
        agent = DiscoveryCodeAgent(model, discovery=engine, **QUIET)

        agent.run("order a product")

    assert "8 Ordered." in model.seen[1]
    assert "shop_query_records" in model.seen[2]
    assert '"$filter": "x gt 1"' in model.seen[3]
    assert '"fields": ["a", "b"]' in model.seen[3]


def images_are_images_and_other_content_is_text(world: World) -> None:
    with opened(world) as engine:
        chart = tool(engine, "shop_draw_chart")()
        invoice = tool(engine, "shop_print_invoice")(order="7")
        model = Script([("shop_draw_chart", {})], final())
        agent = ToolCallingAgent([tool(engine, "shop_draw_chart")], model, **QUIET)
        agent.run("draw")

    text, image, broken = chart
    assert (text, image.size) == ("The revenue:", (1, 1))
    assert broken.startswith("[image image/png")
    assert str(chart) in model.seen[1]
    assert invoice == "[resource shop://invoice.pdf, 21 bytes]"


def whatever_fails_is_a_result_that_the_model_reads(world: World) -> None:
    calls: Any = [("shop_refund_payment", {}), ("shop_burn_down", {}), ("search_tools", {})]
    with opened(world) as engine:
        names = ("shop_refund_payment", "shop_burn_down", "shop_count_stock", "shop_place_order")
        tools = [tool(engine, name) for name in names]
        tools.append(discovery_tools(engine.toolset())[1])
        model = Script(calls, [("shop_count_stock", {})], final())
        ToolCallingAgent(tools, model, **QUIET).run("do it")
        wrong = tools[3](product=7)

    assert "The call failed:\nThe bank says no." in model.seen[1]
    assert "shop" in model.seen[1].replace("shop_", "")
    assert "300 pieces" in model.seen[2]
    assert wrong == {}
    assert "INVALID_ARGUMENTS" in str(wrong)


def an_agent_keeps_its_own_tools(world: World) -> None:
    with opened(world) as engine:
        own = [tool(engine, "shop_count_stock"), tool(engine, "shop_place_order")]
        model = Script([("search_tools", {"query": "draw a chart"})], final())
        agent = DiscoveryToolCallingAgent(model, discovery=engine, tools=own, **QUIET)
        agent.run("order a product")

    assert model.tools[1][:3] == ["shop_count_stock", "shop_place_order", "final_answer"]
    assert agent.tools["shop_place_order"] is own[1]
    assert "shop_draw_chart" in model.tools[1]


def questions_progress_and_interrupts_reach_their_place(world: World) -> None:
    seen: list[CallProgress] = []
    client = SyncClient(
        lambda method, params: {"action": "accept", "content": {"yes": True}},
        capabilities={"elicitation": {"form": {}}},
    )

    def interrupt(_: CallProgress) -> None:
        raise KeyboardInterrupt

    with opened(world) as engine:
        tool(engine, "shop_count_stock", on_progress=seen.append)()
        signed = tool(engine, "shop_sign_contract", client=client)()
        with contextlib.suppress(KeyboardInterrupt):
            tool(engine, "shop_wait_forever", on_progress=interrupt)()
        cancelled = tool(engine, "shop_list_cancelled")()

    assert [(one.tool, one.progress) for one in seen] == [
        ("shop_count_stock", step) for step in (1, 2, 3)
    ]
    assert '"yes": true' in signed
    assert len(json.loads(str(cancelled))) == 1


def the_meta_tools_are_tools_of_any_agent(world: World) -> None:
    calls = [("execute_tool", {"tool": "shop:place_order", "arguments": {"product": "chair"}})]
    with opened(world) as engine:
        model = Script(calls, final())
        ToolCallingAgent([*discovery_tools(engine.toolset())], model, **QUIET).run("order")

    assert model.tools[0][:5] == [
        "list_mcp_servers",
        "search_tools",
        "list_tools",
        "get_tool_details",
        "execute_tool",
    ]
    assert "Ordered." in model.seen[1]
    search = next(s["function"] for s in model.schemas if s["function"]["name"] == "search_tools")
    assert search["parameters"]["required"] == []
    assert search["parameters"]["properties"]["limit"]["type"] == "integer"


def a_name_that_is_none_in_python_is_refused_with_the_way_out(world: World) -> None:
    server = {"command": sys.executable, "args": ["-I", "-S", str(SERVER)]}
    refused = ""
    with opened(world, servers={"my-shop": server}) as engine:
        toolset = engine.toolset(mode="select")
        toolset.use("my-shop__place_order")
        try:
            discovery_tools(toolset)
        except ValueError as error:
            refused = str(error)
        agent = DiscoveryToolCallingAgent(Script(final()), discovery=engine, **QUIET)
        agent.run("order a product in my shop")

    assert "'my-shop__place_order'" in refused
    assert "name_style='gemini'" in refused
    assert all(name.isidentifier() for name in agent.tools)
    assert len(agent.tools) > 3


if __name__ == "__main__":
    run(globals())
