from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.marketplace.same_server import version_key
from tests.rows import rows

SEMVER = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2"]
SEMVER += ["1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.1", "1.9.0", "1.10.0", "2.0.0-0", "2.0.0"]
PEP440 = ["1.0.dev1", "1.0a1.dev1", "1.0a1", "1.0a2", "1.0b1", "1.0rc1", "1.0", "1.0.post1.dev1"]
PEP440 += ["1.0.post1", "1.0.1", "1.1.dev1", "1.1", "2025.09.16", "2025.10.1", "1!0.1"]


@pytest.mark.requirement("MKT-6")
@rows("ascending", [SEMVER, PEP440], ids=["semver", "pep440"])
def test_versions_have_the_order_of_their_standard(ascending: list[str]) -> None:
    keys = list(map(version_key, ascending))

    assert all(lower < higher for lower, higher in pairwise(keys))


@pytest.mark.requirement("MKT-6")
@rows(("one", "other"), [("1.0", "1.0.0"), ("v1.2.3", "1.2.3"), ("1.0.0+build", "1.0.0")])
def test_versions_that_differ_in_spelling_alone_are_equal(one: str, other: str) -> None:
    assert version_key(one) == version_key(other)


@pytest.mark.requirement("MKT-6")
def test_what_is_no_version_is_below_all_that_are() -> None:
    assert version_key("latest") < version_key("0.0.0-0")
    assert version_key("") < version_key("0.0.1.dev0")


@pytest.mark.thorough
@given(st.lists(st.text(max_size=30) | st.from_regex(r"\d+(\.\d+)*([-a-z0-9.+]*)"), max_size=8))
def test_the_order_of_any_texts_does_not_depend_on_how_they_came(versions: list[str]) -> None:
    forwards = sorted(map(version_key, versions))

    assert forwards == sorted(map(version_key, reversed(versions)))
