from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.evaluation.report_formats import plain


@pytest.mark.requirement("EVA-23")
@given(st.text())
def test_untrusted_text_makes_no_markup(text: str) -> None:
    shown = plain(text)

    bare = shown.replace("\\\\", "")
    for at, character in enumerate(bare):
        if character in "|`<[*_#!":
            assert bare[at - 1] == "\\"
    assert "\n" not in shown
