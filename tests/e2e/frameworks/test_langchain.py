"""LangChain and LangGraph: the example, and the scenarios of the program."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.frameworks.conftest import EXAMPLES, INTEGRATIONS, PROGRAMS, Framework
from tests.engines import good

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PROGRAM = "langchain_agents.py"
EXAMPLE = EXAMPLES / "with_langchain.py"


@pytest.fixture
def langchain(framework: Callable[[str], Framework]) -> Framework:
    return framework("langchain")


@pytest.mark.landing
@pytest.mark.requirement("FRM-30")
def test_the_example_finds_a_tool_and_calls_it(langchain: Framework) -> None:
    langchain.folder.write(good())

    assert langchain.run(EXAMPLE, "echo a text") == "{}\n"


@pytest.mark.requirement("FRM-50", "FRM-13", "FRM-14")
def test_the_fitting_tools_are_bound_at_each_turn_of_each_conversation(
    langchain: Framework,
) -> None:
    langchain.passes(
        PROGRAM,
        "the_fitting_tools_are_bound_at_each_turn",
        "the_call_of_a_tool_repeats_no_search",
        "what_the_model_finds_is_bound_behind_what_was_there",
        "a_changed_catalog_is_used_in_the_next_turn",
        "two_agents_share_an_engine_and_one_agent_has_many_conversations",
        "the_tools_of_the_program_are_left_to_it",
        "the_meta_tools_are_the_same_in_every_turn",
    )


@pytest.mark.requirement("FRM-51", "FRM-101", "FRM-102")
def test_results_failures_questions_progress_and_cancellation(langchain: Framework) -> None:
    langchain.passes(
        PROGRAM,
        "images_arrive_as_blocks_and_what_is_none_as_text",
        "a_tool_that_fails_is_a_result",
        "progress_is_in_the_stream_of_the_run",
        "a_question_in_a_call_is_answered_by_the_client",
        "a_cancelled_run_cancels_its_calls",
        "a_cancelled_run_cancels_its_calls_of_an_engine_without_async",
        "a_server_that_dies_in_a_turn_is_an_error_and_comes_back",
    )


@pytest.mark.requirement("FRM-52", "FRM-53")
def test_agents_without_async_and_models_with_tools_bound(langchain: Framework) -> None:
    langchain.passes(
        PROGRAM,
        "an_agent_without_async_stands_on_an_engine_without_async",
        "an_async_engine_says_how_it_is_used",
        "discovered_tools_are_bound_to_a_model_with_all_their_arguments",
        "arguments_have_any_names",
    )


@pytest.mark.requirement("FRM-31")
def test_the_adapter_and_its_example_are_typed(langchain: Framework) -> None:
    langchain.check_types(INTEGRATIONS / "langchain.py", EXAMPLE, PROGRAMS / PROGRAM)
