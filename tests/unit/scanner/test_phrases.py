from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from discovery_engine.scanner.findings import Severity
from discovery_engine.scanner.fragments import Phrase
from discovery_engine.scanner.phrases import matches
from discovery_engine.scanner.unmistakable import UNMISTAKABLE
from discovery_engine.scanner.wordings import WORDINGS

PHRASES = [*UNMISTAKABLE, *WORDINGS]


@pytest.mark.requirement("SCN-4")
@pytest.mark.parametrize("phrase", PHRASES, ids=lambda p: f"{p.severity}: {p.message}")
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_a_phrase_fits_is_found_by_its_words(phrase: Phrase, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(phrase.pattern))

    assert phrase in [match.phrase for match in matches(text)]


def test_no_two_phrases_of_one_weight_say_the_same() -> None:
    said = [(phrase.kind, phrase.severity, phrase.message) for phrase in PHRASES]

    assert len(set(said)) == len(said)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("detects texts such as: ignore all previous instructions", id="such as"),
        pytest.param("explains orders, e.g. to ignore all previous instructions", id="e.g."),
        pytest.param("explains orders, e g. to ignore all previous instructions", id="loose e.g."),
    ],
)
def test_talk_about_a_phrase_is_a_notice(text: str) -> None:
    assert {match.severity for match in matches(text)} == {Severity.NOTICE}
