"""OpenAI's Responses API: its example, and the scenarios of its program."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.frameworks.conftest import EXAMPLES, INTEGRATIONS, PROGRAMS, Framework

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PROGRAM = "openai_conversation.py"


@pytest.fixture
def openai(framework: Callable[[str], Framework]) -> Framework:
    return framework("openai")


@pytest.mark.requirement("FRM-30", "FRM-120")
def test_a_search_loads_functions_in_namespaces_of_a_few(openai: Framework) -> None:
    openai.passes(
        PROGRAM,
        "the_example_runs_as_it_is",
        "a_search_loads_functions_in_namespaces",
        "many_functions_are_several_namespaces",
        "what_is_always_listed_is_not_loaded",
        "schemas_that_the_api_refuses_are_written_otherwise",
    )


@pytest.mark.requirement("FRM-121", "FRM-13")
def test_definitions_never_change_and_nothing_is_remembered(openai: Framework) -> None:
    openai.passes(
        PROGRAM,
        "tools_are_the_same_in_every_request",
        "a_conversation_can_be_sent_whole",
        "a_tool_that_is_gone_is_an_error_and_a_new_one_is_found",
    )


@pytest.mark.requirement("FRM-122")
def test_what_is_not_there_is_neither_loaded_nor_called(openai: Framework) -> None:
    openai.passes(
        PROGRAM,
        "nothing_found_is_said_with_the_servers_that_are_missing",
        "a_hidden_tool_is_neither_loaded_nor_called",
    )


@pytest.mark.requirement("FRM-123", "FRM-105", "FRM-14")
def test_calls_are_made_side_by_side_and_whole_and_only_ours(openai: Framework) -> None:
    openai.passes(
        PROGRAM,
        "calls_of_one_response_are_made_side_by_side",
        "a_call_that_was_cut_off_is_not_made",
        "the_functions_of_the_program_are_left_to_it",
        "a_program_of_the_model_gets_its_outputs",
        "two_agents_share_an_engine",
    )


@pytest.mark.requirement("FRM-100", "FRM-124")
def test_content_arrives_as_items_of_the_api(openai: Framework) -> None:
    openai.passes(
        PROGRAM,
        "images_files_and_structured_content_arrive_as_the_api_has_them",
        "a_tool_that_fails_is_an_output_that_says_so",
    )


@pytest.mark.requirement("FRM-101", "FRM-102")
def test_failures_questions_progress_and_cancellation(openai: Framework) -> None:
    openai.passes(
        PROGRAM,
        "arguments_that_are_no_json_object_are_an_error",
        "a_server_that_dies_in_a_turn_is_an_error_and_comes_back",
        "a_cancelled_turn_cancels_its_calls",
        "questions_and_progress_reach_the_program",
    )


@pytest.mark.requirement("FRM-103")
def test_a_program_without_async_does_the_same(openai: Framework) -> None:
    openai.passes(PROGRAM, "a_program_without_async_does_the_same")


@pytest.mark.requirement("FRM-125")
def test_the_meta_tools_are_functions(openai: Framework) -> None:
    openai.passes(PROGRAM, "the_meta_tools_are_functions")


@pytest.mark.requirement("FRM-31")
def test_the_adapter_and_its_example_are_typed(openai: Framework) -> None:
    openai.check_types(
        INTEGRATIONS / "openai_responses.py",
        EXAMPLES / "with_openai_responses.py",
        PROGRAMS / PROGRAM,
    )


def test_no_other_scenario_fails(openai: Framework) -> None:
    openai.passes(PROGRAM)
