"""Rules over resources, templates and prompts."""

from __future__ import annotations

import pytest

from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.rules.ruleset import OfferingRules
from discovery_engine.tools.offering import OfferingKind
from tests.factories import make_offering
from tests.rows import rows

SERVER = Verdict(tags=("internal",))


def matches(patterns: str | tuple[str, ...], uri: str, name: str = "name") -> bool:
    given = (patterns,) if isinstance(patterns, str) else patterns
    rules = OfferingRules([Rule(patterns=given, enabled=False)], "resource")
    [verdict] = rules.verdicts([make_offering(uri, "docs", name=name)], SERVER)
    return not verdict.enabled


@pytest.mark.requirement("RES-10")
@rows(
    ("pattern", "uri", "name", "expected"),
    [
        pytest.param("readme", "file:///x", "readme", True, id="name"),
        pytest.param("*secret*", "file:///secret/x", "x", True, id="part of the uri"),
        pytest.param("file:///docs/*", "file:///docs/a", "x", True, id="uri"),
        pytest.param("file:///docs/*", "http://h/file:///docs/a", "x", False, id="another uri"),
        pytest.param("docs:*", "file:///a", "x", True, id="server"),
        pytest.param("docs:readme", "file:///a", "readme", True, id="server and name"),
        pytest.param("docs:file:///a", "file:///a", "x", True, id="server and uri"),
        pytest.param("github:*", "github:issue", "x", False, id="a scheme is no server"),
        pytest.param("github://*", "github://issue", "x", True, id="scheme"),
        pytest.param("/^file:\\/\\/\\/etc/", "file:///etc/passwd", "x", True, id="expression"),
        pytest.param("/^docs:file/", "file:///etc/passwd", "x", True, id="qualified expression"),
        pytest.param("/^(?:http|file):\\/\\//", "file:///etc", "x", True, id="group"),
        pytest.param("*passwd", "file:///p\u200basswd", "x", True, id="disguised"),
    ],
)
def test_a_pattern_reads_the_uri_and_the_name(
    pattern: str, uri: str, name: str, *, expected: bool
) -> None:
    assert matches(pattern, uri, name) is expected


@pytest.mark.requirement("RES-10")
@rows(("uri", "name"), [("file:///secret", "x"), ("file:///x", "secret")])
def test_a_negated_pattern_excludes_by_either(uri: str, name: str) -> None:
    assert matches(("*", "!*secret*"), "file:///x")
    assert not matches(("*", "!*secret*"), uri, name)


@pytest.mark.requirement("RES-10")
def test_verdicts_are_made_and_explained_as_those_of_tools() -> None:
    rules = OfferingRules([Rule(patterns=("read*",), enabled=True)], "prompt")
    offerings = [make_offering(name, kind=OfferingKind.PROMPT) for name in ("readme", "other")]

    assert [one.reason for one in rules.verdicts(offerings, SERVER)] == ["rule", "whitelist"]
    assert rules.explain(offerings[0], SERVER).sentence == "rule 1 enables prompts matching 'read*'"
    assert rules.verdicts(offerings[:1], Verdict(False))[0].reason == "server"
