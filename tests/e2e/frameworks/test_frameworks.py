"""Each agent framework, in an environment of its own: its example and a program of scenarios."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.e2e.frameworks.conftest import EXAMPLES, INTEGRATIONS, PROGRAMS, Framework
from tests.engines import good

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


class Adapter(NamedTuple):
    extra: str
    program: str
    module: str
    example: tuple[str, ...] | None = ()
    """The program, if any, that gives its example a model; None if nothing gives it one offline."""


Get = Callable[[str], Framework]
WITH_MODEL = ("offline_model.py",)
ADAPTERS = [
    Adapter("pydantic-ai", "pydantic_ai_agents.py", "pydantic_ai"),
    Adapter("langchain", "langchain_agents.py", "langchain"),
    Adapter("anthropic", "claude_messages.py", "anthropic", WITH_MODEL),
    Adapter("openai", "openai_conversation.py", "openai_responses", WITH_MODEL),
    Adapter("openai-agents", "openai_agents_runs.py", "openai_agents", None),
    Adapter("smolagents", "smolagents_tasks.py", "smolagents", None),
    Adapter("google-adk", "google_adk_sessions.py", "google_adk"),
    Adapter("llama-index", "llama_index_runs.py", "llama_index"),
    Adapter("agent-framework", "agent_framework_runs.py", "agent_framework"),
]


@pytest.mark.requirement("FRM-40", "FRM-50", "FRM-101", "FRM-102", "FRM-103")
@pytest.mark.requirement("FRM-110", "FRM-120", "FRM-130", "FRM-140", "FRM-150")
@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda one: one.extra)
def test_agents_of_the_framework_find_and_call_tools(framework: Get, adapter: Adapter) -> None:
    framework(adapter.extra).passes(adapter.program)


@pytest.mark.requirement("FRM-30")
@pytest.mark.parametrize(
    "adapter",
    [
        pytest.param(one, marks=pytest.mark.landing if one.extra == "langchain" else [])
        for one in ADAPTERS
        if one.example is not None
    ],
    ids=lambda one: one.extra,
)
def test_the_example_finds_a_tool_and_calls_it(framework: Get, adapter: Adapter) -> None:
    used = framework(adapter.extra)
    used.folder.write(good())

    program, *words = (*(adapter.example or ()), f"with_{adapter.module}.py", "echo a text")

    assert "{}" in used.run(EXAMPLES / program, *words).splitlines()[-1]


@pytest.mark.requirement("FRM-30")
@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda one: one.extra)
def test_the_adapter_and_its_example_are_typed(framework: Get, adapter: Adapter) -> None:
    framework(adapter.extra).check_types(
        *(INTEGRATIONS / f"{module}.py" for module in ("adapter", adapter.module)),
        *EXAMPLES.glob(f"with_{adapter.module}.py"),
        PROGRAMS / adapter.program,
    )


@pytest.mark.requirement("FRM-33")
def test_beside_the_first_sdk_and_without_any_all_tools_are_called(
    framework: Get,
) -> None:
    framework("mcp-1").passes("first_sdk.py")
