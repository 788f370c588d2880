from __future__ import annotations

import pytest

from discovery_engine import rules


def test_every_name_of_the_face_is_there() -> None:
    assert sorted(rules.__all__) == rules.__all__
    assert all(getattr(rules, name) for name in rules.__all__)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = rules.nonsense
