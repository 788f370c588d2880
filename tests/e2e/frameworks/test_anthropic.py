"""Anthropic's SDK: its example, and the scenarios of its program."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.frameworks.conftest import EXAMPLES, INTEGRATIONS, PROGRAMS, Framework

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PROGRAM = "claude_messages.py"


@pytest.fixture
def claude(framework: Callable[[str], Framework]) -> Framework:
    return framework("anthropic")


@pytest.mark.requirement("FRM-30", "FRM-110")
def test_found_tools_are_references_with_deferred_definitions(claude: Framework) -> None:
    claude.passes(
        PROGRAM,
        "the_example_runs_as_it_is",
        "found_tools_are_references_with_deferred_definitions",
        "another_process_goes_on_with_a_conversation",
        "what_is_always_listed_is_not_referred_to",
    )


@pytest.mark.requirement("FRM-103")
def test_a_program_without_async_does_the_same(claude: Framework) -> None:
    claude.passes(PROGRAM, "a_program_without_async_does_the_same")


@pytest.mark.requirement("FRM-111")
def test_the_definitions_keep_their_beginning(claude: Framework) -> None:
    claude.passes(PROGRAM, "the_beginning_of_a_request_keeps_its_bytes")


@pytest.mark.requirement("FRM-112", "FRM-13")
def test_what_is_not_there_is_neither_found_nor_called_and_no_request_is_refused(
    claude: Framework,
) -> None:
    claude.passes(
        PROGRAM,
        "nothing_found_is_text_that_says_so",
        "a_search_that_cannot_be_read_is_an_error",
        "a_hidden_tool_is_neither_found_nor_called",
        "a_reference_to_a_tool_that_is_gone_stays_defined",
        "a_tool_that_is_new_is_found_in_the_next_turn",
        "schemas_that_the_api_refuses_are_written_otherwise",
    )


@pytest.mark.requirement("FRM-113", "FRM-105", "FRM-14")
def test_calls_are_made_side_by_side_and_whole_and_only_ours(claude: Framework) -> None:
    claude.passes(
        PROGRAM,
        "calls_of_one_message_are_made_side_by_side",
        "a_call_that_was_cut_off_is_not_made",
        "the_tools_of_the_program_are_left_to_it",
        "two_agents_share_an_engine",
    )


@pytest.mark.requirement("FRM-100", "FRM-114")
def test_content_arrives_as_blocks_of_the_api(claude: Framework) -> None:
    claude.passes(
        PROGRAM,
        "images_and_documents_arrive_as_the_api_has_them",
        "structured_content_is_shown_too",
    )


@pytest.mark.requirement("FRM-101", "FRM-102")
def test_failures_questions_progress_and_cancellation(claude: Framework) -> None:
    claude.passes(
        PROGRAM,
        "a_tool_that_fails_is_a_result",
        "a_server_that_dies_in_a_turn_is_an_error_and_comes_back",
        "a_cancelled_turn_cancels_its_calls",
        "questions_and_progress_reach_the_program",
    )


@pytest.mark.requirement("FRM-115")
def test_the_meta_tools_are_the_same_in_every_request(claude: Framework) -> None:
    claude.passes(PROGRAM, "the_meta_tools_are_the_same_in_every_request")


@pytest.mark.requirement("FRM-31")
def test_the_adapter_and_its_example_are_typed(claude: Framework) -> None:
    claude.check_types(
        INTEGRATIONS / "anthropic.py", EXAMPLES / "with_anthropic.py", PROGRAMS / PROGRAM
    )


def test_no_other_scenario_fails(claude: Framework) -> None:
    claude.passes(PROGRAM)
