"""PydanticAI: its example, and the scenarios of its program."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.frameworks.conftest import EXAMPLES, INTEGRATIONS, Framework
from tests.engines import good

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

EXAMPLE = EXAMPLES / "with_pydantic_ai.py"


@pytest.mark.requirement("FRM-30")
def test_the_example_finds_a_tool_and_calls_it(framework: Callable[[str], Framework]) -> None:
    pydantic_ai = framework("pydantic-ai")
    pydantic_ai.folder.write(good())

    assert pydantic_ai.run(EXAMPLE, "echo a text") == "{}\n"


@pytest.mark.requirement("FRM-31")
def test_the_adapter_and_its_example_are_typed(framework: Callable[[str], Framework]) -> None:
    framework("pydantic-ai").check_types(INTEGRATIONS / "pydantic_ai.py", EXAMPLE)
