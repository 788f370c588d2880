"""PydanticAI: the example, and the scenarios of the program."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.frameworks.conftest import EXAMPLES, INTEGRATIONS, PROGRAMS, Framework
from tests.engines import good

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PROGRAM = "pydantic_ai_agents.py"
EXAMPLE = EXAMPLES / "with_pydantic_ai.py"


@pytest.fixture
def pydantic_ai(framework: Callable[[str], Framework]) -> Framework:
    return framework("pydantic-ai")


@pytest.mark.requirement("FRM-30")
def test_the_example_finds_a_tool_and_calls_it(pydantic_ai: Framework) -> None:
    pydantic_ai.folder.write(good())

    assert pydantic_ai.run(EXAMPLE, "echo a text") == "{}\n"


@pytest.mark.requirement("FRM-40", "FRM-41", "FRM-13", "FRM-14")
def test_tools_are_found_or_bound_at_each_step(pydantic_ai: Framework) -> None:
    pydantic_ai.passes(
        PROGRAM,
        "the_search_of_the_engine_reveals_deferred_tools",
        "renamed_tools_and_those_of_others_are_found",
        "without_deferral_the_fitting_tools_are_bound_at_each_step",
        "the_meta_tools_are_the_same_in_every_step",
        "a_changed_catalog_is_used_in_the_next_step",
        "two_agents_share_an_engine",
    )


@pytest.mark.requirement("FRM-42", "FRM-43", "FRM-101", "FRM-102")
def test_results_failures_questions_progress_and_cancellation(pydantic_ai: Framework) -> None:
    pydantic_ai.passes(
        PROGRAM,
        "content_arrives_in_its_own_types",
        "a_failure_is_a_result_and_uses_up_no_retries",
        "progress_is_in_the_stream_of_events",
        "questions_go_to_the_client_of_the_call",
        "a_cancelled_run_cancels_its_calls",
        "a_server_that_dies_in_a_turn_is_an_error_and_comes_back",
    )


@pytest.mark.requirement("FRM-31")
def test_the_adapter_and_its_example_are_typed(pydantic_ai: Framework) -> None:
    pydantic_ai.check_types(INTEGRATIONS / "pydantic_ai.py", EXAMPLE, PROGRAMS / PROGRAM)
