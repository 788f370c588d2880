"""The OpenAI Agents SDK: its example, and the scenarios of its program."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.frameworks.conftest import EXAMPLES, INTEGRATIONS, PROGRAMS, Framework

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PROGRAM = "openai_agents_runs.py"


@pytest.fixture
def agents(framework: Callable[[str], Framework]) -> Framework:
    return framework("openai-agents")


@pytest.mark.requirement("FRM-30", "FRM-130", "FRM-13", "FRM-105")
def test_an_agent_has_the_tools_that_fit_and_those_that_it_finds(agents: Framework) -> None:
    agents.passes(
        PROGRAM,
        "the_example_runs_as_it_is",
        "an_agent_has_the_tools_that_fit_and_those_that_it_finds",
        "another_request_has_other_tools",
        "a_conversation_goes_on_with_the_tools_that_it_has_found",
        "a_changed_catalog_is_there_in_the_next_turn",
        "a_hidden_tool_is_not_there",
        "an_agent_keeps_its_own_tools_and_hands_over",
        "a_streamed_run_and_a_session_work_alike",
    )


@pytest.mark.requirement("FRM-130", "FRM-14")
def test_runs_at_once_share_no_tools(agents: Framework) -> None:
    agents.passes(PROGRAM, "runs_at_once_share_no_tools", "one_agent_can_be_run_twice_at_once")


@pytest.mark.requirement("FRM-131")
def test_the_tools_of_a_toolset_are_for_any_agent(agents: Framework) -> None:
    agents.passes(PROGRAM, "the_meta_tools_are_tools_of_any_agent")


@pytest.mark.requirement("FRM-132")
def test_only_a_schema_that_is_strict_is_one(agents: Framework) -> None:
    agents.passes(PROGRAM, "only_a_schema_that_is_strict_is_one")


@pytest.mark.requirement("FRM-100", "FRM-133")
def test_content_is_of_the_types_of_the_sdk(agents: Framework) -> None:
    agents.passes(PROGRAM, "images_files_and_structured_content_are_of_the_types_of_the_sdk")


@pytest.mark.requirement("FRM-101", "FRM-102")
def test_failures_questions_progress_and_cancellation(agents: Framework) -> None:
    agents.passes(
        PROGRAM,
        "whatever_fails_is_an_output_that_the_model_reads",
        "a_run_that_is_cancelled_cancels_its_calls",
        "questions_and_progress_reach_the_program",
        "each_run_can_have_a_client_of_its_own",
    )


@pytest.mark.requirement("FRM-31")
def test_the_adapter_and_its_example_are_typed(agents: Framework) -> None:
    agents.check_types(
        INTEGRATIONS / "openai_agents.py",
        INTEGRATIONS / "strict_schema.py",
        EXAMPLES / "with_openai_agents.py",
        PROGRAMS / PROGRAM,
    )


def test_no_other_scenario_fails(agents: Framework) -> None:
    agents.passes(PROGRAM)
