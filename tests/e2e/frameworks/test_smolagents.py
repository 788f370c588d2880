"""smolagents: its example, and the scenarios of its program."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.frameworks.conftest import INTEGRATIONS, Framework

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PROGRAM = "smolagents_tasks.py"


@pytest.fixture
def smolagents(framework: Callable[[str], Framework]) -> Framework:
    return framework("smolagents")


@pytest.mark.requirement("FRM-30", "FRM-140", "FRM-105", "FRM-13", "FRM-14")
def test_an_agent_has_the_tools_that_fit_and_those_that_it_finds(smolagents: Framework) -> None:
    smolagents.passes(
        PROGRAM,
        "the_example_runs_as_it_is",
        "an_agent_has_the_tools_that_fit_and_those_that_it_finds",
        "a_changed_catalog_is_there_after_the_step",
        "an_agent_keeps_its_own_tools",
        "agents_side_by_side_share_an_engine",
        "calls_of_one_step_are_made_side_by_side",
    )


@pytest.mark.requirement("FRM-141")
def test_a_code_agent_calls_tools_as_functions(smolagents: Framework) -> None:
    smolagents.passes(
        PROGRAM,
        "a_code_agent_calls_tools_and_reads_structured_content",
        "the_prompt_of_a_code_agent_has_types_choices_and_the_output",
        "a_failure_in_code_says_what_it_was",
    )


@pytest.mark.requirement("FRM-142")
def test_names_are_identifiers_and_the_tools_are_for_any_agent(smolagents: Framework) -> None:
    smolagents.passes(
        PROGRAM,
        "the_meta_tools_are_tools_of_any_agent",
        "a_name_that_is_none_in_python_is_refused_with_the_way_out",
    )


@pytest.mark.requirement("FRM-100", "FRM-143")
def test_images_are_images_and_other_content_is_text(smolagents: Framework) -> None:
    smolagents.passes(PROGRAM, "images_are_images_and_other_content_is_text")


@pytest.mark.requirement("FRM-101", "FRM-102")
def test_failures_questions_progress_and_interrupts(smolagents: Framework) -> None:
    smolagents.passes(
        PROGRAM,
        "whatever_fails_is_a_result_that_the_model_reads",
        "questions_progress_and_interrupts_reach_their_place",
    )


@pytest.mark.requirement("FRM-31")
def test_the_adapter_is_typed(smolagents: Framework) -> None:
    smolagents.check_types(INTEGRATIONS / "smolagents.py", INTEGRATIONS / "smolagents_inputs.py")


def test_no_other_scenario_fails(smolagents: Framework) -> None:
    smolagents.passes(PROGRAM)
