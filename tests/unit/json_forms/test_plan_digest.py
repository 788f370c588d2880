from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.errors import PlanChangedError
from discovery_engine.json_forms.plan_digest import require_shown, with_digest

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
FORMS = st.dictionaries(st.text(), VALUES).filter(lambda form: "digest" not in form)


@pytest.mark.thorough
@pytest.mark.requirement("API-50")
@given(FORMS)
def test_the_digest_of_a_plan_is_that_of_the_same_plan_whatever_the_order_of_its_keys(
    form: dict[str, Any],
) -> None:
    shown = with_digest(form)
    again = json.loads(json.dumps(dict(reversed(form.items()))))

    require_shown(again, shown["digest"], "this")
    assert {key: shown[key] for key in form} == form


@pytest.mark.thorough
@pytest.mark.requirement("API-50")
@given(FORMS, FORMS)
def test_the_digest_of_another_plan_is_refused(form: dict[str, Any], other: dict[str, Any]) -> None:
    digest = with_digest(form)["digest"]
    if json.dumps(form, sort_keys=True) == json.dumps(other, sort_keys=True):
        return

    with pytest.raises(PlanChangedError):
        require_shown(other, digest, "this")
