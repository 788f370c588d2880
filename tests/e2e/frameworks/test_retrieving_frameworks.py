"""Google ADK, LlamaIndex and Microsoft Agent Framework: their examples, and shared scenarios."""

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

    @property
    def module(self) -> str:
        return self.extra.replace("-", "_")


ADK = Adapter("google-adk", "google_adk_sessions.py")
LLAMA = Adapter("llama-index", "llama_index_runs.py")
MAF = Adapter("agent-framework", "agent_framework_runs.py")
Get = Callable[[str], Framework]
each = pytest.mark.parametrize("adapter", [ADK, LLAMA, MAF], ids=lambda one: one.extra)


@each
@pytest.mark.requirement("FRM-30")
def test_the_example_finds_a_tool_and_calls_it(framework: Get, adapter: Adapter) -> None:
    example = EXAMPLES / f"with_{adapter.module}.py"
    used = framework(adapter.extra)
    used.folder.write(good())

    assert "{}" in used.run(example, "echo a text").splitlines()[-1]


@each
@pytest.mark.requirement("FRM-31")
def test_the_adapter_and_its_example_are_typed(framework: Get, adapter: Adapter) -> None:
    framework(adapter.extra).check_types(
        INTEGRATIONS / f"{adapter.module}.py",
        INTEGRATIONS / "open_model.py",
        EXAMPLES / f"with_{adapter.module}.py",
        PROGRAMS / adapter.program,
    )


@each
@pytest.mark.requirement("FRM-150", "FRM-13")
def test_each_turn_has_the_tools_that_fit_and_those_that_were_found(
    framework: Get, adapter: Adapter
) -> None:
    framework(adapter.extra).passes(
        adapter.program,
        "a_turn_has_the_tools_that_fit",
        "what_the_model_finds_is_there_in_the_same_turn",
        "the_next_turn_has_what_was_used_and_what_fits",
        "a_changed_catalog_is_there_in_the_next_turn",
        "the_meta_tools_never_change",
    )


@each
@pytest.mark.requirement("FRM-151")
def test_whatever_fails_is_read_by_the_model(framework: Get, adapter: Adapter) -> None:
    framework(adapter.extra).passes(
        adapter.program,
        "a_server_that_dies_in_a_turn_is_an_error_that_the_model_reads",
        "whatever_fails_is_a_result_that_the_model_reads",
        "a_schema_is_shown_whole_and_its_arguments_arrive",
    )


@each
@pytest.mark.requirement("FRM-152", "FRM-100")
def test_content_is_of_the_types_of_the_framework(framework: Get, adapter: Adapter) -> None:
    framework(adapter.extra).passes(
        adapter.program, "images_files_and_structured_content_are_of_its_own_types"
    )


@each
@pytest.mark.requirement("FRM-153", "FRM-14", "FRM-12")
def test_agents_progress_questions_and_cancellation(framework: Get, adapter: Adapter) -> None:
    framework(adapter.extra).passes(
        adapter.program,
        "agents_side_by_side_share_nothing_but_the_engine",
        "questions_and_progress_reach_the_program",
        "a_turn_that_is_cancelled_cancels_its_call",
    )


@pytest.mark.requirement("FRM-160")
def test_what_a_session_of_adk_found_follows_from_its_events(framework: Get) -> None:
    framework(ADK.extra).passes(
        ADK.program,
        "sessions_of_one_agent_share_nothing",
        "another_process_continues_a_session",
        "a_prefix_and_a_filter_hold",
        "tools_can_be_listed_without_a_session",
        "a_long_session_is_replayed_from_its_last_hundreds_of_events",
    )


@pytest.mark.requirement("FRM-161")
def test_tools_of_llama_index_are_whole_and_async(framework: Get) -> None:
    framework(LLAMA.extra).passes(
        LLAMA.program,
        "tools_can_be_called_without_an_agent",
        "the_schema_of_a_tool_is_whole",
        "without_an_event_loop_it_says_what_to_call",
    )


@pytest.mark.requirement("FRM-162")
def test_what_a_session_of_the_agent_framework_found_is_in_its_state(framework: Get) -> None:
    framework(MAF.extra).passes(
        MAF.program,
        "sessions_of_one_agent_share_nothing",
        "another_process_continues_a_session",
        "an_agent_keeps_its_own_tools",
        "the_result_as_it_came_is_there_for_the_program",
    )
